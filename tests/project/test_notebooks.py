"""Tutorials as notebooks: the code of the page, no output, no link that leads nowhere; and the page of the gallery."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

jupytext = pytest.importorskip("jupytext")
import nbformat  # noqa: E402 (comes with jupytext)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import write_notebooks  # noqa: E402

PAGES = sorted(page for page in (DOCS / "tutorials").glob("*.md") if page.name != "index.md")


@pytest.fixture(scope="module")
def notebooks(tmp_path_factory):
    """Each as it is read from the file that readers download."""
    written = write_notebooks.write(tmp_path_factory.mktemp("site") / "tutorials")
    return {path.stem: nbformat.read(path, as_version=4) for path in written}


def code_of_page(page):
    """Code blocks as the page has them, by another way than that of the notebooks."""
    blocks = re.findall(r"^```(?:\{code-cell\} ipython3|python|py)\n(.*?)\n```$", page.read_text(), re.M | re.S)
    return [re.sub(r"\A(---\n.*?\n---\n|(:\w+:.*\n)+\n?)", "", block, flags=re.S) for block in blocks]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_is_that_of_the_page(page, notebooks):
    cells = [cell.source for cell in notebooks[page.stem].cells if cell.cell_type == "code"]
    assert cells == code_of_page(page)
    assert len(cells) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_it_is_a_notebook_for_python_without_output(page, notebooks):
    made = notebooks[page.stem]
    nbformat.validate(made)
    assert made.metadata["kernelspec"]["name"] == "python3"
    code = [cell for cell in made.cells if cell.cell_type == "code"]
    assert [cell for cell in code if cell.outputs or cell.execution_count is not None] == []
    for cell in code:
        ast.parse(re.sub(r"^%.*", "", cell.source, flags=re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_link_leads_nowhere_and_pages_named_are_there(page, notebooks):
    text = "\n".join(cell.source for cell in notebooks[page.stem].cells if cell.cell_type == "markdown")
    assert re.findall(r"\]\((?!https?:)[^)]*\)|<a |<img |```text", text) == []
    named = re.findall(r"\(docs: ([\w/]+)\)", text)
    assert len(named) >= 3
    assert [name for name in named if not (DOCS / f"{name}.md").exists()] == []
    assert [name for name in re.findall(r"`(docs/images/[^`]*)`", text) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("better_often", 'pip install ".[plot]"'),
        ("common_random_numbers", 'pip install "." "mesa>=3.3" "networkx>=3" "simpy>=4.1"'),
        ("new_algorithm", 'pip install ".[gym,io]" "stable-baselines3>=2.4"'),
        ("new_policy", 'pip install ".[plot,cli,gym]" "stable-baselines3>=2.4"'),
        ("one_step", 'pip install ".[plot]"'),
    ],
)
def test_the_first_cell_says_what_to_install(name, command, notebooks):
    first = notebooks[name].cells[0]
    assert first.cell_type == "markdown"
    assert first.source.startswith("# ")
    assert f"```bash\n{command}\n```" in first.source


def test_a_package_that_is_not_known_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nText.\n\n```python\nimport unheard_of\n```\n")
    with pytest.raises(ValueError, match=r"page\.md imports unheard_of"):
        write_notebooks.notebook(page)


def test_every_tutorial_is_in_the_index():
    """The build adds a link to the notebook to each card."""
    index = (DOCS / "tutorials/index.md").read_text()
    assert [page.name for page in PAGES if f"]({page.name})**\n" not in index] == []


def test_files_are_the_same_each_time(tmp_path):
    one, two = (write_notebooks.write(tmp_path / name) for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_the_gallery_is_what_its_program_writes():
    from examples import __main__ as gallery

    page = gallery.PAGE.read_text(encoding="utf-8")
    printed = gallery.outputs(page)
    assert page == gallery.written(printed)
    assert list(printed) == gallery.ORDER
    assert len(re.findall(r"^:::\{container\} entry\n!\[\w", page, re.M)) == len(gallery.ORDER)
    pictures = [(gallery.PICTURES / f"{name}.png").read_bytes() for name in gallery.ORDER]
    assert len(set(pictures)) == len(pictures)
    assert max(map(len, pictures)) < 100_000


def test_the_gallery_decides():
    """Every comparison has an answer; only networks, which state a calibration, have none."""
    from examples import __main__ as gallery

    printed = gallery.outputs(gallery.PAGE.read_text(encoding="utf-8"))
    compared = {name: output for name, output in printed.items() if not name.startswith("learned")}
    assert len(compared) == 15
    assert [name for name, output in compared.items() if not gallery.answer(output)] == []
    assert [name for name, output in compared.items() if "undecided" in output or "seed 0" not in output] == []


def test_names_in_pages_become_links():
    site_parts = pytest.importorskip("site_parts")

    class Entry:
        docname, node_id = "api/verbs", "jmdp.compare"

        def __init__(self, objtype):
            self.objtype = objtype

    kinds = {"jmdp.compare": "function", "jmdp.results": "module", "jmdp.results.Gap": "class", "jmdp": "module"}
    names = site_parts.Names({name: Entry(kind) for name, kind in kinds.items()})
    for words in ("compare", "compare(…)", "jmdp.compare", "jmdp.results", "Gap", "jmdp.compare(env, policy=f())"):
        assert names.place(words) == ("api/verbs", "jmdp.compare"), words
    for words in ("results", "jmdp", "compare actions", "gap", "jmdp compare", "comparers", "Gap.mean"):
        assert names.place(words) is None, words
    code = '<code class="docutils literal notranslate"><span class="pre">compare</span></code>'
    call = '<span class="n">jmdp</span><span class="o">.</span><span class="n">compare</span>'
    more = '<span class="o">.</span><span class="n">name</span>'
    body = f"<h2>{code}</h2><p>{code}<a href='x'>{code}</a></p><pre>{call}{more}</pre>"
    link = '<a class="name" href="api/verbs.html#jmdp.compare">'
    made = site_parts.linked(body, names, "index", lambda page: f"{page}.html")
    assert made == f"<h2>{code}</h2><p>{link}{code}</a><a href='x'>{code}</a></p><pre>{link}{call}</a>{more}</pre>"


def test_tables_and_printed_sentences_fit_phones():
    site_parts = pytest.importorskip("site_parts")
    head = '<thead><tr class="row-odd"><th class="head">one</th><th class="head"><p>two</p></th></tr></thead>'
    made = site_parts.with_columns(
        f'<table class="table">{head}<tbody><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></tbody></table>'
    )
    assert re.findall(r'<td data-column="(\w*)">(\d)', made) == [("one", "1"), ("two", "2"), ("one", "3")]
    block = '<div class="highlight-text notranslate"><div class="highlight"><pre>{}</pre></div></div>'
    said, table = (
        site_parts.with_words(block.format(text)) for text in ("a long sentence", "policy  mean\nold        3")
    )
    assert ("words" in said, "words" in table) == (True, False)
