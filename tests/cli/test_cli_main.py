"""The command line as a whole: help, examples, exit codes, and what goes where."""

from __future__ import annotations

import itertools
import json
import math
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_runs import SHOP, command, empty_model, run

import jmdp
from jmdp.base.interval import Estimate
from jmdp.base.labels import Labels
from jmdp.cli.command import plain, print_json
from jmdp.cli.loading import label_of
from jmdp.cli.main import _EXAMPLES, COMMANDS, parsed


def fewer(line: str) -> str:
    """The line with fewer episodes."""
    return line.replace("--episodes 100", "--episodes 10")


ALL = list(dict.fromkeys([line for name in COMMANDS for line in command(name).examples] + [*_EXAMPLES]))


def write_scores():
    """Tables of scores of two alternatives, of which the new one is better."""
    runs = itertools.product(("old", "new"), range(3), range(20))
    rows = [(name, s, e, (name == "new") * (1 + e % 2) + 0.1 * ((s + 2 * e) % 3)) for name, s, e in runs]

    def write(file, head, rows):
        Path(file).write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]))

    write("runs.csv", "alternative,seed,episode,score", rows)
    write("scores.csv", "alternative,id,score", [(name, e, score) for name, s, e, score in rows if s == 0])
    for file in ("old.csv", "new.csv", "old.eval", "new.eval"):
        write(file, "id,score", [(e, score) for name, s, e, score in rows if s == 0 and file.startswith(name)])


@pytest.mark.parametrize(
    "line", [*map(fewer, ALL), *(pytest.param(line, marks=pytest.mark.long) for line in ALL if fewer(line) != line)]
)
def test_examples_run_as_printed(line, capsys, tmp_path, monkeypatch):
    """Each decides, converges or finds no fault; those that take minutes are parsed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("shop.py").write_text(SHOP)
    windy = 'env = "world:windy_gridworld"\npolicy = "uniform"\nstates = "all"\nmax_samples = 64\n'
    Path("windy.toml").write_text(windy)
    write_scores()
    _, name, *arguments = shlex.split(line)
    if {"--status", "--verify"} & set(arguments):
        assert run(capsys, "jmdp study windy.toml --out windy --quiet").code == 0
    if "all" in arguments:
        assert isinstance(parsed(command(name), f"jmdp {name}", arguments), command(name))
        return
    found = run(capsys, line)
    expected = r"jmdp: loading shop\.py:|[\w-]+: [\d,]+ of "  # the latter is the progress of what takes a minute
    noted = [said for said in found.err.splitlines() if not re.match(expected, said)]
    assert (found.code, noted) == (0, [])
    assert found.json if "--json" in line else found.out


@pytest.mark.parametrize("name", [*COMMANDS])
def test_help_ends_with_examples(name, capsys):
    found = run(capsys, f"jmdp {name} --help")
    assert found.code == 0
    assert found.err == ""
    text, _, examples = found.out.partition("\nexamples\n")
    assert "--json" in text
    assert all(noise not in text for noise in ("--no-json", "{None}"))
    assert text.startswith(f"usage: jmdp {name}")
    lines = [line.strip() for line in examples.splitlines()]
    assert lines[::2] == list(command(name).examples)
    assert 2 <= len(lines[::2]) <= 4


def test_help_of_all_lists_commands_and_examples(capsys):
    found = run(capsys, "jmdp --help")
    assert found.code == 0
    for word in [*COMMANDS, *_EXAMPLES]:
        assert word in found.out
    assert found.out == run(capsys, "jmdp -h").out


def test_nothing_is_an_error_that_helps(capsys):
    found = run(capsys, "jmdp")
    assert (found.code, found.out) == (2, "")
    assert found.err == run(capsys, "jmdp --help").out


def test_version(capsys):
    found = run(capsys, "jmdp --version")
    assert (found.code, found.out) == (0, f"jmdp {jmdp.__version__}\n")


def test_versions_for_a_bug_report(capsys, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = run(capsys, "jmdp --version --verbose")
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in found.out.splitlines())
    assert (found.code, rows["jmdp"], rows["Python"].split()[0]) == (0, jmdp.__version__, platform.python_version())
    assert rows["numpy"] == np.__version__
    assert "OMP_NUM_THREADS=3" in rows["threads"]
    assert {"system", "cores", "free memory", "scipy", "numba", "not installed"} <= rows.keys()
    assert not {"pytest", "sphinx", "jmdp[jax]"} & rows.keys()
    assert not re.search(rf"\b{re.escape(platform.node())}\b", found.out)
    assert run(capsys, "jmdp --version --verbos").code == 2


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("jmdp evalute", "no command 'evalute'. Did you mean 'evaluate'?"),
        ("jmdp evaluate inventry", "no world 'inventry'. Did you mean 'inventory'?"),
        ("jmdp evaluate inventory --capcity 3", "--capacity"),
        ("jmdp evaluate inventory --capacity 0", "capacity is 0. Give a whole number"),
        ("jmdp evaluate inventory --tolerance -1", "tolerance is -1.0"),
        ("jmdp evaluate inventory --method exact-lw", "exact-distribution"),
        ("jmdp evaluate inventory --policy base_stok", "Did you mean 'base_stock'?"),
        ("jmdp evaluate inventory --state 11", "no state 11: states are 0, 1, 2"),
        ("jmdp evaluate inventory --actions 'ordr 3'", "Did you mean 'order 3'?"),
        (
            "jmdp evaluate inventory --actions 0 'order 0'",
            "--actions is ['order 0', 'order 0']. Give each action once.",
        ),
        ("jmdp evaluate inventory --method reachable-pairs", "--state"),
        ("jmdp evaluate", "inventory"),
        ("jmdp compare world:inventry", "Did you mean 'inventory'?"),
        ("jmdp compare inventory", "world:inventory"),
        ("jmdp compare FrozenLke-v1", "Did you mean: `FrozenLake`?"),
        ("jmdp compare ale:pomg", "Did you mean 'pong'?"),
        ("jmdp compare FrozenLake-v1", "--discount"),
        ("jmdp compare FrozenLake-v1 --discount 0.9 --policy lft", "Did you mean 'left'?"),
        ("jmdp compare FrozenLake-v1 --discount 0.9 --actions lft up", "Did you mean 'left'?"),
        ("jmdp compare FrozenLake-v1 --discount 0.9 --state 16", "from 0 to 15"),
        ("jmdp compare CartPole-v1 --discount 0.9 --state 1", "--after"),
        (f"jmdp compare CartPole-v1 --discount 0.9 --after{12 * ' left'}", "The episode ended after action"),
        ("jmdp compare nowhere:thing", "no module 'nowhere'"),
        ("jmdp compare nowhere.py:thing", "no file 'nowhere.py'"),
        ("jmdp compare jmdp.worlds:inventry", "Did you mean 'inventory'?"),
        ("jmdp check world:x", "no world 'x'"),
    ],
    ids=lambda value: value if value.startswith("jmdp") else "",
)
def test_what_is_wrong_is_told_on_stderr(line, says, capsys):
    found = run(capsys, line)
    assert (found.code, found.out) == (2, "")
    assert says in " ".join(found.err.replace("│", " ").split())
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("package", "line", "says"),
    [
        ("tyro", "jmdp evaluate inventory", 'pip install "jmdp[cli]"'),
        ("gymnasium", "jmdp compare FrozenLake-v1 --discount 0.9", 'pip install "jmdp[gym]"'),
        ("ale_py", "jmdp compare ale:pong --discount 0.9", 'pip install "jmdp[atari]"'),
        (
            "stable_baselines3",
            "jmdp compare world:inventory --policy PPO:model.zip",
            "pip install stable-baselines3",
        ),
    ],
    ids=["tyro", "gymnasium", "ale_py", "stable_baselines3"],
)
def test_what_is_not_installed_comes_with_its_command(package, line, says, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    empty_model("model.zip")
    monkeypatch.setitem(sys.modules, package, None)
    found = run(capsys, line)
    assert found.code == 2
    assert says in found.err


def test_interrupt_is_130(capsys, monkeypatch):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("jmdp.cli.commands.evaluate.evaluate", interrupted)
    found = run(capsys, "jmdp evaluate inventory")
    assert (found.code, found.out, found.err) == (130, "", "jmdp: interrupted\n")


def test_a_defect_is_not_a_no(capsys, monkeypatch):
    """Python's exit code for an exception is 1, which a script would take for an answer."""
    monkeypatch.setattr("jmdp.cli.commands.evaluate.evaluate", lambda *args, **settings: 1 / 0)
    found = run(capsys, "jmdp evaluate inventory")
    assert found.code == 2
    assert "ZeroDivisionError" in found.err


@pytest.mark.parametrize("code", ["0", "", "'enough'"])
def test_a_file_that_ends_python_is_no_answer(code, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "ends_python.py").write_text(f"import sys\n\nsys.exit({code})\n")
    found = run(capsys, f"jmdp compare {tmp_path}/ends_python.py:simulator --discount 0.9")
    assert (found.code, found.out) == (2, "")
    notice, error = found.err.splitlines()
    assert notice.startswith("jmdp: loading ")
    assert error.startswith("jmdp: user code exited before the command had finished: SystemExit(")


def test_a_file_that_cannot_be_used_is_told_without_a_traceback(capsys, monkeypatch):
    monkeypatch.setattr("jmdp.cli.commands.evaluate.evaluate", lambda *args, **settings: Path("nowhere/x").read_text())
    found = run(capsys, "jmdp evaluate inventory")
    assert (found.code, found.out, found.err) == (2, "", "jmdp: nowhere/x: No such file or directory\n")


def test_json_has_no_number_that_is_not_finite(capsys):
    print_json({"x": Estimate(math.nan, -math.inf, 1.0), "y": np.array([1.0, np.inf]), "z": (True, None, np.int64(3))})
    expected = {"x": {"value": None, "low": None, "high": 1.0}, "y": [1.0, None], "z": [True, None, 3]}
    assert json.loads(capsys.readouterr().out) == expected
    with pytest.raises(TypeError, match="object"):
        plain(object())


def test_names_go_before_numbers():
    labels = Labels.of("state", 3, ["2", "1", "x"])
    assert [labels.index(label_of(labels, text)) for text in ("2", "1", "0", "x")] == [0, 1, 0, 2]


def test_installed_script():
    script = Path(sys.executable).with_name("jmdp")
    found = json.loads(subprocess.check_output([script, "evaluate", "anti_correlated_bandit", "--json"]))
    assert found["world"] == {"name": "anti_correlated_bandit", "discount": 0.9}


def test_a_command_loads_only_what_it_needs():
    code = (
        "import sys\nfrom jmdp.cli import main\nmain(['evaluate', 'anti_correlated_bandit', '--quiet'])\n"
        "print([name for name in ('jax', 'matplotlib', 'gymnasium', 'torch', 'pandas') if name in sys.modules])"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said.splitlines()[-1] == "[]"


PRESSED = """
import atexit, signal, sys

where = sys.argv.pop(1)

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == where:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Pressing())
if where == "exit":
    atexit.register(signal.raise_signal, signal.SIGINT)
from jmdp_command import main
sys.exit(main())
"""


@pytest.mark.parametrize("where", ["jmdp", "numpy", "jmdp.cli.main", "tyro", "jmdp.cli.commands.evaluate", "exit"])
def test_ctrl_c_at_any_moment_is_one_line_and_130(where):
    """While a module is found, and when the command has ended."""
    command = [sys.executable, "-c", PRESSED, where, "evaluate", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (130, "jmdp: interrupted\n")
