"""Recorded luck in simulators: steps read the row of their period, in every adapter; compared by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.simulators import FunctionSimulator, ObjectSimulator, Simulator, Step, action_labels
from jmdp.statistics.history import Dependence

T = 120
DEMAND = np.random.default_rng(4).poisson(6, T).tolist()
HISTORY = jmdp.RecordedLuck({"day": list(range(T)), "demand": DEMAND}, season=7)


class Store:
    """Orders arrive after two days; unmet demand is lost."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()
        self.stock, self.coming = 12, [0, 0]

    def step(self, order: int, demand: float) -> tuple[tuple[float, float], float, bool]:
        sold = min(self.stock, demand)
        self.stock += self.coming.pop(0) - sold
        self.coming.append(order)
        return self.state, 5.0 * sold - 0.5 * self.stock - (4.0 if order else 0.0), False

    @property
    def state(self) -> tuple[float, float]:
        return self.stock, sum(self.coming)

    def reset(self) -> tuple[float, float]:
        return self.state


ORDERS = {"none": 0, "ten": 10, "twenty": 20}


def reward(state: Any, a: int, u: Any, demand: float) -> float:
    stock, one, _ = state
    sold = min(stock, demand)
    return 5.0 * sold - 0.5 * (stock + one - sold) - (4.0 if a else 0.0)


def after(state: Any, a: int, u: Any, demand: float) -> Any:
    stock, one, two = state
    return stock + one - min(stock, demand), two, [0, 10, 20][a]


def drawn(luck: jmdp.Luck) -> int:
    return luck.poisson("demand", mean=6)


SIMULATORS = {
    "object": lambda source: ObjectSimulator(Store, ORDERS, exogenous={"demand": source}),
    "functions": lambda source: FunctionSimulator(
        reward,
        after,
        list(ORDERS),
        start=(12, 0, 0),
        exogenous={"demand": source},
        observe=lambda s: (s[0], s[1] + s[2]),
    ),
}


def early(seen: tuple[float, float]) -> int:
    return 1 if sum(seen) < 16 else 0


def late(seen: tuple[float, float]) -> int:
    return 2 if sum(seen) < 9 else 0


RULES = {"early": early, "late": late}


def by_hand(rule: Any, demand: Any) -> list[float]:
    store, earned = Store(), []
    for one in demand:
        _, gain, _ = store.step(list(ORDERS.values())[rule(store.state)], one)
        earned.append(gain)
    return earned


def compared(simulator: Any, luck: Any = HISTORY, **given: Any) -> Any:
    return jmdp.compare_policies(simulator, RULES, seed=1, luck=luck, progress=False, **given)


@pytest.mark.parametrize("kind", SIMULATORS)
def test_one_history_is_what_would_have_happened(kind: str) -> None:
    found = compared(SIMULATORS[kind](HISTORY))
    assert found.outcome is Outcome.DETERMINISTIC
    assert found.summary.horizon == T
    for name, rule in RULES.items():
        assert float(found.mean_of(name)) == sum(by_hand(rule, DEMAND))
    assert "would have earned" in found.answer
    assert "This is what would have happened, exactly" in found.answer


@pytest.mark.parametrize("kind", SIMULATORS)
def test_resampled_histories_start_once_and_are_not_restarted(kind: str) -> None:
    found = compared(SIMULATORS[kind](HISTORY), HISTORY.resampled(11), samples=12)
    for i in range(12):
        rows = HISTORY.resampled(11).rows(jmdp.Shock.of_sample(1, i))
        for name, rule in RULES.items():
            total = sum(by_hand(rule, [DEMAND[row] for row in rows]))
            assert found.episode_returns()[i, found.alternatives.index(name)] == pytest.approx(total, abs=1e-9)


def test_blocks_are_chosen_by_the_gaps_of_steps() -> None:
    found = compared(SIMULATORS["functions"](HISTORY), HISTORY.resampled(), samples=40)
    gaps = np.subtract(*(by_hand(rule, DEMAND) for rule in RULES.values()))
    use = found.summary.history
    assert use.totals[0] - use.totals[1] == pytest.approx(gaps.sum())
    known = Dependence.of(gaps, season=7)
    assert known is not None
    assert use.block == known.block


@pytest.mark.parametrize("kind", SIMULATORS)
def test_without_a_history_inputs_are_drawn(kind: str) -> None:
    """Rows of a history each with equal chance, or a function of the luck; a history that is given comes first."""
    from_model = SIMULATORS[kind](drawn)
    found = compared(from_model, None, discount=1.0, horizon=20, samples=30)
    assert found.outcome is Outcome.SAMPLED
    total = found.episode_returns()[3, 0]
    demand = [
        jmdp.Luck(jmdp.Shock.of_sample(1, 3).derived(b"environment", t)).poisson("demand", mean=6) for t in range(20)
    ]
    assert total == pytest.approx(sum(by_hand(early, demand)))
    assert float(compared(from_model).mean_of("late")) == sum(by_hand(late, DEMAND))
    rows = compared(SIMULATORS[kind](HISTORY), None, discount=1.0, horizon=20, samples=30)
    assert rows.episode_returns().std() > 0


class Clock(Simulator):
    """Reads the row of a day that it counts itself; waiting takes two days."""

    exogenous = ("demand",)
    actions = action_labels(["go", "wait"])

    def __init__(self, by_design: bool) -> None:
        self.by_design = by_design

    def start(self, shock: jmdp.Shock) -> int:
        return 0

    def step(self, state: int, action: int, shock: jmdp.Shock) -> Step:
        earned = jmdp.Luck(shock).recorded("demand", state)
        return Step(float(earned), state + 1 + (action if self.by_design else 0), False)


def test_an_index_that_depends_on_the_design_is_refused() -> None:
    rules = {"go": lambda seen: 0, "wait": lambda seen: 1}
    found = jmdp.compare_policies(Clock(by_design=False), rules, seed=0, luck=HISTORY, progress=False)
    assert float(found.mean_of("go")) == sum(DEMAND)
    with pytest.raises(SettingsError, match=r"A step in period 1 asks for 'demand' of period 2\. Steps are periods"):
        jmdp.compare_policies(Clock(by_design=True), rules, seed=0, luck=HISTORY, progress=False)


def test_refused() -> None:
    simulator = SIMULATORS["functions"](HISTORY)
    with pytest.raises(SettingsError, match=r"with discount 0\.9"):
        compared(simulator, discount=0.9)
    with pytest.raises(SettingsError, match=r"and Independent\("):
        compared(simulator, coupling=jmdp.Independent())
    with pytest.raises(SettingsError, match="horizon is 121, but the history has 120 periods"):
        compared(simulator, horizon=121)
    with pytest.raises(
        SettingsError, match=r"reads nothing of this history, whose columns are price\. It reads demand"
    ):
        compared(simulator, jmdp.RecordedLuck({"day": [0, 1], "price": [1, 2]}))
    with pytest.raises(SettingsError, match="margin is given with resampled histories"):
        compared(simulator, HISTORY.resampled(3), margin=3, baseline="late")
    with pytest.raises(SettingsError, match=r"exogenous names 'lead time'\. Give the name of a keyword argument"):
        FunctionSimulator(reward, after, 3, exogenous={"lead time": drawn})
    with pytest.raises(SettingsError, match="'price' was not recorded"):
        ObjectSimulator(Store, ORDERS, exogenous={"price": HISTORY})
    with pytest.raises(SettingsError, match="Give a RecordedLuck with this column, or a function that draws it"):
        FunctionSimulator(reward, after, 3, exogenous={"demand": 3})


def test_a_shorter_horizon_takes_the_first_periods() -> None:
    found = compared(SIMULATORS["functions"](HISTORY), horizon=30)
    assert float(found.mean_of("early")) == sum(by_hand(early, DEMAND[:30]))
    assert found.summary.history.periods == 30


def test_saved_and_continued(tmp_path: Any) -> None:
    simulator = SIMULATORS["functions"](HISTORY)
    found = compared(simulator, HISTORY.resampled(), samples=20)
    found.save(tmp_path / "found.nc")
    again = jmdp.load(tmp_path / "found.nc")
    assert str(again) == str(found)
    more = again.continued(25, simulator=simulator, policies=RULES, luck=HISTORY.resampled())
    assert (more.episode_returns()[:20] == found.episode_returns()).all()
