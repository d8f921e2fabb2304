"""`jmdp compare-scores` and `jmdp gate --scores`."""

import json
import re
import shlex

import numpy as np
import pytest
from cli_runs import run as run_line


@pytest.fixture
def run(capsys):
    """Runs a command: its exit code, and what it prints."""

    def call(*words):
        found = run_line(capsys, f"jmdp {shlex.join(words)}")
        return found.code, found.out or found.err

    return call


TABLE = [(1, 1)] * 109 + [(0, 1)] * 30 + [(1, 0)] * 12 + [(0, 0)] * 69


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Files of scores in the current folder."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{name},{i},{kind[k]}" for k, name in enumerate(("old", "new")) for i, kind in enumerate(TABLE)]
    (tmp_path / "answers.csv").write_text("\n".join(["alternative,id,score", *lines]))
    rng = np.random.default_rng(0)
    task = rng.normal(10, 1, size=50)
    for name, shift in (("old", 0.0), ("new", 0.3), ("bad", -1.0)):
        rows = [f"task {i},{task[i] + shift + rng.normal() * 0.5}" for i in range(50) for _ in range(4)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score", *rows]))


def test_a_table_of_220_answers(run):
    """By one command: unpaired p = 0.080, paired 0.008."""
    code, out = run("compare-scores", "answers.csv", "--baseline", "old")
    assert code == 0
    said = " ".join(out.split())
    assert "only new succeeded in 30 of 220 items, only old in 12" in said
    assert re.search(r"p = 0\.0079 \(without pairs p = 0\.081\)", said)


@pytest.mark.parametrize("safe", [[], ["--safe"]])
def test_fifty_tasks_of_four_trials(run, safe):
    code, out = run("compare-scores", "old=old.csv", "new=new.csv", *safe)
    assert code == 0
    assert "400 scores of 2 alternatives on 50 items, 4 trials of each" in " ".join(out.split())


def test_json(run):
    code, out = run("compare-scores", "old=old.csv", "bad=bad.csv", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["best"], found["units"], found["levels"]) == ("old", 50, ["id", "trial"])
    assert [row["alternative"] for row in found["alternatives"]] == ["old", "bad"]


def test_undecided_scores_have_exit_code_1(run):
    code, out = run("compare-scores", "old=old.csv", "again=old.csv")
    assert code == 1
    assert "undecided" in out or "equal" in out or "same" in out


def test_levels_and_a_page(run, tmp_path):
    rows = [f"{name},{s},{e},{s + e}" for name in "ab" for s in range(3) for e in range(4)]
    (tmp_path / "runs.csv").write_text("\n".join(["alternative,seed,episode,score", *rows]))
    levels = ["--levels", "seed", "episode", "--crossed", "episode", "--own", "seed"]
    code, out = run("compare-scores", "runs.csv", *levels, "--report", "page.html")
    assert code == 1
    assert "each with 3 seeds" in " ".join(out.split())
    assert "jmdp compare-scores runs.csv --levels seed episode" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("new", "options", "code", "word"),
    [
        ("new.csv", ["--margin", "1%"], 0, "passed"),
        ("bad.csv", ["--margin", "1%"], 1, "failed"),
        ("new.csv", ["--margin", "1%", "--running"], 3, "undecided"),  # fewer than 59 do not decide
        ("old.csv", ["--margin", "2%"], 0, "passed"),
        ("bad.csv", ["--margin", "10%"], 3, "undecided"),
        ("bad.csv", ["--margin", "10%", "--undecided", "fail"], 1, "undecided"),
        ("bad.csv", ["--margin", "5%", "--worse", "30%"], 0, "passed"),
        ("bad.csv", ["--margin", "1%", "--worse", "5%"], 1, "failed"),
    ],
)
def test_the_gate(run, new, options, code, word):
    found, out = run("gate", "--scores", "old.csv", new, *options)
    assert found == code, out
    assert out.startswith(word)


def test_the_gate_says_how_many_tasks_a_verdict_takes(run):
    _, out = run("gate", "--scores", "old.csv", "new.csv", "--margin", "1%", "--worse", "3%")
    wanted = r"about [\d.]+ items pass if nothing has changed; about [\d.]+ decide if the loss is exactly 1% or 3%"
    assert re.search(wanted, " ".join(out.split()))


def test_the_gate_as_json(run):
    _, out = run("gate", "--scores", "old.csv", "bad.csv", "--margin", "1%", "--json")
    found = json.loads(out)
    assert (found["verdict"], found["exit_code"]) == ("failed", 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare-scores"], ""),
        (["compare-scores", "old.csv"], "no column 'alternative'|All scores are of"),
        (["compare-scores", "old.csv", "pair=task"], "write --pair task"),
        (["compare-scores", "a=old.csv", "new.csv"], "with and without a name"),
        (["compare-scores", "missing.csv"], "There is no file"),
        (["gate", "--scores", "old.csv", "new.csv", "--margin", "3%", "--worse", "1%"], "Give more than --margin"),
    ],
)
def test_what_is_refused(run, arguments, message):
    code, said = run(*arguments)
    assert code == 2
    assert re.search(message, said)
