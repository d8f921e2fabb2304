"""P21: what comparisons say of mean gaps and of what was not seen, and how often it is wrong.

Gaps have known means (`reference.gap_samples`, `reference.rare_losses`), and thousands of comparisons are simulated at
once by giving their samples to the functions of the package as columns. The last tests hold the public functions
against these. A rate is too high if its exact binomial lower limit exceeds the stated one, at 1e-3 for all rates of
this file together. With -s the rates are printed.
"""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np
import pytest
from scipy.stats import binom, nct
from scipy.stats import t as student

import jmdp
from jmdp.simulators import FunctionSimulator
from jmdp.statistics.means import FIXED, Sampling, looks, planned_looks, sequential_radius
from reference.gap_samples import BUDGETS, DECIDES, LAWS, Law, correlated, normal, scheduled, watch
from reference.rare_losses import RARE_LOSSES, verdicts

RATES = 400
"""At most so many rates are tested in this file."""

QUICK = {"normal": 500, "lognormal": 2000, "99% ties, rest lognormal": 1000}
"""Distributions that are simulated on every change, and how often: planted bugs are seen with them."""

QUICK_FIXED = {
    30: ("normal", "exponential", "lognormal", "Pareto 2.5"),
    100: ("lognormal", "Pareto 2.5", "95% ties, rest lognormal"),
    300: ("95% ties, rest exponential",),
}

JOINTLY = ("normal", "exponential", "lognormal", "t₃", "90% ties", "successes, 5% and 1%", "95% ties, rest exponential")
"""Distributions for comparisons of many alternatives."""


def too_many(limit: float, runs: int) -> int:
    """The least count whose exact binomial lower limit exceeds `limit`."""
    return int(binom.isf(1e-3 / RATES, runs, limit)) + 1


def within(limit: float, happened: np.ndarray, said: str) -> None:
    """Fail if this happened too often for a rate of at most `limit`."""
    print(f"{said}: {100 * happened.mean():.2f}% of {happened.size:,}")
    assert happened.sum() < too_many(limit, happened.size), said


def all_looks(budget: int) -> list[int]:
    """Scheduled looks, and budgets that end between them."""
    return sorted({*scheduled(budget), *(n for n in BUDGETS if n <= budget)})


# ------------------------------------------------------------------------------------------------ sequential intervals


def check_ever_miss(name: str, runs: int, budget: int, seed: int) -> None:
    """At any look at which there is an interval, also at 32 and 48 samples, where nothing is decided."""
    found = watch(LAWS[name], runs, seed, all_looks(budget))
    shares = ", ".join(f"{n}: {100 * found.without(n):.0f}%" for n in (32, 64, 100, 300, 1000, 4000) if n <= budget)
    print(f"{name}, without an interval at {shares}")
    within(LAWS[name].limit, found.ever(DECIDES), f"{name}, ever from {DECIDES} on")
    within(LAWS[name].limit, found.ever(), f"{name}, ever from 32 on")


@pytest.mark.parametrize("name", QUICK)
def test_intervals_miss_in_at_most_5_percent_of_comparisons(name):
    """Looks up to 1,000 samples. Student's t at every look misses in a third of comparisons."""
    check_ever_miss(name, QUICK[name], 1000, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", LAWS)
def test_intervals_miss_in_at_most_5_percent_of_10000_comparisons(name):
    check_ever_miss(name, 10_000, 4000, 2)


@pytest.mark.long
@pytest.mark.parametrize("alternatives", [10, 50])
@pytest.mark.parametrize("name", [*JOINTLY, "Pareto 2.5"])
def test_intervals_of_all_gaps_hold_jointly(name, alternatives):
    """Of one alternative to k − 1 others, with independent gaps: no two intervals fail together more than by chance."""
    gaps, runs = alternatives - 1, 1000
    ever = watch(LAWS[name], runs * gaps, alternatives, all_looks(4000), 0.05 / gaps)
    for first in (DECIDES, 32):
        some = ever.ever(first).reshape(gaps, runs).any(axis=0)
        within(LAWS[name].limit, some, f"{name}, {alternatives} alternatives, ever from {first} on")


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.999])
def test_widths_are_near_those_of_t_at_any_correlation(correlation):
    """Medians over those of Student's t at the same n, which is for one look."""
    law, most = correlated(normal, correlation), {64: 1.6, 100: 1.5, 300: 1.45, 1000: 1.5}
    values = law.draw(np.random.default_rng(3), (max(most), 400))
    for n, limit in most.items():
        below, above = Sampling().mean_errors(values[:n], 0.05)
        t = student.isf(0.025, n - 1) * values[:n].std(axis=0, ddof=1) / math.sqrt(n)
        assert np.array_equal(below, above)
        ratio = np.median(below / t)
        print(f"correlation {correlation}, n = {n}: {ratio:.3f}")
        assert 1 < ratio <= limit


def check_pairs(law: Law, runs: int, seed: int) -> None:
    """Median pairs to a decision for standardised gaps d."""
    found = watch(law, runs, seed, scheduled(3000))
    for d, most in {0.1: 921, 0.3: 100, 0.5: 64, 1.0: 64}.items():
        stops = found.stops(d * law.std)
        quantiles = np.quantile(np.minimum(stops, 1e6), [0.1, 0.5, 0.9])
        print(f"d = {d}: 10%, 50% and 90% of comparisons decide by {quantiles}")
        assert np.median(stops) <= most


def test_pairs_to_a_decision():
    check_pairs(LAWS["normal"], 400, 4)


@pytest.mark.long
@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99, 0.999])
def test_pairs_to_a_decision_in_4000_comparisons(correlation):
    check_pairs(correlated(normal, correlation), 4000, 5)


# ------------------------------------------------------------------------------------------------ a fixed number


def check_fixed(name: str, n: int, runs: int, seed: int) -> None:
    """Coverage among the samples with an interval, if these are at least half, and the share of the others."""
    law = LAWS[name]
    found = watch(law, runs, seed, [n], sampling=FIXED)
    known = found.known[0]
    print(f"{name}, n = {n}: {100 * found.without(n):.1f}% without an interval")
    limit = 0.06 if n >= 100 else {"lognormal": 0.065, "Pareto 2.5": 0.085}.get(name, 0.06)
    within(limit, found.missed[0], f"{name}, n = {n}, missed")
    if known.mean() > 0.5:
        within(limit, found.missed[0][known], f"{name}, n = {n}, missed where there is an interval")


@pytest.mark.parametrize(("n", "name"), [(n, name) for n, names in QUICK_FIXED.items() for name in names])
def test_coverage_of_a_fixed_number_of_samples(n, name):
    check_fixed(name, n, 4000, 6)


@pytest.mark.long
@pytest.mark.parametrize("name", LAWS)
def test_coverage_of_a_fixed_number_of_samples_in_20000_comparisons(name):
    for n in (30, 64, 100, 300, 1000):
        check_fixed(name, n, 20_000, 7)


@pytest.mark.parametrize(
    ("name", "most"),
    [("normal", (1.03, 1.01)), ("exponential", (1.20, 1.10)), ("lognormal", (1.30, 1.22))],
)
def test_widths_of_a_fixed_number_of_samples(name, most):
    """Medians over those of Student's t for 30 and 100 samples, to two decimals."""
    for n, limit in zip((30, 100), most, strict=True):
        values = LAWS[name].draw(np.random.default_rng(8), (n, 4000))
        below, above = FIXED.mean_errors(values, 0.05)
        t = student.isf(0.025, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
        ratio = np.median((below + above) / (2 * t))
        print(f"{name}, n = {n}: {ratio:.3f}")
        assert round(ratio, 2) <= limit


# ------------------------------------------------------------------------------------------------ what was not seen


def check_verdicts(name: str, runs: int, budget: int, seed: int) -> None:
    at = [n for n in all_looks(budget) if n >= DECIDES]
    found = verdicts(RARE_LOSSES[name], runs, seed, at)
    print(f"{name}: {', '.join(f'{key} {100 * rate:.1f}%' for key, rate in found.rates.items())}")
    within(0.03, found.false, f"{name}, false sentence")
    within(0.03, found.ever_false, f"{name}, false sentence at some look")
    within(0.01, found.firm, f"{name}, firm")
    within(0.03, found.with_loss, f"{name}, wrong with the largest loss given")


@pytest.mark.parametrize("name", ["loss of 10 in 1 of 100, gap std 0.3", "crash from 200 in 1 of 201, shared std 5"])
def test_what_is_said_of_unseen_losses_is_true(name):
    check_verdicts(name, 500, 500, 9)


@pytest.mark.long
@pytest.mark.parametrize("name", RARE_LOSSES)
def test_what_is_said_of_unseen_losses_is_true_in_4000_comparisons(name):
    check_verdicts(name, 4000, 4000, 10)


# ------------------------------------------------------------------------------------------------ planned looks


def pairs_for(d: float, power: float = 0.9) -> int:
    """Pairs for which Student's t test of size 5% has this power at the standardised gap d."""
    n = 2
    while nct.sf(student.isf(0.025, n - 1), n - 1, d * math.sqrt(n)) < power:
        n += 1
    return n


def check_plan(name: str, d: float, runs: int, seed: int) -> None:
    """Five looks within 1.026 times the pairs of a fixed sample with the same power (Jennison & Turnbull 2000)."""
    law, fixed = LAWS[name], pairs_for(d)
    most = math.ceil(1.026 * fixed)
    found = watch(law, runs, seed, planned_looks(most), sampling=Sampling("planned", most))
    stops = found.stops(d * law.std, 0)
    pairs, power = np.minimum(stops, most).mean(), np.isfinite(stops).mean()
    print(f"{name}, d = {d}, t needs {fixed}: at most {most}, {pairs:.0f} on average, power {power:.3f}")
    within(LAWS[name].limit, found.ever(0), f"{name}, planned, d = {d}, missed")
    if name == "normal" and fixed > 100:
        assert pairs < 0.8 * fixed
        assert power > 0.87


@pytest.mark.parametrize("name", ["normal", "lognormal"])
def test_planned_looks(name):
    check_plan(name, 0.3, 2000, 11)


@pytest.mark.long
@pytest.mark.parametrize("d", [0.1, 0.2, 0.3, 0.5])
@pytest.mark.parametrize("name", ["normal", "exponential", "lognormal", "90% ties", "Pareto 2.5"])
def test_planned_looks_in_10000_comparisons(name, d):
    check_plan(name, d, 10_000, 12)


# ------------------------------------------------------------------------------------------------ calibration


def check_calibration(errors: tuple[float, ...], runs: int, seed: int) -> None:
    """Normal samples at all looks from 32 to 10⁶, by the sums and sums of squares between looks."""
    at = np.array([n for n in takewhile(lambda n: n <= 1_000_000, looks()) if n >= 32])
    radius = {error: np.array([sequential_radius(int(n), error) for n in at]) for error in errors}
    steps, rng, block, missed = np.diff(at, prepend=0), np.random.default_rng(seed), 10_000, dict.fromkeys(errors, 0)
    for _ in range(runs // block):
        sums = rng.standard_normal((block, at.size)) * np.sqrt(steps)
        squares = (sums * sums / steps + rng.chisquare(steps - 1, sums.shape)).cumsum(axis=1)
        total = sums.cumsum(axis=1)
        t = np.abs(total) / np.sqrt(at * (squares - total * total / at) / (at - 1))
        for error in errors:
            missed[error] += int((t > radius[error]).any(axis=1).sum())
    for error, count in missed.items():
        print(f"error {error}: missed in {100 * count / runs:.3f}%, {count / runs / error:.2f} of it")
        assert count < too_many(error, runs)
        assert count > binom.ppf(1e-6, runs, 0.5 * error)  # not too wide


def test_the_sequential_radius_is_calibrated():
    check_calibration((0.2, 0.05), 10_000, 13)


@pytest.mark.long
def test_the_sequential_radius_is_calibrated_in_a_million_series():
    check_calibration((0.2, 0.1, 0.05, 0.01, 0.005, 0.001), 1_000_000, 14)


# ------------------------------------------------------------------------------------------------ public functions

PUBLIC = ("normal, correlation 0.999", "exponential", "lognormal")


def returns(rng: np.random.Generator, law: Law) -> tuple[float, float]:
    """What the old alternative returns, and how much more the new one does; the mean gap is 0."""
    return 5 * rng.standard_normal(), law.draw(rng, (1, 1)).item() - law.mean


def game(law: Law) -> FunctionSimulator:
    """One step: action 0 returns what the old alternative does, action 1 what the new one does."""
    return FunctionSimulator(
        lambda s, a, u: u[0] + a * u[1],
        lambda s, a, u: 1,
        ["old", "new"],
        terminal=bool,
        start=0,
        luck=lambda rng: returns(rng, law),
    )


def by_runs(law: Law, **settings):
    runs = {"old": lambda luck: returns(luck["all"], law)[0], "new": lambda luck: sum(returns(luck["all"], law))}
    return jmdp.compare_runs(runs, progress=False, **settings)


def by_policies(law: Law, **settings):
    policies = {"old": lambda s: 0, "new": lambda s: 1}
    return jmdp.compare_policies(game(law), policies, discount=0.5, progress=False, **settings)


def by_actions(law: Law, **settings):
    return jmdp.compare(game(law), lambda s: 0, state=0, discount=0.5, progress=False, **settings)


CALLS = [by_runs, by_policies, by_actions]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("settings", "sampling"),
    [
        ({"max_samples": 150}, Sampling()),
        ({"samples": 100}, FIXED),
        ({"max_samples": 100, "looks": "planned"}, Sampling("planned", 100)),
    ],
)
def test_public_functions_state_these_intervals(call, settings, sampling):
    """They depend on the gaps only, which are the same for the three functions' tables up to the seeds."""
    law = LAWS["exponential"]
    found = call(law, seed=3, **settings)
    gaps = np.diff(found.summary.samples.returns[:, [found.alternatives.index("old"), found.alternatives.index("new")]])
    below, above = sampling.mean_errors(gaps, 0.05)
    stated = found.gap("new", "old").mean_interval
    assert found.samples >= 100
    assert stated.low == pytest.approx(gaps.mean() - below[0], rel=1e-9)
    assert stated.high == pytest.approx(gaps.mean() + above[0], rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.parametrize("call", CALLS)
def test_public_functions_are_wrong_in_at_most_5_percent(call, name):
    """400 comparisons to 250 samples, with a gap of 0: every verdict is wrong. Then 400 of 100 samples."""
    found = [call(LAWS[name], seed=seed, max_samples=250) for seed in range(400)]
    assert min(one.samples for one in found) >= DECIDES
    within(0.05, np.array([one.best is not None for one in found]), f"{call.__name__}, {name}, wrong verdict")
    intervals = [one.gap("new", "old").mean_interval for one in found]
    missed = np.array([wide is not None and not wide.low <= 0 <= wide.high for wide in intervals])
    within(0.05, missed, f"{call.__name__}, {name}, missed")
    fixed = [call(LAWS[name], seed=seed, samples=100) for seed in range(400, 800)]
    intervals = [one.gap("new", "old").mean_interval for one in fixed]
    missed = np.array([wide is not None and not wide.low <= 0 <= wide.high for wide in intervals])
    within(0.06, missed, f"{call.__name__}, {name}, missed by 100 samples")
    assert sum(one.best is not None for one in fixed) == missed.sum()


@pytest.mark.long
@pytest.mark.parametrize("name", ["loss of 10 in 1 of 100, gap std 0.3", "crash from 200 in 1 of 201, shared std 5"])
def test_public_sentences_on_unseen_losses_are_true(name):
    """200 comparisons by `compare_runs`, and 200 with the right `largest_loss`."""
    rare = RARE_LOSSES[name]
    advantage = rare.chance * rare.loss

    def draw(luck):
        old = luck.normal("old", mean=rare.size, std=rare.common)
        gap = luck.normal("gap", mean=advantage, std=rare.own)
        return old, gap - rare.loss * (luck.uniform("loss") < rare.chance)

    runs = {"old": lambda luck: draw(luck)[0], "new": lambda luck: sum(draw(luck))}
    settings = {"max_samples": 300, "progress": False}
    found = [jmdp.compare_runs(runs, seed=seed, **settings) for seed in range(200)]
    verdict = np.array([one.best is not None for one in found])
    seen = np.array([(np.abs(one.summary.samples.returns) < rare.size / 2).any() for one in found])
    excused = np.array(
        [one.best == "new" and one.break_even < rare.loss - advantage and rare.chance <= one.unseen for one in found]
    )
    within(0.03, verdict & ~(excused & ~seen), f"{name}, false sentence")
    within(0.01, np.array([one.best is not None and one.firm for one in found]), f"{name}, firm")
    assume = jmdp.Assumptions(largest_loss=rare.loss)
    found = [jmdp.compare_runs(runs, seed=seed, assume=assume, **settings) for seed in range(200, 400)]
    within(0.03, np.array([one.best is not None for one in found]), f"{name}, wrong with the largest loss given")
