"""The first printed line of a gap is a sentence that states the result; all text follows the intervals."""

import dataclasses

import numpy as np
import pytest

import jmdp
from jmdp.results import Interval
from jmdp.results.gaps.distribution import GapDistribution
from jmdp.results.gaps.gap import Gap


def gap(mean, interval, *, confidence=None, values=None, state="3", **more):
    """A gap with this mean, and with the distribution of equally likely values if given."""
    find = None
    if values is not None:
        at = np.array(values, float)
        mass = np.full(at.size, 1 / at.size)
        found = GapDistribution(at, at, at, mass, 0.0, Interval(at.min(), at.max()))

        def find(tolerance):
            return found

    return Gap(
        state=state,
        first="new",
        second="old",
        coupling=jmdp.Local(),
        mean=mean,
        variance=1.0,
        correlation=0.5,
        mean_interval=interval,
        variance_interval=None,
        correlation_interval=None,
        confidence=confidence,
        find_distribution=find,
        **more,
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (gap(3.0, Interval(3.0, 3.0)), "In state 3, new earns 3 more than old on average (certified)"),
        (
            gap(-0.12345, Interval(-0.1234, -0.1232), state="here"),
            "new earns 0.123 less than old on average (certified)",
        ),
        (
            gap(-0.12345, Interval(-0.13, -0.12), state="here"),
            "new earns 0.1235 [0.1199, 0.1301] less than old on average (certified)",
        ),
        (
            gap(-0.000122, Interval(-0.000235, -0.000009), state="here"),
            "new earns 0.000122 ± 0.000113 less than old on average (certified)",
        ),
        (
            gap(2.0, Interval(1.0, 3.0), confidence=1 - 0.05 / 3, state="here"),
            "new earns 2.0 ± 1.0 more than old on average (98.33% confidence)",
        ),
        (gap(0.0, Interval(0.0, 0.0), state="here"), "new and old earn the same on average (certified)"),
        (
            gap(2.0, Interval(1.0, 3.0), confidence=0.95, large_sample=True, state="start"),
            "From the start distribution, new earns 2.0 ± 1.0 more than old on average (95% confidence, large-sample)",
        ),
        (
            gap(0.1, Interval(-0.4, 0.6), confidence=0.9, state="here"),
            "new and old cannot be told apart: the mean gap is 0.10 ± 0.51 (90% confidence)",
        ),
        (gap(1.0, None, state="here"), "new earns about 1 more than old on average (an estimate without an interval)"),
        (
            gap(1.0, Interval(1.0, 1.0), values=[-2, -1, 3, 4], state="here"),
            "new earns 1 more than old on average (certified); new earns less in 50% of cases, "
            "by about 1.5 on average in these cases",
        ),
        (
            gap(-1.0, Interval(-1.0, -1.0), values=[-2, -1, -1, 0], state="here"),
            "new earns 1 less than old on average (certified); new never earns more",
        ),
    ],
)
def test_the_first_line_states_the_result(found, sentence):
    first = str(found).partition("\n  ")[0]
    assert first.replace("\n", " ") == sentence
    assert max(map(len, first.splitlines())) <= 100
    assert found._repr_html_().startswith(f"<p>{first}</p><pre>  gap ")


def test_a_wide_chance_is_printed_as_an_interval():
    low, high = np.array([-1.0, -1.0]), np.array([-1.0, 3.0])
    wide = GapDistribution(low, high, high, np.array([0.1, 0.9]), 0.0, Interval(-1.0, 3.0))
    found = dataclasses.replace(gap(2.6, Interval(2.0, 3.0), state="here"), find_distribution=lambda tolerance: wide)
    assert "less in 10% of cases (9.9 to 100%)" in str(found).replace("\n", " ")


def test_missing_numbers_say_why():
    text = str(dataclasses.replace(gap(1.0, None), correlation=float("nan")))
    assert "correlation  undefined: the variance of a return may be 0" in text
    assert "std          1 (estimate without an interval)" in text


def test_an_evaluation_says_what_it_is_of():
    world = jmdp.worlds.inventory(4)
    rules = {"old": world.policies["base_stock"], "new": world.policies["never"]}
    text = repr(jmdp.evaluate(world.model, rules, jmdp.Local(), starts=world.start))
    assert text.startswith("From the start distribution, old earns ")
    assert "Means and covariances of the returns of 2 policies in 6 states, certified\n" in text


def test_an_answer_names_the_best_of_many():
    def reward(s, a, u):
        return a + u

    def later(s, a, u):
        return s + 1

    game = jmdp.simulators.FunctionSimulator(
        reward, later, 3, luck=lambda rng: rng.random(), start=0, terminal=lambda s: s >= 1
    )
    found = jmdp.compare(game, policy="uniform", discount=0.9, seed=0, progress=False)
    assert found.answer.startswith(
        "2 is the best of 3 actions on average (95% confidence, 64 paired rollouts): it earns 1"
    )
    assert "more than 1, the second best; it earns more than 1 in 100% of rollouts" in found.answer
    assert " ".join(repr(found).split()).startswith(found.answer)
    assert found._repr_html_().startswith(f"<p>{found.answer}</p><table>")
    assert "–: undefined, because a return did not vary" not in repr(found)
