"""`jmdp gate`: every exit code, the report in three forms, and the GitHub Action, whose commands are run as written."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
import yaml
from cli_runs import run

import jmdp
from jmdp.cli.command import Exit
from jmdp.cli.main import main

INVENTORY = "jmdp gate world:inventory --old base_stock --new reorder"
WORSE = "jmdp gate world:inventory --old reorder --new 'order 0'"
ACTION = Path(__file__).parents[2] / ".github/actions/gate/action.yml"


def test_exit_codes(capsys):
    """0 not worse, 1 worse, 3 undecided and what it is mapped to, 2 an error."""
    passed = run(capsys, f"{INVENTORY} --margin 2%")
    assert passed.code == Exit.YES
    assert passed.out.startswith("passed: new is not worse than old by more than 2% (95% confidence, 100 paired")
    failed = run(capsys, f"{WORSE} --margin 5")
    assert failed.code == Exit.NO
    assert failed.out.startswith("failed: new is worse than old by more than 5")
    short = f"{INVENTORY} --margin 0.001% --max-samples 48"
    undecided = run(capsys, short)
    assert undecided.code == Exit.UNDECIDED == 3
    assert undecided.out.startswith("undecided whether new is worse than old by more than 0.001%")
    assert run(capsys, f"{short} --undecided fail").code == Exit.NO
    assert run(capsys, f"{short} --undecided pass").code == Exit.YES
    assert run(capsys, f"{INVENTORY} --margin two").code == Exit.ERROR
    early = run(capsys, f"{INVENTORY} --margin 2% --max-samples 8")
    assert early.code == Exit.UNDECIDED
    assert early.out.startswith("undecided: too few samples for an interval")
    assert run(capsys, f"{INVENTORY} --margin 2% --max-samples 8 --json").json["gap"]["low"] is None


@pytest.mark.long
def test_the_page_on_control_puts_its_policy_in_the_gate(capsys, tmp_path, monkeypatch):
    """A policy beside a shadow, in a file; the command as written."""
    page = (Path(__file__).parents[2] / "docs/control.md").read_text(encoding="utf-8")
    file, line, says = re.search(
        r"`restock\.py`:\n\n```python\n(.*?)```\n\n```bash\n(.*?)\n```\n\n```text\n(.*?)```", page, flags=re.DOTALL
    ).groups()
    (tmp_path / "restock.py").write_text(file, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = run(capsys, line.replace("\\\n", ""))
    assert (found.code, found.out.split()) == (Exit.YES, says.split())


def test_one_look(capsys):
    """--samples is one look at so many episodes: what it says, and the exit codes."""
    passed = run(capsys, f"{INVENTORY} --margin 5% --samples 200")
    said = " ".join(passed.out.split())
    assert passed.code == Exit.YES
    assert "one look: all requested samples are drawn" in said
    assert "; one look pairing" in said
    assert "Intervals hold for this number of episodes, chosen in advance" in said
    assert "loses more than" in said
    failed = run(capsys, f"{WORSE} --margin 5 --samples 200 --json")
    assert failed.code == Exit.NO
    assert failed.json["outcome"] == "SAMPLED"
    assert "stays within the margin by more than" in failed.json["answer"]
    undecided = run(capsys, f"{INVENTORY} --margin 0.001% --samples 48 --json")
    assert undecided.code == Exit.UNDECIDED
    assert not undecided.json["decided"]
    assert undecided.json["break_even"] is None


def test_an_interrupted_gate_has_its_own_code(capsys, monkeypatch):
    calls = []

    def examine(self, *arguments):
        calls.append(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("jmdp.statistics.selection.SelectionRule.reference", examine)
    assert run(capsys, f"{INVENTORY} --margin 2%").code == Exit.INTERRUPTED
    assert calls


def test_the_report_states_what_was_measured(capsys):
    found = run(capsys, f"{INVENTORY} --margin 2% --seed 3 --json").json
    assert found["verdict"] == "passed"
    assert found["margin"] == {"size": 0.02, "relative": True}
    assert found["gap"]["low"] < found["gap"]["value"] < found["gap"]["high"]
    assert found["change"]["low"] > -0.02
    assert found["excess"]["high"] < 0
    assert found["pairs"] == found["samples"] == 100
    assert found["pairing_gain"]["value"] > 10
    assert found["seed"] == 3
    assert 0 < found["smallest_loss_found"] < 10
    assert found["unseen"] == pytest.approx(1 - 0.01 ** (1 / found["pairs"]))
    assert found["break_even"] > 0
    assert "This reverses only if something that happens in fewer than 1 of" in found["answer"]
    assert found["decided"]
    assert found["policies"]["new"]["sha256"] == hashlib.sha256(b"reorder").hexdigest()


def test_text_and_markdown_have_the_same_rows(capsys, tmp_path):
    file = tmp_path / "summary.md"
    file.write_text("before\n", encoding="utf-8")
    found = run(capsys, f"{INVENTORY} --margin 2% --summary {file}")
    text, markdown = found.out, file.read_text(encoding="utf-8")
    assert markdown.startswith("before\n### jmdp gate passed: `world:inventory`\n")
    assert "loses more than" in text
    assert "loses more than" in markdown
    for title in ("gap", "margin", "means", "effort", "pairing", "power", "unseen", "old", "new"):
        assert any(line.startswith(f"{title} ") for line in text.splitlines())
        assert f"| {title} |" in markdown
    assert "base\\_stock" in markdown


def test_a_relative_margin_is_refused_near_zero(capsys):
    """Blackjack's mean is about −0.05 and varies by 1: 300 hands do not tell its sign."""
    line = "jmdp gate Blackjack-v1 --horizon 50 --old stick --new hit --max-samples 300 --margin"
    near = run(capsys, line.replace("--old stick --new hit", "--old 0 --new 0") + " 2%")
    assert near.code == Exit.UNDECIDED
    assert "not clearly away from 0, so 2% of it is not known. Give the margin" in " ".join(near.out.split())
    assert run(capsys, line.replace("--old stick --new hit", "--old 0 --new 0") + " 0.5").code == Exit.YES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--margin -1", "margin is '-1'"),
        ("--margin 100%", "less than 100%"),
        ("--margin nan", "largest loss to accept"),
        ("--margin 2% --precision 1", "precision"),
        ("--margin 2% --summary no/such/folder.md", "no/such/folder.md"),
    ],
)
def test_what_is_refused(capsys, options, said):
    found = run(capsys, f"{INVENTORY} {options}")
    assert found.code == Exit.ERROR
    assert said in found.err


def test_starts_are_paired_in_every_episode():
    """Two policies of different lengths of play: 200 of 200 hands of Blackjack start with the same cards.

    If only the first reset is seeded, as in the evaluation of stable-baselines3, later starts depend on how many cards
    the policy before drew.
    """

    class StickAt:
        """Policy that notes its first hand."""

        def __init__(self, total, starts):
            self.total, self.starts, self.first = total, starts, False

        def __deepcopy__(self, memo):
            return StickAt(self.total, self.starts)

        def reset(self):
            self.first = True

        def __call__(self, hand):
            if self.first:
                self.starts.append(hand)
            self.first = False
            return int(hand[0] < self.total)

    paired, seeded_once = ([], []), ([], [])
    rules = {str(total): StickAt(total, starts) for total, starts in zip((17, 15), paired, strict=True)}
    table = gymnasium.make("Blackjack-v1")
    jmdp.compare_policies(table, rules, seed=7, discount=1.0, horizon=50, samples=200, progress=False)
    assert len(paired[0]) >= 200
    assert paired[0] == paired[1]
    for total, starts in zip((17, 15), seeded_once, strict=True):
        for episode in range(200):
            hand, _ = table.reset(seed=7 if episode == 0 else None)
            starts.append(hand)
            over = False
            while not over:
                hand, _, over, _, _ = table.step(int(hand[0] < total))
    assert sum(a == b for a, b in zip(*seeded_once, strict=True)) < 20


JMDP = """#!/bin/sh
exec PYTHON -P -c 'import sys; from jmdp.cli.main import main; sys.exit(main())' "$@"
"""
ECHO = """#!/bin/sh
for word in "$@"; do echo "<$word>"; done
"""
NOTE = """#!/bin/sh
printf '%s\\0' "$@" > arguments
"""


def action_step(name):
    """The script of a step and the names of its variables."""
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    step = next(step for step in steps if step["name"] == name)
    assert step["shell"] == "bash"
    assert "${{" not in step["run"], "an expression in a script is pasted as code"
    return step["run"], set(step["env"])


def shell(script, folder, jmdp_script=JMDP, **variables):
    """Run a script as a composite action does: bash with -e and pipefail."""
    for name, text in (("jmdp", jmdp_script), ("python", ECHO)):
        (folder / name).write_text(text.replace("PYTHON", sys.executable), encoding="utf-8")
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    (folder / "step.sh").write_text(script, encoding="utf-8")
    source = str(Path(jmdp.__file__).parents[1])
    own = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": source} | variables
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "step.sh"]
    return subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, check=False)


INPUTS = {
    "GATE_ENV": "world:inventory",
    "GATE_OLD": "base_stock",
    "GATE_NEW": "reorder",
    "GATE_MARGIN": "2%",
    "GATE_MAX_SAMPLES": "1000",
    "GATE_MAX_SECONDS": "600",
    "GATE_SEED": "0",
    "GATE_UNDECIDED": "",
    "GATE_OPTIONS": "",
    "GATE_FORK": "",
}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ({}, 0, "passed"),
        ({"GATE_MAX_SAMPLES": "48", "GATE_UNDECIDED": "fail", "GATE_OPTIONS": "--confidence 0.999"}, 1, "failed by"),
        ({"GATE_NEW": "x; touch hacked $(touch hacked)"}, 2, "There is no policy"),
    ],
)
def test_the_action_as_written(given, code, said, tmp_path, capsys):
    """Its arguments are those of the command, which is run here; its exit code is tested below."""
    script, names = action_step("Gate")
    assert names == set(INPUTS)
    summary = tmp_path / "summary of the step.md"
    assert shell(script, tmp_path, NOTE, **(INPUTS | given), GITHUB_STEP_SUMMARY=str(summary)).returncode == 0
    assert main((tmp_path / "arguments").read_text().split("\0")[:-1]) == code
    found = capsys.readouterr()
    assert said in found.out + found.err
    assert (summary.exists() and f"jmdp gate {said}" in summary.read_text(encoding="utf-8")) == (code != 2)
    assert not (tmp_path / "hacked").exists()


def test_the_action_trusts_no_fork(tmp_path):
    """With --safe, a policy that runs code on loading is refused before it is loaded."""
    (tmp_path / "mine.py").write_text("open('ran', 'w').close()\ndef act(stock): return 0\n", encoding="utf-8")
    script, _ = action_step("Gate")
    given = INPUTS | {"GATE_NEW": "mine.py:act", "GATE_FORK": "true", "GITHUB_STEP_SUMMARY": "summary.md"}
    found = shell(script, tmp_path, **given)
    assert found.returncode == 2
    assert "--safe refuses mine.py:act" in found.stderr
    assert not (tmp_path / "ran").exists()


def test_the_action_installs_this_package(tmp_path):
    script, names = action_step("Install")
    assert names == {"PACKAGES"}
    given = {"PACKAGES": "gymnasium[box2d] minigrid", "GITHUB_ACTION_PATH": str(ACTION.parent)}
    words = shell(script, tmp_path, **given).stdout.split("\n")[:-1]
    assert words[:4] == ["<-m>", "<pip>", "<install>", "<--quiet>"]
    assert words[5:] == ["<gymnasium[box2d]>", "<minigrid>"]
    folder = words[4].strip("<>").removesuffix("[cli,gym,onnx]")
    assert (Path(folder) / "pyproject.toml").samefile(ACTION.parents[3] / "pyproject.toml")
