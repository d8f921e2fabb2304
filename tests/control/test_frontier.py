"""The frontier against all policies of the full scenario history, in exact rationals, and on the worlds."""

from fractions import Fraction

import numpy as np
import pytest

import jmdp
from jmdp.control.shadow import TAIL, Problem, Utility
from jmdp.errors import UnavailableError
from reference.shadow_histories import Histories


def random_case(seed, *, discounted=False):
    """A small table with ties and negative rewards, an incumbent, and the question."""
    rng = np.random.default_rng([seed, 47])
    A, H = (3, 3) if seed % 4 == 0 else (2, int(rng.integers(1, 5)))
    S, K = int(rng.integers(2, 5)), 2
    shares = rng.integers(1, 8)
    prob = np.tile([shares / 8, 1 - shares / 8], (S, 1))
    unit = 1.0 if seed % 3 else 0.1  # 0.1 has no exact float
    reward = unit * rng.integers(-2, 3, (S, K, A))
    following = rng.integers(0, S, (S, K, A))
    terminal = (np.arange(S) == S - 1) & bool(seed % 5 == 0)
    model = jmdp.TabularJMDP(prob, reward, following, 0.75, terminal)
    incumbent = rng.integers(0, A, (H, S)) if seed % 7 == 0 else np.tile(rng.integers(0, A, S), (H, 1))
    final = np.where(terminal, 0.0, unit * rng.integers(-2, 3, S)) if seed % 2 else None
    two = S > 2 and H < 3
    return model, {
        "incumbent": np.eye(A)[incumbent],
        "horizon": H,
        "terminal_value": final,
        "discount": None if discounted else 1.0,
        "starts": {0: 0.75, 1: 0.25} if two else [0],
    }


def contains(estimate, truth):
    return Fraction(estimate.low) <= truth <= Fraction(estimate.high)


def misses(seed, *, discounted=False):
    """What is wrong with the answers for one random table, and the widths of the brackets."""
    model, given = random_case(seed, discounted=discounted)
    problem = Problem(model, **given)
    assert problem.exact is not discounted or problem.cell == 1.0
    truth = Histories(problem)
    every = truth.policies()
    weights = [0.0, 0.5, 1.0, 3.0, 10.0]
    wrong, widths = [], []
    for objective in ("shortfall", "shortfall and chance"):
        found = jmdp.frontier(model, **given, objective=objective, weights=weights)
        scale = Fraction(found.measure.chance)
        for point in found.points:
            weight = Fraction(point.weight)
            best = truth.best(every, weight, weight * scale)
            if not contains(point.value, best):
                wrong.append((objective, point.weight, "value", float(best), point.value))
            widths.append(point.value.high - point.value.low)
            policy = problem.solve(Utility(point.weight, point.weight * found.measure.chance))
            for name, exact in truth.statistics(policy).items():
                if not contains(getattr(point.statistics, name), exact):
                    wrong.append((objective, point.weight, name, float(exact), getattr(point.statistics, name)))
        for gain, risk in truth.largest_gains(every, scale):
            if gain > Fraction(found.gain_at(np.nextafter(risk, 9)).high):
                wrong.append((objective, "hull", risk))
    return wrong, widths


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 240), marks=pytest.mark.long)])
def test_equal_to_all_policies_of_the_scenario_history(seeds):
    found = {seed: misses(seed) for seed in seeds}
    assert {seed: wrong for seed, (wrong, _) in found.items() if wrong} == {}
    assert max(width for _, widths in found.values() for width in widths) < 1e-7  # the policies are the best ones


@pytest.mark.parametrize("seeds", [range(28, 48), pytest.param(range(240), marks=pytest.mark.long)])
def test_default_weights_find_the_hull_of_all_policies(seeds):
    """Also where it has a gain without risk, or nothing between the incumbent and the largest gain."""
    between = 0
    for seed in seeds:
        model, given = random_case(seed)
        found = jmdp.frontier(model, **given)
        between += len(found.points) > 1
        truth = Histories(Problem(model, **given))
        for gain, risk in truth.largest_gains(truth.policies(), Fraction(0)):
            hull = found.gain_at(float(risk))
            slack = Fraction(1, 10**6) * abs(Fraction(float(found.optimum.statistics.gain))) + Fraction(1, 10**9)
            assert gain - slack <= Fraction(float(hull)), (seed, gain, risk)
            assert gain <= Fraction(found.gain_at(np.nextafter(risk, 9)).high), (seed, gain, risk)
    assert between > len(seeds) / 5


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 120), marks=pytest.mark.long)])
def test_brackets_contain_the_truth_with_a_discount(seeds):
    found = {seed: misses(seed, discounted=True) for seed in seeds}
    assert {seed: wrong for seed, (wrong, _) in found.items() if wrong} == {}
    assert np.median([width for _, widths in found.values() for width in widths]) < 0.01  # gaps are about 1


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 160), marks=pytest.mark.long)])
@pytest.mark.parametrize("discounted", [False, True])
def test_the_worst_outcomes_against_all_policies(seeds, discounted):
    """The value of every point contains the best of all policies; without a discount it is the best one."""
    for seed in seeds:
        model, given = random_case(seed, discounted=discounted)
        found = jmdp.frontier(model, **given, objective="cvar", weights=[0.5, 4.0])
        truth = Histories(Problem(model, **given))
        for point in found.points[1:]:
            best = truth.best_tail(Fraction(point.weight), TAIL)
            assert contains(point.value, best), (seed, point.weight, float(best), point.value)
            if not discounted:
                assert point.value.high - point.value.low < 1e-7
        with pytest.raises(UnavailableError, match="has no hull"):
            found.gain_at(0.0)


def test_the_worst_outcomes_of_an_inventory():
    """Of 2,711 values that the gap can have, those that were not tried are no better."""
    world = jmdp.worlds.inventory(10)
    found = jmdp.frontier(
        world.model, world.policies["base_stock"], horizon=20, terminal_value=2.0 * np.arange(11), discount=1,
        starts=world.start, objective="cvar", weights=[1.0, 10.0],
    )  # fmt: skip
    assert found.width < 1e-5
    gain, worst = found.points[1].statistics.gain, found.points[1].statistics.worst
    assert gain + worst > found.optimum.statistics.gain + found.optimum.statistics.worst + 1
    assert found.points[2].statistics.gain == 0  # as safe as the incumbent


def test_the_figure_shows_all_policies_in_both_models():
    pytest.importorskip("matplotlib")
    model, given = random_case(1)
    found = jmdp.frontier(model, **given, weights=[1.0, 2.0], under=model)
    (axes,) = found.plot().axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [len(line.get_xdata()) for line in dots] == [3, 3]
    assert np.array_equal(dots[0].get_ydata(), dots[1].get_ydata())
