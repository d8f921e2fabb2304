"""Features of states and actions: what each kind is, in closed form, and what is refused."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from jmdp.methods.linear_projected.features import OneHot, Polynomial, RandomFourier, TileCoding, matrix_of

WORLD = jmdp.worlds.windy_gridworld(4, 5)
MODEL = WORLD.model
S, _, A = MODEL.shape
GOAL = 4
CELLS = np.indices(WORLD.grid).reshape(2, -1).T  # [S, 2]
GOING = np.delete(np.arange(S), GOAL)


def blocks(phi):
    """Features of states [S, d]: the block of each row's own action; the rest must be 0 and the blocks equal."""
    d = phi.shape[1] // A
    split = phi.reshape(S, A, A, d)
    for a in range(A):
        assert (np.delete(split[:, a], a, axis=1) == 0).all()
        np.testing.assert_array_equal(split[:, a, a], split[:, 0, 0])
    assert (split[GOAL] == 0).all()
    return split[:, 0, 0]


def line(n, terminal=()):
    """A model with n states and one action."""
    there = np.arange(n).reshape(n, 1, 1)
    return jmdp.TabularJMDP(np.ones((n, 1)), np.zeros((n, 1, 1)), there, 0.9, np.isin(np.arange(n), terminal))


def test_positions_of_cells_are_in_the_order_of_states():
    assert [f"{row},{column}" for row, column in CELLS] == list(MODEL.states.names)


def test_one_hot_is_the_identity_without_terminal_states():
    phi = matrix_of(OneHot(), MODEL)
    assert phi.shape == (S * A, (S - 1) * A)
    np.testing.assert_array_equal(phi.sum(axis=0), np.ones((S - 1) * A))
    np.testing.assert_array_equal(phi.sum(axis=1), np.repeat(np.arange(S) != GOAL, A))
    np.testing.assert_array_equal(np.delete(phi, np.s_[GOAL * A : GOAL * A + A], axis=0), np.eye((S - 1) * A))


@pytest.mark.parametrize(("tiles", "tilings"), [(1, 1), (2, 1), (3, 2), ((2, 5), 4), (3, 3), (7, 8)])
def test_tiles_of_each_tiling_are_a_partition(tiles, tilings):
    phi = matrix_of(TileCoding(CELLS, tiles, tilings), MODEL)
    assert set(np.unique(phi)) <= {0.0, 1.0}
    of_states = blocks(phi)
    np.testing.assert_array_equal(of_states[GOING].sum(axis=1), np.full(S - 1, tilings))
    assert (of_states.sum(axis=0) >= 1).all()  # no column is never active
    # A tiling alone is a partition of unity: columns come tiling by tiling.
    at = 0
    for _ in range(tilings):
        total = np.zeros(S - 1)
        while (total < 1).any():
            total += of_states[GOING, at]
            at += 1
        np.testing.assert_array_equal(total, np.ones(S - 1))
    assert at == of_states.shape[1]


def test_tiles_by_hand():
    x = np.arange(7.0)[:, None]  # [0, 6] in 3 tiles of length 2; the second tiling is shifted by 1
    phi = matrix_of(TileCoding(x, 3, 2), line(7))
    first = [0, 0, 1, 1, 2, 2, 2]
    second = [0, 1, 1, 2, 2, 3, 3]
    np.testing.assert_array_equal(phi, np.hstack([np.eye(3)[first], np.eye(4)[second]]))
    gone = matrix_of(TileCoding(x, 3, 2), line(7, terminal=[0]))  # the first tile of the second tiling goes with it
    np.testing.assert_array_equal(gone[1:], np.hstack([np.eye(3)[first], np.eye(4)[second][:, 1:]])[1:])
    assert (gone[0] == 0).all()


def test_tiles_wrap_around():
    x = np.arange(6.0)[:, None] + 12  # a clock of 6 hours, in 3 tiles
    phi = matrix_of(TileCoding(x, 3, 2, wrap=6), line(6))
    np.testing.assert_array_equal(phi, np.hstack([np.eye(3)[[0, 0, 1, 1, 2, 2]], np.eye(3)[[0, 1, 1, 2, 2, 0]]]))
    turned = matrix_of(TileCoding(x + 6 * np.array([[0], [1], [2], [0], [5], [1]]), 3, 2, wrap=[6.0]), line(6))
    np.testing.assert_array_equal(turned, phi)
    cylinder = blocks(matrix_of(TileCoding(CELLS, (2, 5), 1, wrap=(0, 5)), MODEL))
    assert cylinder.shape[1] == 10


def test_shifts_are_even():
    """States at a distance x < 1 of a tile share all tilings but about a part x, so that similarity falls evenly."""
    x = np.linspace(0, 4, 4 * 40 + 1)[:, None]
    phi = matrix_of(TileCoding(x, 4, 8), line(len(x)))
    shared = phi[40] @ phi[40:81].T  # from 1 to 2 tiles
    np.testing.assert_array_equal(shared, 8 - np.arange(41) // 5)


def test_axes_where_all_positions_are_equal_do_no_harm():
    flat = np.column_stack([CELLS, np.full(S, 3.0)])
    np.testing.assert_array_equal(matrix_of(TileCoding(flat, 3, 2), MODEL), matrix_of(TileCoding(CELLS, 3, 2), MODEL))
    assert np.isfinite(matrix_of(Polynomial(flat, 2), MODEL)).all()


def test_random_waves_approach_the_gaussian_kernel():
    """Every product is a mean of `count` terms in [−2, 2]: by Hoeffding all lie within ε but for once in 1e6."""
    count, scale = 20_000, 1.7
    pairs = S * (S + 1) / 2
    within = math.sqrt(8 * math.log(2 * pairs / 1e-6) / count)
    x = CELLS * 1.0
    phi = matrix_of(RandomFourier(x, count, scale, seed=3), line(S))
    squares = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    error = np.abs(phi @ phi.T - np.exp(-squares / (2 * scale**2)))
    assert error.max() <= within < 0.1
    # And not by much, either: the variance of each error is (1 + (1 − k²)²)/(2 count), between these two.
    assert 0.3 / math.sqrt(count) < np.sqrt(np.mean(error**2)) < 2 / math.sqrt(count)


def test_random_waves_are_the_seeds_alone():
    one, same, other = (matrix_of(RandomFourier(CELLS, 6, 2.0, seed=seed), MODEL) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    waves = blocks(one)
    assert waves.shape == (S, 6)
    assert np.abs(waves).max() <= math.sqrt(2 / 6)
    wide = matrix_of(RandomFourier(CELLS * 10, 6, 20.0, seed=5), MODEL)  # scale is in units of position
    np.testing.assert_allclose(wide, one, atol=1e-14)
    with pytest.raises(TypeError, match="seed"):
        RandomFourier(CELLS, 6, 2.0)


def test_polynomials_are_chebyshevs():
    angles = np.linspace(0, math.pi, 9)
    phi = matrix_of(Polynomial(5 + 3 * np.cos(angles)[:, None], 6), line(9))
    np.testing.assert_allclose(phi, np.cos(angles[:, None] * np.arange(7)), atol=1e-14)  # T_i(cos x) = cos(i x)
    nodes = np.cos(math.pi * (np.arange(12) + 0.5) / 12)
    x = np.append(nodes, [-1.0, 1.0])[:, None]  # the ends, to fix the scale, are terminal
    phi = matrix_of(Polynomial(x, 8), line(14, terminal=[12, 13]))
    gram = phi.T @ phi * 2 / 12
    np.testing.assert_allclose(gram, np.diag([2.0] + [1.0] * 8), atol=1e-14)  # orthogonal at Chebyshev's nodes


@pytest.mark.parametrize("degree", range(5))
def test_polynomials_of_several_axes_have_all_products_up_to_the_degree(degree):
    x = np.random.default_rng(2).random((S, 3))
    phi = blocks(matrix_of(Polynomial(x, degree), MODEL))
    assert phi.shape == (S, math.comb(3 + degree, 3))
    np.testing.assert_array_equal(phi[GOING, 0], 1)
    if degree >= 2:
        scaled = 2 * (x - x.min(axis=0)) / np.ptp(x, axis=0) - 1
        np.testing.assert_allclose(phi[GOING, 1:4], scaled[GOING], atol=1e-14)
        first, second, third = scaled[GOING].T
        for product in (first * second, first * third, second * third, 2 * first**2 - 1, 2 * third**2 - 1):
            assert np.abs(phi[GOING] - product[:, None]).max(axis=0).min() < 1e-14


def test_functions_and_arrays():
    table = np.random.default_rng(0).random((S, A, 3))
    expected = np.where((np.arange(S) == GOAL)[:, None, None], 0, table).reshape(S * A, 3)

    def function(s, a):
        assert s != GOAL
        return table[s, a].tolist()

    wild = np.where((np.arange(S) == GOAL)[:, None, None], np.nan, table)  # rows of terminal states are never read
    for given in (table, table.reshape(S * A, 3), table.tolist(), wild, function):
        np.testing.assert_array_equal(matrix_of(given, MODEL), expected)
    assert np.isfinite(table).all()
    assert (table[GOAL] != 0).all()

    class Own:
        def matrix(self, model):
            return np.ones((S * A, 1), int)

    np.testing.assert_array_equal(matrix_of(Own(), MODEL), np.repeat(np.arange(S) != GOAL, A)[:, None])


def test_settings_are_frozen_and_apart_from_what_they_were_made_of():
    cells = CELLS.copy()
    tiles = TileCoding(cells, 3)
    cells[:] = 0
    np.testing.assert_array_equal(tiles.positions, CELLS)
    for one in (tiles, pickle.loads(pickle.dumps(tiles))):
        with pytest.raises(ValueError, match="read-only"):
            one.positions[0, 0] = 1
    with pytest.raises(AttributeError):
        tiles.tilings = 2


def with_nan(shape):
    array = np.ones(shape)
    array[7, 1] = np.nan
    return array


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrix_of(with_nan((S * A, 2)), MODEL),
         r"features\[7, 1\] is nan at state 0,1, action L: features must be finite numbers"),
        (lambda: matrix_of(np.ones((S, 2)), MODEL),
         r"features has shape \(20, 2\), but the model has 20 states and 4 actions\. "
         r"Give 80 rows, .* np\.kron\(features"),
        (lambda: matrix_of(np.ones((A, S, 2)), MODEL), r"features has shape \(4, 20, 2\), but the model has 20 states"),
        (lambda: matrix_of(np.ones(S * A), MODEL), r"features has shape \(80,\)\. Its axes are \[S·A, d\]"),
        (lambda: matrix_of(np.ones((S * A, 0)), MODEL), r"features has no columns: give at least one"),
        (lambda: matrix_of(OneHot(), line(2, [0, 1])), r"features has no columns: every state is terminal"),
        (lambda: matrix_of(TileCoding([[0], [1]], 2), line(2, [0, 1])), r"no columns: every state is terminal"),
        (lambda: matrix_of(lambda s, a: [1], line(2, [0, 1])), r"no columns: every state is terminal"),
        (lambda: matrix_of([[1.0], [1.0, 2.0]], MODEL), r"features is not a rectangular array"),
        (lambda: matrix_of(np.ones((S * A, 2)) * 1j, MODEL), r"features has dtype complex128, and its entry \[0, 0\]"),
        (lambda: matrix_of(None, MODEL), r"features has shape \(\)\. Its axes"),
        (lambda: matrix_of(OneHot, MODEL), r"features is the class OneHot\. Give an instance: OneHot\(…\)"),
        (lambda: matrix_of(lambda s, a: np.ones(1 + (s == 2)), MODEL),
         r"features at state 0,2, action U has 2 entries, but the first had 1"),
        (lambda: matrix_of(lambda s, a: 1.0, MODEL), r"features at state 0,0, action U has shape \(\)\. Its axes are"),
        (lambda: matrix_of(lambda s, a: [np.inf], MODEL), r"features\[0, 0\] is inf at state 0,0, action U"),
        (lambda: matrix_of(Polynomial(CELLS[1:], 2), MODEL), r"positions has 19 rows, the model has 20 states"),
        (lambda: Polynomial(np.arange(S), 2), r"positions has shape \(20,\)\. Its axes are \[S, n\]"),
        (lambda: Polynomial(np.zeros((S, 0)), 2), r"positions has shape \(20, 0\)\. Give each state at least one"),
        (lambda: Polynomial(with_nan((S, 2)), 2), r"positions\[7, 1\] is nan at state 7: positions must be finite"),
        (lambda: Polynomial(CELLS, -1), r"degree is -1\. Give a whole number from 0 to"),
        (lambda: Polynomial(CELLS, 1.5), r"degree is 1\.5"),
        (lambda: TileCoding(CELLS, 0), r"tiles is 0\. Give a whole number > 0"),
        (lambda: TileCoding(CELLS, (2, 2, 2)), r"tiles is \(2, 2, 2\)\. .* one for each axis of positions"),
        (lambda: TileCoding(CELLS, 2.0), r"tiles is 2\.0"),
        (lambda: TileCoding(CELLS, 2, 0), r"tilings is 0"),
        (lambda: TileCoding(CELLS, 2, wrap=True), r"wrap is True\. Give the period of the positions"),
        (lambda: TileCoding(CELLS, 2, wrap=(-1, 0)), r"wrap is \(-1, 0\)"),
        (lambda: RandomFourier(CELLS, 0, 1.0, seed=1), r"count is 0"),
        (lambda: RandomFourier(CELLS, 5, 0.0, seed=1), r"scale is 0\.0\. Give a distance > 0"),
        (lambda: RandomFourier(CELLS, 5, 1.0, seed=None), r"seed is None\. Give a whole number of at least 0"),
        (lambda: RandomFourier(CELLS, 5, 1.0, seed=True), r"seed is True"),
    ],
)  # fmt: skip
def test_what_is_refused(make, message):
    with pytest.raises(SettingsError, match=message):
        make()
