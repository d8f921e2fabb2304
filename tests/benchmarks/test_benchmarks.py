"""`python -m benchmarks`: what it prints, saves and refuses. Comparisons are replaced by one that takes no time."""

from __future__ import annotations

import json
import math
import os
import runpy
import shlex
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.report import Goal, Report, agree, save

DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str


def run(capsys, line):
    """One command line, as a shell would give it."""
    capsys.readouterr()
    code = main(shlex.split(line.removeprefix("python -m benchmarks")))
    said = capsys.readouterr()
    return Run(code, said.out, said.err)


@pytest.fixture
def ran(monkeypatch):
    """Names of the comparisons that were run."""
    names = []

    def report(name, quick, rows, parts):
        names.append(name)
        print("a peer says hello")
        warnings.warn("a peer is old", stacklevel=1)
        return Report(name, quick, [Goal.at_most("time", math.nan, 1.0)], [{"side": "ours", "s": math.inf}])

    monkeypatch.setattr("benchmarks.__main__.run", report)
    return names


@pytest.mark.filterwarnings("ignore:a peer is old")
def test_what_is_saved_is_strict_json(ran, capsys, tmp_path):
    run(capsys, f"python -m benchmarks sweep --out {tmp_path}")
    saved = json.loads((tmp_path / "sweep.json").read_text(), parse_constant=lambda word: 1 / 0)
    assert saved["goals"][0]["measured"] is saved["rows"][0]["s"] is None
    with pytest.raises(ValueError, match="JSON compliant"):
        save({"x": math.inf}, tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


def test_what_a_peer_prints_is_not_in_the_answer(ran, capsys):
    with pytest.warns(UserWarning, match="a peer is old"):
        loud = run(capsys, "python -m benchmarks sweep --json")
    assert list(json.loads(loud.out, parse_constant=lambda word: 1 / 0)) == ["sweep"]
    assert loud.err == "a peer says hello\n"
    with warnings.catch_warnings(record=True) as heard:
        quiet = run(capsys, "python -m benchmarks sweep --json --quiet")
    assert (quiet.out, quiet.err, heard) == (loud.out, "", [])


@pytest.mark.filterwarnings("ignore:a peer is old")
def test_a_name_given_twice_runs_once(ran, capsys):
    assert run(capsys, "python -m benchmarks sweep mean sweep").out.count("## ") == 2
    assert ran == ["sweep", "mean"]


def test_answers_that_differ_are_an_error_and_no_traceback(capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.__main__.run", lambda name, quick, rows, parts: agree("means", 1.0, 0.1))
    found = run(capsys, "python -m benchmarks sweep")
    assert (found.code, found.out) == (2, "")
    assert found.err == "jmdp: means: the results differ by 1; at most 0.1 is allowed.\n"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--out taken", "jmdp: taken: File exists\n"),
        ("--out taken/below", "jmdp: taken/below: Not a directory\n"),
        ("--out locked", "jmdp: locked: Permission denied\n"),
        ("--out ''", "jmdp: --out is empty. Give a folder, e.g. '.' for the current one.\n"),
        ("--out=", "jmdp: --out is empty. Give a folder, e.g. '.' for the current one.\n"),
    ],
)
def test_a_folder_that_is_none_is_told_before_anything_runs(option, says, ran, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    Path("locked").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")  # whoever runs this, even root
    found = run(capsys, f"python -m benchmarks sweep {option}")
    assert (found.code, found.out, found.err, ran) == (2, "", says, [])


def test_it_reports_and_returns_what_it_found(capsys, monkeypatch, tmp_path):
    def report(name, quick, rows, parts):
        return Report(name, quick, [Goal.at_most("time", 2.0, 1.0)], [{"side": "ours", "s": math.inf}])

    monkeypatch.setattr("benchmarks.__main__.run", report)
    assert run(capsys, "python -m benchmarks sweep").code == 1
    quick = run(capsys, f"python -m benchmarks sweep mean --quick --json --out {tmp_path}")
    assert quick.code == 0
    assert json.loads(quick.out)["mean"]["rows"] == [{"side": "ours", "s": None}]
    assert {path.name for path in tmp_path.iterdir()} == {"sweep.json", "mean.json"}


def test_the_page_refuses_quick_results(tmp_path):
    render = runpy.run_path(str(DOCS / "write_benchmarks.py"))["render"]
    save(Report("sweep", False, [], [{"side": "ours", "s": None}]).record(), tmp_path / "sweep.json")
    assert "| ours | – " in render(tmp_path)
    save(Report("sweep", True).record(), tmp_path / "sweep.json")
    with pytest.raises(ValueError, match=r"sweep.json is from --quick"):
        render(tmp_path)
