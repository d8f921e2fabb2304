"""`compare_runs`: whole simulations with randomness by purpose."""

from __future__ import annotations

import math
import pickle
import random
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

import jmdp
from jmdp.base import progress
from jmdp.errors import LabelError, SettingsError, SimulatorError
from jmdp.results import Outcome

QUIET = {"seed": 0, "progress": False}


def plain(luck):
    return luck.uniform("x")


def curved(luck):
    u = luck.uniform("x")
    return u + 0.1 * u * u


def worse(luck):
    return luck.uniform("x") - 0.2 - 0.1 * luck.uniform("own")


def shop(luck, order=4):
    """Profit and stock of one day; demand by inversion."""
    demand = luck.poisson("demand", 0, mean=4)
    sold = min(order, demand)
    return {"profit": 5.0 * sold - 2.0 * order, "left": order - sold}


def larger_shop(luck):
    return shop(luck, 6)


def test_the_gap_and_the_gain_agree_with_the_closed_form():
    """Mean gap 0.1/3. The interval is valid at 95%: false alarm at most 5% for one seed, which is fixed."""
    found = jmdp.compare_runs({"plain": plain, "curved": curved}, **QUIET)
    gap = found.gap("curved", "plain")
    assert found.best == "curved"
    assert gap.mean_interval.low < 0.1 / 3 < gap.mean_interval.high
    u = (np.arange(100_000) + 0.5) / 100_000
    y = u + 0.1 * u * u
    ceiling = (u.var() + y.var()) / (u.std() - y.std()) ** 2
    assert found.pairing.gain.low < (u.var() + y.var()) / (y - u).var() < found.pairing.gain.high
    assert found.pairing.gain <= found.pairing.ceiling
    assert found.pairing.ceiling == pytest.approx(ceiling, rel=0.25)
    assert f"{found.samples} paired runs" in found.answer
    assert "ceiling" in repr(found)
    assert "runs if independent" in repr(found)


def test_smaller_is_better():
    """Minimising x is maximising −x, in the units of x."""
    runs = {"plain": plain, "curved": curved, "worse": worse}
    least = jmdp.compare_runs(runs, minimize=True, **QUIET)
    most = jmdp.compare_runs({name: lambda luck, run=run: -run(luck) for name, run in runs.items()}, **QUIET)
    assert least.best == most.best == "worse"
    assert least.samples == most.samples
    assert least.counts == most.counts
    assert least.worse_than == most.worse_than
    assert "smaller is better" in repr(least)
    for name in runs:
        assert float(least.mean_of(name)) == -float(most.mean_of(name))
        assert least.mean_of(name).low == -most.mean_of(name).high
        for other in runs:
            assert float(least.gap(name, other).mean) == -float(most.gap(name, other).mean)
            assert float(least.advantage(name, other)) == float(most.advantage(name, other))
            assert least.superiority(name, other).interval == most.superiority(name, other).interval
        assert float(least.regret(name).mean) == float(most.regret(name).mean)
    assert least.runner_up == most.runner_up
    assert least.answer == most.answer
    least.plot()


@pytest.mark.parametrize("minimize", [False, True])
def test_a_baseline(minimize):
    found = jmdp.compare_runs(
        {"plain": plain, "curved": curved, "worse": worse}, baseline="plain", minimize=minimize, **QUIET
    )
    assert found.outcome is Outcome.BASELINE_COMPARED
    assert found.reference == "plain"
    assert found.best == ("worse" if minimize else "curved")
    ahead = found.beside("curved")["advantage"]
    assert (ahead.high < 0) if minimize else (ahead.low > 0)


def test_several_measures_hold_jointly():
    found = jmdp.compare_runs({"4": shop, "6": larger_shop}, minimize=["left"], **QUIET)
    assert list(found) == ["left", "profit"]
    assert found.confidence == 0.95
    assert all(each.confidence == pytest.approx(0.975) for each in found.values())
    assert found["left"].best == found["profit"].best == "4"
    assert found["left"].minimized
    assert not found["profit"].minimized
    demand = np.arange(200)
    chance = stats.poisson.pmf(demand, 4)
    left = float((chance * (np.maximum(6 - demand, 0) - np.maximum(4 - demand, 0))).sum())
    interval = found["left"].gap("6", "4").mean_interval
    assert interval.low < left < interval.high
    assert "each measure at 97.5%" in repr(found)
    frame = found.to_dataframe()
    assert frame.index.names == ["measure", "design"]
    assert frame.loc[("left", "4"), "mean"] == float(found["left"].mean_of("4"))
    more = found.continued(found["left"].samples + 100)
    assert more["left"].samples == found["left"].samples + 100
    alone = jmdp.compare_runs(
        {"4": lambda luck: shop(luck)["left"], "6": lambda luck: larger_shop(luck)["left"]},
        minimize=True,
        confidence=0.975,
        max_samples=found["left"].samples,
        precision=1e-9,
        **QUIET,
    )
    same = alone.gap("6", "4").mean_interval
    assert (same.low, same.high) == pytest.approx((interval.low, interval.high), rel=1e-12)


def test_several_measures_go_on_to_a_precision():
    found = jmdp.compare_runs({"four": shop, "six": larger_shop}, max_samples=64, **QUIET)
    both = found.continued(20_000, precision=0.3)
    assert all(c.outcome is Outcome.PRECISE for c in both.values())
    assert all(c.gap("six", "four").mean_interval.width <= 0.6 for c in both.values())
    one = found.continued(20_000, precision={"left": 0.1})
    assert one["left"].outcome is Outcome.PRECISE
    assert one["left"].gap("six", "four").mean_interval.width <= 0.2
    assert one["profit"].outcome is not Outcome.PRECISE
    with pytest.raises(SettingsError, match="precision has waste, but the runs return left, profit"):
        found.continued(20_000, precision={"waste": 0.1})


def test_not_worse_when_smaller_is_better():
    """Margins of cost: new may cost more by the margin; the same verdict as for the negative return."""
    runs = {"old": lambda luck: 10 + plain(luck), "new": lambda luck: 10.2 + curved(luck)}
    cost = jmdp.compare_runs(runs, minimize=True, baseline="old", samples=1000, **QUIET)
    gain = jmdp.compare_runs(
        {name: lambda luck, run=run: -run(luck) for name, run in runs.items()}, baseline="old", samples=1000, **QUIET
    )
    for margin in (0.1, 0.5, "1%", "5%"):
        found, mirrored = cost.not_worse(margin), gain.not_worse(margin)
        assert (
            found.verdict
            is mirrored.verdict
            is (jmdp.results.Verdict.YES if margin in (0.5, "5%") else jmdp.results.Verdict.NO)
        )
        assert found.gap.interval == mirrored.gap.negative().interval
        assert found.gap > 0
        assert found.old_mean > 10


def test_settings_by_measure():
    found = jmdp.compare_runs(
        {"4": shop, "6": larger_shop},
        precision={"profit": 0.5},
        max_samples=3000,
        assume=jmdp.Assumptions(return_range={"left": (0, 6)}),
        **QUIET,
    )
    assert found["left"].summary.return_range == (0.0, 6.0)
    assert found["profit"].summary.return_range is None
    assert found["profit"].outcome is Outcome.PRECISE
    assert found["profit"].gap("4", "6").mean_interval.width <= 1.0
    assert found["left"].outcome is Outcome.BEST_FOUND


def test_a_range_of_one_measure_eliminates_nothing():
    """Before the other measure can be examined, designs must not be dropped by the first one alone."""

    def good(luck):
        return {"a": 0.1 * luck.uniform("x"), "b": 10 + luck.uniform("y")}

    def bad(luck):
        return {"a": 0.9 + 0.1 * luck.uniform("x"), "b": luck.uniform("y")}

    found = jmdp.compare_runs({"good": good, "bad": bad}, assume=jmdp.Assumptions(return_range={"a": (0, 1)}), **QUIET)
    assert found["a"].best == "bad"
    assert found["b"].best == "good"
    assert found["b"].counts["good"] == found["b"].counts["bad"]


def test_precision_by_measure_eliminates_nothing():
    def run(luck, shift):
        return {"cost": shift + luck.normal("x", shift, mean=0, std=1)}

    runs = {"a": lambda luck: run(luck, 0), "b": lambda luck: run(luck, 5), "c": lambda luck: run(luck, 9)}
    found = jmdp.compare_runs(runs, precision={"cost": 0.5}, **QUIET)["cost"]
    assert found.outcome is Outcome.PRECISE
    assert len(set(found.counts.values())) == 1
    for name in "ab":
        assert found.gap("c", name).mean_interval.width <= 1.0


def test_wrong_claims_are_rare():
    """Two designs with equal means in two measures: any claim is wrong. 150 comparisons; P(≥ 18 | 5%) < 1e-3."""

    def one(luck):
        return {"a": luck.normal("first", mean=0, std=1), "b": luck.exponential("first", 2, mean=1.0)}

    def other(luck):
        return {"a": luck.normal("second", mean=0, std=1), "b": luck.exponential("second", 2, mean=1.0)}

    claims = 0
    for seed in range(150):
        found = jmdp.compare_runs(
            {"one": one, "other": other}, seed=seed, max_samples=64, minimize=["b"], progress=False
        )
        claims += any(each.best is not None for each in found.values())
    assert claims < 18


def test_elimination_and_equal_designs():
    found = jmdp.compare_runs({"plain": plain, "again": plain, "worse": worse}, **QUIET)
    assert found.outcome is Outcome.EQUAL_BEST
    assert found.survivors == ("plain", "again")
    assert found.counts["worse"] <= found.counts["plain"]
    assert "the same design" in jmdp.compare_runs({"plain": plain, "again": plain}, **QUIET).answer


def test_workers_do_not_change_the_result(two_workers):
    one, two = (
        jmdp.compare_runs({"4": shop, "6": larger_shop}, samples=200, pool=pool, **QUIET)
        for pool in (None, two_workers)
    )
    for name in one:
        np.testing.assert_array_equal(one[name].run_results(), two[name].run_results())
    assert repr(one) == repr(two)
    assert repr(pickle.loads(pickle.dumps(one))) == repr(one)
    with pytest.raises(SettingsError, match="lambda"):
        jmdp.compare_runs({"a": lambda luck: luck.uniform("x"), "b": plain}, pool=two_workers, **QUIET)


def test_samples_are_functions_of_the_seed_and_their_number():
    found = jmdp.compare_runs({"plain": plain, "curved": curved}, seed=7, samples=40, progress=False)
    again = [plain(jmdp.Luck(jmdp.Shock.of_sample(7, i))) for i in range(40)]
    np.testing.assert_array_equal(found.run_results()[:, 0], again)


def test_hidden_randomness_is_refused():
    def hidden(luck):
        return luck.uniform("x") + 1e-9 * np.random.random()  # noqa: NPY002

    def seedless(luck):
        return random.random() + luck.uniform("x")

    seen = []

    def remembering(luck):
        seen.append(1)
        return luck.uniform("x") + len(seen)

    for run in (hidden, seedless, remembering):
        with pytest.raises(SimulatorError, match="'b' is not reproducible"):
            jmdp.compare_runs({"a": plain, "b": run}, **QUIET)


def test_a_key_that_is_used_twice_is_reported():
    def forgot(luck):
        return sum(luck.exponential("service", mean=1.0) for _ in range(5))

    def reused(luck):
        return sum(luck.normal("demand", day, mean=1.0, std=1.0) for day in (0, 1, 2, 1))

    with pytest.warns(UserWarning, match=r"used the random number \('service'\) 5 times"):
        jmdp.compare_runs({"a": plain, "b": forgot}, **QUIET)
    with pytest.warns(UserWarning, match=r"used the random number \('demand', 1\) 2 times"):
        jmdp.compare_runs({"a": plain, "b": reused}, **QUIET)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda luck: luck.uniform("demand", 3), lambda luck: luck.uniform("Demand", 3)),
        (lambda luck: luck.uniform("service time", 3), lambda luck: luck.uniform("service_time", 3)),
        (lambda luck: luck.uniform("x", "arrival"), lambda luck: luck.uniform("x", "arrivals")),
        (lambda luck: luck["demand"].random(), lambda luck: luck.uniform("demand")),
        (lambda luck: luck.seed("model") % 7 + 1.0, lambda luck: luck.seed("modell") % 7),
    ],
)
def test_a_misspelt_key_is_reported(one, other):
    runs = {"a": lambda luck: one(luck) + luck.uniform("y"), "b": lambda luck: other(luck) + luck.uniform("y")}
    with pytest.warns(UserWarning, match=r"Only design '.' uses the \w+ '.*, and only design '.' the \w+ '") as caught:
        jmdp.compare_runs(runs, samples=40, **QUIET)
    assert len(caught) == 1


def test_purposes_of_one_design_are_no_mistake():
    def clinic(luck, extra):
        total = sum(luck.exponential("service", f"patient {i}", mean=1.0) for i in range(3 + extra))
        total += luck.uniform("order", "-2.5") if extra else luck.uniform("order", "0.5")
        return total + (luck.uniform("repair", 1) if extra else luck.uniform("delivery", 1))

    runs = {"a": lambda luck: clinic(luck, 0), "b": lambda luck: clinic(luck, 2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jmdp.compare_runs(runs, samples=40, **QUIET)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda luck: default_rng(3).normal(), r"np.random.default_rng\(3\)"),
        (lambda luck: np.random.default_rng(seed=4).normal(), r"np.random.default_rng\(4\)"),
        (lambda luck: random.Random(6).gauss(), r"random.Random\(6\)"),
    ],
)
def test_a_generator_with_a_fixed_seed_is_reported(make, said):
    with pytest.warns(UserWarning, match=said) as caught:
        jmdp.compare_runs({"a": plain, "b": lambda luck: make(luck) + luck.uniform("x")}, samples=40, **QUIET)
    assert len(caught) == 1
    assert np.random.default_rng is default_rng


def test_generators_seeded_by_luck_are_no_mistake():
    def seeded(luck):
        return default_rng(luck.seed("new")).normal() + random.Random(luck.seed("python")).random()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jmdp.compare_runs({"a": seeded, "b": lambda luck: seeded(luck) + 1}, samples=40, **QUIET)


@pytest.mark.parametrize("first", [40, 150])
def test_memory_that_starts_late_is_noticed(first):
    """Samples are run again at the end too: without that, the wrong design would win."""
    calls = []

    def forgetful(luck):
        calls.append(1)
        return luck.uniform("x") + 3 * (len(calls) > first)

    with pytest.raises(SimulatorError, match="'a' is not reproducible: sample 0"):
        jmdp.compare_runs({"a": forgetful, "b": lambda luck: luck.uniform("x") + 0.2}, samples=400, **QUIET)


OF_WAIT = jmdp.Assumptions(return_range={"wait": (0, 9)})


@pytest.mark.parametrize(
    ("runs", "settings", "error", "said"),
    [
        ([plain, curved], {}, SettingsError, "Give a dictionary"),
        ({"a": plain}, {}, SettingsError, "two or more designs"),
        ({"a": plain, "b": 3.0}, {}, SettingsError, "'b' is a float"),
        ({"a": plain, "b": curved}, {"baseline": "c"}, LabelError, "baseline is 'c'"),
        ({"a": plain, "b": curved}, {"minimize": "wait"}, SettingsError, "minimize is 'wait'"),
        ({"a": plain, "b": curved}, {"minimize": ["wait"]}, SettingsError, "return a single number"),
        ({"a": plain, "b": curved}, {"precision": {"x": 1.0}}, SettingsError, "return a single number"),
        ({"a": shop, "b": larger_shop}, {"precision": {"left": -1.0}}, SettingsError, "precision is -1.0"),
        (
            {"a": shop, "b": larger_shop},
            {"assume": jmdp.Assumptions(return_range={"wait": (0, 9)})},
            SettingsError,
            "return_range has wait",
        ),
        ({"a": shop, "b": larger_shop}, {"minimize": ["wait"]}, SettingsError, "has wait, but the runs return left"),
        ({"a": plain, "b": shop}, {}, SimulatorError, "returned the names left, profit, another run a number"),
        ({"a": plain, "b": lambda luck: None}, {}, SimulatorError, "'b' in sample 0 returned None"),
        ({"a": plain, "b": lambda luck: 10**400}, {}, SimulatorError, "returned 1000"),
        ({"a": shop, "b": larger_shop}, {"precision": {1: 0.5, "x": 1}}, SettingsError, "precision has 1, x"),
        ({"a": plain, "b": lambda luck: math.nan}, {}, SimulatorError, "returned nan"),
        ({"a": plain, "b": lambda luck: "1.5"}, {}, SimulatorError, "returned '1.5'"),
        ({"a": plain, "b": lambda luck: {}}, {}, SimulatorError, "returned {}"),
        ({"a": plain, "b": lambda luck: {1: 2.0}}, {}, SimulatorError, "names to numbers"),
        ({"a": shop, "b": lambda luck: {"left": 1, "profit": [2]}}, {}, SimulatorError, r"'profit', returned \[2\]"),
    ],
)
def test_bad_input(runs, settings, error, said):
    with pytest.raises(error, match=said):
        jmdp.compare_runs(runs, **settings, **QUIET)


def test_an_exception_says_how_to_repeat_the_run():
    def fails(luck):
        if luck.uniform("x") > 0.9:
            raise ZeroDivisionError("no server")
        return 1.0

    with pytest.raises(ZeroDivisionError) as caught:
        jmdp.compare_runs({"a": plain, "b": fails}, **QUIET)
    note = caught.value.__notes__[0]
    luck = eval(note[note.index("jmdp.Luck(") :].rstrip("."), {"jmdp": jmdp})
    with pytest.raises(ZeroDivisionError):
        fails(luck)


def test_runs_without_randomness_are_run_once():
    with pytest.warns(UserWarning, match="drew nothing from `luck`"):
        found = jmdp.compare_runs({"a": lambda luck: 1.0, "b": lambda luck: 2}, **QUIET)
    assert found.outcome is Outcome.DETERMINISTIC
    assert found.samples == 1
    assert "No design drew from luck" in found.answer


def shifted(level, common):
    """A number with a part that all designs have in common, and its own normal part."""
    return lambda luck: level + common * luck.uniform("common") + luck.normal("own", str(level), mean=0, std=0.5)


def test_an_eliminated_design_has_the_mean_of_its_own_runs():
    designs = {"short": shifted(0.0, 20), "near": shifted(0.1, 20), "long": shifted(2.0, 20)}
    found = jmdp.compare_runs(designs, minimize=True, max_samples=3000, **QUIET)
    n, waits = found.counts["long"], found.run_results()
    assert n < found.samples
    assert found.mean_of("long") == pytest.approx(waits[:n, 2].mean(), rel=1e-12)
    assert found.mean_of("short") == pytest.approx(waits[:, 0].mean(), rel=1e-12)
    assert abs(waits[:, 0].mean() + (waits[:n, 2] - waits[:n, 0]).mean() - found.mean_of("long")) > 0.01
    low, high = found.mean_of("long").low, found.mean_of("long").high
    assert low < 12 < high
    assert (low + high) / 2 == pytest.approx(found.mean_of("long"))
    row = next(line.split() for line in repr(found).splitlines() if line.startswith("long"))
    assert float(row[1]) == pytest.approx(waits[:n, 2].mean(), abs=0.5)
    assert row[-1] == str(n)
    said = "each mean is of the design's own runs, each gap of the runs that both designs have"
    assert said in " ".join(repr(found).split())


def test_designs_are_ordered_by_gaps_and_not_by_means_of_different_runs():
    """The common part is larger in the first runs of this seed, so that the worst design has the largest mean."""
    found = jmdp.compare_runs(
        {"a": shifted(0.0, 99), "b": shifted(0.02, 99), "c": shifted(-2.0, 99)},
        seed=10,
        max_samples=400,
        progress=False,
    )
    assert found.counts["c"] < found.samples
    assert found.mean_of("c") > max(found.mean_of("a"), found.mean_of("b"))
    assert found.ranked[-1] == "c"
    assert {found.leader, found.runner_up} == {"a", "b"}
    assert found.advantage(found.leader, "c") > 1


@pytest.mark.parametrize("minimize", [False, True])
def test_progress_names_the_leader_by_estimate_also_with_a_baseline(monkeypatch, capsys, minimize):
    """New is better than old, and third is better than both: it is settled first, and leads."""
    sign = -1 if minimize else 1
    designs = {
        "old": lambda luck: sign * luck.normal("x", mean=0, std=1),
        "new": lambda luck: sign * luck.normal("y", mean=0.5, std=1),
        "third": lambda luck: sign * luck.normal("x", mean=9, std=1.1),
    }
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    found = jmdp.compare_runs(designs, baseline="old", minimize=minimize, seed=0, max_samples=80)
    assert found.counts["third"] < found.counts["new"]
    two = {name: designs[name] for name in ("old", "new")}
    jmdp.compare_runs(two, baseline="old", minimize=minimize, seed=0, max_samples=80)
    lines = [line.split("; ", 1)[1] for line in capsys.readouterr().err.splitlines() if "remain" in line]
    assert re.match(r"third leads, 8\.\d+ to 9\.\d+ over old; 2 of 3 remain", lines[0])
    assert re.match(r"third leads; old -\S+ to \S+ over new; 2 of 3 remain", lines[1])
    assert re.match(r"new leads, -\S+ to 0\S+ over old; 2 of 2 remain", lines[-1])


def test_pairing_that_costs_is_given_up():
    """u and 0.9 (1 − u): the variance of the difference is nearly doubled by pairing."""
    found = jmdp.compare_runs({"a": plain, "b": lambda luck: 0.9 * (1 - luck.uniform("x"))}, samples=400, **QUIET)
    assert found.paired_samples < found.samples
    assert "Pairing increases the variance" in repr(found)
    truth = 0.05
    assert found.gap("a", "b").mean_interval.low < truth < found.gap("a", "b").mean_interval.high


def test_another_program_by_its_seed():
    program = "import random, sys; random.seed(int(sys.argv[1])); print(random.gauss(float(sys.argv[2]), 1))"

    def run(luck, shift):
        called = [sys.executable, "-S", "-c", program, str(luck.seed("noise")), str(shift)]
        return float(subprocess.run(called, capture_output=True, text=True, check=True).stdout)

    found = jmdp.compare_runs({"0": lambda luck: run(luck, 0), "1": lambda luck: run(luck, 1)}, max_samples=4, **QUIET)
    np.testing.assert_allclose(np.diff(found.run_results(), axis=1), 1.0)


def test_an_interrupt_keeps_the_samples():
    calls = []

    def interrupted(luck):
        calls.append(1)
        if len(calls) == 50:
            raise KeyboardInterrupt
        return luck.uniform("x")

    found = jmdp.compare_runs({"a": interrupted, "b": lambda luck: luck.uniform("y")}, **QUIET)
    assert found.outcome is Outcome.INTERRUPTED
    assert 2 <= found.samples < 50


def test_luck_within_a_step():
    """A step that names its draws: one action draws more often, and the other purposes are unaffected."""

    class Desk(jmdp.simulators.Simulator):
        actions = jmdp.simulators.action_labels(["one", "two"])

        def step(self, state, action, shock):
            luck = jmdp.Luck(shock)
            cost = sum(luck["repairs"].exponential() for _ in range(self.actions.index(action) * 3))
            return jmdp.simulators.Step(luck["demand"].poisson(4) - 0.1 * cost, 0, False)

        def start(self, shock):
            return 0

    desk = Desk()
    assert not jmdp.testing.check_simulator(desk)
    found = jmdp.compare(desk, policy=lambda state: 0, discount=0.5, horizon=5, **QUIET)
    assert found.best == "one"
    assert found.variance_reduction("one", "two") > 20
