"""Failures on the command line: one line that says what is wrong and where, and exit code 2."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import SHOP, run

from jmdp.cli.main import main

RAISING = """
def late(observation, calls=[]):
    calls.append(observation)
    if len(calls) > 5:
        raise ZeroDivisionError("of\\nthe user")
    return 0

class Shop:
    actions = 2

    def step(self, action):
        raise KeyError("closed")

class Walk:
    actions = ["stay", "go"]

    def __init__(self):
        self.at = 0

    def step(self, action):
        self.at += action
        return self.at, float(action), self.at > 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("raising_file.py").write_text(RAISING)
    return tmp_path


def message(found):
    """The one line of an error; the notice that code is loaded is another."""
    assert (found.code, found.out) == (2, "")
    (line,) = [line for line in found.err.splitlines() if "--safe refuses this" not in line]
    assert line.startswith("jmdp: ")
    return line


@pytest.mark.parametrize("env", [":x", "x:", ":", "..:a", "a..b:c", ".a:b", "raising_file.py:", "raising_file.py:a..b"])
@pytest.mark.parametrize("command", ["check", "compare"])
def test_what_names_no_object(command, env, capsys, here):
    said = message(run(capsys, f"jmdp {command} {env}"))
    assert said == f"jmdp: '{env}' does not name an object. Give package.module:name or file.py:name."


@pytest.mark.parametrize("pool", ["", " --pool 1"])
@pytest.mark.parametrize("env", ["world:inventory", "CartPole-v1"])
def test_gate_names_the_policy_that_raises_its_file_and_the_step(env, pool, capsys, here):
    said = message(run(capsys, f"jmdp gate {env} --old uniform --new raising_file.py:late --margin 5{pool}"))
    assert said.startswith(f"jmdp: ZeroDivisionError: of the user (in late, {here}/raising_file.py, line 5; ")
    if env.startswith("world"):  # a table: the function is called for every state before any episode
        assert said.endswith("Raised by the policy for the state 5.; The policy is 'new' (function late).)")
    else:
        assert said.endswith("raised by the policy, 'new' (function late), called before step 1 of an episode)")


def test_an_error_of_a_simulator_is_one_line(capsys, here):
    said = message(run(capsys, "jmdp compare raising_file.py:Shop --discount 0.9"))
    assert f"{here}/raising_file.py, line 12" in said
    assert "closed" in said


def test_help_and_practice_of_ordinary_classes(capsys, here):
    assert "an ordinary class with actions and step(action)" in " ".join(
        run(capsys, "jmdp compare --help").out.replace("│", " ").split()
    )
    found = run(capsys, "jmdp compare raising_file.py:Walk --discount 0.5 --max-samples 64")
    assert found.code in (0, 1)
    assert "go" in found.out


def test_a_function_that_needs_arguments_is_no_environment(capsys, here):
    said = message(run(capsys, "jmdp compare raising_file.py:late --discount 0.9"))
    assert "raising_file.py:late' cannot be called without arguments" in said


@pytest.mark.parametrize("env", ["FrozenLake-v1", "ale:pong", "gymnax:CartPole-v1", "shop.py:simulator"])
def test_evaluate_suggests_compare_for_simulators(env, capsys):
    assert f"use: jmdp compare {env} --discount 0.99" in message(run(capsys, f"jmdp evaluate {env}"))


def test_evaluate_suggests_the_name_of_a_world(capsys):
    assert message(run(capsys, "jmdp evaluate world:inventory")) == "jmdp: Give inventory without world:."


@pytest.mark.parametrize(
    "line",
    [
        "jmdp compare world:inventory --policy base_stock",
        "jmdp compare-policies world:inventory --policies base_stock reorder",
        "jmdp gate world:inventory --old base_stock --new reorder --margin 5%",
    ],
)
def test_an_unused_net_is_refused(line, capsys):
    assert "--net is 'net.py:Net', but no policy is a file of weights" in message(
        run(capsys, f"{line} --net net.py:Net")
    )


UNDECIDED = (
    "jmdp gate world:inventory --old base_stock --new base_stock --margin 0 --max-samples 64 --coupling independent"
)


@pytest.mark.parametrize(
    ("option", "code", "begin"),
    [
        ("", 3, "undecided whether"),
        (" --undecided pass", 0, "passed by --undecided pass: undecided whether"),
        (" --undecided fail", 1, "failed by --undecided fail: undecided whether"),
    ],
)
def test_text_json_and_summary_of_gate_agree_with_the_exit_code(option, code, begin, capsys, tmp_path):
    summary = tmp_path / "summary.md"
    found = run(capsys, f"{UNDECIDED}{option} --summary {summary}")
    assert found.code == code
    assert found.out.startswith(begin)
    assert summary.read_text().startswith(f"### jmdp gate {begin.split(' whether')[0].split(':')[0]}")
    again = run(capsys, f"{UNDECIDED}{option} --json")
    assert (again.code, again.json["exit_code"], again.json["verdict"]) == (code, code, "undecided")


def test_gate_reports_exit_codes_of_decided_comparisons(capsys):
    line = "jmdp gate world:inventory --margin 5% --json --old base_stock --new"
    passed, failed = run(capsys, f"{line} base_stock"), run(capsys, f"{line} uniform")
    assert [(one.code, one.json["exit_code"], one.json["verdict"]) for one in (passed, failed)] == [
        (0, 0, "passed"),
        (1, 1, "failed"),
    ]


@pytest.mark.parametrize("argument", ["\0", "a\0b", "\udcff", "\ud800x"])
def test_arguments_that_are_no_text_are_refused(argument, capsys):
    for line in (["evaluate", "inventory", "--policy", argument], [argument], ["check", argument]):
        assert main(line) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"jmdp: The argument {argument!r} is not valid text.")
        assert said.err.count("\n") == 1


@pytest.mark.parametrize("number", ["9" * 5_000, "1e400", "nan", "-inf", "9" * 400])
@pytest.mark.parametrize(
    "line",
    [
        "jmdp compare FrozenLake-v1 --discount 0.9 --state",
        "jmdp compare world:inventory --state",
        "jmdp compare world:inventory --policy",
        "jmdp compare world:inventory --max-seconds",
        "jmdp gate world:inventory --old base_stock --new reorder --margin",
        "jmdp evaluate inventory --tolerance",
        "jmdp evaluate inventory --capacity",
        "jmdp check FrozenLake-v1 --seed",
    ],
)
def test_numbers_beyond_all_bounds_are_refused(line, number, capsys):
    found = run(capsys, f"{line}={number}" if line.endswith(("margin", "state", "policy")) else f"{line} {number}")
    assert (found.code, found.out) == (2, "")
    assert 0 < len(found.err) < 4_000
    assert "Traceback" not in found.err


# Outputs.


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--plot missing/x.png", "--plot missing/x.png cannot be written: No such file or directory."),
        ("--plot folder.png", "--plot folder.png cannot be written: Is a directory."),
        ("--plot x.gif", "--plot is 'x.gif'. Give a file that ends in .png, .svg or .pdf."),
        ("--plot pipe.png", "--plot pipe.png cannot be written: not a regular file."),
    ],
)
def test_a_figure_that_cannot_be_written_is_refused_before_the_run(option, says, capsys, here, monkeypatch):
    Path("folder.png").mkdir()
    os.mkfifo("pipe.png")
    monkeypatch.setattr("jmdp.cli.commands.compare_policies.compare_policies", lambda *_: pytest.fail("it has begun"))
    assert says in message(run(capsys, f"jmdp compare-policies world:inventory --policies uniform reorder {option}"))
    assert stat.S_ISFIFO(os.stat("pipe.png").st_mode)


@pytest.mark.parametrize("path", ["missing/x.md", "folder"])
def test_a_summary_that_cannot_be_written_is_refused_before_the_run(path, capsys, here, monkeypatch):
    Path("folder").mkdir()
    monkeypatch.setattr("jmdp.cli.commands.gate.compare_policies", lambda *_: pytest.fail("it has begun"))
    line = f"jmdp gate world:inventory --old uniform --new reorder --margin 5 --summary {path}"
    assert f"--summary {path} cannot be written: " in message(run(capsys, line))


LIMITED = """
import contextlib, os, resource, signal, sys
from pathlib import Path
from jmdp.cli import main

with contextlib.redirect_stdout(sys.stderr):  # compile first: numba saves what it compiled
    main(sys.argv[1:])
for name in ("run.npz", "s.md", "x.svg"):
    Path(name).unlink(missing_ok=True)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("line", "says", "unbuffered"),
    [
        ("evaluate inventory", "standard output: File too large", ""),
        ("evaluate inventory --json", "standard output: File too large", "1"),
        ("--help", "File too large", ""),
        ("evaluate inventory --method incremental --updates 1000 --path run.npz", "run.npz cannot be saved", ""),
        ("gate world:inventory --old uniform --new uniform --margin 5 --summary s.md", "--summary s.md cannot", ""),
        ("compare-policies world:inventory --policies uniform reorder --plot x.svg", "--plot x.svg cannot", ""),
    ],
)
def test_a_full_disk_is_told_in_one_line(line, says, unbuffered, here, server):
    """The size of files is limited in a child, and its output is such a file: it fails as a full disk does."""
    with open("out.txt", "w") as out:
        found = server.start(line.split(), code=LIMITED, stdout=out.fileno(), PYTHONUNBUFFERED=unbuffered)
        _, err = found.communicate()
    assert found.returncode == 2
    (said,) = [text for text in err.splitlines() if text.startswith("jmdp: ")]
    assert says in said
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["evaluate inventory", "--help", "--version", "check --help"])
def test_a_reader_that_leaves_is_no_error_to_print(line, unbuffered, server):
    gone = server.start(line.split(), PYTHONUNBUFFERED=unbuffered)
    gone.stdout.close()
    assert gone.communicate() == ("", "")
    assert gone.returncode == 0


BAD = """
import sys

class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

def unreadable(observation):
    raise Unreadable

def pipe(observation):
    raise BrokenPipeError("of the user")

def closing(observation):
    sys.stdout.close()
    raise KeyError("closed")
"""


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("unreadable", "Unreadable: its text cannot be read (in unreadable, "),
        ("pipe", "BrokenPipeError: of the user (in pipe, "),
        ("closing", None),
    ],
)
def test_what_user_code_does_to_errors_and_streams(policy, says, here, server):
    Path("bad.py").write_text(BAD)
    line = f"compare-policies world:inventory --policies base_stock bad.py:{policy} --max-samples 4 --quiet"
    found = server.start(line.split())
    _, err = found.communicate()
    assert found.returncode == 2
    assert "Traceback" not in err
    assert says is None or says in err


def test_a_file_with_a_syntax_error(capsys, here):
    Path("wrong_file.py").write_text("x = 1\ndef f(:\n")
    assert "SyntaxError: " in (said := message(run(capsys, "jmdp check wrong_file.py:x")))
    assert said.endswith("wrong_file.py, line 2)")


def test_a_closed_output_is_told():
    line = f"{sys.executable} -m jmdp evaluate inventory >&-"
    found = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert (found.returncode, found.stderr) == (
        2,
        "jmdp: standard output is closed. Send it to a file, or to /dev/null.\n",
    )


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_an_output_that_lacks_characters_gets_others(option, server):
    found = server.start(["evaluate", "inventory", "--state", "3", *option], PYTHONIOENCODING="ascii")
    out, _ = found.communicate()
    assert found.returncode == 0
    assert out.isascii()
    if option:
        assert json.loads(out)["policy"]


def test_shop_is_read_from_the_current_folder(capsys, here):
    """Negative control of the names above: a right one runs."""
    Path("shop_here.py").write_text(SHOP)
    found = run(capsys, "jmdp compare shop_here.py:simulator --discount 0.9 --policy shop_here.py:policy")
    assert found.code == 0
