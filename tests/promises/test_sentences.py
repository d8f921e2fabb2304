"""Every digit of a sentence is supported: numbers are read out of printed texts and held against exact rationals.

Models have wide intervals: rewards of any scale or with large offsets, discounts near 1, and methods that are stopped
early. The truth is that of `reference.review_values`, and for distributions an enumeration of all futures here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.cli.commands.evaluate import EvaluationReport
from jmdp.show.reports.evaluation_page import page
from jmdp.show.reports.page import number
from reference.printed import FLOAT, NUMBER, claimed, is_true, read
from reference.review_values import ReviewTruth, distributions, fraction
from sample_models import extreme_problem, extreme_row

DISCOUNTS = (0.0, 1e-160, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9, 1 - 2.0**-40)


@dataclass
class Read:
    """Counts numbers that were read, those that had no interval beside them, and names wrong ones."""

    numbers: int = 0
    alone: int = 0
    wrong: list[str] = field(default_factory=list)

    def number(self, text: str, right: Fraction, digits: int, where: str) -> None:
        """A number in a text, which is the truth to so many digits or within its interval."""
        self.numbers += 1
        self.alone += not re.search(r"[±[]", text)
        if not is_true(text, right, digits):
            self.wrong.append(f"{text} is not {float(right)!r}: {where}")

    def gap(self, said: str, right: Fraction) -> None:
        """The sentence about the mean of a gap."""
        if found := re.search(rf"earns ({NUMBER}) (more|less) than", said):
            self.number(found[1], right if found[2] == "more" else -right, 3, said)
        elif found := re.search(rf"the mean gap is ({NUMBER})", said):
            self.number(found[1], right, 17, said)
        elif "earn the same on average" in said:
            self.number("0", right, 1, said)
        else:
            assert "estimate without an interval" in said or "no error bound" in said, said

    def share(self, text: str, right: Fraction, where: str) -> None:
        """``31% of cases``, or ``31% of cases (30.4 to 31.4%)``."""
        self.numbers += 1
        ends = re.search(rf"\(({FLOAT}) to ({FLOAT})%\)", text)
        value = re.match(rf"([<>]?)({FLOAT})%", text)
        if ends:
            low, high = read(ends[1]), read(ends[2])
        elif value[1]:
            low, high = (Fraction(0), Fraction(1)) if value[1] == "<" else (Fraction(99), Fraction(100))
        else:
            self.alone += 1
            half = Fraction(1, 2) / 10 ** len(value[2].partition(".")[2])
            low, high = read(value[2]) - half, read(value[2]) + half
        if not low <= 100 * right <= high:
            self.wrong.append(f"{text} is not {float(right)!r}: {where}")


def flat(text: str) -> str:
    return text.partition("\n  ")[0].replace("\n", " ")


def value_of(model, policy) -> ReviewTruth:
    return ReviewTruth(model.prob, model.reward, model.next_state, model.discount, model.terminal, policy.probs)


def stopped_early(rng, state):
    """A method with certified means, often stopped before it is done."""
    return [
        jmdp.ExactPairs(tolerance=float(rng.choice([1e-10, 1e-2])), max_sweeps=int(rng.choice([1, 5, 50]))),
        jmdp.JIPE(tolerance=1e-10, max_sweeps=int(rng.choice([1, 5, 30]))),
        jmdp.ReachablePairs(state, tolerance=float(rng.choice([0.3, 1e-6])), max_states=int(rng.integers(1, 4))),
    ][int(rng.integers(3))]


def offset(rng, model):
    """The model with rewards of 1e12 and noise."""
    reward = 1e12 + rng.normal(size=model.shape)
    return jmdp.TabularJMDP(model.prob, reward, model.next_state, model.discount, model.terminal)


def actions(rng, read: Read) -> None:
    """Gaps between actions, the page, and the table of the command line."""
    model, policy = extreme_problem(rng, jmdp.Local(), sizes=(3, 2, 2), discounts=DISCOUNTS)
    model = offset(rng, model) if rng.random() < 0.4 else model
    S, _, A = model.shape
    state = int(rng.integers(S))
    result = jmdp.evaluate(model, policy, jmdp.Local(), stopped_early(rng, state), throw=False, progress=False)
    truth = value_of(model, policy)
    at, label = (0, result.states[0]) if result.states.size == 1 else (state, state)
    q = [fraction(truth.action_value(state, a)) for a in range(A)]
    if A > 1:
        read.gap(flat(str(result.gap(label, 0, 1))), q[0] - q[1])
        shown = page(result, state=label)
        best = int(np.argsort(-result.mean[at], kind="stable")[0])
        if A == 2:
            read.gap(shown.verdict[:1].lower() + shown.verdict[1:], q[best] - q[1 - best])
            for row in shown.tables[1].rows[:A]:
                a = [result.actions.name(i) for i in range(A)].index(row[1])
                if (shown_mean := number(row[2])) is not None and not shown_mean.interval and shown_mean.exact:
                    read.number(shown_mean.value, q[a], 6, "cell of the page")
    rows = EvaluationReport(result, model, policy, state, range(A)).text().partition("mean return in state")[2]
    for text, right in zip(re.findall(NUMBER, rows.splitlines()[1].partition(" ")[2]), q, strict=True):
        read.number(text, right, 6, rows.splitlines()[1])


def policies(rng, read: Read) -> None:
    """Gaps between policies from a state and from a drawn start, and the first line of an evaluation."""
    model, one = extreme_problem(rng, jmdp.Synchronous(), sizes=(3, 2, 2), discounts=DISCOUNTS)
    model = offset(rng, model) if rng.random() < 0.4 else model
    S, _, A = model.shape
    other = jmdp.TabularPolicy([extreme_row(rng, A) for _ in range(S)])
    start = rng.dirichlet(np.ones(S))
    method = jmdp.ExactPairs(tolerance=float(rng.choice([1e-10, 1e-2])), max_sweeps=int(rng.choice([1, 5, 50])))
    result = jmdp.evaluate(
        model, {"one": one, "other": other}, jmdp.Synchronous(), method, starts=start, throw=False, progress=False
    )
    gaps = [fraction(x - y) for x, y in zip(value_of(model, one).value, value_of(model, other).value, strict=True)]
    (weights,) = distributions([start])
    from_start = sum((fraction(w) * gap for w, gap in zip(weights, gaps, strict=True)), Fraction(0))
    read.gap(flat(str(result.gap(0, "one", "other"))), gaps[0])
    read.gap(flat(str(result.gap("start", "one", "other"))), from_start)
    line = repr(result).splitlines()[0]
    read.gap(line, from_start if re.search(r"one (?:earns|and other)", line) else -from_start)


def futures(rng, read: Read) -> None:
    """Distributions of returns and of a gap, with few cells, on a table that ends."""
    model, one, other = ending_problem(rng)
    result = jmdp.evaluate(
        model,
        {"one": one, "other": other},
        jmdp.Synchronous(),
        jmdp.ExactDistribution(cells=64, max_cells=int(rng.choice([64, 1024])), max_sweeps=int(rng.choice([2, 30]))),
        throw=False,
        progress=False,
    )
    law = gap_law(model, one, other, 0, 0)
    mean = sum(g * p for g, p in law.items())
    gap = result.gap(0, "one", "other")
    said, distribution = flat(str(gap)), flat(repr(gap.distribution()))
    read.gap(said, mean)
    less = sum(p for g, p in law.items() if g < 0)
    more = sum(p for g, p in law.items() if g > 0)
    if found := re.search(r"; one earns (more|less) in (.*?of cases(?: \(.*?\))?)(?:, by (.*) on average)?", said):
        chance, sign = (more, 1) if found[1] == "more" else (less, -1)
        read.share(found[2], chance, said)
        if found[3] and chance:
            size = sum(p * max(Fraction(0), sign * g) for g, p in law.items()) / chance
            ends = re.fullmatch(rf"({FLOAT}) to ({FLOAT})", found[3])
            read.numbers += 1
            low, high = (read_ends(ends)) if ends else claimed(found[3].removeprefix("about "), 2)
            if not low <= size <= high:
                read.wrong.append(f"{found[3]} is not {float(size)!r}: {said}")
    elif "never earns" in said:
        assert (less if "never earns less" in said else more) == 0
    found = re.fullmatch(
        rf"The mean gap is ({NUMBER}); the gap is positive in (.*) and negative in (.*) \(certified\)", distribution
    )
    read.number(found[1], mean, 3, distribution)
    read.share(found[2], more, distribution)
    read.share(found[3], less, distribution)
    sentence_of_returns(result, model, one, read)


def read_ends(found) -> tuple[Fraction, Fraction]:
    return read(found[1]), read(found[2])


def sentence_of_returns(result, model, policy, read: Read) -> None:
    """``The return is between a and b in 90% of cases, m on average``."""
    said = flat(repr(result.return_distribution(0, "one")))
    nothing = [0] * model.shape[0]
    law = gap_law(model, policy, nothing, 0, model.shape[0] - 1)  # the last state is terminal: its return is 0
    found = re.match(rf"The return is between ({NUMBER}) and ({NUMBER}) in 90% of cases, ({NUMBER}) on average", said)
    for text, right in (
        (found[1], quantile(law, 0.05)),
        (found[2], quantile(law, 0.95)),
        (found[3], sum(z * p for z, p in law.items())),
    ):
        read.number(text, right, 3, said)


def quantile(law, p: float) -> Fraction:
    total = Fraction(0)
    for z in sorted(law):
        total += law[z]
        if total >= Fraction(p):
            return z
    raise AssertionError("probabilities sum to 1")


def ending_problem(rng):
    """A table of at most four steps, with the same scenarios in all states, and an action in each for two policies."""
    S, K, A = int(rng.integers(2, 6)), int(rng.integers(1, 4)), 2
    reward = rng.normal(size=(S, K, A)) * 10.0 ** rng.uniform(-5, 5) + rng.choice([0.0, 0.0, 1e3, 1e12])
    if rng.random() < 0.4:
        reward = rng.integers(-2, 3, (S, K, A)).astype(float)
    following = np.array([rng.integers(min(s + 1, S - 1), S, (K, A)) for s in range(S)])
    row = extreme_row(rng, K)
    discount = float(rng.choice([0.0, 0.5, 0.9, 0.999, 1 - 1e-9]))
    model = jmdp.TabularJMDP([row] * S, reward, following, discount, np.arange(S) == S - 1)
    return model, *(rng.integers(0, A, S).tolist() for _ in range(2))


def gap_law(model, one, other, s: int, t: int) -> dict[Fraction, Fraction]:
    """Distribution of Z_one(s) − Z_other(t) if both meet the same scenarios."""
    if model.terminal[s] and model.terminal[t]:
        return {Fraction(0): Fraction(1)}
    (row,), law = distributions([model.prob[0]]), defaultdict(Fraction)
    for k, p in enumerate(row):
        if p:
            gain, ahead = Fraction(0), []
            for x, actions, sign in ((s, one, 1), (t, other, -1)):
                ended = model.terminal[x]
                gain += 0 if ended else sign * Fraction(model.reward[x, k, actions[x]])
                ahead.append(x if ended else int(model.next_state[x, k, actions[x]]))
            for gap, q in gap_law(model, one, other, *ahead).items():
                law[gain + Fraction(model.discount) * gap] += fraction(p) * q
    return law


def test_a_size_is_not_certified_beyond_its_interval():
    """Rewards of 1e12 and noise: the gap of the means is known to some digits only, and the sentence says so."""
    rng = np.random.default_rng(0)
    prob, following = np.full((2, 2), 0.5), rng.integers(0, 2, (2, 2, 2))
    model = jmdp.TabularJMDP(prob, 1e12 + rng.normal(size=(2, 2, 2)), following, 0.999)
    result = jmdp.evaluate(model, [0, 0], jmdp.Local(), jmdp.JIPE(max_sweeps=9), throw=False, progress=False)
    said = flat(str(result.gap(0, 0, 1)))
    interval = result.gap(0, 0, 1).mean_interval
    assert interval.width > 0.01
    assert "±" in said
    assert "(certified)" in said


@pytest.mark.parametrize("kind", [actions, policies, futures])
@pytest.mark.parametrize(
    ("seed", "models"), [(0, 25), *(pytest.param(seed, 250, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_every_digit_of_a_sentence_is_supported(kind, seed, models):
    rng, read = np.random.default_rng([6, seed]), Read()
    for _ in range(models):
        kind(rng, read)
    assert read.wrong == []
    assert models // 2 <= read.alone < read.numbers
