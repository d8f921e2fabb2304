"""Copies of environments share their transition table. Steps that write to it give the results of full copies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp.simulators.adapters.gymnasium import gymnasium_simulator
from jmdp.simulators.adapters.gymnasium.cores import SharedTable

WRITE = 40
"""Step of an episode that writes to the table."""


def table() -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    return {s: {a: [(0.5, (s + a) % 4, float(s), False), (0.5, s, 1.0, False)] for a in range(2)} for s in range(4)}


class Writer(gymnasium.Env[int, int]):
    """Walk on a table, in whose step 40 all rewards of a state change."""

    def __init__(self) -> None:
        self.action_space, self.observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(4)
        self.P = table()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.s = self.taken = 0
        self.P = table()
        return self.s, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        rows = self.P
        self.taken += 1
        if self.taken == WRITE:
            rows[self.s][action][0] = (0.5, 3 - self.s, 100.0, False)
        _, self.s, reward, ended = rows[self.s][action][self.np_random.random() < 0.5]
        return self.s, reward, ended, False, {}


class Unshared(SharedTable):
    """Full copies from the start: no table is shared, and each is part of its state."""

    def __init__(self) -> None:
        super().__init__()
        self.written = True


def rule(observation: int) -> int:
    return int(observation > 1)


def drawn(result: Any) -> tuple[Any, ...]:
    """All samples of a comparison."""
    draws = result.summary.samples.complete
    return draws.returns.tolist(), draws.ends.tolist(), draws.gains.tolist(), draws.steps, draws.shared_steps


GIVEN: dict[str, Any] = {"seed": 2, "samples": 24, "horizon": 60, "discount": 1.0, "progress": False}


def unshared(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as changed:
        changed.setattr(gymnasium_simulator, "SharedTable", Unshared)
        return call()


@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()])
@pytest.mark.parametrize("begun", [0, 1])
def test_a_written_table_gives_the_results_of_full_copies(
    coupling: jmdp.Coupling, begun: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Writer()
    env.reset(seed=0)
    for _ in range(begun):
        env.step(1)
    compare = partial(jmdp.compare, env, rule, coupling=coupling, **GIVEN)
    assert drawn(compare()) == drawn(unshared(compare, monkeypatch))
    assert table() == env.P


@pytest.mark.parametrize("coupling", [jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()])
@pytest.mark.parametrize("by_state", [rule, np.eye(2)[[0, 0, 1, 1]]], ids=["one at a time", "batched"])
def test_policies_with_a_written_table(coupling: jmdp.Coupling, by_state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = {"by state": by_state, "one": lambda s: 1}
    compare = partial(jmdp.compare_policies, Writer(), rules, coupling=coupling, **GIVEN)
    assert drawn(compare()) == drawn(unshared(compare, monkeypatch))


def test_workers_that_see_a_write_draw_the_same_samples() -> None:
    def returns(pool: int | None) -> Any:
        env = Writer()
        env.reset(seed=0)
        return drawn(jmdp.compare(env, rule, pool=pool, **GIVEN))

    assert returns(None) == returns(1) == returns(2) == returns(4)


def test_a_reset_that_writes_to_the_table_gives_each_episode_its_own() -> None:
    class Drawn(Writer):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            kept = self.P
            found = super().reset(seed=seed)
            self.P = kept
            self.P[0][0][0] = (0.5, 0, float(self.np_random.random()), False)
            return found

    simulator = jmdp.simulators.GymnasiumSimulator(Drawn())
    states = [simulator.reset(seed) for seed in (1, 2, 1)]
    one, two, again = (state.saved.core.P[0][0][0] for state in states)
    assert one == again != two


def test_states_that_are_kept_have_tables_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def tables() -> list[Any]:
        simulator = jmdp.simulators.GymnasiumSimulator(Writer())
        jmdp.compare(simulator, rule, state=simulator.reset(0), coupling=jmdp.Local(), **{**GIVEN, "horizon": 20})
        states = jmdp.simulators.visited_states(simulator, rule, seed=1, count=30, every=7)
        return [(state.saved.core.s, state.saved.core.P) for state in states]

    found = tables()
    assert found == unshared(tables, monkeypatch)
    assert table() in [one for _, one in found]
    assert any(one != table() for _, one in found)


def test_a_review_with_a_written_table(monkeypatch: pytest.MonkeyPatch) -> None:
    review = partial(
        jmdp.review, Writer(), rule, method=jmdp.reviews.RolloutValues(8), steps=range(36, 44), horizon=60, seed=1,
        discount=1.0, progress=False,
    )  # fmt: skip
    assert repr(review()) == repr(unshared(review, monkeypatch))
