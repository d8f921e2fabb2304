"""Every hostile file is refused with a typed error, in little memory and in time, and nothing in it is run."""

from __future__ import annotations

import sys

import hostile_files
import mutants
import pytest
from loader_process import MIB, Loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")


def test_hostile_files(tmp_path, monkeypatch):
    """Only errors of jmdp, at most 64 MiB above the budget, at most 10 s; each message names the file."""
    canary = tmp_path / "canary"
    monkeypatch.setenv(hostile_files.CANARY, str(canary))
    with Loader() as loader:
        assert loader.accepted("hostile", hostile_files.FILES, tmp_path / "model") == {}
    assert not canary.exists()
    assert len(hostile_files.FILES) >= 45


def test_the_canary_would_sing(tmp_path, monkeypatch):
    import pickle

    monkeypatch.setenv(hostile_files.CANARY, str(tmp_path / "canary"))
    pickle.loads(hostile_files.hostile_zips.plain_pickle())
    assert (tmp_path / "canary").exists()


def test_mutants():
    """1,000 damaged files of all formats; ``python tests/files/mutants.py`` runs more."""
    counts, failures = mutants.run(mutants.alternating(1000), seed=0)
    assert failures == []
    for kind in mutants.FORMATS:
        assert counts[kind, "error"] > 0.5 * sum(count for (of, _), count in counts.items() if of == kind)


@pytest.mark.long
def test_many_mutants():
    assert mutants.run(mutants.alternating(25_000), seed=1)[1] == []


def test_these_tests_can_fail(tmp_path):
    """Exceptions of other types, unplanned memory, crashes and hangs are seen."""
    path = tmp_path / "any"
    with Loader() as loader:
        assert loader.load("large", path)["peak"] > loader.budget + 64 * MIB
        for kind, wanted in (("raises", "other"), ("allocates", "other"), ("crashes", "crash"), ("hangs", "hang")):
            assert loader.load(kind, path, limit=2)["outcome"] == wanted
