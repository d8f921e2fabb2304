"""Comparisons with recorded luck: exact for one history, hand computations, refusals."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import jmdp
from jmdp.errors import SettingsError, SimulatorError
from jmdp.results.certificate import Outcome
from jmdp.statistics.history import Dependence

T = 60
DEMAND = np.random.default_rng(3).poisson(20, T).tolist()
OUT = [int(d > 24) for d in DEMAND]
HISTORY = jmdp.RecordedLuck(
    {"day": list(range(T)), "demand": DEMAND, "stockout": OUT}, season=7, censored={"demand": "stockout"}
)


def profits(luck: jmdp.Luck, order: int) -> list[float]:
    """A newsvendor's profit on each day."""
    return [5 * min(order, luck.recorded("demand", day)) - 2 * order for day in luck.periods]


def total(luck: jmdp.Luck, order: int) -> float:
    return sum(profits(luck, order))


RULES = {"order 22": partial(profits, order=22), "order 19": partial(profits, order=19)}
GAPS = [5 * (min(22, d) - min(19, d)) - 2 * 3 for d in DEMAND]


def compared(runs: Any = RULES, luck: Any = HISTORY, **given: Any) -> Any:
    return jmdp.compare_runs(runs, seed=0, luck=luck, progress=False, **given)


def test_one_history_is_exact() -> None:
    found = compared()
    assert found.outcome is Outcome.DETERMINISTIC
    assert found.samples == 1
    assert float(found.gap("order 22", "order 19").mean) == sum(GAPS)
    better, worse = ("order 22", "order 19") if sum(GAPS) > 0 else ("order 19", "order 22")
    hidden = sum(gap for gap, out in zip(GAPS, OUT, strict=True) if out)
    assert found.answer == (
        f"In the history of 60 days (0 to 59), {better} would have been better than {worse} by {abs(sum(GAPS))}. This "
        "is what would have happened, exactly. It is one history, so there is no interval, and it says nothing about "
        f"other days. Of this, {hidden if sum(GAPS) > 0 else -hidden}"
        + (f" ({100 * hidden / sum(GAPS):.0f}%)" if 0 <= hidden / sum(GAPS) <= 1 else "")
        + f" falls in {sum(OUT)} days of 60 in which stockout hides what would have been"
    )
    assert "exact: nothing is drawn, and demand and stockout are as recorded" in str(found)


def test_a_total_for_each_run_is_the_sum_of_its_periods() -> None:
    runs = {name: partial(total, **run.keywords) for name, run in RULES.items()}
    assert float(compared(runs).gap(0, 1).mean) == sum(GAPS)
    assert "return one number for each day to see how much of the gap falls there" in compared(runs).answer


def noisy(luck: jmdp.Luck, order: int) -> float:
    return total(luck, order) + luck.normal("noise", order, mean=0.0, std=10.0)


def test_what_is_drawn_stays_drawn() -> None:
    found = compared({"a": partial(noisy, order=22), "b": partial(noisy, order=19)}, samples=100)
    assert found.outcome is Outcome.SAMPLED
    gap = found.gap("a", "b")
    assert gap.mean_interval is not None
    assert sum(GAPS) in gap.mean_interval
    assert gap.mean_interval.width < 8
    assert "The interval is about what is drawn: demand and stockout are as recorded" in found.answer


def by_count(luck: jmdp.Luck, order: int) -> int:
    """Asks for the demand of the next customer, however many there are."""
    earned, asked = 0, 0
    for day in range(T):
        if day % order:  # closed on some days
            earned += int(luck.recorded("demand", asked))
            asked += 1
    return earned


def shifted(luck: jmdp.Luck, shift: int) -> float:
    return sum(luck.recorded("demand", (day + shift) % T) for day in luck.periods)


def half(luck: jmdp.Luck) -> float:
    return sum(luck.recorded("demand", day) for day in range(T // 2))


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ({"a": partial(by_count, order=5), "b": partial(by_count, order=6)}, "Design 'a' read 'demand' up to period"),
        (
            {"a": partial(shifted, shift=0), "b": partial(shifted, shift=1)},
            "'demand' of period 1 as the first",
        ),
        ({"a": partial(total, order=20), "b": half}, "Design 'b' read 'demand' up to period 29, number 30 of 60"),
    ],
)
def test_refused_runs(runs: Any, said: str) -> None:
    """Rows asked for by count, and an index that depends on the design."""
    with pytest.raises(SettingsError, match=said) as error:
        compared(runs)
    assert "so that all designs meet the same row in the same period" in str(error.value)


def test_refused_settings() -> None:
    with pytest.raises(SettingsError, match=r"luck is a int, not a RecordedLuck\. Give luck="):
        compared(luck=3)
    with pytest.raises(SettingsError, match="max_samples is given with resampled histories"):
        compared(luck=HISTORY.resampled(3), max_samples=100)
    with pytest.raises(SimulatorError, match="Return a list of 60 numbers, one for each period"):
        compared({"a": partial(total, order=20), "b": lambda luck: [1.0, 2.0]})


def test_nothing_read_from_the_history_warns() -> None:
    with pytest.warns(UserWarning, match="drew nothing from `luck`"):
        compared({"a": partial(total, order=20), "b": lambda luck: 3.0})


LONG = 300
NOISE = np.random.default_rng(8).normal(20, 5, LONG)
HISTORIES = jmdp.RecordedLuck({"day": list(range(LONG)), "demand": NOISE}, season=7)


def test_resampled_histories_are_run_once_each_from_blocks_of_rows() -> None:
    found, n = compared(luck=HISTORIES.resampled(5), samples=50), 50
    sold = np.minimum(NOISE[:, None], [22, 19])
    earned = 5 * sold - 2 * np.array([22, 19])
    for i in range(n):
        rows = HISTORIES.resampled(5).rows(jmdp.Shock.of_sample(0, i))
        assert found.run_results()[i] == pytest.approx(earned[rows].sum(axis=0), rel=1e-12)


def test_the_interval_is_that_of_one_history() -> None:
    """Student's t of the spread of resampled histories, not of its n-th part; by hand."""
    found = compared(luck=HISTORIES.resampled(), samples=400)
    use = found.summary.history
    gaps = found.run_results() @ [1, -1]
    daily = np.minimum(NOISE, 22) - np.minimum(NOISE, 19)
    known = Dependence.of(5 * daily - 6, season=7)
    assert known is not None
    assert use.block == known.block
    assert use.effective == known.effective > 200
    assert use.totals == pytest.approx([(5 * np.minimum(NOISE, q) - 2 * q).sum() for q in (22, 19)])
    freedom = 1 / (1 / (1.5 * LONG / use.block) + 1 / 399)
    t = stats.t.ppf(0.975, freedom) / np.sqrt(1 - max(0.0, known.reach) / use.block - use.block / LONG)
    wide, skew = t * gaps.std(ddof=1) * np.sqrt(1 + 1 / 400), stats.skew(gaps) * gaps.std(ddof=1) * (t * t / 3 + 1 / 6)
    interval = found.gap("order 22", "order 19").mean_interval
    assert interval.low == pytest.approx(gaps.mean() - wide - max(0, -skew), rel=1e-6)
    assert interval.high == pytest.approx(gaps.mean() + wide + max(0, skew), rel=1e-6)
    assert interval.width == pytest.approx(
        compared(luck=HISTORIES.resampled(), samples=100).gap(0, 1).mean_interval.width, rel=0.3
    )
    assert not found.mean_of("order 22").has_interval
    assert not found.superiority("order 22", "order 19").has_interval
    assert found.answer.startswith("over 300 days like these, ")
    assert f"(95% confidence, 400 resampled histories in blocks of {use.block} day" in found.answer
    assert f"300 days count as about {use.effective:.0f} independent ones" in found.answer


def test_a_short_history_gives_no_interval() -> None:
    found = compared(luck=HISTORY.part(0, 39).resampled())
    assert found.gap(0, 1).mean_interval is None
    assert not found.decided
    assert "40 days count as about" in found.answer
    assert "independent ones, fewer than 50, so there is no interval" in found.answer


def test_block_lengths_need_numbers_by_period() -> None:
    runs = {name: partial(total, **run.keywords) for name, run in RULES.items()}
    with pytest.raises(SettingsError, match="Return a list of 60 numbers, one for each day; or give the length"):
        compared(runs, HISTORY.resampled())
    found = compared(runs, HISTORY.resampled(4))
    assert found.gap(0, 1).mean_interval is None
    assert "not known for how many independent days" in found.answer


def both(luck: jmdp.Luck, order: int) -> dict[str, list[float]]:
    demand = [luck.recorded("demand", day) for day in luck.periods]
    return {"sold": [min(order, d) for d in demand], "lost": [max(0.0, d - order) for d in demand]}


def test_measures_share_the_longest_blocks() -> None:
    found = compared(
        {"a": partial(both, order=22), "b": partial(both, order=19)}, HISTORIES.resampled(), minimize=["lost"]
    )
    assert {c.summary.history.block for c in found.values()} == {max(c.summary.history.block for c in found.values())}
    assert float(found["sold"].gap("a", "b").mean) == pytest.approx(-float(found["lost"].gap("a", "b").mean))


@pytest.mark.parametrize("history", [HISTORY, HISTORIES.resampled()])
def test_saved_and_loaded(history: jmdp.RecordedLuck, tmp_path: Any) -> None:
    found = compared(luck=history, samples=40)
    found.save(tmp_path / "found.nc")
    again = jmdp.load(tmp_path / "found.nc")
    assert str(again) == str(found)
    assert again.summary.history == found.summary.history
    assert "RecordedLuck" not in str(again)
    if history.is_resampled:
        assert again.continued(50, runs=RULES, luck=history).samples == 50


def test_workers_give_the_same_numbers() -> None:
    found = compared(luck=HISTORIES.resampled(7), samples=40, pool=2)
    assert (found.run_results() == compared(luck=HISTORIES.resampled(7), samples=40).run_results()).all()
