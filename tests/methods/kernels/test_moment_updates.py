"""The kernels of incremental learning: against a slow twin, and P6 for the steps they draw."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

import jmdp
from jmdp.methods.incremental import BlockSampling, ConstantSteps, PolynomialSteps
from jmdp.methods.incremental.coordinate_sampling import MomentCells, TablePairs
from jmdp.methods.incremental.stochastic_approximation import step_table
from jmdp.methods.kernels.moment_updates import RUN, UpdateRule, draw_blocks, pick, update
from jmdp.methods.kernels.tables import ENDED, MEAN, SQUARE
from reference import incremental as twin
from reference.step_distributions import DRAWS, FALSE_ALARM, POWER, cases, expected, g_test
from sample_models import COUPLINGS, random_problem


def source_of(model, policy, coupling):
    cells = MomentCells(model, coupling)
    return cells, TablePairs(model, policy, coupling, cells, model.reward)


def observed(rng, model, policy, coupling, x, y):
    """Counts of (r, s', a', r̃, t', b') over DRAWS steps; None for what follows an end."""
    A = model.shape[2]
    _, source = source_of(model, policy, coupling)
    one, other = np.full(DRAWS, x[0] * A + x[1]), np.full(DRAWS, y[0] * A + y[1])
    if x == y and coupling.shared_in_a_state:
        other[:] = SQUARE
    gains, ahead = source.draw(rng, one, other)
    if other[0] == SQUARE:
        gains[1], ahead[1] = gains[0], ahead[0]
    return Counter(zip(gains[0].tolist(), ahead[0].tolist(), gains[1].tolist(), ahead[1].tolist(), strict=True))


def ends_in_one(distribution, model):
    """The same distribution with next coordinates as the kernel writes them."""
    A, found = model.shape[2], Counter()
    for (r, n, a, u, m, b), p in distribution.items():
        ahead = (ENDED if model.terminal[s] else s * A + c for s, c in ((n, a), (m, b)))
        one, other = ahead
        found[r, one, u, other] += p
    return found


def test_p6_steps_realise_the_coupling():
    """144 G-tests; all together raise a false alarm with probability 1e-6."""
    everything = list(cases())
    least = []
    for number, (model, policy, coupling, x, y, _) in enumerate(everything):
        distribution = ends_in_one(expected(model, policy, coupling, x, y), model)
        g, freedom = g_test(observed(np.random.default_rng([63, number]), model, policy, coupling, x, y), distribution)
        if freedom == 0:
            continue
        threshold = chi2.isf(FALSE_ALARM / len(everything), freedom)
        assert g <= threshold, f"{coupling}, branches on {x} and {y}: G = {g:.1f} over {threshold:.1f}"
        distances = np.geomspace(1e-3, 1, 400)
        least.append(distances[np.argmax(ncx2.sf(threshold, freedom, DRAWS * distances**2) >= POWER)])
    print(f"P6: {len(everything)} G-tests; a χ² distance of {np.median(least):.3f} is seen with probability {POWER}")
    assert max(least) < 0.1


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_updates_equal_those_of_the_slow_twin(coupling):
    rng = np.random.default_rng(5)
    rule = PolynomialSteps(0.7, 0.9, 3.0)
    for _ in range(6):
        model, policy = random_problem(rng, discounts=(0.5, 0.9))
        if model.terminal.all():
            continue
        cells, source = source_of(model, policy, coupling)
        one, other = BlockSampling().draw(rng, 3000, cells, source, None)
        gains, ahead = source.draw(rng, one, other)
        table, td = np.zeros((cells.size, 4)), np.zeros((4, 3))
        table[:, 3] = 1.0
        m = rng.standard_normal(cells.coordinates)
        how = UpdateRule(step_table(rule), model.discount, cells.branches_merge, m, cells.state_of)
        update(table, how, one, other, gains, ahead, td)
        for gain, at, end in zip(gains, (one, np.maximum(other, 0)), ahead, strict=True):  # what Z − m earns
            gain += np.where(end == ENDED, 0.0, model.discount * m[end]) - m[at]
        slow = twin.Incremental(model.discount, lambda n: float(rule(np.array(float(n)))), coupling.shared_in_a_state)
        for x, y, r, u, n, m in zip(*map(np.ndarray.tolist, (one, other, *gains, *ahead)), strict=True):
            n, m = (None if end == ENDED else end for end in (n, m))
            if y == MEAN:
                slow.update_mean(x, r, n)
            elif y == SQUARE:
                slow.update_square(x, r, n)
            else:
                slow.update_product(x, y, r, n, u, m)
        X = cells.coordinates
        for i, cell in enumerate(table[:X, 0]):
            assert cell == pytest.approx(slow.mean[i], rel=1e-12, abs=1e-14)
            assert table[X + i, 0] == pytest.approx(slow.square[i], rel=1e-12, abs=1e-14)
        for y in range(X):
            for x in range(y + 1):
                cell = table[cells.product(np.array(x), np.array(y)), 0]
                assert cell == pytest.approx(slow.product[x, y], rel=1e-12, abs=1e-14)
        assert td[:, 0].sum() == table[:, 1].sum() == 3000


def test_the_weight_of_the_start_is_what_another_start_would_change():
    """Two runs with the same luck that start 1 apart in every cell of one kind end as far apart as it says."""
    world = jmdp.worlds.windy_gridworld(3, 3)
    rng = np.random.default_rng(0)
    cells, source = source_of(world.model, world.policies["careless"], jmdp.Local())
    one, other = BlockSampling().draw(rng, 20_000, cells, source, None)
    gains, ahead = source.draw(rng, one, other)
    X = cells.coordinates
    ends = {}
    for start in ("zero", "means", "products"):
        table = np.zeros((cells.size, 4))
        table[:, 3] = 1.0
        table[:X, 0] += start == "means"
        table[X:, 0] += start == "products"
        rule = UpdateRule(step_table(ConstantSteps(0.05)), 0.95, True, np.zeros(X), cells.state_of)
        update(table, rule, one, other, gains, ahead, np.zeros((4, 3)))
        ends[start] = table
    np.testing.assert_allclose(ends["means"][:X, 0] - ends["zero"][:X, 0], ends["zero"][:X, 3], atol=1e-12)
    np.testing.assert_allclose(ends["products"][X:, 0] - ends["zero"][X:, 0], ends["zero"][X:, 3], atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 32, 33, 200])
def test_pick_is_searchsorted(length):
    rng = np.random.default_rng(length)
    row = np.cumsum(rng.dirichlet(np.ones(length)))
    row[-1] = 1.0
    for u in [0.0, *rng.random(200), *row[:-1], np.nextafter(1, 0)]:
        assert pick(row, float(u)) == min(np.searchsorted(row, u, side="right"), length - 1)


@pytest.mark.parametrize("branches_merge", [False, True])
def test_blocks_give_every_coordinate_its_share(branches_merge):
    """4 million draws; the false alarm of each of two χ² tests is 1e-7."""
    live, A, n = np.array([0, 2, 3]), 3, 4_000_000
    rng = np.random.default_rng(9)
    one, other = np.empty((2, n), np.int64)
    shares = np.array([0.1, 0.3, 0.7, 1.0])
    draw_blocks(rng.random(n), rng.random(n // RUN), shares, live, A, branches_merge, one, other)
    seen = Counter(zip(one.tolist(), other.tolist(), strict=True))
    coordinates = [s * A + a for s in live.tolist() for a in range(A)]
    assert {x for x, y in seen if y == MEAN} == {x for x, y in seen if y == SQUARE} == set(coordinates)
    same = {
        (x, y) for x in coordinates for y in coordinates if x // A == y // A and (x < y if branches_merge else x <= y)
    }
    cross = {(x, y) for x in coordinates for y in coordinates if x // A < y // A}
    assert {pair for pair in seen if pair[1] >= 0} == same | cross
    for pairs in ({(x, MEAN) for x in coordinates}, cross):
        counts = np.array([seen[pair] for pair in pairs])
        statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert statistic <= chi2.isf(1e-7, counts.size - 1)
    runs = n / RUN
    for block, share in zip((same, cross), (0.4, 0.3), strict=True):
        part = sum(seen[pair] for pair in block) / n
        assert abs(part - share) <= 6 * np.sqrt(share * (1 - share) / runs)


def test_steps_are_looked_up_at_their_counts():
    """Exactly below 2**12 updates, to twelve binary digits above."""
    world = jmdp.worlds.anti_correlated_bandit()
    cells, _ = source_of(world.model, world.policies["uniform"], jmdp.Local())
    rule = PolynomialSteps(0.8, 1.0, 1.0)
    for count in (0, 1, 17, 4094, 4095, 4096, 123_456_789, 2**40 + 12345):
        table = np.zeros((cells.size, 4))
        table[0, 1] = count
        one, other = np.zeros(1, np.int64), np.full(1, MEAN)
        gains, ahead = np.ones((2, 1)), np.full((2, 1), ENDED)
        zero = np.zeros(cells.coordinates)
        how = UpdateRule(step_table(rule), 0.5, True, zero, cells.state_of)
        update(table, how, one, other, gains, ahead, np.zeros((4, 3)))
        exact = float(rule(np.array(float(count))))
        assert table[0, 0] == pytest.approx(exact, rel=1e-15 if count < 4096 else 2.0**-11)
