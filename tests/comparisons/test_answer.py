"""First sentences of comparisons, as a whole: which share belongs to which word."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jmdp


def draws(luck):
    return luck.uniform("x")


RUNS = {  # of 100: better in about 60, equal in 30, worse in 10
    "old": lambda luck: 0.0 * draws(luck),
    "new": lambda luck: 5.0 if draws(luck) < 0.6 else 0.0 if draws(luck) < 0.9 else -1.0,
}


@pytest.mark.parametrize(("minimize", "word"), [(False, "new"), (True, "old")])
def test_shares_of_better_equal_and_worse(minimize, word):
    found = jmdp.compare_runs(RUNS, minimize=minimize, seed=0, max_samples=100)
    first, second = (word, "old" if word == "new" else "new")
    old, new = found.summary.samples.returns.T
    gaps = found.summary.sign * (new - old) * (1 if word == "new" else -1)
    shares = [100 * np.mean(sign) for sign in (gaps > 0, gaps == 0, gaps < 0)]
    assert min(np.diff(sorted(shares))) > 5
    often = rf"{first} is better in (\d+)% of runs, the same in (\d+)% and worse in (\d+)%"
    sentence = rf"{first} is better than {second} by .*; {often}\. This reverses only if .* on average"
    printed = re.fullmatch(sentence, found.answer)
    assert printed, found.answer
    assert np.abs(np.array(printed.groups(), float) - shares).max() <= 1


def test_equal_means_are_named_in_the_order_of_the_table_and_the_chart():
    """Each alternative has the same hundred values in another order: their means differ by rounding only."""
    values = np.random.default_rng(0).normal(20.0, 10.0, 100)
    swapped = 0
    for seed in range(6):
        orders = [np.random.default_rng((seed, k)).permutation(values) for k in range(2)]
        found = jmdp.compare_scores({f"s{k}": list(order) for k, order in enumerate(orders)}, pair="position")
        swapped += np.argmax([order.mean() for order in orders]) != np.argmax([0.0, (orders[1] - orders[0]).mean()])
        first, second = found.ranked
        assert found.answer.startswith(f"undecided between {first} and {second}: advantage of {first} over {second}")
        assert found.plot().get_suptitle().startswith(f"Not decided: {first} leads")
    assert swapped  # the means alone would name the other first


class Balance(jmdp.simulators.Simulator):
    """A pole that stays up for ever; after a push to the left it falls at the last simulated step, once in fifty."""

    actions = jmdp.simulators.action_labels(["left", "right"])

    def start(self, shock):
        return (0, None, False)

    def step(self, state, action, shock):
        t, first, falls = state
        if t == 0:
            first = self.actions.index(action)
            falls = first == 0 and shock.generator().random() < 0.02
        return jmdp.simulators.Step(1.0, (t + 1, first, falls), falls and t == 133)


def test_a_gap_that_the_horizon_hides_is_said_to_be_so():
    found = jmdp.compare(Balance(), "uniform", discount=0.95, seed=0, max_samples=128, progress=False)
    assert "up to step 135 right earns more in" in found.answer
    assert "rewards after step 135 may outweigh the gap. Give a larger horizon=" in found.answer
    assert "0 to 100%" in str(found)
    assert "[0, 100]" not in str(found)
    words = [text.get_text() for axes in found.plot().axes for text in axes.texts]
    assert any("up to step 135" in text for text in words)
