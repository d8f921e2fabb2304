"""`Comparison.explain` and `value_of_knowing`: which source of randomness explains a gap."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.distribute.pools import SerialPool
from jmdp.errors import LabelError, SettingsError, UnavailableError

QUIET = {"seed": 0, "samples": 100, "progress": False}


def old(luck):
    return 5 * luck.normal("demand", 1, mean=0, std=1) + luck.normal("lead", 2, mean=0, std=1)


def new(luck):
    """The gap to `old` is 2 lead + breakdown: shares 0.8 and 0.2. Demand moves both by 5, and cancels."""
    lead = luck.normal("lead", 2, mean=0, std=1)
    return 5 * luck.normal("demand", 1, mean=0, std=1) + 3 * lead + luck.normal("breakdown", mean=1, std=1)


@pytest.fixture(scope="module")
def found():
    return jmdp.compare_runs({"old": old, "new": new}, baseline="old", **QUIET)


@pytest.fixture(scope="module")
def explained(found):
    return found.explain(samples=400)


def test_shares_agree_with_the_closed_form(explained):
    """Intervals at 95%; the seed is fixed."""
    assert (explained.first, explained.second) == ("new", "old")
    assert explained.sources[:2] == ("lead", "breakdown")
    for source, share in (("lead", 0.8), ("breakdown", 0.2)):
        for estimate in (explained.first_order(source), explained.total(source)):
            assert estimate.low <= share <= estimate.high
            assert estimate.high - estimate.low < 0.25
    assert explained.first_order("demand") == explained.total("demand") == 0
    assert explained.interactions.low <= 0 <= explained.interactions.high
    moves = explained.moves("lead")
    assert list(moves) == ["new", "old", "new − old"]
    for estimate, size in zip(moves.values(), (3, 1, 2), strict=True):
        assert estimate.low <= size <= estimate.high


def test_a_source_that_cancels_is_named(explained):
    assert explained.cancelling == ("demand",)
    assert "demand moves each return by 5" in explained.answer
    assert explained.answer.endswith("and the gap by 0: it cancels")
    assert explained.answer.startswith("lead explains 79% [75, 83] of the variance of the gap new − old, breakdown 2")
    assert "interactions explain at most" in explained.answer


def test_a_source_that_nearly_cancels_is_named():
    """Demand moves each return by about 10 and the gap by 1; the lead moves the gap by 3, and does not cancel."""

    def run(luck, size, lead):
        return size * luck.normal("demand", mean=0, std=1) + lead * luck.normal("lead", mean=0, std=1)

    found = jmdp.compare_runs({"a": lambda luck: run(luck, 10, 1), "b": lambda luck: run(luck, 11, 4)}, **QUIET)
    explained = found.explain("b", "a", samples=200)
    assert explained.cancelling == ("demand",)
    assert "demand moves b by 1" in explained.answer


def test_it_prints_and_exports(explained):
    text = repr(explained)
    assert "400 samples of their own, 4," in text
    assert "moves new − old by" in text
    frame = explained.to_dataframe()
    assert frame.index.name == "source"
    assert frame.loc["lead", "explains low"] <= 0.8 <= frame.loc["lead", "explains high"]
    assert explained.to_xarray().sizes == {"source": 3}
    assert "<table>" in explained._repr_html_()
    with pytest.raises(LabelError, match=r"There is no source 'weather'\. Sources: lead, breakdown, demand"):
        explained.total("weather")


def test_the_cost_is_at_most_ten_times_that_of_the_comparison(found):
    """Sixteen samples find the sources; the others have 5 runs, and one more for rare sources."""
    explained = found.explain()
    assert explained.runs <= 10 * 200
    assert explained.samples == (2000 - 16 * 2) // (2 * 6)
    assert explained.runs == 2 * (16 + 5 * explained.samples)


def test_the_samples_of_the_comparison_are_not_used(found):
    """Nor does it matter how many there are."""
    more = found.continued(150)
    assert more.explain(samples=64).numbers.tolist() == found.explain(samples=64).numbers.tolist()
    other = jmdp.compare_runs({"old": old, "new": new}, baseline="old", **{**QUIET, "seed": 1})
    assert other.explain(samples=64).numbers.tolist() != found.explain(samples=64).numbers.tolist()


def test_the_result_does_not_depend_on_workers(found):
    with jmdp.distribute.ProcessPool(2) as pool:
        again = jmdp.compare_runs({"old": old, "new": new}, baseline="old", pool=pool, **QUIET)
        explained, value = again.explain(samples=64), again.value_of_knowing("lead", samples=400)
    assert explained.numbers.tolist() == found.explain(samples=64).numbers.tolist()
    assert repr(value) == repr(found.value_of_knowing("lead", samples=400))


def many(luck, size):
    """Eleven sources; source 0 matters most."""
    return size * sum(luck.normal(f"source {i}", mean=0, std=1.0 if i else 20.0) for i in range(11))


def test_with_many_sources_the_smallest_are_grouped():
    found = jmdp.compare_runs({"a": lambda luck: many(luck, 1), "b": lambda luck: many(luck, 2)}, **QUIET)
    explained = found.explain("b", "a")
    assert len(explained.sources) == 8
    assert explained.sources[0] == "source 0"
    assert len(explained.grouped) == 4
    assert explained.first_order("others").low <= 4 / 410 <= explained.first_order("others").high
    assert explained.runs <= 10 * 200
    assert "others: source " in repr(explained)


class Counted(SerialPool):
    """Keeps the numbers of the samples of each call."""

    def __init__(self):
        self.calls = []

    def ordered(self, work, arguments):
        self.calls.append(set())
        for first, count, *rest in arguments:
            self.calls[-1] |= set(range(first, first + count))
            yield work(first, count, *rest)


def test_samples_that_choose_do_not_judge():
    """Those that find the sources, those of the pilot, and those of the shares are different."""
    pool = Counted()
    runs = {"a": lambda luck: many(luck, 1), "b": lambda luck: many(luck, 2)}
    explained = jmdp.compare_runs(runs, pool=pool, **QUIET).explain("b", "a")
    scouts, pilot, main = pool.calls[-3:]
    assert not scouts & pilot
    assert not (scouts | pilot) & main
    assert len(main) == explained.samples


def test_a_rare_source_is_among_the_others():
    """The first 16 samples do not draw it."""

    def run(luck, loss):
        value = luck.normal("demand", mean=0, std=1)
        if luck.uniform("event") < 0.02:
            value -= loss * luck.exponential("fire", mean=20.0)
        return value * (1 + loss)

    found = jmdp.compare_runs({"a": lambda luck: run(luck, 0), "b": lambda luck: run(luck, 1)}, **QUIET)
    explained = found.explain("b", "a", samples=200)
    assert set(explained.sources) == {"demand", "event", "others"}
    assert explained.grouped == ("fire",)
    assert explained.total("others") > 0


def test_one_measure_of_several():
    def run(luck, x):
        demand, lead = luck.normal("demand", mean=0, std=1), luck.normal("lead", mean=0, std=1)
        return {"cost": x * demand, "wait": x * lead}

    found = jmdp.compare_runs({"a": lambda luck: run(luck, 1), "b": lambda luck: run(luck, 2)}, **QUIET)
    for measure, source in (("cost", "demand"), ("wait", "lead")):
        explained = found[measure].explain(samples=64)
        assert explained.sources[0] == source
        assert explained.first_order(source) == 1


def test_a_comparison_from_a_file_is_given_its_runs(found, tmp_path):
    pytest.importorskip("h5netcdf")
    found.save(tmp_path / "found.nc")
    loaded = jmdp.load(tmp_path / "found.nc")
    again = loaded.explain(samples=64, runs={"old": old, "new": new})
    assert again.numbers.tolist() == found.explain(samples=64).numbers.tolist()
    with pytest.raises(SettingsError, match="runs is missing: a file contains no simulator"):
        loaded.explain()
    with pytest.raises(SettingsError, match="runs was given, but this comparison has its own"):
        found.explain(runs={})


def test_what_cannot_be_explained(found):
    with pytest.raises(UnavailableError, match="its scores were recorded"):
        jmdp.compare_scores({"a": {1: 1.0, 2: 2.0}, "b": {1: 2.0, 2: 2.5}}).explain()
    with pytest.raises(UnavailableError, match="it was pickled"):
        pickle.loads(pickle.dumps(found)).value_of_knowing("lead")
    with pytest.raises(SettingsError, match="The gap between new and itself is 0"):
        found.explain("new", "new")
    with pytest.raises(SettingsError, match="samples is 1"):
        found.explain(samples=1)
    with pytest.raises(LabelError, match=r"There is no source 'weather'\. Sources: breakdown, demand, lead"):
        found.value_of_knowing("weather")
    with pytest.raises(SettingsError, match="100 samples are too few for two with each of 64 draws"):
        found.value_of_knowing("lead", samples=100)
    runs = {"a": lambda luck: luck.uniform(1), "b": lambda luck: 2 * luck.uniform(1)}
    with pytest.raises(UnavailableError, match="All randomness of a, b is unnamed"):
        jmdp.compare_runs(runs, **QUIET).explain()
    with pytest.raises(UnavailableError, match="The gap was 1 in all but 0 of 64 samples"):
        jmdp.compare_runs({"a": old, "b": lambda luck: old(luck) + 1}, **QUIET).explain(samples=64)
    few = jmdp.compare_runs({"old": old, "new": new}, **{**QUIET, "samples": 2})
    with pytest.raises(SettingsError, match="too few samples for an explanation"):
        few.explain()


# ------------------------------------------------------------------------------------------------ which futures decide


def late(luck, safe):
    """With a lead time above 4 days among ten orders, the lean design loses 5, else it gains 1."""
    demand = sum(luck.poisson("demand", day, mean=4) for day in range(10))
    longest = max(luck.choice("lead time", i, options=[1, 2, 3, 4, 7]) for i in range(4))
    return demand + (0.0 if safe else 1.0 if longest <= 4 else -5.0)


def test_the_futures_that_decide():
    pytest.importorskip("sklearn")
    runs = {"old": lambda luck: late(luck, True), "new": lambda luck: late(luck, False)}
    deciding = jmdp.compare_runs(runs, baseline="old", **QUIET).explain(samples=300).deciding()
    assert deciding.sentence == (
        "new is worse mostly when the largest lead time exceeds 5.50: in 100% [93, 100] of such samples, and in 0% [0, "
        "8] of the others"
    )
    assert float(deciding.accuracy) == 1.0
    assert deciding.accuracy.low < float(deciding.always) + 0.5 < 1.2
    assert deciding.samples == 100
    assert "|--- largest lead time <= 5.50" in deciding.tree[0]
    assert "they were not learned" in repr(deciding)


def test_without_a_rule_the_accuracy_is_that_of_chance():
    """The gap depends on a generator, which is not seen, so no rule is right in more samples than it should be."""
    pytest.importorskip("sklearn")
    runs = {
        "a": lambda luck: luck.uniform("demand") * 0 + luck["noise"].normal(),
        "b": lambda luck: luck.uniform("demand") * 0 + 2 * luck["noise"].normal(),
    }
    deciding = jmdp.compare_runs(runs, **QUIET).explain(samples=600).deciding()
    assert deciding.accuracy.low < 0.5 < deciding.accuracy.high


def test_what_has_no_rules(found):
    pytest.importorskip("sklearn")
    with pytest.raises(UnavailableError, match=r"of 64 samples\. A tree needs 100"):
        found.explain(samples=64).deciding()
    runs = {"a": lambda luck: luck["x"].normal(), "b": lambda luck: 2 * luck["x"].normal()}
    with pytest.raises(UnavailableError, match="No draws are known by name"):
        jmdp.compare_runs(runs, **QUIET).explain(samples=128).deciding()


# ------------------------------------------------------------------------------------------------ what it is worth


def sell(luck, order):
    """A newsvendor: price 2, cost 1, demand uniform between 0 and 2, and noise that no order changes."""
    demand = luck.uniform("demand", high=2.0)
    return 2 * min(order, demand) - order + 0.1 * luck.normal("noise", mean=0, std=1)


def test_the_value_of_knowing_the_demand():
    """Orders of ½ and 1½; the true value is an integral over the demand."""
    found = jmdp.compare_runs({"few": lambda luck: sell(luck, 0.5), "many": lambda luck: sell(luck, 1.5)}, **QUIET)
    d = (np.arange(200_000) + 0.5) / 100_000
    few, more = (2 * np.minimum(order, d) - order for order in (0.5, 1.5))
    truth = np.maximum(few, more).mean() - max(few.mean(), more.mean())
    value = found.value_of_knowing("demand", samples=4000)
    assert value.low <= truth <= value.high
    assert value.low > 0.5 * truth
    nothing = found.value_of_knowing("noise", samples=4000)
    assert not nothing.has_interval or nothing.low <= 0 <= nothing.high
    assert float(nothing) < 0.1 * truth


def test_smaller_is_better():
    """The value is that of smaller numbers."""
    runs = {"few": lambda luck: -sell(luck, 0.5), "many": lambda luck: -sell(luck, 1.5)}
    value = jmdp.compare_runs(runs, minimize=True, **QUIET).value_of_knowing("demand", samples=2000)
    same = {"few": lambda luck: sell(luck, 0.5), "many": lambda luck: sell(luck, 1.5)}
    other = jmdp.compare_runs(same, **QUIET).value_of_knowing("demand", samples=2000)
    assert math.isclose(value, other, rel_tol=1e-12)


# ------------------------------------------------------------------------------------------------ recorded history

DAYS = list(range(60))
HISTORY = jmdp.RecordedLuck({"day": DAYS, "demand": np.random.default_rng(1).poisson(20, 60).tolist()})


def month(luck, order):
    """Sales of recorded demand, and a cost that is drawn."""
    sold = sum(min(order, luck.recorded("demand", day)) for day in luck.periods)
    return sold + order * luck.normal("price", mean=0, std=3)


def test_resampled_rows_of_a_history_are_a_source():
    runs = {"few": lambda luck: month(luck, 17), "many": lambda luck: month(luck, 25)}
    found = jmdp.compare_runs(runs, luck=HISTORY.resampled(1), **QUIET)
    explained = found.explain("many", "few", samples=300)
    gaps = np.minimum(25, HISTORY.column("demand")) - np.minimum(17, HISTORY.column("demand"))
    drawn, resampled = (3 * 8) ** 2, 60 * gaps.var()
    share = resampled / (drawn + resampled)
    assert set(explained.sources) == {"history", "price"}
    assert explained.first_order("history").low <= share <= explained.first_order("history").high
    assert explained.first_order("price").low <= 1 - share <= explained.first_order("price").high
    assert "one source, history" in repr(explained)
    assert "mean demand" in explained.futures.names


def test_a_history_as_recorded_is_no_source():
    runs = {"few": lambda luck: month(luck, 17), "many": lambda luck: month(luck, 25)}
    explained = jmdp.compare_runs(runs, luck=HISTORY, **QUIET).explain("many", "few", samples=64)
    assert explained.sources == ("price",)
    assert explained.first_order("price") == 1
