"""`study` answers in each state what `compare` answers there; it can be stopped, resumed and read at any time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple

import numpy as np
import pytest

import jmdp
from jmdp.comparisons.answer import chosen
from jmdp.errors import CouplingError, SettingsError, StudyError
from jmdp.simulators import Simulator, Step, action_labels
from jmdp.simulators.rollouts.array_engine import joint_draws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.studies.driver import rungs
from jmdp.studies.parts import write_whole
from jmdp.worlds import inventory, windy_gridworld
from studies.study_kills import digest, study

INVENTORY = inventory()
BASE_STOCK = INVENTORY.simulator.policies["base_stock"]


class Drift(Simulator):
    """A walk on a line; some states raise."""

    actions = action_labels(["left", "stay", "right"])
    discount = 0.9

    def step(self, state, action, shock):
        place, kind = state
        if kind == "raises":
            raise RuntimeError(f"no floor at {place}")
        noise = shock.generator().standard_normal()
        after = place + action - 1 + 0.3 * noise
        return Step(-abs(after), (after, kind), abs(after) > 20)


def stay(state):
    return 1


def run(path, states, **given):
    return jmdp.study(Drift(), stay, states, **{"seed": 3, "path": path, "max_samples": 64, "progress": False} | given)


PLACES = {f"at {place}": (float(place), "") for place in range(-4, 5)}


def ends(estimate):
    """As in files: nan without an interval."""
    return [end if np.isfinite(end) else np.nan for end in (estimate.low, estimate.high)]


def check_rows(rows, comparison):
    for row in rows.itertuples():
        name = row[rows.columns.get_loc(comparison.summary.labels.kind) + 1]
        mean, gap = comparison.mean_of(name), comparison.advantage(name, row.rival)
        assert (row.mean, row.n, row.outcome) == (mean, comparison.counts[name], comparison.outcome.name)
        np.testing.assert_allclose([row.mean_low, row.mean_high], ends(mean))
        np.testing.assert_allclose([row.gap, row.gap_low, row.gap_high], [gap, *ends(gap)], atol=1e-9)
        better, worse = comparison.superiority(name, row.rival), comparison.superiority(row.rival, name)
        assert [row.better, row.better_low, row.better_high] == [better, better.low, better.high]
        assert [row.worse, row.worse_low, row.worse_high] == [worse, worse.low, worse.high]
        assert row.best == (name == chosen(comparison))
        assert row.leader == (name == comparison.leader)
        assert row.rival == (comparison.runner_up if row.leader else comparison.leader)


@pytest.mark.parametrize("kind", ["table", "step_many", "simulator", "policies"])
def test_every_state_has_the_result_of_compare(tmp_path, kind):
    budget = 300
    if kind == "table":
        world = windy_gridworld(3, 4)
        given = world, next(iter(world.policies.values())), None
    elif kind == "step_many":
        given = INVENTORY.simulator, BASE_STOCK, [(k,) for k in range(11)]
    elif kind == "simulator":
        given, budget = (Drift(), stay, PLACES), 100
    else:
        policies = {name: INVENTORY.policies[name] for name in ("base_stock", "reorder", "uniform")}
        given = INVENTORY, policies, [0, 4, 9]
    found = jmdp.study(*given, seed=7, path=tmp_path, max_samples=budget, horizon=60, progress=False)
    assert found.progress.complete
    assert found.progress.failed == 0, found.failures().error.iloc[0]
    rows, states = found.to_dataframe(), given[2]
    settings = {"max_samples": budget, "horizon": 60, "progress": False}
    for number, group in rows.groupby("number"):
        seed = int(group.key.iloc[0])
        if kind == "policies":
            again = jmdp.compare_policies(*given[:2], starts=[states[number]], seed=seed, **settings)
        else:
            state = (
                group.state.iloc[0]
                if kind == "table"
                else list(PLACES.values())[number]
                if states is PLACES
                else states[number]
            )
            again = jmdp.compare(given[0], given[1], state=state, seed=seed, **settings)
        check_rows(group, again)
    assert len(set(rows.key)) == found.progress.states
    assert len(rows) == found.progress.states * len(found.alternatives)


def test_states_climb_rungs_of_the_schedule(tmp_path):
    assert rungs(40) == [40]
    assert rungs(64) == [64]
    assert rungs(10_000)[0] == 64
    assert rungs(10_000)[-1] == 10_000
    ratios = np.divide(rungs(10_000)[1:-1], rungs(10_000)[:-2])
    assert ((ratios >= 8) & (ratios <= 10)).all()
    states = [(k,) for k in range(11)]
    given = {"seed": 7, "max_samples": 700, "horizon": 20, "progress": False}
    found = jmdp.study(INVENTORY.simulator, BASE_STOCK, states, [0, 1], path=tmp_path, **given)
    names = sorted(file.name for file in (tmp_path / "parts").iterdir())
    assert any("rung-1" in name for name in names)
    assert any("rung-3" in name for name in names)
    rows = found.to_dataframe()
    waited = rows[rows.outcome == "BUDGET_EXHAUSTED"]
    assert 0 < len(waited) < len(rows)
    assert set(waited.groupby("number").n.max()) == {700}


@pytest.mark.parametrize("workers", [2, pytest.param(4, marks=pytest.mark.long)])
def test_the_files_do_not_depend_on_the_workers(tmp_path, workers, two_workers):
    states = [(k % 11,) for k in range(150)]
    given = {"seed": 1, "max_samples": 64, "horizon": 30, "progress": False}
    jmdp.study(INVENTORY.simulator, BASE_STOCK, states, path=tmp_path / "one", **given)
    pool = two_workers if workers == 2 else workers
    jmdp.study(INVENTORY.simulator, BASE_STOCK, states, path=tmp_path / "more", pool=pool, **given)
    assert digest(tmp_path / "one") == digest(tmp_path / "more")


@pytest.mark.parametrize(("most", "least"), [(5, 3), pytest.param(8, 5, marks=pytest.mark.long)])
def test_p9_killed_workers_do_not_change_the_files(most, least, tmp_path, two_workers):
    states = {str(k): (k / 10, "") for k in range(40)}
    kills, stop = 0, threading.Event()

    def kill():
        nonlocal kills
        while kills < most and not stop.wait(0.15):
            for worker in two_workers._started[:1]:
                os.kill(worker._process.pid, signal.SIGKILL)
                kills += 1

    thread = threading.Thread(target=kill)
    thread.start()
    found = run(tmp_path / "killed", states, pool=two_workers)
    stop.set()
    thread.join()
    assert kills >= least
    assert found.progress.failed == 0
    assert digest(run(tmp_path / "serial", states).path) == digest(found.path)


@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()])
def test_rollouts_of_several_states_together_are_those_of_each(coupling):
    simulator, actor = INVENTORY.simulator, jmdp.as_policy(BASE_STOCK, INVENTORY.simulator.actions)
    plans = [
        BranchPlan.of_actions(
            actor, state=(k,), actions=[5, 0, 2], branches=(5, 0, 2), alternatives=6, coupling=coupling, discount=0.9,
            horizon=20, seed=100 + k,
        )
        for k in range(7)
    ]  # fmt: skip
    for plan, joint in zip(plans, joint_draws(simulator, plans, 5, 40), strict=True):
        alone = paired_draws(simulator, plan, 5, 40)
        for name in ("returns", "ends", "gains"):
            np.testing.assert_array_equal(getattr(joint, name), getattr(alone, name))
        assert (joint.steps, joint.shared_steps, joint.drew) == (alone.steps, alone.shared_steps, alone.drew)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_that_raises_is_marked_and_the_others_go_on(tmp_path, workers, two_workers):
    states = dict(PLACES) | {"bad": (2.0, "raises")}
    found = run(tmp_path, states, pool=two_workers if workers == 2 else None)
    assert found.progress.complete
    failed = found.failures()
    assert failed.state.tolist() == ["bad"]
    assert "no floor at 2.0" in failed.error.iloc[0]
    assert "Traceback" in failed.error.iloc[0]
    rows = found.to_dataframe().query("state == 'bad'")
    assert rows.outcome.tolist() == ["FAILED"] * 3
    assert rows[["mean", "gap", "better"]].isna().all(axis=None)
    with pytest.raises(RuntimeError, match="no floor"):
        jmdp.compare(Drift(), stay, state=states["bad"], seed=int(failed.key.iloc[0]), max_samples=64, progress=False)
    assert digest(tmp_path) == digest(run(tmp_path / "again", states).path) if workers == 2 else True


def test_a_state_of_step_many_that_raises_does_not_spoil_those_beside_it(tmp_path):
    states = [(k % 11,) for k in range(70)]
    states[3] = (99,)  # more than fits
    found = jmdp.study(
        INVENTORY.simulator, BASE_STOCK, states, seed=1, path=tmp_path, max_samples=64, horizon=30, progress=False
    )
    failed = found.failures().index.tolist()
    assert failed in ([3], [])
    row = found.to_dataframe().query("number == 2")
    again = jmdp.compare(
        INVENTORY.simulator,
        BASE_STOCK,
        state=states[2],
        seed=int(row.key.iloc[0]),
        max_samples=64,
        horizon=30,
        progress=False,
    )
    check_rows(row, again)


class Lazily:
    """States that are made when they are asked for; one of them cannot be."""

    def __init__(self, size):
        self.size, self.asked = size, []

    def __len__(self):
        return self.size

    def __getitem__(self, number):
        self.asked.append(number)
        if number == 4:
            raise KeyError("state 4 is lost")
        return float(number % 5), ""


def test_states_are_taken_one_at_a_time(tmp_path):
    states = Lazily(9)
    found = run(tmp_path, states, max_samples=40)
    assert found.failures().index.tolist() == [4]
    assert "state 4 is lost" in found.failures().error.iloc[0]
    assert set(states.asked) == set(range(9))


def test_another_study_in_the_folder_is_refused(tmp_path):
    run(tmp_path, PLACES)
    before = digest(tmp_path)
    for changed, said in (
        ({"seed": 4}, "seed 3"),
        ({"max_samples": 65}, "max_samples 64"),
        ({"confidence": 0.9}, "confidence 0.95"),
        ({"resume": False}, "has a study already"),
        ({"actions": ["left", "right"]}, "alternatives"),
    ):
        with pytest.raises(StudyError, match=said):
            run(tmp_path, PLACES, **changed)
    with pytest.raises(StudyError, match="states 9, but 1"):
        run(tmp_path, [(0.0, "")])
    with pytest.raises(StudyError, match="have other labels"):
        run(tmp_path, {label.replace("at 0", "here"): state for label, state in PLACES.items()})
    moved = {label: (place + 0.5, kind) for label, (place, kind) in PLACES.items()}
    with pytest.raises(StudyError, match="has another result"):
        run(tmp_path, moved)
    with pytest.raises(StudyError, match="has another result"):
        jmdp.study(Drift(), lambda state: 0, PLACES, seed=3, path=tmp_path, max_samples=64, progress=False)
    assert digest(tmp_path) == before


def test_one_writer(tmp_path):
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom studies.study_kills import *\nstudy.__globals__['jmdp']\n"
    slow = "from jmdp.studies import folder\nimport time\nw = folder.packed\n"
    slow += "folder.packed = lambda *a: (print('writing', flush=True), time.sleep(60), w(*a))[2]\n"
    command = [sys.executable, "-c", f"{code}{slow}study(Path({str(tmp_path)!r}))"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert "writing" in other.stdout.readline()
        with pytest.raises(StudyError, match="in use by process"):
            study(tmp_path)
        other.send_signal(signal.SIGKILL)
    assert study(tmp_path).progress.complete


def test_a_full_disk_stops_cleanly(tmp_path, monkeypatch):
    calls = 0

    def full(*given):
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_whole(*given)

    monkeypatch.setattr("jmdp.studies.folder.write_whole", full)
    with pytest.raises(StudyError, match="No space left on device"):
        study(tmp_path / "study")
    monkeypatch.undo()
    assert 0 < jmdp.studies.Study.open(tmp_path / "study").progress.finished < 8
    study(tmp_path / "study")
    study(tmp_path / "whole")
    assert digest(tmp_path / "study") == digest(tmp_path / "whole")


def test_a_ledger_on_a_full_disk(tmp_path, monkeypatch):
    write, calls = os.write, 0

    def full(descriptor, data):
        nonlocal calls
        calls += 1
        if len(data) > 100 and calls > 6:
            write(descriptor, bytes(data)[:50])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StudyError, match="No space left"):
        study(tmp_path / "study")
    monkeypatch.undo()
    study(tmp_path / "study")
    study(tmp_path / "whole")
    assert digest(tmp_path / "study") == digest(tmp_path / "whole")


def test_ctrl_c_returns_what_is_finished(tmp_path):
    def interrupt():
        ledger = tmp_path / "ledger.jsonl"
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < 3:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Thread(target=interrupt)
    timer.start()
    states = [(k / 100, "") for k in range(300)]
    found = run(tmp_path, states, max_samples=500)
    timer.join()
    assert 0 < found.progress.finished < 300
    assert "The same call of study continues" in repr(found)
    assert len(found.to_dataframe()) == 3 * found.progress.finished


def test_labels_and_coordinates(tmp_path):
    world = windy_gridworld(3, 4)
    found = jmdp.study(
        world, next(iter(world.policies.values())), seed=1, path=tmp_path / "a", max_samples=40, progress=False
    )
    assert found.coordinates == ["row", "column"]
    best = found.best()
    assert (best.state == best.row.astype(str) + "," + best.column.astype(str)).all()
    data = found.to_xarray()
    assert data["mean"].dims == ("number", "action")
    assert data["row"].dims == ("number",)
    assert (
        float(data["mean"].sel(number=2, action="R"))
        == found.to_dataframe().query("number == 2 and action == 'R'")["mean"].item()
    )
    Point = namedtuple("Point", ["stock", "n"])  # n is the name of a column
    assert run(tmp_path / "b", {Point(1, 2): (0.0, ""), Point(3, 4): (1.0, "")}, max_samples=40).coordinates == [
        "x0",
        "x1",
    ]
    Place = namedtuple("Place", ["height", "width"])
    found = run(tmp_path / "c", {Place(1, 2.5): (0.0, ""), Place(3, 4.0): (1.0, ""), "odd": (2.0, "")}, max_samples=40)
    assert found.coordinates == ["height", "width"]
    best = found.best()
    assert best.width.tolist()[:2] == [2.5, 4.0]
    assert np.isnan(best.width.tolist()[2])
    assert best.state.tolist() == ["1, 2.5", "3, 4.0", "odd"]


def test_certified_studies_of_lazy_models(tmp_path):
    world = windy_gridworld(3, 4)
    policy = next(iter(world.policies.values()))
    model = jmdp.LazyJMDP.of(world.model)
    states = [s for s in range(12) if not world.model.terminal[s]]
    given = {"coupling": jmdp.Local(), "seed": 1, "max_samples": 100, "tolerance": 1e-6, "progress": False}
    found = jmdp.study(model, lambda s: policy.probs[s], states, path=tmp_path / "one", **given)
    assert found.progress.failed == 0, found.failures().error.iloc[0]
    exact = jmdp.evaluate(world.model, policy, jmdp.Local(), progress=False)
    for row in found.to_dataframe().itertuples():
        s, a = states[row.number], found.alternatives.index(row.action)
        rival = found.alternatives.index(row.rival)
        assert row.mean_low - 1e-9 <= exact.mean[s, a] <= row.mean_high + 1e-9
        gap = exact.mean[s, a] - exact.mean[s, rival]
        assert row.gap_low - 1e-9 <= gap <= row.gap_high + 1e-9
        assert not row.best or exact.mean[s, a] == exact.mean[s].max()
        assert np.isnan(row.n)
    assert found.progress.decided >= 7
    shuffled = jmdp.study(model, lambda s: policy.probs[s], states, path=tmp_path / "two", **given)
    assert digest(found.path) == digest(shuffled.path)


def test_bad_arguments(tmp_path):
    model = jmdp.LazyJMDP.of(INVENTORY.model)
    for call, kind, said in (
        (lambda: run(tmp_path, []), SettingsError, "0 states"),
        (lambda: run(tmp_path, None), SettingsError, "Give the states"),
        (lambda: run(tmp_path, {(0.0, "")}), SettingsError, "Give a list of states"),
        (lambda: run(tmp_path, 3), SettingsError, "Give a list of states"),
        (lambda: run(tmp_path, "text"), SettingsError, "Give a list of states"),
        (lambda: run(tmp_path, PLACES, seed=-1), SettingsError, "seed is -1"),
        (lambda: run(tmp_path, PLACES, max_samples=1), SettingsError, "max_samples is 1"),
        (lambda: run(3, PLACES), SettingsError, "path is 3"),
        (lambda: run(tmp_path, PLACES, resume="yes"), SettingsError, "resume"),
        (lambda: run(tmp_path, PLACES, pool=0), SettingsError, "pool is 0"),
        (lambda: run(tmp_path, PLACES, actions=["left"]), SettingsError, "at least two"),
        (lambda: jmdp.study(model, stay, [0], seed=1, path=tmp_path), CouplingError, "coupling is missing"),
        (lambda: jmdp.studies.Study.open(tmp_path / "none"), StudyError, "cannot be read"),
        (lambda: jmdp.studies.Study.open(7), SettingsError, "path is 7"),
    ):
        with pytest.raises(kind, match=said):
            call()
    assert not (tmp_path / "ledger.jsonl").exists()
    (tmp_path / "file").write_text("text")
    with pytest.raises(StudyError, match="cannot be written"):
        run(tmp_path / "file", PLACES)


class Parity(Simulator):
    """The best action depends on the parity of a number, which floating-point numbers do not keep."""

    actions = action_labels(["even", "odd"])
    discount = 0.5

    def step(self, state, action, shock):
        return Step(3.0 * (int(state) % 2 == action) + shock.uniform(), state, False)

    def step_many(self, states, actions, shocks):
        return (states.astype(np.int64) % 2 == actions) * 3.0 + shocks.uniform(), states, np.zeros(len(states), bool)


def test_states_of_other_types_beside_a_state_do_not_change_it(tmp_path):
    states = [0.5, 2**53 + 1, 7, np.float32(3.0), 8]
    given = {"horizon": 3, "progress": False}
    found = jmdp.study(Parity(), stay, states, seed=0, path=tmp_path, max_samples=64, **given)
    for number, rows in found.to_dataframe().groupby("number"):
        key = int(rows.key.iloc[0])
        check_rows(rows, jmdp.compare(Parity(), stay, state=states[number], seed=key, max_samples=64, **given))
    run_again = jmdp.study(Parity(), stay, states, seed=0, path=tmp_path, max_samples=64, **given)
    assert run_again.progress.complete


class Unpicklable:
    def __init__(self):
        self.lock = threading.Lock()


class Anything(Drift):
    def digest(self, state):
        return b"same"

    def step(self, state, action, shock):
        if state == "exits":
            sys.exit("licence expired")
        return Step(float(action) + shock.uniform(), state, False)


@pytest.mark.parametrize("workers", [1, 2])
def test_states_that_cannot_be_sent_and_exits_fail_alone(tmp_path, workers, two_workers):
    pool = two_workers if workers == 2 else None
    states = {"good": 1, "locked": Unpicklable(), "exits": "exits", "none": None, "\udcff": 2, "last": 3}
    found = jmdp.study(
        Anything(), stay, states, seed=0, path=tmp_path, max_samples=40, horizon=3, pool=pool, progress=False
    )
    assert found.progress.complete
    failed = set(found.failures().state)
    assert {"exits", "none"} <= failed <= {"exits", "none", "locked"}
    assert (pool is None) or "locked" in failed
    assert "\\udcff" in set(found.best().state)


def test_other_states_after_the_first_are_not_mixed(tmp_path):
    states = [(float(k), "") for k in range(6)]
    run(tmp_path, states)
    lines = (tmp_path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:4]))  # three states are finished
    with pytest.raises(StudyError, match="has another result"):
        run(tmp_path, [states[0], states[1], (20.0, ""), *states[3:]])


def test_series_of_pandas_and_patterns_in_paths(tmp_path):
    import glob

    import pandas as pd

    series = pd.Series([0.0, 1.0, 2.0, 3.0], index=[3, 2, 1, 0])
    found = jmdp.study(
        Anything(), stay, series, seed=0, path=tmp_path / "a[1]", max_samples=40, horizon=3, progress=False
    )
    assert found.best().state.tolist() == ["0.0", "1.0", "2.0", "3.0"]
    assert len(glob.glob(found.files)) == len(list((tmp_path / "a[1]" / "parts").iterdir())) > 0
