"""Every hostile file is refused with a typed error, in little memory and in time, and nothing in it is run."""

from __future__ import annotations

import sys

import hostile_files
import mutants
import pytest
from loader_process import MIB

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")


def test_hostile_files(tmp_path, loader):
    """Only errors of jmdp, at most 64 MiB above the budget, at most 10 s; each message names the file."""
    assert loader.accepted("hostile", hostile_files.FILES, tmp_path / "model") == {}
    assert not loader.canary.exists()
    assert len(hostile_files.FILES) >= 45


def test_the_canary_would_sing(tmp_path, monkeypatch):
    import pickle

    monkeypatch.setenv(hostile_files.CANARY, str(tmp_path / "canary"))
    pickle.loads(hostile_files.hostile_zips.plain_pickle())
    assert (tmp_path / "canary").exists()


RARE = [("npz", 44), ("npz", 78), ("npz", 174)]
"""The only ones among 1,000, by format and number, by which NumPy, a model or zlib raises an error of its own."""


@pytest.mark.parametrize(
    ("which", "seed"),
    [
        (mutants.alternating(152) + RARE, 0),
        pytest.param(mutants.alternating(1_000), 2, marks=pytest.mark.long),
        pytest.param(mutants.alternating(25_000), 1, marks=pytest.mark.long),
    ],
    ids=lambda value: f"{len(value)} mutants" if isinstance(value, list) else f"seed {value}",
)
def test_mutants(which, seed, loader):
    """Damaged files of all formats, by every mutation, of every kind of result, and with every error of a reader."""
    counts, failures = mutants.run(which, seed, loader)
    assert failures == []
    for kind in mutants.FORMATS:
        assert counts[kind, "error"] > 0.5 * sum(found for (of, _), found in counts.items() if of == kind)


def test_these_tests_can_fail(tmp_path, loader):
    """Exceptions of other types, unplanned memory, crashes and hangs are seen."""
    path = tmp_path / "any"
    assert loader.load("large", path)["peak"] > loader.budget + 64 * MIB
    for kind, wanted in (("raises", "other"), ("allocates", "other"), ("crashes", "crash"), ("hangs", "hang")):
        assert loader.load(kind, path, limit=2)["outcome"] == wanted
