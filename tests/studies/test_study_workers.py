"""Workers that end: killed from outside, which is no result of a study, or by their state, which has then failed."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from pathlib import Path

import pytest

import jmdp
from jmdp.distribute import ProcessPool
from jmdp.errors import StudyError, WorkerError
from jmdp.results.certificate import Outcome
from jmdp.simulators import Simulator, Step, action_labels
from jmdp.studies import driver
from studies.study_kills import PlantedPool, digest

ALWAYS = 10**6
SIZE = 24


class Line(Simulator):
    """A walk on a line. A state has a place and a deed: what happens there to the process."""

    actions = action_labels(["left", "stay", "right"])
    discount = 0.9

    def step(self, state, action, shock):
        place, deed = state
        kind, _, rest = deed.partition(" ")
        if kind == "segfault":
            ctypes.string_at(0)
        if kind == "exit":
            os._exit(1)
        while kind == "loop":
            time.sleep(0.01)
        if kind == "killed":  # as often as there are files in a folder
            left = sorted(Path(rest).iterdir())
            if left:
                left[0].unlink(missing_ok=True)  # a cancelled block may still run
                os.kill(os.getpid(), signal.SIGKILL)
        if kind == "raises":
            raise RuntimeError("no floor")
        after = place + action - 1 + 0.3 * shock.generator().standard_normal()
        return Step(-abs(after) - 0.02 * action, (after, deed), abs(after) > 20)


class Mended(Line):
    """The same without errors: what the states would have been."""

    def step(self, state, action, shock):
        return super().step((state[0], ""), action, shock)

    def __repr__(self):
        return "Line()"


def stay(state):
    return 1


def states(deeds=None):
    return {f"at {k}": (k / 4, (deeds or {}).get(k, "")) for k in range(SIZE)}


def run(path, pool=None, deeds=None, simulator=None, **given):
    settings = {"seed": 3, "path": path, "max_samples": 64, "horizon": 5, "progress": False} | given
    return jmdp.study(simulator or Line(), stay, states(deeds), pool=pool, **settings)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("studies") / "whole")


@pytest.fixture
def quick(monkeypatch):
    """Pauses of no length, as many as there are."""
    monkeypatch.setattr(driver, "_PAUSES", (0,) * len(driver._PAUSES))


def rows(study, without=()):
    return [row for row in study.to_arrow().to_pylist() if row["number"] not in without]


def failed(study):
    return study.failures().index.tolist()


def test_a_state_whose_workers_are_killed_waits_and_the_others_go_on(tmp_path, whole, quick):
    pool = PlantedPool(kills={2: 3, 3: 1, 9: 5, 23: 2})
    found = run(tmp_path / "study", pool)
    assert found.outcome is None
    assert sorted(pool.ran) == list(range(SIZE))
    assert pool.ran != sorted(pool.ran)
    assert pool.ran.index(9) > pool.ran.index(20)
    assert digest(found.path) == digest(whole.path)


def test_the_pauses_grow_and_begin_anew_when_a_block_is_finished(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr(driver.time, "sleep", slept.append)
    run(tmp_path, PlantedPool(kills={2: 2, 23: 4}))
    assert slept == [0.5, 0.5, 1, 2, 0.5, 1]  # 2; 23, 2, 23; then 2 is finished; 23, 23


@pytest.mark.parametrize("hopeless", [[7], list(range(3, 15)), [0, 1, 2, 3, 4], [21, 22, 23]])
def test_if_the_machine_does_not_recover_the_same_call_finishes(tmp_path, whole, quick, hopeless):
    """Also if more neighbours than there are pauses never finish: all others are finished, and none has failed."""
    found = run(tmp_path / "study", PlantedPool(kills=dict.fromkeys(hopeless, ALWAYS)))
    assert found.outcome is Outcome.INTERRUPTED
    assert found.progress.finished == SIZE - len(hopeless)
    assert found.progress.failed == 0
    said = repr(found)
    assert "INTERRUPTED: workers were ended" in said
    assert "the worker killed at state" in said
    assert f"{len(hopeless)} states are not finished. The same call of study continues." in said
    assert rows(found) == rows(whole, hopeless)
    pool = PlantedPool()
    found = run(tmp_path / "study", pool)
    assert pool.ran == hopeless
    assert found.outcome is None
    assert digest(found.path) == digest(whole.path)


def test_ctrl_c_is_an_interruption_too(tmp_path):
    class Pressed(PlantedPool):
        def ordered(self, work, arguments):
            for number, found in enumerate(super().ordered(work, arguments)):
                if number == 5:
                    raise KeyboardInterrupt
                yield found

    found = run(tmp_path, Pressed())
    assert found.outcome is Outcome.INTERRUPTED
    assert "INTERRUPTED: Ctrl-C." in repr(found)
    assert run(tmp_path).outcome is None


@pytest.mark.parametrize("bad", [[0], [11], [23], [4, 5, 6], [0, 1, 2, 3, 4, 5], list(range(1, 24))])
def test_states_that_end_their_workers_have_failed_if_others_finish(tmp_path, whole, quick, bad):
    found = run(tmp_path, PlantedPool(crashes=dict.fromkeys(bad, ALWAYS)))
    assert found.outcome is None
    assert found.progress.complete
    assert failed(found) == bad
    assert all(f"crashed at state {number}" in text for number, text in found.failures().error.items())
    assert rows(found, bad) == rows(whole, bad)


def test_if_all_workers_end_by_themselves_nothing_has_failed(tmp_path):
    with pytest.raises(WorkerError, match="crashed at state"):
        run(tmp_path, PlantedPool(crashes=dict.fromkeys(range(SIZE), ALWAYS)))
    assert jmdp.studies.Study.open(tmp_path).progress.finished == 0


def test_the_only_state_that_is_left_fails_only_if_a_finished_one_finishes_again(tmp_path, whole, quick):
    """What has failed is the state, or all workers: a state with a known result tells."""
    deaths = dict.fromkeys((12,), ALWAYS)
    run(tmp_path, PlantedPool(kills=deaths))
    with pytest.raises(WorkerError, match="crashed at state"):
        run(tmp_path, PlantedPool(crashes=dict.fromkeys(range(SIZE), ALWAYS)))
    assert run(tmp_path, PlantedPool(kills=deaths)).outcome is Outcome.INTERRUPTED
    assert failed(run(tmp_path, PlantedPool(crashes=deaths))) == [12]


def test_some_are_killed_and_others_end_by_themselves(tmp_path, whole, quick):
    pool = PlantedPool(kills={3: 4, 7: ALWAYS, 8: 1}, crashes={6: ALWAYS, 9: ALWAYS, 23: ALWAYS})
    found = run(tmp_path, pool)
    assert found.outcome is Outcome.INTERRUPTED
    assert found.progress.finished == SIZE - 1
    assert failed(found) == [6, 9, 23]
    assert rows(found, (6, 9, 23)) == rows(whole, (6, 7, 9, 23))


INVENTORY = jmdp.worlds.inventory()


def stocks(path, pool=None):
    given = {"seed": 1, "path": path, "max_samples": 600, "horizon": 30, "progress": False, "pool": pool}
    return jmdp.study(
        INVENTORY.simulator,
        INVENTORY.simulator.policies["base_stock"],
        [(k % 11,) for k in range(100)],
        [0, 1],
        **given,
    )


def test_a_state_in_a_block_of_many_is_tried_alone(tmp_path, quick):
    whole = stocks(tmp_path / "whole")
    found = stocks(tmp_path / "killed", PlantedPool(kills={5: 2, 70: 3, 99: 1}))
    assert digest(found.path) == digest(whole.path)
    found = stocks(tmp_path / "crashed", PlantedPool(kills={8: 2, 6: 4}, crashes={7: ALWAYS}))
    assert failed(found) == [7]
    assert rows(found, [7]) == rows(whole, [7])


# ------------------------------------------------------------------------------------------------- tried again


def test_retry_failed_tries_again_what_has_failed_and_nothing_else(tmp_path, whole):
    bad = {4: "raises", 20: "raises"}
    found = run(tmp_path, deeds=bad)
    assert failed(found) == [4, 20]
    before, pool = digest(tmp_path), PlantedPool()
    assert failed(run(tmp_path, pool, bad)) == [4, 20]
    assert failed(run(tmp_path, pool, bad, retry_failed=True)) == [4, 20]
    assert pool.ran == [4, 20]
    assert digest(tmp_path) == before
    found = run(tmp_path, pool, bad, Mended(), retry_failed=True)
    assert pool.ran == [4, 20] * 2
    assert found.progress.failed == 0
    assert digest(tmp_path) == digest(whole.path)


def test_a_state_that_had_failed_may_wait_for_later_rungs(tmp_path):
    """The ranges of the later rungs are then others, and their parts are made anew."""
    deeds, given = {3: "raises", 4: "raises"}, {"max_samples": 700}
    whole = run(tmp_path / "whole", simulator=Mended(), **given)
    path = tmp_path / "study"
    found = run(path, deeds=deeds, **given)
    assert failed(found) == [3, 4]
    assert max(key[0] for key in found._folder.chunks) > 1
    run(path, PlantedPool(), deeds, Mended(), retry_failed=True, **given)
    assert digest(path) == digest(whole.path)
    assert (whole.to_dataframe().query("number == 3").n > 64).any()


def test_a_retry_that_is_interrupted_leaves_a_study(tmp_path, whole, quick):
    bad = {4: "raises", 20: "raises"}
    run(tmp_path, deeds=bad)
    found = run(tmp_path, PlantedPool(kills={20: ALWAYS}), bad, Mended(), retry_failed=True)
    assert found.outcome is Outcome.INTERRUPTED
    assert failed(found) == [20]
    run(tmp_path, None, bad, Mended(), retry_failed=True)
    assert digest(tmp_path) == digest(whole.path)


# ------------------------------------------------------------------------------------------------- real workers


@pytest.mark.parametrize("bad", [(5, 6, 7), pytest.param((2, 11, 20), marks=pytest.mark.long)])
def test_states_that_crash_exit_and_hang_fail_and_the_others_are_undisturbed(tmp_path, whole, bad):
    deeds = dict(zip(bad, ("segfault", "exit", "loop"), strict=True))
    with ProcessPool(2, time_limit=3.0) as pool:
        found = run(tmp_path, pool, deeds)
    assert found.progress.complete
    assert failed(found) == list(bad)
    assert rows(found, bad) == rows(whole, bad)


def test_workers_that_are_killed_at_a_state(tmp_path, whole):
    """Two states kill their workers, one five times and one as long as the machine takes."""
    for name, times in (("few", 5), ("many", 1_000)):
        (tmp_path / name).mkdir()
        for k in range(times):
            (tmp_path / name / f"{k:05d}").touch()
    deeds = {5: f"killed {tmp_path / 'few'}", 6: f"killed {tmp_path / 'many'}"}
    with ProcessPool(2) as pool, pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "_PAUSES", (0.1, 0.1))
        found = run(tmp_path / "study", pool, deeds)
        assert found.outcome is Outcome.INTERRUPTED
        assert found.progress.finished == SIZE - 1
        assert not list((tmp_path / "few").iterdir())
        assert rows(found) == rows(whole, (6,))
        for file in (tmp_path / "many").iterdir():
            file.unlink()
        found = run(tmp_path / "study", pool, deeds)
    assert digest(found.path) == digest(whole.path)


def test_workers_that_cannot_be_started_raise(tmp_path):
    deeds = dict.fromkeys(range(SIZE), "exit")
    with ProcessPool(2) as pool, pytest.raises(WorkerError):
        run(tmp_path, pool, deeds)
    assert jmdp.studies.Study.open(tmp_path).progress.finished == 0
    with pytest.raises(StudyError, match="resume=True"):
        run(tmp_path, resume=False)
    assert run(tmp_path).progress.complete
