"""The page of a study: what it says, its size, its script, and that names of users stay text."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import jmdp
from jmdp.errors import FileError, UnavailableError
from jmdp.reports import study_data, study_maps
from jmdp.reports.study_data import number_text, outward
from jmdp.studies.folder import Folder
from jmdp.studies.parts import Finished
from jmdp.studies.points import state_key
from jmdp.worlds import inventory, lazy_windy_gridworld, windy_gridworld

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
]


def written(path, labels, names, *, outcomes=("BEST_FOUND", "BUDGET_EXHAUSTED"), places=None, **header):
    """A study with made-up numbers, by the library's own writer."""
    coordinates = {} if places is None else header.pop("axes", {"row": "int", "column": "int"})
    settings = {"seed": 3, "budget": 100, "discount": 0.9, "confidence": 0.95, "indifference": None, "horizon": 50}
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
    return jmdp.Study.open(path)


def html_of(study, tmp_path):
    study.report(tmp_path / "page.html")
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


class Elements(HTMLParser):
    """Elements with their attributes, texts of cells, and scripts."""

    def __init__(self, html):
        super().__init__()
        self.found, self.rows, self.scripts, self._inside = [], [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th", "script"):
            self._inside = tag
            (self.scripts if tag == "script" else self.rows[-1]).append("")
        elif self._inside in ("td", "th") and tag == "span":
            self.rows[-1][-1] += "|"

    def handle_endtag(self, tag):
        if tag == self._inside:
            self._inside = None

    def handle_data(self, text):
        if self._inside == "script":
            self.scripts[-1] += text
        elif self._inside:
            self.rows[-1][-1] += text


def test_a_grid_has_maps_and_the_rows_of_the_study(tmp_path):
    world = windy_gridworld(4, 5)
    policy = next(iter(world.policies.values()))
    study = jmdp.study(world, policy, seed=7, path=tmp_path / "windy", budget=200, indifference=0.05, progress=False)
    html = html_of(study, tmp_path)
    assert html.count('<svg class="map"') == 2
    assert "seed 7" in html
    assert "95% confidence" in html
    progress = study.progress
    assert f"known in {progress.decided} of {progress.states} states" in html
    assert f"{0.05 * progress.states:,.1f} of the {progress.states}" in html
    best, data = study.best().sort_values("gap", ascending=False, kind="stable"), data_of(html)
    assert data["number"] == best.index.tolist()
    assert data["key"] == best["key"].astype(str).tolist()
    assert data["n"] == best["n"].tolist()
    assert [data["names"][a] for a in data["leader"]] == best["leader"].tolist()
    assert [data["names"][a] for a in data["rival"]] == best["runner_up"].tolist()
    assert [data["outcomes"][k] for k in data["outcome"]] == best["outcome"].tolist()
    assert data["decided"] == best["decided"].astype(int).tolist()
    assert [data["row"], data["column"]] == best[["row", "column"]].to_numpy().T.tolist()
    rows = Elements(html).rows[1 : len(best) + 1]
    assert [row[0] for row in rows] == [f"{label}|no. {number}" for number, label in best["state"].items()]
    assert [row[7] for row in rows] == data["key"]
    assert all(row[2].count("[") == 1 for row in rows)


def cells_of(svg):
    """Attributes of each cell of a map, by its row and column."""
    cells = {}
    for how, path in re.findall(r'<path (stroke=[^>]*?) d="([^"]*)"/>', svg):
        for column, row, end in re.findall(r"M(\d+) (\d+)\.5H(\d+)", path):
            for c in range(int(column), int(end)):
                assert (int(row), c) not in cells
                cells[int(row), c] = how
    return cells


def test_every_cell_of_the_map_has_the_colour_of_its_leader(tmp_path):
    places = [(r + 5, c - 3) for r in range(9) for c in range(14) if (r, c) != (4, 4)]
    kinds = ("BEST_FOUND", "BUDGET_EXHAUSTED", "GOOD_ENOUGH", "FAILED", "BEST_FOUND")
    study = written(tmp_path / "s", [str(p) for p in places], ["a", "b", "c"], outcomes=kinds, places=places)
    states = study_data.States.of(study)
    leaders, gaps = study_maps.study_maps(states, study.coordinates, "action")
    cells = cells_of(leaders.svg)
    best = study.best()
    assert len(cells) == len(best)
    for row in best.itertuples():
        how = cells[row.row - 5, row.column + 3]
        assert study_maps.colour(["a", "b", "c"].index(row.leader)) in how
        assert ("opacity" in how) == (not row.decided)
    assert leaders.svg.count("l.6 .6m0-.6l-.6 .6") == study.progress.failed
    steps = cells_of(gaps.svg)
    order = ["c7e9b4", "7fcdbb", "41b6c4", "1d91c0", "225ea8", "0c2c84"]
    ranked = [order.index(steps[r.row - 5, r.column + 3][9:15]) for r in best.sort_values("gap").itertuples()]
    assert ranked == sorted(ranked)
    assert len(set(ranked)) > 3


def test_cells_of_larger_steps_are_neighbours_on_the_page(tmp_path):
    places = [(3 * r + 1, 5 * c - 3) for r in range(4) for c in range(6)]
    study = written(tmp_path / "s", [str(p) for p in places], ["a", "b"], outcomes=("BEST_FOUND",), places=places)
    leaders, _ = study_maps.study_maps(study_data.States.of(study), study.coordinates, "action")
    assert set(cells_of(leaders.svg)) == {(r, c) for r in range(4) for c in range(6)}
    assert 'data-first="1 -3" data-step="3 5" data-size="4 6"' in leaders.svg
    numbers = re.findall(r">(-?\d+)</text>", leaders.svg)
    assert numbers == ["1", "4", "7", "10", "-3", "2", "7", "12", "17", "22"]


finite = st.floats(-1e12, 1e12, allow_nan=False)


@given(finite, st.floats(0, 1e6), st.floats(0, 1e6))
@example(1e-9, 1e-9 - 1e-15, 1e-3)
@example(5e-324, 0.0, 0.0)
@example(0.1, 0.0, 0.0)
def test_printed_intervals_contain_the_computed_ones(value, below, above):
    low, high = value - below, value + above
    middle, floor, ceiling = outward(value, low, high)
    assert floor <= low
    assert high <= ceiling
    assert floor <= middle <= ceiling
    assert (low > 0) == (floor > 0)
    assert (high < 0) == (ceiling < 0)
    size = max(abs(low), abs(high))
    assert ceiling - floor <= (high - low) * 1.21 + 2.1e-4 * size or ceiling - floor < 1e-300
    said, ends = number_text(middle, floor, ceiling)
    texts = [said, *ends.strip("[]").split(", ")]
    assert [float(text.replace("−", "-")) for text in texts] == [middle, floor, ceiling]


def test_unknown_numbers_and_infinite_ends():
    assert outward(None, None, None) == (None, None, None)
    assert number_text(None, None, None) == ("–", "")
    assert number_text(*outward(2.0, None, 3.21)) == ("2.0", "[−∞, 3.3]")
    assert number_text(*outward(None, 0.25, 1.0)) == ("–", "[0.25, 1.00]")


def test_ten_thousand_states_take_at_most_two_megabytes(tmp_path):
    wide = ["状态" * 90 + str(i) for i in range(10_000)]
    study = written(tmp_path / "wide", wide, [f"<option {a}> " * 20 for a in range(30)], outcomes=("GOOD_ENOUGH",))
    assert len(html_of(study, tmp_path).encode()) <= 2_000_000
    grid = [(r, c) for r in range(100) for c in range(100)]
    study = written(tmp_path / "grid", [f"{r}, {c}" for r, c in grid], list("abcdefgh"), places=grid)
    html = html_of(study, tmp_path)
    assert html.count('<svg class="map"') == 2
    assert len(html.encode()) <= 2_000_000
    assert len(Elements(html).rows) == 201


def test_of_more_states_those_with_the_largest_gaps_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(study_data, "MOST_LISTED", 30)
    monkeypatch.setattr(jmdp.reports.study_page, "MOST_LISTED", 30)
    study = written(
        tmp_path / "s", [f"s{i}" for i in range(50)], ["a", "b"], outcomes=("BEST_FOUND",) * 4 + ("FAILED",)
    )
    html = html_of(study, tmp_path)
    assert data_of(html)["number"] == study.best()["gap"].nlargest(30).index.tolist()
    assert "20 states with smaller or unknown gaps are left out" in unescape(html)
    assert "study.to_dataframe()" in html


def test_failed_states_have_their_errors_and_come_last(tmp_path):
    kinds = ("BEST_FOUND", "FAILED", "BUDGET_EXHAUSTED", "BEST_FOUND")
    study = written(tmp_path / "s", ["same" if i % 4 == 1 else f"s{i}" for i in range(40)], ["a", "b"], outcomes=kinds)
    html = html_of(study, tmp_path)
    rows = Elements(html).rows
    assert ["same", str(state_key(3, 1)), "10", "ValueError: same"] in rows
    assert [row[3] for row in rows[31:41]] == ["failed"] * 10
    assert data_of(html)["leader"][-10:] == [-1] * 10
    every = written(tmp_path / "all", ["s0", "s1"], ["a", "b"], outcomes=("FAILED",))
    html = html_of(every, tmp_path)
    assert "No state could be compared: 2 states failed." in html
    assert "no state has a gap" in html


def test_certified_studies_have_no_samples(tmp_path):
    world = lazy_windy_gridworld(1000, 1000)
    study = jmdp.study(
        world.model, world.policies["goal_directed"], [(0, 998), (1, 998)], seed=0, path=tmp_path / "c",
        coupling=jmdp.Synchronous(), budget=1000, progress=False,
    )  # fmt: skip
    html = html_of(study, tmp_path)
    assert "Nothing was sampled" in html
    assert "95%" not in html
    assert data_of(html)["n"] == [None, None]
    assert data_of(html)["replay"] == []
    assert "tolerance=0.01" in html


def test_the_code_of_the_page_repeats_the_study(tmp_path):
    world = inventory()
    policies = {name: world.policies[name] for name in ("base_stock", "reorder")}
    settings = {"seed": 5, "budget": 60, "horizon": 40, "confidence": 0.9}
    study = jmdp.study(world, policies, [0, 4], path=tmp_path / "s", progress=False, **settings)
    html = html_of(study, tmp_path)
    code = unescape(re.search(r"<pre><code>(import jmdp.*?)</code>", html, re.S)[1])
    code = re.sub(r"(simulator|policies|states) = \.\.\..*", "", code).replace(
        "path='s'", f"path={str(tmp_path / 't')!r}"
    )
    found = {"simulator": world, "policies": policies, "states": [0, 4]}
    exec(code.replace('found.report("page.html")', ""), found)
    assert found["found"].to_arrow().equals(study.to_arrow())
    before, after = data_of(html)["replay"]
    again = eval(f"{before}{data_of(html)['key'][0]}{after}", {**found, "state": [0, 4][data_of(html)["number"][0]]})
    assert again.leader == data_of(html)["names"][data_of(html)["leader"][0]]


def test_only_the_script_of_the_package_may_run(tmp_path):
    html = html_of(written(tmp_path / "s", ["x", "y"], ["a", "b"]), tmp_path)
    elements = Elements(html)
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    own = base64.b64encode(hashlib.sha256(elements.scripts[-1].encode()).digest()).decode()
    assert f"script-src 'sha256-{own}'" in policy
    assert "default-src 'none'" in policy
    assert len(elements.scripts) == 2
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert unsafe not in elements.scripts[-1]


def hostile_study(path, kind):
    places = [(i % 4, i // 4) for i in range(len(HOSTILE))] if kind == "grid" else None
    outcomes = ("BEST_FOUND", "FAILED") if kind == "failed" else ("BEST_FOUND", "BUDGET_EXHAUSTED")
    axes = {"axes": {HOSTILE[0]: "int", HOSTILE[1]: "int"}} if kind == "grid" else {}
    settings = {
        "seed": HOSTILE[1],
        "budget": HOSTILE[0],
        "coupling": HOSTILE[2],
        "confidence": 0.95,
        HOSTILE[0]: HOSTILE[1],
    }
    about = {"simulator": HOSTILE[1], "policy": HOSTILE[0], "settings": settings, **axes}
    return written(path / HOSTILE[0].replace("/", "-"), HOSTILE, HOSTILE, outcomes=outcomes, places=places, **about)


@pytest.mark.parametrize("kind", ["grid", "list", "failed"])
def test_names_of_users_stay_text(tmp_path, kind):
    html = html_of(hostile_study(tmp_path, kind), tmp_path)
    elements = Elements(html)
    plain = written(tmp_path / "plain", ["x", "y"], ["a", "b"], outcomes=("FAILED", "BEST_FOUND"))
    tags = {tag for tag, _ in Elements(html_of(plain, tmp_path)).found} | {"rect"}  # of maps
    assert {tag for tag, _ in elements.found} <= tags
    assert not [name for _, attributes in elements.found for name in attributes if name.startswith("on")]
    assert not [a for _, a in elements.found if {"href", "src", "srcdoc", "action"} & set(a)]
    assert len(elements.scripts) == 2
    assert "49" not in re.sub(r"\d{3,}", "", " ".join(row[0] for row in elements.rows))
    assert not {"\u202e", "\x00", "\u2028"} & set(html)
    assert "x" * 300 not in html
    assert not set("<>&") & set(elements.scripts[0])
    data = data_of(html)
    assert any("<script>alert(1)</script>" in label for label in data["label"])


def test_a_study_without_results_or_a_bad_path_is_refused(tmp_path):
    path = tmp_path / "s"
    study = written(path, ["x", "y"], ["a", "b"])
    with pytest.raises(FileError, match="cannot be written"):
        study.report(path / "ledger.jsonl" / "page.html")
    ledger = (path / "ledger.jsonl").read_text().splitlines(keepends=True)
    (path / "ledger.jsonl").write_text(ledger[0])
    with pytest.raises(UnavailableError, match="No state is finished"):
        jmdp.Study.open(path).report(tmp_path / "page.html")


def test_states_without_coordinates_have_no_map(tmp_path):
    places = [(0, 1), (None, None), (None, None)]
    study = written(tmp_path / "s", ["0, 1", "a", "b"], ["x", "y"], outcomes=("FAILED", "BEST_FOUND"), places=places)
    assert 'class="gaps few"' in html_of(study, tmp_path)
    assert study.plot() is not None


DRIVE = """
<script>
addEventListener("load", () => {
  const said = [], states = () => [...document.querySelectorAll("#states tbody th button")].map((b) => b.textContent);
  const head = (key) => document.querySelector(`#states [data-key=${key}] button`);
  const put = (id, value) => { const field = document.getElementById(id); field.value = value;
    field.dispatchEvent(new Event("input")); };
  said.push(states().slice(0, 3));
  head("gap").click();
  said.push(states().slice(0, 3), document.querySelector("[data-key=gap]").getAttribute("aria-sort"));
  head("number").click();
  said.push(states().slice(0, 3), document.querySelectorAll("[aria-sort]").length);
  document.getElementById("on").click();
  said.push(states()[0], document.getElementById("where").textContent);
  put("by-text", "9, 1");
  said.push(states());
  put("by-text", ""); put("by-outcome", "undecided"); put("by-gap", "1.5");
  said.push(states().length, document.querySelector(".veil").getAttribute("d").split("M").length - 1);
  document.querySelector("#states tbody th button").click();
  said.push(document.querySelector("#chosen h3").textContent, document.querySelectorAll("tr.chosen").length);
  document.body.dataset.said = JSON.stringify(said);
});
</script>
"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_sorting_and_filters_in_a_browser(tmp_path):
    places = [(r, c) for r in range(12) for c in range(12)]
    study = written(tmp_path / "s", [f"{r}, {c}" for r, c in places], ["a", "b", "c"], places=places)
    html = html_of(study, tmp_path)
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html).replace("</body>", f"{DRIVE}</body>")
    (tmp_path / "driven.html").write_text(html, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    folder = [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "driven.html").as_uri()]
    shown = subprocess.run([*command, *folder], capture_output=True, text=True, timeout=60, check=True).stdout
    said = json.loads(unescape(re.search(r'data-said="([^"]*)"', shown)[1]))
    best = study.best()
    by_gap, names = best.sort_values("gap")["state"].tolist(), best["state"].tolist()
    undecided = best[~best["decided"] & (best["gap"] >= 1.5)]
    assert said[0] == by_gap[:-4:-1]
    assert said[1:3] == [by_gap[:3], "ascending"]
    assert said[3:5] == [names[:3], 1]
    assert said[5:7] == [names[50], "page 2 of 3"]
    assert said[7] == ["9, 1", "9, 10", "9, 11"]
    assert said[8:10] == [len(undecided), 144 - len(undecided)]
    assert said[10:] == [f"State {undecided['state'].iloc[0]} (no. {undecided.index[0]})", 1]
    assert math.isfinite(best["gap"].max())
