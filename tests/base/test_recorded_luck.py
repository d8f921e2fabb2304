"""Recorded luck: which rows are read, what is refused, and how histories are put together from blocks."""

from __future__ import annotations

import copy
import datetime
import itertools
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import StepShocks
from jmdp.base.records import Row
from jmdp.errors import SettingsError

T = 28
DAYS = [datetime.date(2025, 1, 6) + datetime.timedelta(days=i) for i in range(T)]
DEMAND = [100 + i for i in range(T)]
FRAME = {"day": DAYS, "demand": DEMAND, "lead": [i % 3 for i in range(T)], "out": [int(i in (3, 4)) for i in range(T)]}
HISTORY = jmdp.RecordedLuck(FRAME, season=7, censored={"demand": "out"})


def luck(history: jmdp.RecordedLuck = HISTORY, sample: int = 0) -> jmdp.Luck:
    return jmdp.Luck(history.given_to(jmdp.Shock.of_sample(0, sample)))


def rows(history: jmdp.RecordedLuck, sample: int = 0) -> list[int]:
    """Rows that take the places of the periods, seen from what a run reads."""
    one = luck(history, sample)
    return [int(one.recorded("demand", day)) - 100 for day in one.periods]


def test_rows_are_read_by_period() -> None:
    one = luck()
    assert one.periods[0] == "2025-01-06"
    assert len(one.periods) == T
    assert one.recorded("demand", "2025-01-06") == 100
    assert one.recorded("demand", DAYS[0]) == 100  # again, in the same period
    assert one.recorded("demand", 1) == 101  # a position, because periods are no integers
    assert one.recorded("lead", DAYS[0]) == 0
    assert one.uniform("other") == jmdp.Luck(jmdp.Shock.of_sample(0, 0)).uniform("other")  # what is drawn stays drawn


def test_all_periods_at_once() -> None:
    one = luck(HISTORY.resampled(4), 2)
    assert one.recorded("demand", one.periods).tolist() == [row + 100 for row in rows(HISTORY.resampled(4), 2)]
    with pytest.raises(SettingsError, match="'demand' of period 2025-01-06 after a request for period 2025-02-02"):
        one.recorded("demand", one.periods)
    with pytest.raises(SettingsError, match="'price' was not recorded"):
        one.recorded("price", one.periods)


def test_integer_periods_are_labels() -> None:
    history = jmdp.RecordedLuck({"week": [5, 6, 7], "demand": [1.5, 2, 3]}, period="week")
    assert luck(history).recorded("demand", 5) == 1.5
    with pytest.raises(SettingsError, match=r"no such period\. They run from 5 to 7"):
        luck(history).recorded("demand", 0)


def test_rows_asked_for_by_count_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"names no period\. Rows are read by period, never by how often"):
        luck().recorded("demand")


@pytest.mark.parametrize(("asked", "said"), [([0, 2], "after a request for period 2025-01-06"), ([1], "first request")])
def test_an_index_that_skips_or_shifts_periods_is_refused(asked: list[int], said: str) -> None:
    one, *before = luck(), *asked[:-1]
    for i in before:
        one.recorded("demand", i)
    with pytest.raises(SettingsError, match=rf"{said}. A run reads each recorded purpose in every period, in order"):
        one.recorded("demand", asked[-1])


def test_an_index_that_goes_back_is_refused() -> None:
    one = luck()
    for i in (0, 1, 2):
        one.recorded("demand", i)
    with pytest.raises(SettingsError, match="asks for 'demand' of period 2025-01-07 after a request for period"):
        one.recorded("demand", 1)


def test_a_step_reads_the_row_of_its_period() -> None:
    root = HISTORY.given_to(jmdp.Shock.of_sample(0, 0))
    shock = root.derived(b"environment", 5, b"somewhere")
    inner = jmdp.Luck(shock.derived(b"more"))
    assert inner.recorded("demand") == inner.recorded("demand", 5) == inner.recorded("demand", DAYS[5]) == 105
    with pytest.raises(SettingsError, match="A step in period 2025-01-11 asks for 'demand' of period 4"):
        inner.recorded("demand", 4)
    many = StepShocks([root, root], b"environment", 6)
    assert [one.recorded.value("demand") for one in many if one.recorded is not None] == [106, 106]
    with pytest.raises(SettingsError, match="has 28 periods, and step 28"):
        root.derived(b"environment", T)


def test_shocks_of_steps_keep_their_row() -> None:
    shock = HISTORY.given_to(jmdp.Shock.of_sample(0, 0)).derived(b"environment", 5)
    for other in (pickle.loads(pickle.dumps(shock)), copy.deepcopy(shock)):
        assert isinstance(other.recorded, Row)
        assert other == shock
        assert other.recorded.value("demand") == 105


def test_a_resampled_history_has_whole_blocks_of_the_right_weekday() -> None:
    history, seen = HISTORY.resampled(5), Counter[int]()
    for sample in range(400):
        found = rows(history, sample)
        assert [row % 7 for row in found] == [i % 7 for i in range(T)]
        for first in range(0, T, 5):
            block = found[first : first + 5]
            assert [(b - a) % T for a, b in itertools.pairwise(block)] == [1] * (len(block) - 1)
        seen.update(found)
    assert set(seen) == set(range(T))  # every row as often as any other: 400 on average, with a standard error of 40
    assert 200 < min(seen.values()) < max(seen.values()) < 600
    assert rows(history, 3) == rows(history, 3) != rows(history, 4)


def test_columns_stay_together() -> None:
    one = luck(HISTORY.resampled(3), 1)
    for day in one.periods:
        assert one.recorded("lead", day) == (one.recorded("demand", day) - 100) % 3


def test_a_history_that_is_no_whole_number_of_seasons_keeps_the_phase() -> None:
    history = jmdp.RecordedLuck({"day": list(range(30)), "demand": list(range(100, 130))}, season=7).resampled(9)
    for sample in range(50):
        assert [row % 7 for row in rows(history, sample)] == [i % 7 for i in range(30)]


def test_a_part_and_what_lies_outside() -> None:
    part = HISTORY.part(DAYS[10], DAYS[15])
    assert len(part) == 6
    assert rows(part) == list(range(10, 16))
    assert part.column("demand").tolist() == [110, 111, 112, 113, 114, 115]
    assert set(rows(part.resampled(2))) <= set(range(10, 16))
    outside = part.outside(4, ["demand"])
    for sample in range(100):
        found = rows(outside, sample)
        assert not set(found) & set(range(10, 16))
        assert [row % 7 for row in found] == [i % 7 for i in range(10, 16)]


def test_censored_periods() -> None:
    assert HISTORY.hidden().tolist() == [3, 4]
    assert HISTORY.part(DAYS[4], DAYS[9]).hidden().tolist() == [0]


@pytest.mark.parametrize(
    ("frame", "given", "said"),
    [
        ([1, 2], {}, "Give a pandas DataFrame, or a dictionary of columns"),
        ({"demand": [1, 2]}, {}, "has no column 'day' of periods. Its columns are demand"),
        ({"day": [0, 1]}, {}, "Give two or more periods"),
        ({"day": [0, 1], "demand": [1]}, {}, r"2 periods and \{'demand': 1\}"),
        ({"day": [0, 1, 3], "demand": [1, 2, 3]}, {}, "Period 1 is followed by 3. Give every period in order"),
        ({"day": [DAYS[0], DAYS[2], DAYS[3]], "demand": [1, 2, 3]}, {}, "Period 2025-01-08 is followed by 2025-01-09"),
        ({"day": [0, 0], "demand": [1, 2]}, {}, "Period 0 is in rows 0 and 1"),
        ({"day": [0, 1], "demand": [1, float("nan")]}, {}, "'demand' is nan in period 1. Give a finite number"),
        ({"day": [0, 1], "demand": [1, "two"]}, {}, "'demand' is 'two' in period 1"),
        ({"day": [0, 1], "demand": [1, 2]}, {"season": 2}, "season is 2, but there are 2 periods"),
        ({"day": [0, 1], "demand": [1, 2]}, {"censored": {"demand": "out"}}, "censored names 'out'"),
    ],
)
def test_refused_histories(frame: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        jmdp.RecordedLuck(frame, **given)


def test_other_refusals() -> None:
    with pytest.raises(SettingsError, match="'price' was not recorded: the columns of the history are demand, lead"):
        luck().recorded("price", 0)
    with pytest.raises(SettingsError, match="There is no recorded luck"):
        jmdp.Luck(jmdp.Shock.of_sample(0, 0)).recorded("demand", 0)
    with pytest.raises(SettingsError, match="There is no period 99"):
        HISTORY.part(0, 99)
    with pytest.raises(SettingsError, match="block is 0"):
        HISTORY.resampled(0)
    with pytest.raises(SettingsError, match="No block of 26 periods outside"):
        luck(HISTORY.part(0, 6).outside(26, ["demand"]))


def test_a_data_frame() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"demand": DEMAND, "out": [False] * T}, index=pd.DatetimeIndex(DAYS, name="day"))
    history = jmdp.RecordedLuck(frame, season=7)
    assert history.periods[1] == "2025-01-07"
    assert rows(history) == list(range(T))
    assert luck(history).recorded("demand", pd.Timestamp(DAYS[0])) == 100
    months = pd.date_range("2025-01-31", periods=5, freq="ME")
    assert len(jmdp.RecordedLuck({"month": months, "demand": range(5)}, period="month")) == 5
    assert np.array_equal(history.column("demand"), DEMAND)
