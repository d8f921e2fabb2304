"""P10 for networks: killed at any moment and resumed, the same bits; damage is noticed; curves have no line twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jmdp
from jmdp.errors import CheckpointError
from jmdp.methods.neural_gram import training_loop
from jmdp.methods.neural_gram.checkpoints import Checkpoints, Tracker
from jmdp.methods.neural_gram.encoders import OneHot
from jmdp.methods.neural_gram.neural_gram import NeuralGram
from jmdp.methods.neural_gram.trainer import TrainingProgress, TrainingState
from jmdp.methods.neural_gram.training_loop import CHUNK
from jmdp.results.certificate import Outcome
from jmdp.simulators import TabularSimulator
from methods.neural_gram.gram_cases import WORLD, network

HERE = Path(__file__).parent


def run(folder: Path, cache: Path, *how: object) -> subprocess.CompletedProcess[str]:
    """A process of its own; what is compiled is kept, for that takes longer than all else."""
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "training_worker.py"), str(folder), *map(str, how)],
        env={**os.environ, **kept}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def curves(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "curves.jsonl").read_text().splitlines()]


@pytest.mark.long
def test_p10_killed_and_resumed_it_gives_the_same_bits(tmp_path):
    """Three deaths: between saves, as one begins, and somewhere within one."""
    whole, broken, cache = tmp_path / "whole", tmp_path / "broken", tmp_path / "cache"
    expected = run(whole, cache, "never")
    assert expected.returncode == 0, expected.stderr[-2000:]
    luck = np.random.default_rng(10)
    for how in (("report", 2), ("save", 2, 0.0), ("save", 2, round(float(luck.uniform(0, 0.2)), 3))):
        died = run(broken, cache, *how)
        assert died.returncode == -signal.SIGKILL, died.stderr[-2000:]
        assert died.stdout == ""
    resumed = run(broken, cache, "never")
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert len(expected.stdout.strip()) == 64
    assert resumed.stdout == expected.stdout
    assert curves(broken) == curves(whole)


# ------------------------------------------------------------------------------------------------ one checkpoint


@cache
def progress(seed: int, chunk: int) -> TrainingProgress:
    """A TrainingProgress of random numbers, with nothing to learn."""
    state = TrainingState(network(seed), network(seed + 1), (jnp.array(3),))
    scores, errors = jnp.full(4, jnp.nan), jnp.full((4, 2, 6), float(seed))
    return TrainingProgress(state, network(seed + 2), jnp.array(0.5), scores, errors, jnp.array(chunk))


def same(one, other) -> bool:
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(x), np.asarray(y), equal_nan=True) for x, y in pairs)


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints") / "run"
    kept = Checkpoints(folder, b"this")
    assert same(kept.latest(progress(0, 0)), progress(0, 0))
    for chunk in (1, 2):
        kept.save(progress(10 * chunk, chunk))
    kept.close()
    return folder


@pytest.fixture
def saved(two_checkpoints, tmp_path):
    """A folder with two checkpoints, of chunks 1 and 2."""
    return shutil.copytree(two_checkpoints, tmp_path / "run")


def latest(folder: Path, fresh: int = 0) -> TrainingProgress:
    kept = Checkpoints(folder, b"this")
    try:
        return kept.latest(progress(fresh, 0))
    finally:
        kept.close()


def data_files(folder: Path, chunk: int) -> list[Path]:
    return [path for path in sorted((folder / "training" / str(chunk)).rglob("*")) if path.is_file()]


def test_what_is_saved_comes_back(saved):
    found = latest(saved)
    assert same(found, progress(20, 2))
    assert isinstance(found.scores, jax.Array)  # the loop goes on with it


def test_of_two_saves_of_a_step_the_first_stays(saved):
    kept = Checkpoints(saved, b"this")
    kept.latest(progress(0, 0))
    kept.save(progress(99, 2))
    kept.close()
    assert same(latest(saved), progress(20, 2))


def test_another_run_is_refused(saved):
    with pytest.raises(
        CheckpointError, match=r"different simulator, policy, coupling or settings\. Use another folder"
    ):
        Checkpoints(saved, b"that")
    with pytest.raises(CheckpointError, match=r"different encoder .*Use another folder"):
        latest(saved, fresh=5)
    (saved / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"damaged\. Use another folder"):
        Checkpoints(saved, b"this")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="Use another"):
        Checkpoints(tmp_path / "file", b"this")


CONTENTS = {
    "deep": b"[" * 200_000,
    "deep and short": b"[" * 900,
    "list": b"[1]",
    "number": b"9" * 900,
    "no text": b"\xff\xfe",
    "empty": b"",
    "other type": b'{"identity": {"a": 1}}',
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_a_damaged_description_of_the_run_is_refused(content, tmp_path):
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="Use another folder"):
        Checkpoints(tmp_path, b"this")
    assert os.listdir(tmp_path) == ["run.json"]


PLANTED = {
    "link": lambda place, victim: place.symlink_to(victim),
    "link to nowhere": lambda place, victim: place.symlink_to(victim.with_name("missing")),
    "link to a folder": lambda place, victim: place.symlink_to(victim.parent),
    "pipe": lambda place, victim: os.mkfifo(place),
    "folder": lambda place, victim: place.mkdir(),
    "file": lambda place, victim: place.write_text(""),
}
WHERE = {
    "run.json": ("link", "link to nowhere", "link to a folder", "pipe", "folder"),
    ".run.json.lock": ("link", "link to nowhere", "link to a folder", "pipe", "folder"),
    "curves.jsonl": ("link", "link to nowhere", "link to a folder", "pipe", "folder"),
    "training": ("link", "link to nowhere", "link to a folder", "pipe", "file"),
    "training/3": ("link", "link to a folder", "pipe"),
}


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, kinds in WHERE.items() for what in kinds])
def test_links_pipes_and_folders_in_place_of_files_are_refused(name, what, tmp_path):
    """Nothing outside of the folder is written, and nothing waits for the writer of a pipe."""
    folder, outside = tmp_path / "run", tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("precious")
    (folder / name).parent.mkdir(parents=True)
    PLANTED[what](folder / name, outside / "victim")
    with pytest.raises(CheckpointError, match=r"Use another"):
        Checkpoints(folder, b"this")
    assert os.listdir(outside) == ["victim"]
    assert (outside / "victim").read_text() == "precious"


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to])
def test_a_link_in_place_of_the_temporary_file_leaves_its_target_alone(make, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "run").mkdir()
    make(tmp_path / "run" / ".run.json.part", tmp_path / "victim")
    Checkpoints(tmp_path / "run", b"this").close()
    assert (tmp_path / "victim").read_text() == "precious"
    assert sorted(os.listdir(tmp_path / "run")) == ["run.json", "training"]


def test_a_pipe_within_a_checkpoint_is_refused(saved):
    file = data_files(saved, 2)[0]
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CheckpointError, match=r"is not a regular file\. Use another folder"):
        Checkpoints(saved, b"this")


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 300])
def test_a_name_that_no_folder_can_have_is_refused(name, tmp_path):
    with pytest.raises(CheckpointError, match="Cannot create the folder") as error:
        Checkpoints(tmp_path / name, b"this")
    assert str(error.value).isprintable()


def test_a_folder_in_use_is_refused(saved):
    kept = Checkpoints(saved, b"this")
    with pytest.raises(CheckpointError, match=rf"in use by process {os.getpid()} on"):
        Checkpoints(saved, b"this")
    kept.close()
    assert same(latest(saved), progress(20, 2))


def test_damaged_curves_are_dropped(tmp_path):
    lines = [b'{"updates": 1, "loss": 2.0}', b"\xff\xfe", b"[" * 100_000, b"3", b'{"updates": 9}', b'{"upd']
    (tmp_path / "curves.jsonl").write_bytes(b"\n".join(lines))
    tracker = Tracker(tmp_path)
    tracker.begin(5)
    tracker.close()
    assert (tmp_path / "curves.jsonl").read_bytes() == lines[0] + b"\n"


def damages(folder: Path, chunk: int):
    """Copies of a folder, a file of this checkpoint cut short, or with a bit turned, or gone."""
    files = data_files(folder, chunk)
    large = sorted(files, key=lambda path: path.stat().st_size)[-3:]
    for number, path in enumerate(large):
        for kind in ("cut", "turned", "gone"):
            other = folder.parent / f"{chunk} {number} {kind}"
            shutil.copytree(folder, other)
            hurt = other / path.relative_to(folder)
            data = bytearray(hurt.read_bytes())
            data[len(data) // 2] ^= 4
            if kind == "gone":
                hurt.unlink()
            else:
                hurt.write_bytes(bytes(data[: len(data) // 2] if kind == "cut" else data))
            yield other


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # threads of Orbax complain of a closed loop after a read that failed
def test_of_a_damaged_one_the_one_before_is_taken(saved):
    """Or the numbers are the right ones all the same: not every byte of a file means something."""
    seen = set()
    for folder in damages(saved, 2):
        found = latest(folder)
        seen.add(int(found.chunk))
        assert same(found, progress(10 * int(found.chunk), int(found.chunk)))
        kept = Checkpoints(folder, b"this")
        kept.latest(progress(0, 0))
        kept.save(progress(20, 2))  # the way is walked again
        kept.close()
        assert same(latest(folder), progress(20, 2))
    assert 1 in seen


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # threads of Orbax complain of a closed loop after a read that failed
def test_where_all_are_damaged_that_is_said(saved):
    for path in data_files(saved, 1) + data_files(saved, 2):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match=r"damaged.*Use another folder, or delete this one"):
        latest(saved)


# ------------------------------------------------------------------------------------------------ a whole run

SIMULATOR, POLICY = TabularSimulator(WORLD.model), WORLD.policies["uniform"]
SMALL = NeuralGram(
    seed=3, visits=12, spacing=2, length=3, updates=3 * CHUNK, batch=8, rank=2, encoder=OneHot(4), held_out=4
)


def bits(evaluation) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(evaluation.network)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return jmdp.evaluate(SIMULATOR, POLICY, jmdp.Local(), method=replace(SMALL, path=folder), progress=False), folder


def test_an_interrupted_run_says_so_and_goes_on(tmp_path, uninterrupted, monkeypatch):
    """Ctrl-C in the second of three chunks."""
    whole, folder = uninterrupted
    method, work = replace(SMALL, path=tmp_path / "run"), training_loop.PairReplay.batches

    def batches(self, number, *others):
        if number == 1:
            signal.raise_signal(signal.SIGINT)
        return work(self, number, *others)

    with monkeypatch.context() as patch:
        patch.setattr(training_loop.PairReplay, "batches", batches)
        stopped = jmdp.evaluate(SIMULATOR, POLICY, jmdp.Local(), method=method, throw=False, progress=False)
    assert stopped.outcome is Outcome.INTERRUPTED
    assert stopped.learning.updates.tolist() == [CHUNK]
    assert np.isfinite(stopped.at(0).mean).all()
    resumed = jmdp.evaluate(SIMULATOR, POLICY, jmdp.Local(), method=method, progress=False)
    assert resumed.outcome is whole.outcome is not Outcome.INTERRUPTED
    assert bits(resumed) == bits(whole)
    assert resumed.learning.updates.size > stopped.learning.updates.size
    assert curves(tmp_path / "run") == curves(folder)


def test_a_run_that_is_over_comes_back_at_once(uninterrupted, monkeypatch):
    whole, folder = uninterrupted
    monkeypatch.setattr(training_loop.PairReplay, "batches", lambda *_: pytest.fail("work is done again"))
    again = jmdp.evaluate(SIMULATOR, POLICY, jmdp.Local(), method=replace(SMALL, path=folder), progress=False)
    assert bits(again) == bits(whole)
    assert np.array_equal(again.learning.rms, whole.learning.rms, equal_nan=True)


def test_p12_a_folder_of_another_run_is_refused(uninterrupted):
    """Another setting; another table that prints alike, for what was walked tells."""
    _, folder = uninterrupted
    other = jmdp.worlds.windy_gridworld(2, 2, gust=0.4, blown_reward=-0.6, step_reward=-0.1, discount=0.7).model
    assert repr(other) == repr(WORLD.model)
    for simulator, method in ((SIMULATOR, replace(SMALL, rank=3)), (TabularSimulator(other), SMALL)):
        with pytest.raises(CheckpointError, match="different simulator, policy, coupling or settings"):
            jmdp.evaluate(simulator, POLICY, jmdp.Local(), method=replace(method, path=folder), progress=False)


def test_curves_are_lines_of_json_and_files_of_tensorboard(uninterrupted):
    _, folder = uninterrupted
    lines = curves(folder)
    steps = [line["updates"] for line in lines if "td error/mean" in line]
    assert steps == [CHUNK, 2 * CHUNK, 3 * CHUNK]
    assert all(one["updates"] <= other["updates"] for one, other in pairwise(lines))
    assert sum("held out/score" in line for line in lines) == 3
    events = list(folder.glob("events.out.tfevents.*"))
    assert events
    assert all(path.stat().st_size > 0 for path in events)


def test_later_lines_and_half_ones_are_cut_off(tmp_path):
    tracker = Tracker(tmp_path)
    for updates in (50, 100, 150):
        tracker.write(updates, {"x": float(updates), "unknown": float("nan")})
    tracker.close()
    with (tmp_path / "curves.jsonl").open("a") as file:
        file.write('{"updates": 10')
    again = Tracker(tmp_path)
    again.begin(100)
    again.write(150, {"x": 1.0})
    again.close()
    assert curves(tmp_path) == [{"updates": 50, "x": 50.0}, {"updates": 100, "x": 100.0}, {"updates": 150, "x": 1.0}]
