"""Reviews of recorded periods: what was earned, by hand; expectations without hindsight; recorded states."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jmdp
from jmdp.errors import SettingsError, SimulatorError
from jmdp.reviews import LookaheadValues, RolloutValues
from jmdp.show.reports.page import page_of
from jmdp.simulators import FunctionSimulator

T = 126
WEEK = np.tile([6.0, 5, 4, 5, 6, 8, 12], T // 7)
DEMAND = np.random.default_rng(6).poisson(WEEK).tolist()
LEVELS = [0, 6, 12]


def history(demand: list[int]) -> jmdp.RecordedLuck:
    return jmdp.RecordedLuck({"day": list(range(T)), "demand": demand}, season=7)


HISTORY = history(DEMAND)
FIRST, LAST = 50, 69
MONTH = HISTORY.part(FIRST, LAST)
N = len(MONTH)


def reward(stock: float, a: int, u: Any, demand: float) -> float:
    """Orders arrive at once; what is left costs."""
    have = stock + LEVELS[a]
    return 5.0 * min(have, demand) - 2.0 * LEVELS[a] - 0.5 * max(0.0, have - demand)


def after(stock: float, a: int, u: Any, demand: float) -> float:
    return max(0.0, stock + LEVELS[a] - demand)


def up_to(level: int) -> Any:
    def rule(stock: float) -> int:
        return min(range(3), key=lambda a: abs(stock + LEVELS[a] - level))

    return rule


def simulator(source: Any = HISTORY) -> FunctionSimulator:
    return FunctionSimulator(reward, after, ["none", "six", "twelve"], start=3.0, exogenous={"demand": source})


def by_hand(rule: Any, demand: list[int], stock: float = 3.0) -> float:
    total = 0.0
    for one in demand:
        a = rule(stock)
        total += reward(stock, a, None, one)
        stock = after(stock, a, None, one)
    return total


PLAYED = [1, 2, 0, 1, 1] * 4


def reviewed(luck: Any = MONTH, source: Any = HISTORY, **given: Any) -> Any:
    given = {"seed": 2, "played": PLAYED, "method": RolloutValues(16), "progress": False} | given
    return jmdp.review(simulator(source), up_to(8), luck=luck, **given)


@pytest.fixture(scope="module")
def june() -> Any:
    return reviewed(others={"up to 12": up_to(12)})


def test_what_was_earned_and_what_others_would_have_earned(june: Any) -> None:
    demand = DEMAND[FIRST : LAST + 1]
    actions = iter(PLAYED)
    assert float(june.earned) == pytest.approx(by_hand(lambda stock: next(actions), demand))
    expected = {"function rule (reference)": by_hand(up_to(8), demand), "up to 12": by_hand(up_to(12), demand)}
    assert june.others == pytest.approx(expected)
    assert f"up to 12 {expected['up to 12']:g}" in " ".join(str(june).split())
    assert june.answer.startswith("The actions of 50 to 69 earned")
    assert june.labels[:2] == ["50: 3.0", f"51: {june.trajectory.states[1]}"]
    assert "luck is demand as recorded, 50 to 69" in str(june)
    parts = float(june.expectation) + float(june.skill) + float(june.luck)
    assert float(june.total) == pytest.approx(parts)


def test_other_actions_meet_the_recorded_luck(june: Any) -> None:
    stock = 3.0
    for t in range(N):
        rest = DEMAND[FIRST + t : LAST + 1]
        for a in range(3):
            later = by_hand(up_to(8), rest[1:], after(stock, a, None, rest[0]))
            assert june.hindsight[t, a] == pytest.approx(reward(stock, a, None, rest[0]) + later)
        stock = after(stock, PLAYED[t], None, rest[0])
    other = june.what_if(0, "twelve")
    assert other.total(1.0) == pytest.approx(june.hindsight[0, 2])


def test_expectations_are_not_hindsight(june: Any) -> None:
    """They do not change with what happened in the reviewed periods, and change with what happened in the others."""
    changed = [d + 5 if FIRST <= i <= LAST else d for i, d in enumerate(DEMAND)]
    again = reviewed(history(changed).part(FIRST, LAST), history(changed))
    assert june.month.block == again.month.block
    assert (again.values[0].action_values == june.values[0].action_values).all()
    assert float(again.earned) != float(june.earned)
    changed = [d if FIRST <= i <= LAST else d + 5 for i, d in enumerate(DEMAND)]
    others = reviewed(history(changed).part(FIRST, LAST), history(changed))
    assert (others.values[0].action_values != june.values[0].action_values).all()
    assert float(others.earned) == float(june.earned)


def test_expectations_are_over_the_same_weekdays_of_other_periods() -> None:
    """The last step has no future, so its values are means over rows; 300 rollouts, at 99.9%."""
    found = reviewed(method=RolloutValues(300), steps=range(N - 1, N), confidence=0.999)
    rows = [i for i in range(T) if not FIRST <= i <= LAST and i % 7 == LAST % 7]
    stock = float(found.trajectory.states[0])
    for a in range(3):
        expected = np.mean([reward(stock, a, None, DEMAND[i]) for i in rows])
        assert abs(found.values[0].action_values[a] - expected) <= found.values[0].action_errors[a]


def test_expectations_over_what_the_simulator_draws(june: Any) -> None:
    found = reviewed(source=lambda luck: luck.poisson("demand", mean=6), method=RolloutValues(300), confidence=0.999)
    assert float(found.earned) == float(june.earned)
    assert "expectations are over demand as the simulator draws it" in str(found)
    stock, k = float(found.trajectory.states[N - 1]), np.arange(60)
    for a in range(3):
        expected = stats.poisson.pmf(k, 6) @ [reward(stock, a, None, d) for d in k]
        assert abs(found.values[N - 1].action_values[a] - expected) <= found.values[N - 1].action_errors[a]


def test_fewer_actions_than_periods() -> None:
    """Rollouts go on to the end of the history, so that what is left is worth something."""
    found = reviewed(played=PLAYED[:12])
    assert len(found) == 12
    assert found.month.period == "50 to 61"
    assert "luck is demand as recorded, 50 to 61; rollouts go on to 69" in str(found)
    assert float(found.final) > 0
    stock = float(found.trajectory.states[5])
    later = by_hand(up_to(8), DEMAND[FIRST + 6 : LAST + 1], after(stock, 2, None, DEMAND[FIRST + 5]))
    assert found.hindsight[5, 2] == pytest.approx(reward(stock, 2, None, DEMAND[FIRST + 5]) + later)


def test_lookahead_uses_other_periods_too() -> None:
    found = reviewed(method=LookaheadValues(lambda stock: 0.0, samples=2000))
    rows = [i for i in range(T) if not FIRST <= i <= LAST and i % 7 == FIRST % 7]
    expected = np.mean([reward(3.0, 1, None, DEMAND[i]) for i in rows])
    assert found.values[0].action_values[1] == pytest.approx(expected, rel=0.1)


def test_recorded_states(june: Any) -> None:
    stocks = [float(state) for state in june.trajectory.states]
    exact = reviewed(recorded=stocks)
    assert str(exact).startswith("simulated states differ from the recorded ones by at most 0\n")
    off = [*stocks]
    off[7] += 2
    with pytest.raises(SimulatorError, match=r"before step 7 is .*they differ by 2, more than tolerance=0"):
        reviewed(recorded=off)
    near = reviewed(recorded=off[:-1], tolerance=2.5)
    assert str(near).startswith(
        "simulated states differ from the recorded ones by at most 2, before step 7 (accepted: 2.5)"
    )
    with pytest.raises(SettingsError, match=r"recorded has 3 states\. Give one before each of the 20 steps"):
        reviewed(recorded=stocks[:3])
    with pytest.raises(SettingsError, match=r"recorded\[0\] is \(1, 2\), but"):
        reviewed(recorded=[(1, 2)] * N)


def test_saved_with_its_page(june: Any, tmp_path: Any) -> None:
    stocks = [float(state) for state in june.trajectory.states]
    found = reviewed(recorded=stocks, others={"up to 12": up_to(12)})
    found.save(tmp_path / "month.nc")
    again = jmdp.load(tmp_path / "month.nc")
    assert str(again) == str(found)
    assert (again.month, again.deviation, again.others) == (found.month, found.deviation, found.others)
    found.report(tmp_path / "month.html")
    page = (tmp_path / "month.html").read_text()
    assert "What other rules would have earned" in page
    assert "up to 12" in page
    assert "uck is demand as recorded, 50 to 69" in page


def test_the_code_of_the_page_makes_the_same_review() -> None:
    found = reviewed(others={"up to 12": up_to(12)}, recorded=[0.0] * N, tolerance=50.0, method=None)
    code = re.sub(r"^\w+ = \.\.\..*$|^found\.report.*$", "", page_of(found).again.code, flags=re.MULTILINE)
    given: dict[str, Any] = {"simulator": simulator(), "policy": up_to(8), "played": PLAYED, "history": HISTORY}
    given |= {"others": {"up to 12": up_to(12)}, "recorded": [0.0] * N}
    exec(code, given)
    assert str(given["found"]) == str(found)


def test_refused() -> None:
    with pytest.raises(SettingsError, match="luck has 126 periods, of which 126 are reviewed"):
        reviewed(HISTORY)
    with pytest.raises(SettingsError, match=r"luck is resampled\. A review is of the history as it was"):
        reviewed(MONTH.resampled(3))
    with pytest.raises(SettingsError, match="luck is one history, and several episodes are reviewed"):
        reviewed(episodes=3, played=None)
    with pytest.raises(SettingsError, match=r"discount is 0\.9"):
        reviewed(discount=0.9)
    with pytest.raises(SettingsError, match="horizon is 21, but luck has 20 periods"):
        reviewed(horizon=21)
    with pytest.raises(SettingsError, match=r"others is 3\. Give a dictionary from names to policies"):
        reviewed(others=3)
    with pytest.raises(SettingsError, match="reads nothing of this history"):
        reviewed(jmdp.RecordedLuck({"day": list(range(9)), "price": [1] * 9}).part(0, 2))
