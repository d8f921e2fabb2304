"""The page of a study: what it says, its size, and that names of users stay text."""

from __future__ import annotations

import base64
import math
import re
from html import unescape
from xml.etree import ElementTree

import numpy as np
import pytest

import jmdp
from jmdp.errors import FileError, UnavailableError
from jmdp.results.text import Written
from jmdp.show.reports import study_page
from jmdp.show.reports.page import number as written_number
from jmdp.show.reports.page import page_of
from jmdp.studies.folder import Folder
from jmdp.studies.parts import Finished
from jmdp.studies.points import state_key
from jmdp.worlds import inventory, lazy_windy_gridworld, windy_gridworld
from show.reports import test_pages
from show.reports.test_pages import Tree, assert_inert, snippet

pytest.importorskip("jinja2")
pytest.importorskip("pyarrow")

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}",
    "\u202egnp.exe",
    "a\x00b",
    "<!--<script>",
    "</script x",
    "&lt;b&gt;",
    '" onmouseover="alert(1)',
    "'; alert(1); //\u2028x",
    "x" * 100_000,
    *test_pages.HOSTILE,
]


def written(path, labels, names, *, outcomes=("BEST_FOUND", "BUDGET_EXHAUSTED"), places=None, **header):
    """A study with made-up numbers, by the library's own writer."""
    coordinates = {} if places is None else header.pop("axes", {"row": "int", "column": "int"})
    settings = {"seed": 3, "max_samples": 100, "discount": 0.9, "confidence": 0.95, "indifference": None, "horizon": 50}
    about = {
        "simulator": "Made()",
        "policy": "made",
        "alternative": "action",
        "alternatives": list(names),
        "coordinates": coordinates,
        "settings": settings,
        "states": len(labels),
    } | header
    generator = np.random.default_rng(1)
    rows, counts = [], {}
    for number, label in enumerate(labels):
        outcome = outcomes[number % len(outcomes)]
        counts[outcome] = counts.get(outcome, 0) + 1
        first, second = generator.permutation(len(names))[:2].tolist()
        gap = float(generator.gamma(1.0))
        shared = {"number": number, "state": label, "outcome": outcome, "key": state_key(3, number)}
        if places is not None:
            shared |= dict(zip(coordinates, places[number], strict=True))
        for a in sorted({first, second, 0}):
            row = {**shared, about["alternative"]: names[a], "best": False, "leader": False, "n": 100}
            if outcome == "FAILED":
                row |= {"n": 0, "error": f"Traceback\n  at\nValueError: {label}"}
            elif a == first:
                row |= {"best": outcome != "BUDGET_EXHAUSTED", "leader": True, "rival": names[second]}
                row |= {"gap": gap, "gap_low": gap - 0.3, "gap_high": gap + 0.31234567}
                row |= {"mean": 10 * gap, "mean_low": 10 * gap - 1, "mean_high": None}
                row |= {"better": 0.75, "better_low": 0.6123, "better_high": 0.8456}
            rows.append(row)
    with Folder.writer(path, about, resume=False) as folder:
        batch = folder.columns.batch(rows)
        folder.write(1, np.arange(len(labels)), "", Finished([batch], [False] * len(labels), counts))
    return jmdp.studies.Study.open(path)


def html_of(study, tmp_path):
    study.report(tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def drawn(html):
    """The figure, as a parsed SVG."""
    [source] = Tree.of(html).values("src")
    return ElementTree.fromstring(base64.b64decode(source.partition("base64,")[2]))


def images(html):
    """Raster images in the figure: a map has one for leaders and one for gaps, and a bar of colours."""
    return [element for element in drawn(html).iter() if element.tag.endswith("}image")]


def test_a_page_has_the_map_and_the_rows_of_the_study(tmp_path):
    world = windy_gridworld(4, 5)
    policy = next(iter(world.policies.values()))
    study = jmdp.study(
        world, policy, seed=7, path=tmp_path / "windy", max_samples=200, indifference=0.05, progress=False
    )
    html = html_of(study, tmp_path)
    assert len(images(html)) >= 2
    assert html.count("seed 7") == 3  # below the verdict, the figure and the table
    assert html.count("95% confidence for each state") == 3
    progress, best = study.progress, study.best().sort_values("gap", ascending=False, kind="stable")
    assert f"known in {progress.decided} of {progress.states} states" in html
    assert f"{0.05 * progress.states:,.1f} of the {progress.states}" in html
    [table] = page_of(study).tables
    columns = list(zip(*table.rows, strict=True))
    assert list(columns[0]) == best["state"].tolist()
    assert list(columns[1]) == best["leader"].tolist()
    assert list(columns[3]) == best["runner_up"].tolist()
    assert [int(n.replace(",", "")) for n in columns[6]] == best["n"].tolist()
    for at, name in ((2, "gap"), (4, "better"), (5, "mean")):
        assert [float(value) for value in columns[at]] == best[name].tolist()
        assert [value.low for value in columns[at]] == best[f"{name}_low"].fillna(-math.inf).tolist()
        assert [value.high for value in columns[at]] == best[f"{name}_high"].fillna(math.inf).tolist()
        for value in columns[at]:
            assert written_number(value).interval in unescape(html)
    ends = zip(best["decided"], best["outcome"], strict=True)
    assert list(columns[7]) == [f"{'decided' if known else 'undecided'} ({how})" for known, how in ends]


def test_unknown_numbers_and_infinite_ends():
    row = {"gap": 2.0, "gap_low": math.nan, "gap_high": 3.21, "mean": math.nan, "mean_low": math.nan}
    assert written_number(study_page._estimate(row, "gap")) == Written("2.0", "[−∞, 3.3]")
    assert written_number(study_page._estimate(row | {"mean_high": math.nan}, "mean")) == Written("–")


def test_ten_thousand_states_take_at_most_a_megabyte(tmp_path):
    wide = ["状态" * 90 + str(i) for i in range(10_000)]
    study = written(tmp_path / "wide", wide, [f"<option {a}> " * 20 for a in range(30)], outcomes=("GOOD_ENOUGH",))
    assert len(html_of(study, tmp_path).encode()) <= 1_000_000
    grid = [(r, c) for r in range(100) for c in range(100)]
    study = written(tmp_path / "grid", [f"{r}, {c}" for r, c in grid], list("abcdefgh"), places=grid)
    html = html_of(study, tmp_path)
    assert len(images(html)) >= 2
    assert len(html.encode()) <= 1_000_000


def test_of_more_states_those_with_the_largest_gaps_are_listed(tmp_path):
    kinds = ("BEST_FOUND",) * 4 + ("FAILED",)
    study = written(tmp_path / "s", [f"s{i}" for i in range(100)], ["a", "b"], outcomes=kinds)
    page, best = page_of(study), study.best()
    assert [row[0] for row in page.tables[0].rows] == best.loc[best["gap"].nlargest(50).index, "state"].tolist()
    assert "30 states with smaller or unknown gaps are left out" in page.tables[0].note
    assert "study.best()" in page.tables[0].note


def test_failed_states_have_their_errors(tmp_path):
    kinds = ("BEST_FOUND", "FAILED", "BUDGET_EXHAUSTED", "BEST_FOUND")
    study = written(tmp_path / "s", ["same" if i % 4 == 1 else f"s{i}" for i in range(40)], ["a", "b"], outcomes=kinds)
    best, failed = page_of(study).tables
    assert len(best.rows) == 30
    assert failed.title == "10 states failed"
    assert failed.rows == [["ValueError: same", "10", "same", str(state_key(3, 1))]]
    every = written(tmp_path / "all", ["s0", "s1"], ["a", "b"], outcomes=("FAILED",))
    html = html_of(every, tmp_path)
    assert "No state could be compared: 2 states failed." in html
    assert "no state has a gap" in html
    assert "img" not in Tree.of(html).tags


def test_certified_studies_have_no_samples(tmp_path):
    world = lazy_windy_gridworld(1000, 1000)
    study = jmdp.study(
        world.model, world.policies["goal_directed"], [(0, 998), (1, 998)], seed=0, path=tmp_path / "c",
        coupling=jmdp.Synchronous(), max_samples=1000, progress=False,
    )  # fmt: skip
    html = html_of(study, tmp_path)
    assert "Nothing was sampled" in html
    assert "95%" not in html
    assert [row[6] for row in page_of(study).tables[0].rows] == ["–", "–"]
    assert "tolerance=0.01" in html


def test_the_code_of_the_page_repeats_the_study(tmp_path):
    world = inventory()
    policies = {name: world.policies[name] for name in ("base_stock", "reorder")}
    settings = {"seed": 5, "max_samples": 60, "horizon": 40, "confidence": 0.9}
    study = jmdp.study(world, policies, [0, 4], path=tmp_path / "s", progress=False, **settings)
    html = html_of(study, tmp_path)
    code = re.sub(r"(simulator|policies|states) = \.\.\..*", "", snippet(html)).replace(
        "path='s'", f"path={str(tmp_path / 't')!r}"
    )
    found = {"simulator": world, "policies": policies, "states": [0, 4]}
    exec(code.replace('found.report("page.html")', ""), found)
    assert found["found"].to_arrow().equals(study.to_arrow())


def hostile_study(path, kind):
    places = [(i % 4, i // 4) for i in range(len(HOSTILE))] if kind == "grid" else None
    outcomes = ("BEST_FOUND", "FAILED") if kind == "failed" else ("BEST_FOUND", "BUDGET_EXHAUSTED")
    axes = {"axes": {HOSTILE[0]: "int", HOSTILE[1]: "int"}} if kind == "grid" else {}
    settings = {
        "seed": HOSTILE[1],
        "max_samples": HOSTILE[0],
        "coupling": HOSTILE[2],
        "confidence": 0.95,
        HOSTILE[0]: HOSTILE[1],
    }
    about = {"simulator": HOSTILE[1], "policy": HOSTILE[0], "settings": settings, **axes}
    return written(path / HOSTILE[0].replace("/", "-"), HOSTILE, HOSTILE, outcomes=outcomes, places=places, **about)


@pytest.mark.parametrize("kind", ["grid", "list", "failed"])
def test_names_of_users_stay_text(tmp_path, kind):
    html = html_of(hostile_study(tmp_path, kind), tmp_path)
    tree = Tree.of(html)
    plain = written(tmp_path / "plain", ["x", "y"], ["a", "b"], outcomes=("FAILED", "BEST_FOUND"))
    assert set(tree.tags) <= set(Tree.of(html_of(plain, tmp_path)).tags)
    assert_inert(tree)
    for element in drawn(html).iter():
        assert element.tag.partition("}")[2] not in ("script", "foreignObject", "text", "a")
        for name, value in element.attrib.items():
            assert not name.startswith("on")
            assert not name.endswith("href") or value.startswith(("#", "data:image/png;base64,"))
    assert "49" not in re.sub(r"\d{3,}|\d[.,]\d+", "", tree.text)
    assert not {"\u202e", "\x00", "\u2028"} & set(html)
    assert "x" * 300 not in html
    assert "<script>alert(1)</script>" in tree.text


def test_a_study_without_results_or_a_bad_path_is_refused(tmp_path):
    path = tmp_path / "s"
    study = written(path, ["x", "y"], ["a", "b"])
    with pytest.raises(FileError, match="cannot be written"):
        study.report(path / "ledger.jsonl" / "page.html")
    ledger = (path / "ledger.jsonl").read_text().splitlines(keepends=True)
    (path / "ledger.jsonl").write_text(ledger[0])
    with pytest.raises(UnavailableError, match="No state is finished"):
        jmdp.studies.Study.open(path).report(tmp_path / "page.html")


def test_states_without_coordinates_have_no_map(tmp_path):
    places = [(0, 1), (None, None), (None, None)]
    study = written(tmp_path / "s", ["0, 1", "a", "b"], ["x", "y"], outcomes=("FAILED", "BEST_FOUND"), places=places)
    assert images(html_of(study, tmp_path)) == []
    assert not study._is_grid()
