"""Features φ(s, a) for linear methods: a matrix [S·A, d], row s·A + a, and the usual constructions.

`matrix_of` takes any of them: `OneHot`, `TileCoding`, `RandomFourier`, `Polynomial`, an array [S·A, d] or [S, A, d], or
a function ``f(state_index, action_index)`` that returns a vector. Rows of terminal states are 0, like their returns.

Tiles, waves and polynomials are features of the position of a state, crossed with actions: a block of columns for each
action. On a grid, states are the cells row by row::

    world = jmdp.worlds.windy_gridworld(5, 5)
    cells = np.indices(world.grid).reshape(2, -1).T  # [S, 2], (row, column)
    phi = features.matrix_of(features.TileCoding(cells, tiles=3, tilings=2), world.model)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import combinations_with_replacement
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.settings import integer, real_number, short, whole
from jmdp.errors import SettingsError
from jmdp.models.tabular import TabularJMDP, check_model


@runtime_checkable
class Features(Protocol):
    """Protocol of features that provide a matrix for a table."""

    def matrix(self, model: TabularJMDP) -> Floats:
        """Φ [S·A, d], row s·A + a."""
        ...


def _is_features(value: object) -> TypeGuard[Features]:
    """Whether an object has the method of `Features`."""
    return callable(getattr(value, "matrix", None))


def matrix_of(
    features: Features | Callable[[int, int], npt.ArrayLike] | npt.ArrayLike, model: TabularJMDP, name: str = "features"
) -> Floats:
    """Checked matrix Φ [S·A, d] of any kind of features: real, finite, a row for each state and action.

    Rows of terminal states are ignored and set to 0. Linear independence of the columns is not checked here.
    """
    check_model(model)
    S, _, A = model.shape
    if isinstance(features, type):
        raise SettingsError(f"{name} is the class {features.__name__}. Give an instance: {features.__name__}(…).")
    if _is_features(features):
        found: Any = features.matrix(model)
    elif callable(features):
        found = _called(features, model, name)
    else:
        found = features
    arrays.refuse_masked(name, found, SettingsError)
    axes = "[S, A, d]" if arrays.dimensions(found) == 3 else "[S·A, d]"
    table = arrays.floats(name, found, axes, SettingsError)
    if table.shape[:-1] not in ((S * A,), (S, A)):
        fix = f"Give {S * A} rows, row s·{A} + a, or an array [S, A, d]."
        if table.shape[:-1] == (S,):
            fix += f" For features of states alone, give np.kron(features, np.eye({A}))."
        raise SettingsError(f"{name} has shape {table.shape}, but the model has {S} states and {A} actions. {fix}")
    table = table.reshape(S * A, table.shape[-1])
    table[np.repeat(model.terminal, A)] = 0.0
    if table.shape[1] == 0:
        why = "every state is terminal" if model.terminal.all() else "give at least one"
        raise SettingsError(f"{name} has no columns: {why}.")
    finite = "features must be finite numbers"
    arrays.refuse_where(
        ~np.isfinite(table), table, name, finite, lambda at: _place(model, *divmod(at[0], A)), SettingsError
    )
    return table


def _called(function: Callable[[int, int], npt.ArrayLike], model: TabularJMDP, called: str) -> Floats:
    """Matrix of a feature function, which is called for non-terminal states only."""
    S, _, A = model.shape
    rows: dict[int, Floats] = {}
    for s in np.flatnonzero(~model.terminal).tolist():
        for a in range(A):
            name = f"{called} at {_place(model, s, a)}"
            try:
                row = function(s, a)
            except Exception as error:
                error.add_note(f"Raised by {name}.")
                raise
            rows[s * A + a] = arrays.floats(name, row, "[d]", SettingsError)
            d, first = rows[s * A + a].size, next(iter(rows.values())).size
            if d != first:
                raise SettingsError(f"{name} has {d} entries, but the first had {first}. Return equal lengths.")
    table = np.zeros((S * A, first if rows else 0))
    table[list(rows)] = list(rows.values())
    return table


def _place(model: TabularJMDP, s: int, a: int) -> str:
    return f"state {model.states.name(s)}, action {model.actions.name(a)}"


@dataclass(frozen=True)
class OneHot:
    """One-hot features: one column per action of each non-terminal state. A linear method becomes tabular."""

    def width(self, model: TabularJMDP) -> int:
        """Number of columns d, without building the matrix."""
        return int((~model.terminal).sum()) * model.shape[2]

    def matrix(self, model: TabularJMDP) -> Floats:
        """Φ [S·A, d], row s·A + a."""
        return np.eye(model.shape[0] * model.shape[2])[:, np.repeat(~model.terminal, model.shape[2])]


@dataclass(frozen=True, eq=False)
class _Placed(arrays.FrozenArrays, ABC):
    """Features of the position of a state, crossed with actions: column a·d + i is feature i if action a is taken."""

    positions: npt.ArrayLike  # [S, n]

    def __post_init__(self) -> None:
        x = arrays.floats("positions", self.positions, "[S, n]", SettingsError)
        if x.size == 0:
            raise SettingsError(f"positions has shape {x.shape}. Give each state at least one coordinate.")
        finite = "positions must be finite numbers"
        arrays.refuse_where(~np.isfinite(x), x, "positions", finite, lambda at: f"state {at[0]}", SettingsError)
        arrays.frozen(x)
        object.__setattr__(self, "positions", x)
        self._check(x)

    @abstractmethod
    def _check(self, x: Floats) -> None:
        """Raise for settings that are invalid at positions x [S, n]."""

    @abstractmethod
    def _of_states(self, x: Floats, not_terminal: Booleans) -> Floats:
        """Features [S, d] at positions x [S, n]; those of terminal states are ignored."""

    @abstractmethod
    def _most_columns(self, x: Floats) -> float:
        """Upper bound on the number of features d at positions x [S, n]."""

    def matrix(self, model: TabularJMDP) -> Floats:
        """Φ [S·A, A·d], row s·A + a."""
        S, _, A = model.shape
        x: Floats = np.asarray(self.positions)
        numbers = self._most_columns(x) * (float(S * A * A) + 3 * x.size + 32)
        arrays.refuse_large(f"The matrix of {type(self).__name__}", 8 * numbers)
        if len(x) != S:
            raise SettingsError(f"positions has {len(x)} rows, the model has {S} states. Give each state a position.")
        phi = np.where(model.terminal[:, None], 0.0, self._of_states(x, ~model.terminal))
        crossed = np.zeros((S, A, A, phi.shape[1]))
        crossed[:, np.arange(A), np.arange(A)] = phi[:, None]
        return crossed.reshape(S * A, A * phi.shape[1])


@dataclass(frozen=True, eq=False)
class TileCoding(_Placed):
    """Tile coding: grids over the positions, each shifted by a fraction of a tile; a feature is 1 in its tile, else 0.

    Tiling j of t is shifted by j/t of a tile along every axis. Exactly `tilings` features are 1 in each non-terminal
    state. Tiles without such a state have no column.

    Sutton and Barto (2018), section 9.5.4, with even shifts.

    Parameters
    ----------
    positions
        ``[S, n]``, position of each state.
    tiles
        Number of tiles along each axis, or one number for all.
    tilings
        Number of grids.
    wrap
        Period of the positions, e.g. 2π for angles, or 0 if not periodic: for each axis, or one number for all.
    """

    tiles: int | Sequence[int]
    tilings: int = 1
    _: KW_ONLY
    wrap: float | Sequence[float] = 0.0

    def _check(self, x: Floats) -> None:
        whole(self, "tilings", 1, _MOST_TILES)
        tiles, wrap = self._by_axis(x.shape[1])
        if tiles.shape != x.shape[1:] or not ((tiles > 0) & (tiles <= _MOST_TILES)).all():
            raise SettingsError(
                f"tiles is {short(self.tiles)}. Give a whole number > 0, at most {_MOST_TILES}, or one for each axis "
                "of positions."
            )
        if wrap.shape != x.shape[1:] or not ((wrap >= 0) & (wrap < math.inf)).all():
            raise SettingsError(
                f"wrap is {short(self.wrap)}. Give the period of the positions, 0 if they are not periodic, "
                "or one number for each axis of positions."
            )

    def _most_columns(self, x: Floats) -> float:
        return self.tilings * len(x)

    def _by_axis(self, axes: int) -> tuple[Integers, Floats]:
        """Tiles and wrap of each axis; empty if they are neither a number nor a list."""
        tiles, wrap = integer(self.tiles), real_number(self.wrap)
        return (
            _listed_integers("tiles", self.tiles) if tiles is None else np.full(axes, min(max(tiles, 0), 2**62)),
            _listed_floats("wrap", self.wrap) if math.isnan(wrap) else np.full(axes, wrap),
        )

    def _of_states(self, x: Floats, not_terminal: Booleans) -> Floats:
        tiles, wrap = self._by_axis(x.shape[1])
        low, span = _box(x)
        span = np.where(wrap > 0, wrap, span)
        fine = (x - low) * (tiles * self.tilings) / span  # in shifts; divided last, to be exact for integers
        blocks = []
        for j in range(self.tilings):
            tile = np.floor((fine + j) / self.tilings)
            # The last position belongs to the last tile; a shifted grid has one tile more.
            tile = np.where(wrap > 0, tile % tiles, np.minimum(tile, tiles - (j == 0)))
            places, column = np.unique(tile[not_terminal], axis=0, return_inverse=True)
            block = np.zeros((len(x), len(places)))
            block[np.flatnonzero(not_terminal), column.ravel()] = 1.0
            blocks.append(block)
        return np.concatenate(blocks, axis=1)


@dataclass(frozen=True, eq=False)
class RandomFourier(_Placed):
    """Random Fourier features φ_i(s) = √(2/count) cos(ω_i · x(s) + b_i).

    ω_i is normal with standard deviation 1/scale and b_i uniform on a circle. Products φ(s) · φ(t) have the mean
    exp(−‖x(s) − x(t)‖² / (2 scale²)), the Gaussian kernel, and a variance of at most 1/count. Rahimi and Recht (2007).

    Parameters
    ----------
    positions
        ``[S, n]``, position of each state.
    count
        Number of features for each action.
    scale
        Length scale of the kernel, in units of the positions.
    seed
        Seed of the frequencies and phases; the same seed gives the same features.
    """

    count: int
    scale: float
    _: KW_ONLY
    seed: int

    def _check(self, x: Floats) -> None:
        whole(self, "count", 1)
        whole(self, "seed", 0)
        scale = real_number(self.scale)
        if not 0 < scale < math.inf:
            raise SettingsError(f"scale is {short(self.scale)}. Give a distance > 0 between positions.")
        object.__setattr__(self, "scale", scale)

    def _most_columns(self, x: Floats) -> float:
        return self.count

    def _of_states(self, x: Floats, not_terminal: Booleans) -> Floats:
        rng = np.random.Generator(np.random.PCG64DXSM(self.seed))
        frequency = rng.standard_normal((x.shape[1], self.count)) / self.scale
        phase = rng.uniform(0, 2 * math.pi, self.count)
        waves: Floats = np.cos(x @ frequency + phase)
        return math.sqrt(2 / self.count) * waves


@dataclass(frozen=True, eq=False)
class Polynomial(_Placed):
    """Products T_{i_1}(x_1) … T_{i_n}(x_n) of Chebyshev polynomials with i_1 + … + i_n ≤ degree.

    Each axis of the positions is first scaled to [−1, 1], where these are far better conditioned than powers. Columns
    are ordered by total degree: 1, x_1, …, x_n, and so on.

    Parameters
    ----------
    positions
        ``[S, n]``, position of each state.
    degree
        The largest total degree.
    """

    degree: int

    def _check(self, x: Floats) -> None:
        whole(self, "degree", 0, _MOST_TILES)

    def _most_columns(self, x: Floats) -> float:
        n, degree = x.shape[1], self.degree
        return math.exp(min(700.0, math.lgamma(n + degree + 1) - math.lgamma(n + 1) - math.lgamma(degree + 1)))

    def _of_states(self, x: Floats, not_terminal: Booleans) -> Floats:
        low, span = _box(x)
        T = np.polynomial.chebyshev.chebvander(2 * (x - low) / span - 1, self.degree)  # [S, n, degree + 1]
        n = x.shape[1]
        factors = [axes for total in range(self.degree + 1) for axes in combinations_with_replacement(range(n), total)]
        powers = [[axes.count(i) for i in range(n)] for axes in factors]
        return np.stack([T[:, np.arange(n), power].prod(axis=1) for power in powers], axis=1)


_MOST_TILES = 1_000_000
"""Largest number of tiles of an axis, of tilings, and degree of a polynomial."""


def _listed_integers(name: str, value: Any) -> Integers:
    listed = isinstance(value, (list, tuple, np.ndarray))
    return arrays.integers(name, value, "[axes]", SettingsError) if listed else np.zeros(0, np.int64)


def _listed_floats(name: str, value: Any) -> Floats:
    listed = isinstance(value, (list, tuple, np.ndarray))
    return arrays.floats(name, value, "[axes]", SettingsError) if listed else np.zeros(0)


def _box(x: Floats) -> tuple[Floats, Floats]:
    """Smallest position along each axis, and the range; 1 if all positions are equal."""
    low, high = x.min(axis=0), x.max(axis=0)
    return low, np.where(high > low, high - low, 1.0)
