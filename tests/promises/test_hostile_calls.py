"""P23: bad input gives only typed errors, or right answers. Public entries are called with hostile arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hostile import fuzz
from hostile.entries import Entry
from jmdp.errors import SettingsError

HOSTILE = Path(__file__).parents[1] / "hostile"


@pytest.mark.parametrize("calls", [None, pytest.param(30_000, marks=pytest.mark.long)])
def test_p23_hostile_calls_raise_typed_errors_or_are_right(calls):
    """By default each entry is called once."""
    count = [] if calls is None else ["--calls", str(calls)]
    ran = subprocess.run(  # in its own process, because the address space is limited
        [sys.executable, str(HOSTILE), *count], capture_output=True, text=True, timeout=7000, check=False
    )
    print(ran.stdout.strip().rpartition("\n")[2])
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]


def number(rng: np.random.Generator) -> dict[str, float]:
    """One valid argument."""
    return {"x": 0.5}


def checked(x: object) -> float:
    """An entry without defects."""
    if isinstance(x, (bool, str)) or not isinstance(x, (int, float)) or not abs(x) < 1e9:
        raise SettingsError(f"x is a {type(x).__name__}. Give a small number.")
    return float(x)


def raw(x: object) -> float:
    """A planted defect: text raises TypeError."""
    return x - 0.5 if isinstance(x, str) else checked(x)  # type: ignore[operator]


def wrong(x: object) -> float:
    """A planted defect: another answer for numbers of another type."""
    return checked(float(x)) + (type(x) is not float) if isinstance(x, (float, np.floating)) else checked(x)


def endless(x: object) -> float:
    """A planted defect: a loop that does not end for integers."""
    while isinstance(x, int):
        pass
    return checked(x)


@pytest.mark.parametrize(
    ("call", "said"),
    [(raw, "TypeError"), (wrong, "another answer"), (endless, "not finished")],
    ids=["raw error", "wrong answer", "endless loop"],
)
def test_power_planted_defects_are_found(call, said, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", 0.05)
    _, findings = fuzz.fuzz([Entry("planted", call, number, answer=float)], 0, range(60))
    assert any(said in finding.what for finding in findings), findings


def test_power_an_entry_without_defects_has_no_findings():
    happened, findings = fuzz.fuzz([Entry("checked", checked, number, answer=float)], 0, range(200))
    assert findings == []
    assert happened["accepted"] > 0
    assert happened["refused"] > 0
