"""P10: a run that is killed and resumed gives the same bits; P12: a run refuses what it cannot go on from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import jmdp
from jmdp.base import whole_files
from jmdp.errors import CheckpointError, SettingsError
from jmdp.methods.incremental import (
    BlockSampling,
    ConstantSteps,
    CoordinateSampling,
    TrajectorySampling,
    UniformSampling,
    incremental,
    stochastic_approximation,
)

WORKER = Path(__file__).with_name("resume_worker.py")
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""A process that is killed leaves what it wrote, on a disk in memory too; that one is fast."""

WORLD = jmdp.worlds.windy_gridworld(2, 3, discount=0.8)
POLICY = WORLD.policies["careless"]
LOCAL = jmdp.Local()
METHOD = jmdp.Incremental(seed=6, updates=20_000, steps=ConstantSteps(0.1))
WALKS = replace(METHOD, sampling=TrajectorySampling())


def run(method, path=None, model=WORLD.model, policy=POLICY, coupling=LOCAL, **settings):
    return jmdp.evaluate(model, policy, coupling, replace(method, path=path, **settings), throw=False)


def numbers(result):
    return [result.mean, result.covariance, result.certificate.covariance_error, result.learning.rms]


def same(one, other):
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(numbers(one), numbers(other), strict=True))


def worker(*arguments):
    """The figures that the worker prints."""
    env = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }  # it forks, so it may have one thread only
    out = subprocess.run(
        [sys.executable, "-W", "error", WORKER, *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    print(out.stdout)
    return [json.loads(line) for line in out.stdout.splitlines()]


def check_random(figures, kills):
    assert len(figures) == 4
    for case in figures:
        assert case["kills"] == kills, case
        assert case["equal"], case
        assert case["finished"] >= 1, case
        assert case["left"] == ["run.npz"], case
        assert case["outcome"] == ("CONVERGED" if "early" in case["case"] else "SAMPLED"), case
    assert sum(case["positions"] for case in figures) > 2 * kills
    assert sum(case["in a save"] for case in figures) > 0


def check_every(figures, points):
    assert figures["points"] >= points
    assert figures["wrong"] == []
    assert figures["left"] == ["run.npz", "run.old"]  # no file of a killed run stays behind
    assert figures["calls"].keys() == {"unlink", "write", "fsync", "replace"}
    assert figures["last"] == [
        "fsync",
        "replace",
        "fsync",
    ]  # the file, its name, the directory: a power cut asks for all
    assert figures["old"] + figures["new"] == figures["points"]
    assert figures["new"] == 2 * 3  # after the rename, and before and after the directory is flushed
    assert figures["part"] == figures["points"] - figures["new"] - 4  # before the file is made, there is none


def test_p10_killed_at_random_and_resumed_it_gives_the_same_bits():
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        check_random(worker("random", directory, 3), 3)


@pytest.mark.long
def test_p10_fifty_random_kills_of_each_kind_of_run(tmp_path):
    check_random(worker("random", tmp_path, 50), 50)


def test_p10_killed_within_a_save_it_gives_the_same_bits():
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        check_every(worker("every", directory, 32)[0], 28)


@pytest.mark.long
def test_p10_killed_at_every_call_of_a_save(tmp_path):
    check_every(worker("every", tmp_path, 1)[0], 400)


@pytest.fixture
def halfway(tmp_path, monkeypatch):
    """The checkpoint of half a run, and nothing patched any more."""

    def make(method, **others):
        path = tmp_path / "run.npz"

        def half(*settings, **others):
            segments = list(stochastic_approximation.segments(*settings, **others))
            return segments[: len(segments) // 2]

        monkeypatch.setattr(incremental, "segments", half)
        run(method, path, **others)
        monkeypatch.undo()
        return path

    return make


def saved(path):
    with np.load(path) as archive:
        return {name: archive[name] for name in archive.files if name != "digest"}


@pytest.mark.parametrize("method", [METHOD, WALKS, replace(METHOD, centred=False)], ids=["blocks", "walks", "raw"])
def test_half_a_run_goes_on(method, halfway):
    path = halfway(method)
    assert 0 < saved(path)["done"][1] < method.updates
    assert same(run(method, path), run(method))


def test_without_its_walkers_it_would_not_be_the_same(halfway):
    """Negative control: what is left out of a checkpoint shows."""
    path = halfway(WALKS)
    arrays = saved(path)
    arrays["memory"][...] = -1
    whole_files.save(path, arrays)
    assert not same(run(WALKS, path), run(WALKS))


def test_a_run_that_is_over_comes_back_at_once(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    first = run(METHOD, path)
    monkeypatch.setattr(
        stochastic_approximation.StochasticApproximation, "advance", lambda *_: pytest.fail("work is done again")
    )
    again = run(METHOD, path)
    assert same(first, again)
    assert again.outcome is first.outcome
    assert again.certificate is not None


@pytest.mark.parametrize("tolerance", [0.3, 1e-9])
def test_a_run_with_a_tolerance_that_is_over_comes_back_at_once(tmp_path, monkeypatch, tolerance):
    path = tmp_path / "run.npz"
    first = run(METHOD, path, tolerance=tolerance, updates=400_000)
    assert first.outcome.name == ("CONVERGED" if tolerance == 0.3 else "BUDGET_EXHAUSTED")
    monkeypatch.setattr(
        stochastic_approximation.StochasticApproximation, "advance", lambda *_: pytest.fail("work is done again")
    )
    again = run(METHOD, path, tolerance=tolerance, updates=400_000)
    assert same(first, again)
    assert again.outcome is first.outcome


def test_a_tighter_tolerance_goes_on_from_a_looser_one(tmp_path):
    path = tmp_path / "run.npz"
    loose = run(METHOD, path, tolerance=1.0, updates=400_000)
    tight = run(METHOD, path, tolerance=0.3, updates=400_000)
    assert not same(loose, tight)
    assert same(tight, run(METHOD, tolerance=0.3, updates=400_000))


@pytest.mark.parametrize(
    "change",
    [{"confidence": 0.5}, {"averaging": False}, {"checkpoint_seconds": 0.0}, {"memory_budget": 10**9}],
    ids=str,
)
def test_settings_that_do_not_change_the_run_may_change(halfway, change):
    path = halfway(METHOD)
    resumed, whole = run(METHOD, path, **change), run(METHOD, **change)
    assert np.array_equal(resumed.mean, whole.mean)
    assert np.array_equal(resumed.covariance, whole.covariance)
    if resumed.certificate is not None:
        assert same(resumed, whole)


def half_steps(counts):
    return np.full(counts.shape, 0.5)


def quarter_steps(counts):
    return np.full(counts.shape, 0.25)


quarter_steps.__qualname__ = half_steps.__qualname__  # as two lambdas in one function have


@dataclass(frozen=True)
class Weighted(CoordinateSampling):
    """Coordinates of its own; prints an array in part only."""

    chances: np.ndarray

    def draw(self, rng, size, cells, source, memory):
        one = cells.mean.ravel()[rng.choice(cells.mean.size, size=size, p=self.chances[: cells.mean.size])]
        return one, np.full(size, -1)


class Unprinted(BlockSampling):
    """A rule that prints as its address, as classes do."""

    __repr__ = object.__repr__


def weighted(first):
    chances = np.full(WORLD.model.shape[0] * 4, 1.0)
    chances[0] = first
    going = int((~WORLD.model.terminal).sum()) * 4
    return Weighted(np.concatenate([chances[:going] / chances[:going].sum(), np.zeros(2_000)]))


OTHER_MODEL = jmdp.worlds.windy_gridworld(2, 3, discount=0.75).model
LARGER = jmdp.worlds.windy_gridworld(3, 3, discount=0.8)
OTHERS = {
    "seed": (METHOD, {"seed": 7}),
    "updates": (METHOD, {"updates": 20_001}),
    "steps": (METHOD, {"steps": ConstantSteps(0.2)}),
    "other steps of one name": (replace(METHOD, steps=half_steps), {"steps": quarter_steps}),
    "sampling": (METHOD, {"sampling": UniformSampling()}),
    "shares": (METHOD, {"sampling": BlockSampling(mean=2.0)}),
    "walks": (METHOD, {"sampling": TrajectorySampling()}),
    "restarts": (WALKS, {"sampling": TrajectorySampling(0.2)}),
    "an array in the sampling": (replace(METHOD, sampling=weighted(1.0)), {"sampling": weighted(1.0 + 1e-12)}),
    "centred": (METHOD, {"centred": False}),
    "model": (METHOD, {"model": OTHER_MODEL}),
    "a larger model": (METHOD, {"model": LARGER.model, "policy": LARGER.policies["careless"]}),
    "policy": (METHOD, {"policy": WORLD.policies["uniform"]}),
    "coupling": (METHOD, {"coupling": jmdp.Synchronous()}),
    "coupling with other cells": (METHOD, {"coupling": jmdp.Independent()}),
    "policy luck": (METHOD, {"coupling": jmdp.Local("shared")}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_p12_the_checkpoint_of_another_run_is_refused(name, halfway):
    method, change = OTHERS[name]
    path = halfway(method)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"another model.* settings(.|\n)*delete this one to start again"):
        run(**{"method": method, "path": path, **change})
    assert path.read_bytes() == before


def test_a_rule_without_a_name_of_its_own_can_be_resumed(halfway):
    """Another process has it at another address."""
    path = halfway(replace(METHOD, sampling=Unprinted()))
    assert same(run(METHOD, path, sampling=Unprinted()), run(METHOD, sampling=Unprinted()))


FORGED = {
    "no such walker": ("memory", 10**15),
    "a walker before the first": ("memory", -(10**15)),
    "a walker where it is over": ("memory", int(np.flatnonzero(WORLD.model.terminal)[0]) * 4),
    "counts below 0": ("table", -(2.0**40)),
    "counts beyond the steps": ("table", 2.0**60),
    "counts that are none": ("table", np.nan),
    "more segments than there are": ("done", [10**6, 20_000]),
    "fewer updates than segments": ("done", [5, 0]),
    "negative segments": ("done", [-5, 0]),
    "updates beyond the end": ("done", [96, 2**62]),
}


@pytest.mark.parametrize("name", FORGED)
def test_p12_numbers_that_no_run_saves_are_refused(name, halfway, monkeypatch):
    """The checksum agrees: a kernel that believed them would read and write anywhere."""
    path = halfway(WALKS)
    arrays = saved(path)
    array, value = FORGED[name]
    arrays[array][(slice(None), 1) if array == "table" else ...] = value
    whole_files.save(path, arrays)
    monkeypatch.setattr(
        stochastic_approximation.StochasticApproximation, "advance", lambda *_: pytest.fail("they were believed")
    )
    with pytest.raises(CheckpointError, match="delete this one to start again"):
        run(WALKS, path)


@pytest.mark.parametrize("where", ["missing/run.npz", "file/run.npz", "x" * 250, "", ".", "nul\0"])
def test_where_nothing_can_be_saved_is_said_before_the_run(where, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        stochastic_approximation.StochasticApproximation, "advance", lambda *_: pytest.fail("the run has begun")
    )
    with pytest.raises(CheckpointError, match="Give a"):
        run(METHOD, where)


def test_a_directory_is_no_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(
        stochastic_approximation.StochasticApproximation, "advance", lambda *_: pytest.fail("the run has begun")
    )
    with pytest.raises(CheckpointError, match="Is a directory"):
        run(METHOD, tmp_path)


@pytest.mark.parametrize("path", [5, b"run.npz", ["run.npz"], True])
def test_a_checkpoint_is_the_name_of_a_file(path):
    with pytest.raises(SettingsError, match="path is"):
        replace(METHOD, path=path)


def test_settings_with_a_checkpoint_print_themselves(tmp_path):
    names = {"Incremental": jmdp.Incremental, "ConstantSteps": ConstantSteps, "TrajectorySampling": TrajectorySampling}
    method = replace(WALKS, path=tmp_path / "run.npz")
    assert eval(repr(method), names) == method
    assert method == replace(WALKS, path=str(tmp_path / "run.npz"))
    assert method != replace(WALKS, path="another.npz")
    for name, (one, change) in OTHERS.items():
        if not {"model", "policy", "coupling"} & change.keys() and "array" not in name:
            assert replace(one, **change) != one
            assert repr(replace(one, **change)) != repr(one)


def test_saves_as_often_as_asked(tmp_path, monkeypatch):
    """Never between, with the default; after each segment, with 0; at the end in any case."""
    path = tmp_path / "run.npz"
    run(METHOD, path)
    segments = int(saved(path)["done"][0])
    path.unlink()
    for seconds, expected in ((1e6, 1), (0.0, segments + 1)):
        saves = []
        monkeypatch.setattr(whole_files, "save", lambda path, arrays, saves=saves: saves.append(path))
        run(METHOD, path, checkpoint_seconds=seconds)
        assert len(saves) == expected


def test_an_interrupted_run_goes_on_from_the_last_save(tmp_path, monkeypatch):
    path, work = tmp_path / "run.npz", stochastic_approximation.StochasticApproximation.advance

    def advance(self, segment):
        if segment.number == 20:
            self.table[...] = np.nan  # in the middle of its work
            raise KeyboardInterrupt
        work(self, segment)

    monkeypatch.setattr(stochastic_approximation.StochasticApproximation, "advance", advance)
    with pytest.raises(KeyboardInterrupt):  # the second Ctrl-C: the first waits for the end of a segment
        run(METHOD, path, checkpoint_seconds=0)
    monkeypatch.undo()
    assert saved(path)["done"][0] == 20
    assert same(run(METHOD, path), run(METHOD))
