"""The site builds without a warning, names every public name, and every link in it leads somewhere.

The long test executes the notebooks of the docs; otherwise their pages have no output.
"""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import jmdp

pytest.importorskip("myst_nb")
pytest.importorskip("numpydoc")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MODULES = (
    "comparisons", "control", "distribute", "errors", "models", "plots", "results", "reviews", "simulators", "studies",
    "testing", "training", "worlds", "methods.incremental", "methods.linear_projected",
    "methods.linear_projected.features", "methods.neural_gram", "methods.neural_gram.encoders",
)  # fmt: skip
NOTEBOOKS = sorted(page for page in DOCS.rglob("*.md") if page.read_text().startswith("---\njupytext:"))

BUILD = """
import gc, sys
from sphinx.cmd.build import main

gc.disable()  # documents are large trees with cycles: looking for garbage takes an eighth of the time, and finds little
sys.exit(main(sys.argv[1:]))
"""


def built(out, *options):
    """Where the pages are, built as the docs say, with warnings as errors."""
    run = subprocess.run(
        [sys.executable, "-c", BUILD, "-W", "--keep-going", "-n", "-q", "-b", "html", *options, DOCS, out],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-6000:]
    return out


class Page(HTMLParser):
    """What a page can be linked to by, where it leads, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads, self.bare = set(), [], [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "img" and not (given.get("alt") or "").strip():
            self.bare.append(given.get("src"))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("img", "script", "iframe", "source", "video", "audio", "embed") and given.get("src"):
            self.loads.append(given["src"])
        elif tag == "link" and given.get("href") and given.get("rel") not in ("canonical", "next", "prev", "search"):
            self.loads.append(given["href"])
        elif tag == "object" and given.get("data"):
            self.loads.append(given["data"])


def all_pages(site):
    return {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}


def broken(pages, what):
    """Of all addresses within the site, those that lead nowhere."""
    for path, page in pages.items():
        for address in getattr(page, what):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.is_file()
            if there and parts.fragment and target in pages:
                there = unquote(parts.fragment) in pages[target].anchors
            if not there:
                yield f"{path.name}: {address}"


def public_names():
    """All of ``jmdp.__all__``, and of each public module what it lists, or defines without an underscore."""
    yield from (f"jmdp.{name}" for name in jmdp.__all__)
    for name in MODULES:
        module = import_module(f"jmdp.{name}")
        names = getattr(module, "__all__", None) or [
            found
            for found, thing in vars(module).items()
            if not found.startswith("_")
            and (inspect.isclass(thing) or inspect.isfunction(thing))
            and thing.__module__ == module.__name__
        ]
        yield from (f"jmdp.{name}.{found}" for found in names if found not in jmdp.__all__)


def check_every_public_name_is_in_the_inventory(site):
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    kinds = {"py:class", "py:exception", "py:function", "py:module"}
    data = getattr(inventory, "data", inventory)  # as Sphinx before and since 8.2 has it
    documented = {name for kind in kinds for name in data[kind]}
    names = set(public_names())
    assert len(names) > 100
    assert sorted(names - documented) == []


def test_the_site(tmp_path):
    """One test, so that one process builds it once."""
    check_site(built(tmp_path / "site", "-D", "nb_execution_mode=off"))


@pytest.mark.long
def test_the_site_with_executed_notebooks(tmp_path):
    site = built(tmp_path / "site")
    check_site(site)
    check_figures_of_notebooks_are_on_their_pages(site)


def check_site(site):
    pages = all_pages(site)
    check_every_public_name_is_in_the_inventory(site)
    check_every_link_within_the_site_leads_somewhere(pages)
    check_every_image_script_and_style_is_there(pages)
    check_nothing_is_loaded_from_elsewhere(site, pages)
    check_fields_are_explained_by_the_comments_beside_them(site)
    check_names_lead_to_the_reference(site)
    check_every_page_is_plain_text_too(site, pages)
    check_every_picture_has_a_text(pages)


def check_names_lead_to_the_reference(site):
    """In text and in code; and the reference lists all of them."""
    front = (site / "index.html").read_text()
    assert 'href="api/verbs.html#jmdp.compare_policies"><code' in front
    assert re.search(r'href="api/verbs.html#jmdp.evaluate"><span class="n">jmdp</span>', front)
    listed = (site / "api/index.html").read_text()
    assert [name for name in jmdp.__all__ if not re.search(rf">(jmdp\.)?{name}</span></code></a>", listed)] == []


def check_every_page_is_plain_text_too(site, pages):
    numbers = {"_build", "benchmark_results", "reproduction_results"}
    sources = [path for path in DOCS.rglob("*.md") if not numbers & {*path.parts}]
    listed = (site / "llms.txt").read_text()
    for source in sources:
        page = source.relative_to(DOCS).with_suffix(".txt")
        text = (site / page).read_text()
        assert len(text) > 150, page
        assert "<div" not in text, page
        assert f"stable/{page})" in listed or page.name == "index.txt", page


def check_every_picture_has_a_text(pages):
    assert [f"{path.name}: {picture}" for path, page in pages.items() for picture in page.bare] == []


def test_every_public_name_has_a_docstring():
    bare = []
    for name in public_names():
        module, _, last = name.rpartition(".")
        thing = getattr(import_module(module), last)
        if not inspect.getdoc(thing):
            bare.append(name)
    assert bare == []


def check_every_link_within_the_site_leads_somewhere(pages):
    assert len(pages) > 25
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert sorted(set(broken(pages, "links"))) == []


def check_every_image_script_and_style_is_there(pages):
    assert sorted(set(broken(pages, "loads"))) == []


def check_nothing_is_loaded_from_elsewhere(site, pages):
    loaded = [f"{path.name}: {address}" for path, page in pages.items() for address in page.loads]
    assert [line for line in loaded if re.search(r": (https?:)?//", line)] == []
    styles = [
        path for path in site.rglob("*.css") if re.search(r"(@import|url\()\s*['\"]?(https?:)?//", path.read_text())
    ]
    assert styles == []


def check_figures_of_notebooks_are_on_their_pages(site):
    """One at least, so that a page cannot silently show a line of text in place of a figure."""
    for notebook in NOTEBOOKS:
        page = (site / notebook.relative_to(DOCS)).with_suffix(".html").read_text()
        assert re.search(r'<img alt="[A-Z][^"]{20,}" src="[^"]*_images/', page), notebook.name


def check_fields_are_explained_by_the_comments_beside_them(site):
    """``covariance: Floats  # [S, A, A], Cov(Z(s, a), Z(s, b))``."""
    results = (site / "api/results.html").read_text()
    assert re.search(r"<p>\[S, A, A\], Cov\(Z\(s, a\), Z\(s, b\)\)</p>", results)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_notebooks_round_trip_through_jupytext(page):
    jupytext = pytest.importorskip("jupytext")
    import nbformat

    notebook = jupytext.read(page)
    nbformat.validate(notebook)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) >= 2
    again = jupytext.reads(jupytext.writes(notebook, fmt="md:myst"), fmt="md:myst")
    assert [(c.cell_type, c.source, c.metadata) for c in again.cells] == [
        (c.cell_type, c.source, c.metadata) for c in notebook.cells
    ]


def test_there_are_six_notebooks():
    assert len(NOTEBOOKS) == 6


def test_promises_name_tests_that_are_there():
    named = re.findall(r"`(?:pytest -m long )?(tests/[\w/.]*)`", (DOCS / "promises.md").read_text())
    assert len(named) > 30
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_pages_of_numbers_are_written_from_the_saved_ones():
    """Neither the paper's page nor that of benchmarks has a number of its own."""
    assert runpy.run_path(str(DOCS / "write_reproduction.py"))["page"]() == (DOCS / "reproduction.md").read_text()
    assert runpy.run_path(str(DOCS / "write_benchmarks.py"))["render"]() in (DOCS / "benchmarks.md").read_text()
