"""Pages of all kinds: their parts, that they are inert (P15), and that their numbers say where they come from (P19)."""

from __future__ import annotations

import ast
import base64
import html as html_module
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import jmdp
from jmdp.base.interval import Estimate
from jmdp.base.rounding import plus_minus
from jmdp.errors import FileError, MissingExtraError, SettingsError
from jmdp.results.text import Written, percent
from jmdp.show.reports.page import MOST_ROWS, Page, Table, number, page_of, render, sentence, write
from registry.results import CASE, PAGES, Case, Walk, history, kinds, learned, made, recorded_runs, saved, scores

ALIKE = ("evaluation MonteCarlo", "comparison compare_policies", "comparison compare_runs, one number", "calibration")
"""Pages whose names have the same places as in another page."""
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$x^$ javascript:alert(1)",
    "{{7*7}}{% raw %}",
    "</style><style>*{display:none}",
    "]]></svg><svg onload=alert(1)>",
    "--><!--",
    "' onmouseover='alert(1)",
    "\u202egpj.exe",
    "a\0b\x1b[31m",
    "$x^$ $\\frac{$",
    '"""\nimport os\nos.remove("x")  # ',
    "\u2028eval(1)\r\nx",
    "n" * 5000,
    "http://example.invalid/x.js",
)


@cache
def page(kind: str, case: Case = CASE) -> Page:
    """The page of a result."""
    return page_of(made(kind, case))


@cache
def html(kind: str, case: Case = CASE) -> str:
    """The page of a result as HTML."""
    return render(page(kind, case))


@dataclass
class Tree(HTMLParser):
    """Tags, attributes and text of a page."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)  # tag, name, value
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, text: str) -> Tree:
        """Read a page."""
        tree = cls()
        tree.feed(text)
        tree.close()
        return tree

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Note text that is shown."""
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        """There are no comments."""
        raise AssertionError(data)

    @property
    def text(self) -> str:
        """The text of the page in one line."""
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        """Values of an attribute."""
        return [value for _, found, value in self.attributes if found == name]


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_has_all_parts_in_order(kind):
    text, tree = html(kind), Tree.of(html(kind))
    sections = [value for tag, name, value in tree.attributes if (tag, name) == ("section", "id")]
    assert sections == ["picture", "numbers", "found", "trust", "again"]
    assert [tag for tag in tree.tags if tag in ("h1", "h2")] == ["h1", *["h2"] * 5]
    shown = page(kind)
    assert shown.question.endswith("?")
    for said in (shown.question, *shown.verdict.split("\n"), shown.sampling, *map(sentence, shown.trust)):
        assert " ".join(said.split()) in tree.text
    assert ("html", "lang", "en") in tree.attributes
    assert all(len(alt) > 20 for alt in tree.values("alt"))
    assert tree.tags.count("th") == len(tree.values("scope"))
    assert f"jmdp {jmdp.__version__}, NumPy {np.__version__}, Python" in text
    assert len(text) < 400_000


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_loads_nothing_and_runs_nothing(kind):
    tree = Tree.of(html(kind))
    [policy] = [value for value in tree.values("content") if "default-src" in value]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri")
    assert_inert(tree)
    for source in tree.values("src"):
        svg = base64.b64decode(source.partition("base64,")[2])
        shapes = {element.tag.partition("}")[2] for element in ElementTree.fromstring(svg).iter()}
        assert not shapes & {"script", "foreignObject", "image", "text", "a"}
    assert "url(" not in html(kind).partition("<style>")[2].partition("</style>")[0]


def assert_inert(tree: Tree) -> None:
    assert not set(tree.tags) & {"script", "iframe", "object", "embed", "link", "base", "form", "svg", "a"}
    for _, name, value in tree.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "style", "srcset", "action", "formaction", "xlink:href")
        assert name != "src" or re.fullmatch(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", value)


NAMED = [kind for kind in PAGES if kind not in ALIKE]


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, 3 * third, marks=[pytest.mark.long] * ((third - at) % 5 > 1))
        for at, kind in enumerate(NAMED)
        for third in range(len(HOSTILE) // 3)
    ],
)
def test_hostile_names_are_only_text(kind, number):
    """P15: the same elements as with harmless names, and the snippet is the same code."""
    one, other, title = (HOSTILE[(number + i) % len(HOSTILE)] for i in range(3))
    text = html(kind, Case(7, (one, other), title))
    tree, harmless = Tree.of(text), Tree.of(html(kind))
    assert_inert(tree)
    assert tree.tags == harmless.tags
    assert [name for _, name, _ in tree.attributes] == [name for _, name, _ in harmless.attributes]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2028\u2066-\u2069]", text)
    assert "49" not in re.findall(r"\{\{7\*7\}\}|(?<![\d.])49(?![\d.])", text.partition("<main>")[0])
    assert len(text) < 300_000
    assert max(map(len, tree.text.split("How to do it again")[0].split())) < 200
    assert shape(snippet(text)) == shape(snippet(html(kind)))


def snippet(text: str) -> str:
    return html_module.unescape(re.search(r"<pre><code>(.*?)</code></pre>", text, re.DOTALL)[1])


def shape(code: str) -> list[tuple[type, str]]:
    """Nodes of the code without its texts."""
    return [(type(node), getattr(node, "id", getattr(node, "attr", ""))) for node in ast.walk(ast.parse(code))]


@pytest.mark.parametrize("kind", [kind for kind in PAGES if "ExactPairs" not in kind])
def test_each_number_says_where_it_comes_from(kind):
    """P19: n, seed and confidence beside each table and figure; an interval, or that there is none, at each number."""
    shown, text = page(kind), html(kind)
    assert re.search(r"n = [\d,]+", shown.sampling)
    assert re.search(r"seed \d", shown.sampling) or kind == "comparison compare_scores"  # it draws nothing
    assert re.search(r"9[57](\.5)?% confidence", shown.sampling)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    parts = text.split('<div class="table">')[1:]
    assert len(captions) == len(shown.figures)
    assert len(parts) == len(shown.tables)
    for said in (*captions, *parts):
        assert sentence(shown.sampling) in html_module.unescape(said)
    for part, table in zip(parts, shown.tables, strict=True):
        titles = re.findall(r'<th scope="col">(.*?)</th>', part)
        cells = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in part.split("<tr>")[2:]]
        assert [len(row) for row in cells] == [len(table.columns) - 1] * len(table.rows)
        for row in cells:
            for title, cell in zip(titles[1:], row, strict=True):
                if 'class="value"' in cell and "–" not in cell:
                    exact = re.search(r'class="value">(≤|0<|1<)', cell)
                    known = re.search(r'class="interval">(\[.+\]|estimate, no interval)<', cell)
                    assert known or exact or "estimate, no interval" in title, cell


@pytest.mark.parametrize("kind", [kind for kind in PAGES if kind.startswith("comparison")])
def test_the_rows_of_a_comparison_are_in_its_tables(kind):
    """Each row is there with its estimates, but for the gaps of an alternative to itself."""
    shown, rows = page(kind), made(kind).rows()
    cells = {repr(number(cell)) for table in shown.tables for row in table.rows for cell in row}
    several = "measure" in rows[0]
    for row in rows:
        c = made(kind)[row["measure"]] if several else made(kind)
        own = row[c.summary.labels.kind] == c.reference
        for column, value in row.items():
            if isinstance(value, Estimate) and (not own or column.startswith("mean")):
                assert repr(number(value)) in cells or repr(number(percent(value))) in cells, column


def test_each_of_several_measures_has_one_line_of_verdict():
    result = made("comparison compare_runs")
    lines = page("comparison compare_runs").verdict.split("\n")
    assert [line.partition(": ")[0] for line in lines] == list(result)
    for line, c in zip(lines, result.values(), strict=True):
        assert str(c.best) in line if c.best else "not decided" in line
        assert f"{c.leader} over {c.runner_up} {plus_minus(c.advantage(c.leader, c.runner_up))}" in line
        assert len(line) < 100
        assert c.answer in dict(page("comparison compare_runs").found).values()


def test_an_exact_page_says_that_nothing_was_sampled():
    assert "computed by ExactPairs, without sampling: certified" in Tree.of(html("evaluation ExactPairs")).text


REPEATED = [kind for kind in PAGES if kind not in ("calibration", "learned", "evaluation ExactPairs of policies")]


@pytest.mark.parametrize("kind", REPEATED)
def test_the_code_of_a_page_makes_the_same_numbers(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = {
        "model": CASE.table(),
        "policy": CASE.policy(),
        "simulator": Walk(),
        "policies": CASE.policies,
        "state": None,
    }
    mine |= {"runs": CASE.single_runs if "one number" in kind else CASE.runs, "starts": [(0, 0), (1, 1)]}
    mine |= {"scores": scores(CASE), "history": history(CASE)}
    if "in a history" in kind:
        mine["runs"] = recorded_runs(CASE)
    if kind == "comparison compare":
        mine["policy"] = lambda observation: 0
    code = re.sub(r"^(\w+) = \.\.\..*$", "", snippet(html(kind)), flags=re.MULTILINE)
    exec(code, mine)
    numbers = lambda found: [dict(row) for row in found.rows()]  # noqa: E731
    assert repr(numbers(mine["found"])) == repr(numbers(made(kind)))
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_equal_results_give_equal_pages():
    assert html("comparison compare") == render(page_of(kinds(CASE)["comparison compare"]()))


def test_an_evaluation_is_about_the_state_asked_for(tmp_path):
    result = made("evaluation ExactPairs")
    result.report(tmp_path / "page.html", state="down")
    asked = "<h1>Which of 2 actions earns most from state down, and by how much?</h1>"
    assert asked in (tmp_path / "page.html").read_text()
    with pytest.raises(jmdp.errors.LabelError):
        result.report(tmp_path / "page.html", state="west")


def test_many_alternatives_and_states_fit_on_a_page():
    rng = np.random.default_rng(0)
    table = jmdp.TabularJMDP(
        rng.dirichlet(np.ones(2), 20), rng.normal(size=(20, 2, 70)), np.zeros((20, 2, 70), int), 0.5
    )
    text = render(page_of(jmdp.evaluate(table, "uniform", jmdp.Local())))
    assert len(text) < 400_000
    assert "Figures have at most 30 actions" in text
    assert f"The first {MOST_ROWS} of 1,400 rows" in text


def test_a_network_without_held_out_states_has_a_page_without_a_figure():
    tree = Tree.of(render(page_of(learned(CASE, held_out=False))))
    assert "img" not in tree.tags
    assert "No states were held out" in tree.text


def test_one_action_has_a_page():
    table = jmdp.TabularJMDP([[0.5, 0.5]], [[[1.0], [0.0]]], [[[0], [0]]], 0.5)
    tree = Tree.of(render(page_of(jmdp.evaluate(table, "uniform", jmdp.Local()))))
    assert "One action has no gap" in tree.text
    assert "the mean return is 1" in tree.text.lower()


def test_missing_packages_are_named(monkeypatch, tmp_path):
    result = made("evaluation ExactPairs")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "jinja2", None)
        with pytest.raises(MissingExtraError, match=r"jmdp\[report\]"):
            result.report(tmp_path / "page.html")
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(MissingExtraError, match=r"jmdp\[plot\]"):
            result.report(tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written(tmp_path):
    result = made("evaluation ExactPairs")
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "page.html", tmp_path / "a\0b"):
        with pytest.raises(FileError, match="cannot be written"):
            result.report(path)
    with pytest.raises(SettingsError, match="Give the path"):
        result.report(7)
    with pytest.raises(SettingsError, match="has no page"):
        write("text", tmp_path / "page.html")
    result.report(os.fspath(tmp_path / "new" / "page.html"))
    assert (tmp_path / "new" / "page.html").read_text().endswith("</html>\n")


def test_numbers_are_rounded_outwards():
    assert number(Estimate(0.125, 0.0625, 0.1875)) == Written("0.125", "[0.062, 0.188]")
    assert number(Estimate(1.0, -2.0, float("inf"))) == Written("1.0", "[−2.0, ∞]")
    table = Table(title="t", columns=["a", "b"], rows=[["x", Estimate.within(1.0, None)], ["y", ""]])
    assert table.unbounded(1)
    assert not table.unbounded(0)


def test_rows_become_a_table():
    sure, wide = Estimate(1.0, 1.0 - 1e-12, 1.0 + 1e-12), Estimate(2.0, 1.0, 3.0)
    rows = [{"name": "a", "x": sure, "n": 1000, "r": 0.25}, {"name": "b", "x": wide}]
    table = Table.of_rows(rows, ["name", "x", "n", "r"], title="t")
    assert table.rows == [["a", sure, "1,000", Written("0.25")], ["b", wide, "", ""]]
    long = Table.of_rows(rows * MOST_ROWS, ["name"], title="t", note="Said.")
    assert len(long.rows) == MOST_ROWS
    assert long.note == f"Said. The first {MOST_ROWS} of {2 * MOST_ROWS} rows; to_dataframe() has all."


@pytest.mark.parametrize("kind", ["evaluation MonteCarlo", *NAMED[:-1]])
def test_notebooks_show_answer_table_and_effort(kind):
    text = made(kind, Case(7, ("<b>x</b>", "y & z"), "<i>walk</i>"))._repr_html_()
    assert "<b>" not in text
    assert "<i>" not in text
    last = text.rpartition("<p>")[2]
    seeded = "seed 7" in last or kind == "comparison compare_scores"
    assert (seeded and "95% confidence" in last) or "without sampling: certified" in last
    assert len(text) < 20_000


def test_loaded_results_have_the_same_page(tmp_path):
    (tmp_path / "found.nc").write_bytes(saved("comparison compare_policies"))
    assert render(page_of(jmdp.load(tmp_path / "found.nc"))) == html("comparison compare_policies")
