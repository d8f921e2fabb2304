"""Starts in shares (`stratify`): every start as often as it should, narrower intervals that hold, the same in any pool.

Coverage is tested by the exact lower limit of a binomial share: a false alarm in 1 of 10,000 tests.
"""

from __future__ import annotations

import math
from itertools import dropwhile, takewhile

import numpy as np
import pytest
from scipy import stats

import jmdp
from jmdp.comparisons.compare_policies import policy_question
from jmdp.comparisons.question import ComparisonSettings
from jmdp.errors import SettingsError
from jmdp.simulators import Simulator, Step, TabularSimulator, action_labels
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.starts import Starts
from jmdp.statistics.means import Sampling, Strata, looks, mean_of

M = 8
EQUAL = list(range(M))
UNEQUAL = {s: (s + 1) / 36 for s in range(M)}
QUIET = {"progress": False, "stratify": True}


def starts_matter():
    """A table whose starts differ much more in their gaps (standard deviation 4.6) than each of them varies (0.4)."""
    rng = np.random.default_rng(0)
    S, K = M + 1, 5
    reward = np.zeros((S, K, 2))
    reward[:M, :, 0] = rng.normal(size=(M, K)) + 3 * np.arange(M)[:, None]
    reward[:M, :, 1] = reward[:M, :, 0] + 2 * (np.arange(M)[:, None] - 3.3) + 0.5 * rng.normal(size=(M, K))
    prob = np.tile(rng.dirichlet(np.ones(K)), (S, 1))
    model = jmdp.TabularJMDP(prob, reward, np.full((S, K, 2), M), 0.9, terminal=np.arange(S) == M)
    gaps = (prob * (reward[..., 1] - reward[..., 0])).sum(axis=1)[:M]
    return model, {"a": np.tile([1.0, 0.0], (S, 1)), "b": np.tile([0.0, 1.0], (S, 1))}, gaps


MODEL, PAIR, GAPS = starts_matter()


def covers(hits, runs, level=0.95):
    """Whether so many intervals of `runs` contain the truth as intervals of this level would."""
    return stats.binom.cdf(hits, runs, level) > 1e-4


# ------------------------------------------------------------------------------------------------- shares


def starts_of(given):
    return Starts.of(given, TabularSimulator(MODEL))


def test_of_equally_likely_starts_each_is_taken_once_in_turn():
    numbers = starts_of(EQUAL).in_shares(3, 0, 40 * M)
    assert (np.sort(numbers.reshape(-1, M), axis=1) == np.arange(M)).all()
    assert (numbers[17:90] == starts_of(EQUAL).in_shares(3, 17, 73)).all()
    orders = {tuple(starts_of(EQUAL).in_shares(seed, 0, M)) for seed in range(20)}
    assert len(orders) > 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("given", [UNEQUAL, {0: 0.7, 1: 0.29, 2: 0.01}, {0: 1.0}])
def test_other_starts_are_taken_in_proportion_to_their_probabilities(given, seed):
    numbers = starts_of(given).in_shares(seed, 0, 3000)
    counts = (numbers[:, None] == np.arange(len(given))).cumsum(axis=0)
    wanted = np.arange(1, 3001)[:, None] * np.array(list(given.values()))
    assert np.abs(counts - wanted).max() < 4


def test_a_start_is_as_likely_as_its_probability():
    """Over seeds, at every number of a sample. A false alarm in 1 of 10,000 tests."""
    first = [starts_of(UNEQUAL).in_shares(seed, 5, 1)[0] for seed in range(4000)]
    counts = np.bincount(first, minlength=M)
    assert stats.chisquare(counts, 4000 * np.array(list(UNEQUAL.values()))).pvalue > 1e-4


class Stepped(TabularSimulator):
    """A table that is not compiled."""


class Arrays(Simulator):
    """One step as an array; the first action earns the start."""

    actions = action_labels(2)
    discount = 0.9

    def step(self, state, action, shock):
        return Step(float(state - action + shock.uniform()), state, True)

    def step_many(self, states, actions, shocks):
        return states - actions + shocks.uniform(), states, np.ones(len(states), bool)

    def start(self, shock):
        return 0


def jax_source():
    jax = pytest.importorskip("jax")
    from jmdp.simulators import JaxSimulator

    def step(key, s, a):
        return s - a + jax.random.uniform(key), s, jax.numpy.bool_(True)

    return JaxSimulator(step, 2)


@pytest.mark.parametrize("given", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("coupling", [jmdp.Synchronous(policy_luck="shared"), jmdp.Independent()], ids=repr)
@pytest.mark.parametrize("kind", ["table", "stepped", "arrays", "jax"])
def test_all_simulators_take_the_same_starts(kind, coupling, given):
    source = {"table": lambda: MODEL, "stepped": lambda: Stepped(MODEL), "arrays": Arrays, "jax": jax_source}[kind]()
    policies = PAIR if kind in ("table", "stepped") else {"a": lambda s: 0, "b": lambda s: 1}
    if kind == "jax":
        jnp = pytest.importorskip("jax").numpy
        policies = {"a": lambda s: jnp.int32(0), "b": lambda s: jnp.int32(1)}
    settings = ComparisonSettings(seed=4, coupling=coupling, stratify=True, horizon=2)
    states = {float(s): p for s, p in given.items()} if isinstance(given, dict) else [float(s) for s in given]
    discount = None if kind in ("table", "stepped", "arrays") else 0.9
    question = policy_question(source, policies, given if discount is None else states, discount, None, settings)
    assert question.compiled == (kind != "stepped")
    expected = starts_of(given).in_shares(4, 0, 200)
    for first, count in ((0, 200), (13, 60)):
        draws = paired_draws(question.simulator, question.plan, first, count)
        assert (draws.starts == expected[first : first + count, None]).all()
        if kind in ("arrays", "jax"):  # what was earned is from this start
            assert (np.floor(draws.returns[:, 0] + 1e-6) == draws.starts[:, 0]).all()


# ------------------------------------------------------------------------------------------------- intervals


def hits_and_ratio(given, runs):
    """Number of intervals that contain the truth, and how much narrower they are than without shares."""
    shares = np.array(list(UNEQUAL.values())) if given is UNEQUAL else np.full(M, 1 / M)
    truth, hits, widths = shares @ GAPS, 0, []
    for seed in range(runs):
        gap = jmdp.compare_policies(MODEL, PAIR, starts=given, seed=seed, samples=100, **QUIET).gap("b", "a")
        hits += gap.mean_interval.low <= truth <= gap.mean_interval.high
        widths.append(gap.mean_interval.high - gap.mean_interval.low)
    plain = jmdp.compare_policies(MODEL, PAIR, starts=given, seed=0, samples=100, progress=False).gap("b", "a")
    return hits, (plain.mean_interval.high - plain.mean_interval.low) / np.mean(widths)


@pytest.mark.parametrize("given", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_intervals_are_narrow_and_hold(given):
    """Gaps differ by 4.6 between starts and by 0.5 within: intervals are narrower by 9.6 (7.0 if unequal)."""
    hits, ratio = hits_and_ratio(given, 80)
    assert covers(hits, 80)
    assert ratio == pytest.approx(9.6 if given is EQUAL else 7.0, rel=0.15)


@pytest.mark.long
@pytest.mark.parametrize("given", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
def test_intervals_hold_in_many_runs(given):
    assert covers(hits_and_ratio(given, 2000)[0], 2000)


def test_the_sequential_answer_is_found_with_fewer_samples():
    settings = {"starts": EQUAL, "seed": 0, "max_samples": 20_000, "progress": False}
    plain, shares = (jmdp.compare_policies(MODEL, PAIR, stratify=yes, **settings) for yes in (False, True))
    assert shares.best == plain.best == "b"
    assert shares.samples == 64
    assert plain.samples > 2 * shares.samples
    margin = {**settings, "baseline": "a", "margin": 1.0}
    worse, same = (jmdp.compare_policies(MODEL, PAIR, stratify=yes, **margin) for yes in (False, True))
    assert same.samples < worse.samples


def ever_missed(law, n, runs, kind, seed=0):
    """Number of runs whose interval misses the mean at any look up to n, and the share of looks without one."""
    rng = np.random.default_rng(seed)
    m, missed, none, seen = 12, 0, 0, 0
    shares = rng.dirichlet(4 * np.ones(m))
    starts = Starts(list(range(m)), shares, list(map(str, range(m))))
    means, scales = 5 * rng.normal(size=m), rng.exponential(size=m) + 0.1
    noise = {"normal": rng.normal, "exponential": lambda size: rng.exponential(size=size) - 1}[law]
    for run in range(runs):
        numbers = starts.in_shares(run, 0, n)
        values = (means[numbers] + scales[numbers] * noise(size=n))[:, None]
        strata, wrong = Strata(numbers, shares), False
        for look in [n] if kind == "fixed" else takewhile(lambda k: k <= n, dropwhile(lambda k: k < 64, looks())):
            part = values[:look]
            below, above = Sampling(kind).mean_errors(strata.centred(part, 0.05), 0.05)
            off = float(shares @ means - mean_of(part, strata)[0])
            wrong |= off > above[0] or -off > below[0]
            none, seen = none + math.isinf(above[0]), seen + 1
        missed += wrong
    return missed, none / seen


@pytest.mark.parametrize("law", ["normal", "exponential"])
@pytest.mark.parametrize(("kind", "n"), [("fixed", 40), ("fixed", 100), ("sequential", 400)])
def test_means_over_unlike_starts_are_covered(law, kind, n):
    """12 starts of other shares, means and spreads; also with few samples of each, where the degrees of freedom are."""
    runs = 150 if kind == "sequential" else 400
    missed, none = ever_missed(law, n, runs, kind)
    assert covers(runs - missed, runs)
    assert none < 0.5


def test_one_noisy_start_with_three_samples_is_covered():
    """Almost all of the variance has two degrees of freedom: an interval with n − 1 misses in about 1 of 5 runs."""
    rng, numbers, missed = np.random.default_rng(0), np.tile(np.arange(12), 3), 0
    strata = Strata(numbers, np.full(12, 1 / 12))
    for _ in range(400):
        values = (np.where(numbers == 0, 5.0, 0.3) * rng.normal(size=36) + numbers)[:, None]
        below, above = Sampling("fixed").mean_errors(strata.centred(values, 0.05), 0.05)
        off = 5.5 - mean_of(values, strata)[0]
        missed += off > above[0] or -off > below[0]
    assert covers(400 - missed, 400)


@pytest.mark.long
@pytest.mark.parametrize("law", ["normal", "exponential"])
@pytest.mark.parametrize(("kind", "n"), [("fixed", 40), ("fixed", 100), ("fixed", 400), ("sequential", 4000)])
def test_means_over_unlike_starts_are_covered_in_many_runs(law, kind, n):
    missed, _ = ever_missed(law, n, 4000, kind, seed=1)
    assert covers(4000 - missed, 4000, 0.95 if law == "normal" else 0.94)


def test_with_few_samples_of_a_start_the_interval_is_the_plain_one():
    rng = np.random.default_rng(0)
    numbers, values = np.arange(90) % 50, rng.normal(size=(90, 2))
    strata = Strata(numbers, np.full(50, 1 / 50))
    assert (strata.centred(values, 0.05) == values).all()
    assert (mean_of(values, strata) == values.mean(axis=0)).all()


def test_gaps_that_do_not_vary_within_starts_have_the_plain_interval():
    """Deterministic from each start: the variance within starts is 0, and says nothing about what was not seen."""
    model = jmdp.TabularJMDP(
        np.ones((3, 1)), np.array([[[0.1, 0.4]], [[0.7, 0.9]], [[0.0, 0.0]]]), np.full((3, 1, 2), 2), 0.9,
        terminal=np.array([False, False, True]),
    )  # fmt: skip
    pair = {"a": np.tile([1.0, 0.0], (3, 1)), "b": np.tile([0.0, 1.0], (3, 1))}
    found = jmdp.compare_policies(model, pair, starts=[0, 1], seed=0, samples=100, **QUIET).gap("b", "a")
    assert float(found.mean) == pytest.approx(0.25)
    assert 0.005 < found.mean_interval.high - found.mean_interval.low < 0.1


# ------------------------------------------------------------------------------------------------- the rest


def test_intervals_by_start_are_those_of_the_samples_from_it():
    for settings in ({"samples": 400}, {"max_samples": 800, "precision": 0.05}):
        found = jmdp.compare_policies(MODEL, PAIR, starts=EQUAL, seed=1, **settings, **QUIET)
        rows = found.by_start().rows()
        name = "a" if found.reference == "b" else "b"
        gaps = [row[f"advantage of {name}"] for row in rows]
        truth = GAPS if name == "b" else -GAPS
        assert sum(gap.low <= true <= gap.high for gap, true in zip(gaps, truth, strict=True)) >= 6
        draws = found.summary.samples.complete
        mine = (draws.returns[:, 1] - draws.returns[:, 0])[draws.starts[:, 0] == 2] * (1 if name == "b" else -1)
        off = found.summary.sampling.mean_errors(mine[:, None], 0.05)
        assert gaps[2].high == pytest.approx(mine.mean() + off[1][0], rel=1e-6)
        assert f"{rows[2]['samples']}" in repr(found.by_start())


def test_workers_and_continued_comparisons_change_nothing(tmp_path):
    settings = {"starts": UNEQUAL, "seed": 2, "max_samples": 90, "precision": 1e-3, **QUIET}
    found = jmdp.compare_policies(Stepped(MODEL), PAIR, **settings)
    parallel = jmdp.compare_policies(Stepped(MODEL), PAIR, pool=2, **settings)
    assert (found.summary.samples.returns == parallel.summary.samples.returns).all()
    assert str(found) == str(parallel)
    found.save(tmp_path / "found.nc")
    loaded = jmdp.load(tmp_path / "found.nc")
    assert str(loaded) == str(found)
    more = loaded.continued(150, simulator=Stepped(MODEL), policies=PAIR, starts=UNEQUAL)
    assert (more.summary.samples.complete.starts[:, 0] == starts_of(UNEQUAL).in_shares(2, 0, 150)).all()
    assert str(more) == str(found.continued(150))
    assert more.gap("b", "a").mean_interval != found.gap("b", "a").mean_interval


def test_what_is_refused():
    class Own(Arrays):
        step_many = Simulator.step_many

    with pytest.raises(SettingsError, match="the simulator draws its own starts"):
        jmdp.compare_policies(Own(), {"a": lambda s: 0, "b": lambda s: 1}, seed=0, **QUIET)
    within = jmdp.Assumptions(return_range=(-100, 100))
    with pytest.raises(SettingsError, match="stratify and return_range are both given"):
        jmdp.compare_policies(MODEL, PAIR, starts=EQUAL, seed=0, assume=within, **QUIET)
    with pytest.raises(SettingsError, match="stratify"):
        jmdp.compare_policies(MODEL, PAIR, starts=EQUAL, seed=0, stratify="yes")
