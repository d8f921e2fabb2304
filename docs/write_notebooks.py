"""Write the tutorials as Jupyter notebooks without output: ``python -m docs.write_notebooks FOLDER``.

The site's build does the same and offers them for download. Their code is the code of the pages; text that only makes
sense on the site is changed.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from posixpath import join, normpath
from typing import Any

import jupytext
import nbformat

HERE = Path(__file__).parent
TUTORIALS = tuple(sorted(page for page in (HERE / "tutorials").glob("*.md") if page.stem != "index"))
EXTRAS = {"plot": r"jmdp\.plots|--plot", "cli": r"^jmdp ", "gym": r"^import gymnasium", "io": r"^import pandas"}
"""Extras of jmdp, and what needs them."""
PACKAGES = {
    "mesa": '"mesa>=3.3" "networkx>=3"',  # mesa 3.5 imports networkx and does not declare it
    "simpy": '"simpy>=4.1"',
    "stable_baselines3": '"stable-baselines3>=2.4"',
}
INCLUDED = {"benchmarks", "csv", "pandas", "gymnasium", "itertools", "jmdp", "numpy", "scipy", "textwrap"}
"""Modules that come with Python, jmdp and its extras."""


def notebook(page: Path) -> Any:
    """One tutorial as a notebook."""
    text = page.read_text(encoding="utf-8")
    if not text.startswith("---\njupytext:"):
        text = _as_myst(text)
    made = jupytext.reads(text, fmt="md:myst")
    made.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for number, cell in enumerate(made.cells):
        cell.id, cell.metadata = f"cell-{number}", nbformat.NotebookNode()
        if cell.cell_type == "markdown":
            cell.source = _without_links(cell.source)
    title, _, rest = made.cells[0].source.partition("\n")
    made.cells[0].source = f"{title}\n\n{_install(page, made.cells)}{rest}"
    nbformat.validate(made)
    return made


def _as_myst(text: str) -> str:
    """A page that shows code and what it prints: the code becomes cells, the printed text goes."""
    shown = re.sub(r"(```(?:python|py)\n.*?\n```\n)\n```text\n.*?\n```\n", r"\1", text, flags=re.DOTALL)
    return re.sub(r"^```(?:python|py)\n", "```{code-cell} ipython3\n", shown, flags=re.MULTILINE)


def _without_links(text: str) -> str:
    """Links to other pages as words with the name of the page, figures of the site as their descriptions."""

    def page(link: re.Match[str]) -> str:
        words, target = link[1], link[2].partition("#")[0].removesuffix(".md")
        return f"{words} (docs: {normpath(join('tutorials', target))})" if target else words

    text = re.sub(r"!\[([^\]]*)\]\((?:\.\./)*([^)]+)\)", r"*Figure `docs/\2`: \1*", text)
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)\s]+)\)", page, text)


def _install(page: Path, cells: list[Any]) -> str:
    """What to install for these cells."""
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    modules = set(re.findall(r"^\s*(?:import|from) (\w+)", code, flags=re.MULTILINE)) - INCLUDED
    if unknown := modules - PACKAGES.keys():
        raise ValueError(
            f"{page.name} imports {', '.join(sorted(unknown))}: add it to the tables of {Path(__file__).name}"
        )
    text = "\n".join(cell.source for cell in cells)
    extras = ",".join(extra for extra, used in EXTRAS.items() if re.search(used, text, flags=re.MULTILINE))
    packages = "".join(f" {PACKAGES[name]}" for name in sorted(modules))
    return (
        "To run this notebook, install Jupyter and, in a clone of jmdp (not on PyPI yet) with Python 3.11 or later:\n"
        f'\n```bash\npip install "{f".[{extras}]" if extras else "."}"{packages}\n```\n\n'
        f"It is made from `docs/tutorials/{page.name}`. *docs:* names other pages of the documentation.\n"
    )


def write(folder: Path) -> list[Path]:
    """Write all of them into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{page.stem}.ipynb" for page in TUTORIALS]
    for page, path in zip(TUTORIALS, written, strict=True):
        path.write_text(nbformat.writes(notebook(page)) + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the tutorials as Jupyter notebooks.")
    parser.add_argument("folder", type=Path)
    for path in write(parser.parse_args().folder):
        print(path)
