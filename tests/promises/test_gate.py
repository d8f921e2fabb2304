"""P24: the gate for policies keeps its error rates, whatever the distribution of returns.

Returns are drawn here and examined at the looks of `compare_policies` by its own rule and intervals. Four laws with
mean 100 of the old policy: normal returns (standard deviation 30) and lognormal ones (55), with a correlation of 0.9; a
crash, where the new policy loses the whole episode with a chance of 2% and else earns what the old one does, up to
noise; and the same for returns that are hardly random, where nothing observed tells how much an episode can lose.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import dropwhile, takewhile

import numpy as np
import pytest
from scipy.stats import binom, t

from drawn_returns import SEQUENTIAL, block, summary
from jmdp.base.interval import Estimate, Verdict
from jmdp.statistics import pair_means
from jmdp.statistics.drawn_evaluation import DrawnSamples
from jmdp.statistics.means import FIXED, looks
from jmdp.statistics.pair_means import PairMeans
from jmdp.statistics.selection import Conclusion, Margin, SelectionRule

MARGINS = ("2%", "5%", 2.0, 5.0)
BUDGET = 10_000  # pairs, the default of `jmdp gate`
FIRST = 64  # pairs of the first look that may decide


def normal(rng, n, loss):
    z = rng.standard_normal((n, 2))
    return 100 + 30 * z[:, 0], 100 - loss + 30 * (0.9 * z[:, 0] + math.sqrt(0.19) * z[:, 1])


def lognormal(rng, n, loss):
    z, s = rng.standard_normal((n, 2)), 0.5
    both = np.stack([z[:, 0], 0.9 * z[:, 0] + math.sqrt(0.19) * z[:, 1]])
    old, new = 100 * np.exp(s * both - s * s / 2)
    return old, (1 - loss / 100) * new


def crash(rng, n, loss):
    """With equal means, both crash, in different episodes."""
    old, noise = 100 + 30 * rng.standard_normal(n), 2 * rng.standard_normal(n)
    new = old * (100 - loss) / (98 if loss else 100) + noise
    lost = rng.random((2, n)) < 0.02
    return np.where(lost[1] & (loss == 0), 0.0, old), np.where(lost[0], 0.0, new)


def steady(rng, n, loss):
    """Returns of 100 or 99.9; the loss is all due to crashes."""
    old, new = 100 - 0.1 * (rng.random((2, n)) < 0.3)
    lost = rng.random((2, n)) < (0.02 if loss == 0 else loss / 100)
    return np.where(lost[1] & (loss == 0), 0.0, old), np.where(lost[0], 0.0, new)


LAWS = {law.__name__: law for law in (normal, lognormal, crash, steady)}


def loss_limits(returns, rule, return_range=None, sampling=SEQUENTIAL):
    """Limits of the loss beyond the margin, for returns [n, 2] of old and new."""
    samples = DrawnSamples(2).with_block((0, 1), block(returns))
    return summary(samples, rule, sampling, return_range=return_range).verdict_limits(0, (0, 1), rule.margin)


def gate(returns, margin, return_range=None):
    """Verdict and pairs used, for returns [budget, 2] of old and new."""
    rule = SelectionRule(alternatives=2, baseline=0, margin=Margin.of(margin))
    for n in takewhile(lambda n: n <= len(returns), dropwhile(lambda n: n < FIRST, looks())):
        standing = rule.examine(0, (0, 1), *loss_limits(returns[:n], rule, return_range))
        if standing.decision is Conclusion.MARGIN:
            return Verdict.NO if standing.low[1] > 0 else Verdict.YES, n
    return Verdict.UNKNOWN, len(returns)


def verdicts(law, loss, margin, runs, budget=BUDGET, seed=0):
    counts, pairs = Counter(), []
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        verdict, n = gate(np.stack(LAWS[law](rng, budget, loss), axis=1), margin)
        counts[verdict] += 1
        pairs.append(n)
    return counts, pairs


def size(margin):
    return Margin.of(margin).size * (100 if Margin.of(margin).relative else 1)


def limit(runs):
    """Counts above this have a probability of 1e-6 at a rate of 5%."""
    return int(binom.isf(1e-6, runs, 0.05))


def broken(law, margin, runs, budget, most):
    """The promises that do not hold: wrong verdicts more often than `most`, or a budget that does not suffice."""
    found = []
    equal, _ = verdicts(law, 0.0, margin, runs, budget)
    edge, _ = verdicts(law, size(margin), margin, runs, budget)
    beyond, _ = verdicts(law, 2 * size(margin), margin, runs, budget)
    found += ["equal: worse"] * (equal[Verdict.NO] > most) + ["equal: undecided"] * (equal[Verdict.YES] < runs - most)
    found += ["edge: not worse"] * (edge[Verdict.YES] > most) + ["edge: worse"] * (edge[Verdict.NO] > most)
    return found + ["beyond: not found"] * (beyond[Verdict.NO] < runs - most)


@pytest.mark.parametrize(("law", "margin"), [*((law, "5%") for law in LAWS), ("crash", 5.0)])
def test_error_rates(law, margin):
    """30 runs of each; false alarm at most 1e-6 each, were every rate 5%."""
    assert broken(law, margin, 30, 3000, limit(30)) == []


@pytest.mark.long
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("law", LAWS)
def test_error_rates_of_1000_runs(law, margin):
    """With -s a table is printed: rates of worse and not worse, and pairs used (median, 90% quantile)."""
    for title, loss in (("equal", 0.0), ("edge", size(margin)), ("beyond", 2 * size(margin))):
        counts, pairs = verdicts(law, loss, margin, 1000)
        rates = {verdict: counts[verdict] / 1000 for verdict in Verdict}
        used = f"{np.median(pairs):.0f} / {np.quantile(pairs, 0.9):.0f}"
        print(
            f"| {law} | {margin} | {title} | {rates[Verdict.YES]:.3f} | {rates[Verdict.NO]:.3f} "
            f"| {rates[Verdict.UNKNOWN]:.3f} | {used} |"
        )
        assert counts[Verdict.NO] <= 50 or title == "beyond"
        assert counts[Verdict.YES] <= 50 or title == "equal"
        assert title == "edge" or counts[Verdict.UNKNOWN] <= 50


def one_look(law, margin, n, runs):
    """Verdicts of so many pairs, chosen in advance (`jmdp gate --samples`), for a loss of exactly the margin."""
    rule, counts = SelectionRule(alternatives=2, baseline=0, margin=Margin.of(margin)), Counter()
    for run in range(runs):
        rng = np.random.default_rng([7, n, run])
        low, high = loss_limits(np.stack(LAWS[law](rng, n, size(margin)), axis=1), rule, sampling=FIXED)
        counts[Verdict.NO if low[1] > 0 else Verdict.YES if high[1] < 0 else Verdict.UNKNOWN] += 1
    return counts


ONE_LOOK = {"runs": 40, "sizes": (100, 1000), "margins": ("5%",)}
ONE_LOOK_LONG = {"runs": 2000, "sizes": (40, 100, 300, 1000), "margins": MARGINS}


@pytest.mark.parametrize(
    "scale", [ONE_LOOK, pytest.param(ONE_LOOK_LONG, marks=pytest.mark.long)], ids=["short", "long"]
)
@pytest.mark.parametrize("law", LAWS)
def test_error_rates_of_one_look(law, scale):
    """False alarm at most 1e-6 for each of two rates of 5%. With -s, the rates of not worse and worse are printed."""
    runs = scale["runs"]
    for margin in scale["margins"]:
        for n in scale["sizes"]:
            found = one_look(law, margin, n, runs)
            print(f"| {law} | {margin} | {n} | {found[Verdict.YES] / runs:.3f} | {found[Verdict.NO] / runs:.3f} |")
            assert max(found[Verdict.YES], found[Verdict.NO]) <= limit(runs)


@pytest.mark.parametrize("sampling", [FIXED, SEQUENTIAL], ids=["fixed", "sequential"])
def test_ties_pass(sampling):
    """Gaps that are all 0: the allowance for an unseen event shrinks as 1/n."""
    old = 100 + 30 * np.random.default_rng(5).standard_normal(1000)
    rule = SelectionRule(alternatives=2, baseline=0, margin=Margin(2.0))
    _, high = loss_limits(np.stack([old, old], axis=1), rule, sampling=sampling)
    assert high[1] < 0
    _, high = loss_limits(np.full((1000, 2), 100.0), rule, sampling=sampling)
    assert high[1] < 0


def pair_of(new, old, n=1000, sampling=FIXED, **assume):
    rule = SelectionRule(alternatives=2, baseline=0)
    samples = DrawnSamples(2).with_block((0, 1), block(np.stack([old(n), new(n)], axis=1)))
    return summary(samples, rule, sampling, **assume).pair_means(1, 0)


@pytest.mark.parametrize("given", ["2%", 2.0])
@pytest.mark.parametrize("sampling", [FIXED, SEQUENTIAL], ids=["fixed", "sequential"])
def test_what_would_reverse_the_verdict(given, sampling):
    """At the break-even, unseen outcomes of probability p_n move the mean from the limit of the seen to the margin.

    The limit of what was seen is above that of the verdict, which allows for a whole episode.
    """
    margin, rng = Margin.of(given), np.random.default_rng(6)
    for loss, verdict in ((-10, Verdict.YES), (15, Verdict.NO)):
        pair = pair_of(
            lambda n, loss=loss: 100 - loss + rng.standard_normal(n), lambda n: np.full(n, 100.0), 1000, sampling
        )
        found, excess = pair.unseen(margin), pair.excess(margin)
        least = -excess.high if verdict is Verdict.YES else excess.low
        assert 0 < least < found.low < abs(float(excess))
        assert (1 - found.chance) * found.low - found.chance * found.break_even == pytest.approx(0, abs=1e-9)
        assert found.chance == pytest.approx(1 - 0.01 ** (1 / 1000))
        assert found.whole >= 90
    assert (
        pair_of(lambda n: 98 + rng.standard_normal(n), lambda n: np.full(n, 100.0), 1000, sampling).unseen(margin)
        is None
    )


@pytest.mark.long
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("margin", ["2%", "5%"])
def test_pairs_needed(margin, correlation):
    """Equal means, normal returns with a coefficient of variation of 0.3; with -s, pairs are printed."""
    pairs = []
    for run in range(200):
        z = np.random.default_rng([3, run]).standard_normal((2, 40_000))
        new = correlation * z[0] + math.sqrt(1 - correlation**2) * z[1]
        pairs.append(gate(100 + 30 * np.stack([z[0], new], axis=1), margin)[1])
    print(f"| {margin} | {correlation} | {np.median(pairs):.0f} / {np.quantile(pairs, 0.9):.0f} |")
    assert max(pairs) < 40_000


def known_range(law, loss, margin, runs, budget):
    """The same with a known range of returns, [0, 200]."""
    counts = Counter()
    for run in range(runs):
        old, new = LAWS[law](np.random.default_rng([1, run]), budget, loss)
        counts[gate(np.clip(np.stack([old, new], axis=1), 0, 200), margin, (0.0, 200.0))[0]] += 1
    return counts


@pytest.mark.parametrize("runs", [12, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize("margin", ["5%", 5.0])
def test_error_rates_with_a_known_range(margin, runs):
    """Betting: 1,000 pairs at the edge, where clipping changes the means by less than 0.01 of the margin."""
    most = limit(runs) if runs < 1000 else 50
    edge, beyond = known_range("steady", 5.0, margin, runs, 1000), known_range("steady", 15.0, margin, runs, 2000)
    print(f"return_range, steady, {margin}: edge {edge}, beyond {beyond}")
    assert max(edge[Verdict.YES], edge[Verdict.NO]) <= most
    assert beyond[Verdict.NO] >= runs - most


def constant_loss(runs, n=20_000):
    """How often the interval leaves out a loss of exactly the margin, if the loss is the same in every episode."""
    rule, missed = SelectionRule(alternatives=2, baseline=0, margin=Margin(0.9, relative=True)), 0
    for run in range(runs):
        old = 100 + 30 * np.random.default_rng([2, run]).standard_normal(n)
        low, high = loss_limits(np.stack([old, old - 90], axis=1), rule)
        missed += not low[1] <= 0 <= high[1]
    return missed


def test_the_error_of_a_relative_margin_is_part_of_the_interval():
    """The gap has no variance here, the margin has: 20 runs, false alarm 1e-6 at a rate of 5%."""
    assert constant_loss(20) <= limit(20)


def relative(sizes):
    """A `Margin` of absolute size whose size is that of the estimated mean of old: the plug-in margin."""

    def excess(self, margin):
        if margin.relative:
            margin = Margin(margin.size * abs(float(self.old)))
        return sizes(self, margin)

    return excess


BUGS = {
    "margin ignored": ("excess", lambda self, margin: Estimate(-self.gap, -self.gap.high, -self.gap.low)),
    "sign of the margin": (
        "excess",
        lambda self, margin: self._combination(-1.0, 1.0, self.error, +size(margin)),
    ),
    "gap reversed": ("excess", lambda self, margin: self._combination(1.0, -1.0, self.error, -size(margin))),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_caught(bug, monkeypatch):
    monkeypatch.setattr(PairMeans, *BUGS[bug])
    assert broken("normal", "5%", 30, 3000, limit(30))


def test_a_plug_in_margin_is_caught(monkeypatch):
    monkeypatch.setattr(PairMeans, "excess", relative(PairMeans.excess))
    assert constant_loss(20) > limit(20)


def test_t_intervals_at_every_look_are_caught(monkeypatch):
    def errors(n, shape, radius, spread):
        return t.ppf(0.975, n - 1) * shape[0] / math.sqrt(n)

    monkeypatch.setattr(pair_means, "errors_with_spread", errors)
    monkeypatch.setattr(pair_means, "with_largest_loss", lambda seen, *_: seen)
    edge, _ = verdicts("normal", 5.0, 5.0, 200, 2000)
    assert edge[Verdict.YES] + edge[Verdict.NO] > limit(200)


def test_an_interval_without_unseen_losses_is_caught(monkeypatch):
    monkeypatch.setattr(pair_means, "with_largest_loss", lambda seen, *_: seen)
    edge, _ = verdicts("steady", 2.0, 2.0, 60, 1000)
    assert edge[Verdict.YES] > limit(60)
