"""Bars on a terminal: sweeps, the residual and the time left; nothing elsewhere (`test_contract`)."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import jmdp
from jmdp.base import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_shows_sweeps_residual_and_time_left(monkeypatch):
    monkeypatch.setattr(progress, "_FIRST_SHOWN_AFTER", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    world = jmdp.worlds.windy_gridworld(discount=0.99)
    jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.JIPE(tolerance=1e-9))
    shown = terminal.getvalue()
    assert re.search(r"JIPE: \d+ sweep \[.*residual \d\.\d\de-\d\d, \d\d:\d\d left", shown), shown[-300:]
    grid = jmdp.worlds.lazy_windy_gridworld(50, 50)
    jmdp.evaluate(
        grid.model, grid.policies["uniform"], jmdp.Local(), method=jmdp.ReachablePairs((25, 25), tolerance=0.1)
    )
    assert re.search(r"states explored: \d+it", terminal.getvalue())


def test_the_time_left_follows_the_residual(monkeypatch):
    """Six orders of magnitude in 3 s: two more take 1 s."""
    monkeypatch.setattr(progress, "_FIRST_SHOWN_AFTER", 0.0)
    clock = iter([0.0, 3.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.sweep_bar("Any", True) as report:
        report(1, 1.0, 1e-8)
        report(100, 1e-6, 1e-8)
    assert "00:01 left" in terminal.getvalue()


def test_a_line_without_a_status_has_no_empty_part(monkeypatch):
    """Where there is no terminal, lines say how much is done, the status if there is one, and the time left."""
    clock = iter([0.0, 118.0, 300.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    lines = io.StringIO()
    monkeypatch.setattr(sys, "stderr", lines)
    with progress.status_bar("review", True, 0, 31, unit="steps") as report:
        report(4, "")
        report(8, "old leads")
    assert lines.getvalue().splitlines() == [
        "review: 4 of at most 31 steps; at most 13:16 left",
        "review: 8 of at most 31 steps; old leads; at most 14:22 left",
    ]


def test_counting_that_ends_early_shows_no_time_left_and_warns_once(monkeypatch):
    clock = iter([0.0, 0.5, 70.0, 140.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    lines = io.StringIO()
    monkeypatch.setattr(sys, "stderr", lines)
    with progress.status_bar("compare", True, 0, 9000, ends_early=True) as report:
        report(32, "", "too few")
        report(64, "old leads", "too few")
        report(80, "", "too few")
    assert lines.getvalue().splitlines() == [
        "compare: too few",
        "compare: 64 of at most 9,000 samples; old leads",
        "compare: 80 of at most 9,000 samples",
    ]
    monkeypatch.undo()
    monkeypatch.setattr(progress, "_FIRST_SHOWN_AFTER", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.status_bar("compare", True, 0, 9000, ends_early=True) as report:
        report(64, "old leads", "too few")
    assert "compare: too few\n" in terminal.getvalue()
    assert re.search(r"compare: 64\S* of at most 9\.00k \[\d\d:\d\d, .*old leads\]", terminal.getvalue())
