"""With constant steps averages converge if gaps between updates grow more slowly than time, and only then.

The condition, its proof and the closed form 5/108 are in docs/mathematics.md, "Learning from single steps".
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import jmdp
from jmdp.methods.incremental import ConstantSteps, CoordinateSampling

COINS = 400


def coins_ahead():
    """State i < COINS earns nothing and leads to state COINS + i, which pays a fair coin and leads to the end."""
    states = 2 * COINS + 1
    pays = np.zeros((states, 2, 1))
    pays[COINS:-1, 1] = 1.0
    leads_to = np.minimum(np.arange(states) + COINS, states - 1)
    leads_to[COINS:] = states - 1
    ends = np.arange(states) == states - 1
    return jmdp.TabularJMDP(np.full((states, 2), 0.5), pays, np.tile(leads_to[:, None, None], (1, 2, 1)), 0.9, ends)


class CoinsAt(CoordinateSampling):
    """At the chosen times the means of all coins are updated, at all others those of the states before them."""

    def __init__(self, chosen):
        self.chosen = chosen

    def begin(self, cells):
        return np.zeros(1, np.int64)  # updates so far

    def draw(self, rng, size, cells, source, memory):
        time, coin = np.divmod(memory[0] + np.arange(size), COINS)
        memory[0] += size
        return coin + COINS * self.chosen(time + 1), np.full(size, -1, np.int64)


def powers_of_two(times):
    return times & (times - 1) == 0


def every_fourth(times):
    return times % 4 == 0


def std_over_coins(chosen, times):
    """Of the averages that 400 separate runs, side by side in one table, give for the state before the coin."""
    model = coins_ahead()
    method = jmdp.Incremental(
        seed=0, updates=COINS * times, steps=ConstantSteps(0.5), sampling=CoinsAt(chosen), centred=False
    )
    found = jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method=method).mean[:COINS, 0]
    assert abs(found.mean() - 0.45) < 5 * found.std() / math.sqrt(COINS)  # unbiased either way; false in 6e-7 (5 σ)
    return float(found.std())


def test_averages_converge_where_gaps_are_bounded():
    """16 times the updates, a quarter of the std. Each std is off by 3.5% (1 σ), so 30% is false in 1e-8."""
    few, many = (std_over_coins(every_fourth, times) for times in (1 << 8, 1 << 12))
    assert many == pytest.approx(few / 4, rel=0.3)


def test_averages_do_not_converge_where_gaps_double():
    """The coins are updated for ever, at k = 2^j. The std of the averages stays as it is however long the run."""
    few, many = (std_over_coins(powers_of_two, times) for times in (1 << 8, 1 << 12))
    assert many == pytest.approx(few, rel=0.3)
    assert many > 0.1


@pytest.mark.parametrize("updates", [10, 160])
def test_variance_of_a_time_average_with_doubling_gaps(updates):
    """γ = 0, α = ½, one coin: the weight of each draw in the time average gives Var → 5/108, in exact arithmetic."""
    lengths = 2.0 ** np.arange(updates)
    kept = 0.5 ** (np.arange(updates) + 1)  # what a draw still weighs in the value after 0, 1, … more updates
    weights = [float((kept[: updates - j] * lengths[j:]).sum()) for j in range(updates)]
    variance = 0.25 * float(np.square(weights).sum()) / lengths.sum() ** 2
    assert variance == pytest.approx(5 / 108, rel=0.02 if updates == 10 else 1e-12)
