"""Exact values of reviews against exact rationals, as numbers and as they are printed, at any scale."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.reviews.review_text import size
from reference.printed import NUMBER, is_true
from reference.review_values import Decided, ReviewTruth, fraction
from sample_models import extreme_problem, extreme_row

DISCOUNTS = (0.0, 5e-324, 1e-160, 1e-12, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9)


def review(model, policy, **settings):
    return jmdp.review(model, policy, **{"seed": 0, "horizon": 3, "starts": [0], "progress": False, **settings})


def one_state(reward, discount):
    """One state, one scenario: the actions have these rewards."""
    return jmdp.TabularJMDP([[1.0]], [[reward]], [[[0] * len(reward)]], discount)


def test_rows_of_a_policy_that_are_off_by_rounding_do_not_shift_its_value():
    """Both actions earn r, so the value is r/(1 − γ) whatever the row sums to."""
    r, discount = 0.498124373085699, 0.999999
    one = review(one_state([r, r], discount), jmdp.TabularPolicy([[0.4448708210439045, 0.555129178956096]]))
    truth = Fraction(r) / (1 - Fraction(discount))
    assert Fraction(one.expectation.low) <= truth <= Fraction(one.expectation.high)
    assert one.skill.low <= 0 <= one.skill.high


@pytest.mark.parametrize("discount", [1e-160, 5e-324])
def test_a_discount_that_underflows_leaves_no_exact_zero(discount):
    """γ³ is not a float, but the value of the last state and the regret of the last step are not 0."""
    one = review(one_state([1.0, 2.0], discount), jmdp.TabularPolicy([[1.0, 0.0]]))
    power = Fraction(discount) ** 3
    for estimate, truth in ((one.final, power / (1 - Fraction(discount))), (one.regret, sum_of_powers(discount))):
        assert Fraction(estimate.low) <= truth <= Fraction(estimate.high)
    assert one.final.high > 0


def sum_of_powers(discount):
    return sum(Fraction(discount) ** t for t in range(3))


def test_an_action_of_tiny_probability_makes_a_policy_random():
    """The second action has a chance of 1e-17 and earns 1e20: the value is 2000, and the first has a skill."""
    one = review(one_state([0.0, 1e20], 0.5), jmdp.TabularPolicy([[1.0, 1e-17]]))
    share = Fraction(1e-17) / (1 + Fraction(1e-17))
    value = 2 * share * Fraction(1e20)
    assert Fraction(one.expectation.low) <= value <= Fraction(one.expectation.high)
    first = one.decisions[0]
    assert Fraction(first.skill.low) <= -value / 2 <= Fraction(first.skill.high) < 0


def test_a_policy_of_one_action_has_no_skill_against_itself():
    model, _ = extreme_problem(np.random.default_rng(0), jmdp.Local())
    policy = jmdp.TabularPolicy(np.eye(model.shape[2])[np.zeros(model.shape[0], int)])
    one = review(model, policy)
    assert all(decision.skill.low == decision.skill.high == 0 for decision in one.decisions)
    assert one.skill.low == one.skill.high == 0


def test_the_sentence_prints_an_interval_where_digits_are_not_supported():
    """Rewards of 1e12 and noise: the luck is known to one digit."""
    rng = np.random.default_rng(3)
    reward, following = 1e12 + rng.normal(size=(2, 2, 2)), rng.integers(0, 2, (2, 2, 2))
    model, policy = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, following, 0.5), [[0.5, 0.5], [0.3, 0.7]]
    one = review(model, jmdp.TabularPolicy(policy))
    assert re.search(rf"luck cost {NUMBER};", one.answer)[0].endswith("];")
    checks = Checks()
    checks.hold(one, model, policy)
    assert checks.missed == []


def test_luck_and_regret_that_are_not_resolved_are_not_said_to_be_none():
    """Rewards of 1e12 and noise, γ = 0.999: values are 1e15, so that luck and regret of size 1 are below rounding."""
    rng = np.random.default_rng(3)
    reward, following = 1e12 + rng.normal(size=(2, 2, 2)), rng.integers(0, 2, (2, 2, 2))
    model = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, following, 0.999)
    one = review(model, jmdp.TabularPolicy([[0.5, 0.5], [0.3, 0.7]]))
    assert "nothing was random" not in one.answer
    assert re.search(rf"no action would have been better on average in any step by more than {NUMBER}\.", one.answer)


def test_a_small_certain_regret_is_a_mistake():
    """0.008 beside values of 1e12: the intervals of a table include rounding."""
    one = review(one_state([2.0**40, 2.0**40 + 2.0**-7], 0.0), jmdp.TabularPolicy([[1.0, 0.0]]))
    assert one.decisions[0].judgement == "mistake"
    assert one.decisions[0].regret.low > 0


@pytest.mark.parametrize(
    ("error", "text"),
    [(0.0, "0.125"), (1e-6, "0.125"), (0.0008, "0.12500 [0.12419, 0.12581]"), (0.1, "0.12 [0.02, 0.23]")],
)
def test_sizes_have_the_digits_that_their_interval_supports(error, text):
    assert size(jmdp.results.Estimate.around(-0.125, error)) == text


@dataclass
class Checks:
    """Counts what was looked at, and names what misses the truth."""

    looked: int = 0
    missed: list[str] = field(default_factory=list)

    def inside(self, what: str, estimate, truth) -> None:
        """The stored interval, and the printed one."""
        right = fraction(truth)
        self.looked += 2
        if not Fraction(estimate.low) <= right <= Fraction(estimate.high):
            self.missed.append(f"{what}: {float(right)!r} is not in [{estimate.low!r}, {estimate.high!r}]")
        if not is_true(str(estimate), right, 17):
            self.missed.append(f"{what}: {float(right)!r} is not {estimate}")

    def prints(self, what: str, pattern: str, text: str, right: Fraction, digits: int) -> None:
        """The number in a text, if it has one."""
        found = re.search(pattern.replace("#", f"({NUMBER})"), text)
        if found is None:
            return
        self.looked += 1
        if not is_true(found[1], right, digits):
            self.missed.append(f"{what}: {float(right)!r} is printed as {found[0]!r}")

    def hold(self, one, model, probs) -> None:
        """Hold all numbers and texts of a review of a table against the truth."""
        table = model.prob, model.reward, model.next_state, model.discount, model.terminal
        truth = ReviewTruth(*table, probs)
        states, rewards = [int(s) for s in one.trajectory.states], one.trajectory.rewards.tolist()
        decided = [
            truth.decision(s, int(a), r, t)
            for s, a, r, t in zip(states[:-1], one.trajectory.actions, rewards, states[1:], strict=True)
        ]
        assert one.exact
        for right, said in zip(decided, one.decisions, strict=True):
            for name in ("value", "action_value", "skill", "luck", "regret"):
                self.inside(f"{name} of step {said.step}", getattr(said, name), getattr(right, name))
        totals = truth.totals(decided, rewards, states[-1])
        for name, right in totals.items():
            self.inside(name, getattr(one, name), right)
        self._verdict(one, decided, {name: fraction(right) for name, right in totals.items()})
        self._lines(one, decided, {name: fraction(right) for name, right in totals.items()})

    def _verdict(self, one, decided: list[Decided], totals: dict[str, Fraction]) -> None:
        text = one.answer
        self.prints("total", "earned #", text, totals["total"], 5)
        self.prints("expectation", "# is expected", text, totals["expectation"], 5)
        for name, words in (("luck", "luck"), ("skill", "the decisions")):
            self.prints(name, f"{words} added #", text, totals[name], 3)
            self.prints(name, f"{words} cost #", text, -totals[name], 3)
            self.prints(name, rf"{words} (?:is not|are as good).*?\(#\)", text, totals[name], 5)
        worst = re.search(r"in step (\d+): ", text)
        if worst is not None:
            self.prints("regret", "costs #", text, fraction(decided[int(worst[1])].regret), 3)

    def _lines(self, one, decided: list[Decided], totals: dict[str, Fraction]) -> None:
        """The parts of the return, and the regrets of the worst decisions."""
        parts, _, worst = str(one).partition("worst decisions")
        self.prints("earned", r"  earned +#", parts, totals["earned"], 6)
        self.prints("final", r"value of the last state +#", parts, totals["final"], 5)
        for name in ("expectation", "skill", "luck"):
            self.prints(name, rf"[=+] {name} +#", parts, totals[name], 5)
        for step in re.findall(r"^  (\d+) ", worst, re.MULTILINE):
            self.prints(
                f"regret of step {step}",
                rf"(?m)^  {step} +\S+ +\S+ +\S+ +#",
                worst,
                fraction(decided[int(step)].regret),
                5,
            )


def random_review(rng: np.random.Generator, checks: Checks) -> None:
    """A table with extreme numbers, a policy, and in half of the cases another one as the reference."""
    model, policy = extreme_problem(rng, jmdp.Local(), sizes=(4, 3, 3), discounts=DISCOUNTS)
    S, _, A = model.shape
    if A < 2:
        return
    reference = jmdp.TabularPolicy([extreme_row(rng, A) for _ in range(S)]) if rng.random() < 0.5 else None
    settings = {"seed": int(rng.integers(1000)), "horizon": int(rng.integers(1, 8)), "starts": [int(rng.integers(S))]}
    one = review(model, policy, reference=reference, **settings)
    before = len(checks.missed)
    checks.hold(one, model, (policy if reference is None else reference).probs)
    checks.missed[before:] = [f"γ = {model.discount!r}, {settings}: {said}" for said in checks.missed[before:]]


@pytest.mark.parametrize(
    ("seed", "tables"), [(0, 100), *(pytest.param(seed, 500, marks=pytest.mark.long) for seed in range(1, 5))]
)
def test_reviews_contain_the_rational_truth(seed, tables):
    rng, checks = np.random.default_rng([41, seed]), Checks()
    for _ in range(tables):
        random_review(rng, checks)
    assert checks.missed == []
    assert checks.looked > 20 * tables
