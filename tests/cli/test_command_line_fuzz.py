"""Random command lines, a sample of those that ``command_line_fuzz`` makes, and what it calls a fault."""

from __future__ import annotations

from importlib import import_module
from itertools import islice

import command_line_fuzz as fuzz
import pytest


def test_random_command_lines_end_as_documented():
    """150 of them, with a fixed seed; all commands are among them, and some run to the end."""
    lines = list(islice(fuzz.command_lines(7), 150))
    assert {*fuzz.COMMANDS} <= {line[0] for line in lines if line}
    with fuzz.folder():
        found = [fuzz.ended(line) for line in lines]
    assert {one.code for one in found} >= {0, 1, 2}
    faults = [(fuzz.shown(line), one.fault, one.said) for line, one in zip(lines, found, strict=True) if one.fault]
    assert faults == []


def wrong(*args):
    raise RuntimeError("a defect")


def escapes(*args):
    raise GeneratorExit


@pytest.mark.parametrize(
    ("name", "does", "fault"),
    [
        ("_run", wrong, "an error of Python"),
        ("_run", escapes, "escaped"),
        ("_run", lambda arguments: 7, "exit code 7"),
        ("_run", lambda arguments: 2, "without a message"),
        ("_run", lambda arguments: 0, "no JSON"),
        ("_fail", lambda text, code=2: print("Traceback") or 2, "traceback"),
    ],
)
def test_faults_are_noticed(name, does, fault, monkeypatch):
    monkeypatch.setattr(import_module("jmdp.cli.main"), name, does)
    found = fuzz.ended(["evaluate", "nosuch", "--json"])
    assert fault in found.fault
