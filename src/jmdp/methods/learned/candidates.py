"""Candidates of `LearnedMoments`: regressions of joint moments on the observation of a state.

The target of a state is a row of numbers estimated from its rollouts. For covariances the row has the variance of
every gap, then that of every action (`Moments`): a linear map of the covariance matrix, so that an average of rows is
the row of the average matrix, which is positive semidefinite. Candidates for covariances only average rows of states
with non-negative weights (`Constant`, `Table`, `Neighbours`, `Forest`) or scale one matrix from both sides
(`Scaled`). A linear regression (`Linear`) is a candidate for means only.

Every average includes the average of all states with the weight of one rollout. It keeps small samples from predicting
variances near 0.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.errors import ModelError
from jmdp.methods.kernels.forests import forest_mean

_LIMIT = 4.0
"""Standardised inputs of regressions beyond this size count as this size."""

_MOST_COMPONENTS = 64
"""Regressions on more inputs use so many principal components."""

_MOST_IN_PRODUCTS = 10
"""Regressions on more inputs have no products of different inputs."""

_TREES, _SPLITS = 60, 100
"""Trees of a forest, and inputs that are tried at each split."""

_BOOSTED, _RATE, _BOOSTED_SPLITS = 100, 0.05, 30
"""Boosted trees, their learning rate, and inputs that are tried at each split."""

_PITCH = 0.24
"""Standard deviation of a wave's argument for standardised inputs, in periods."""

_PART = 256
"""Inputs whose features are computed together."""

_FLOOR = 1e-2
"""Share of the average that variances are increased by, since gamma regressions need positive numbers."""

_PENALTY = 1e-2
"""Penalty of gamma regressions, per squared coefficient of standardised inputs; three times that for waves."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Where the row of a state has the moments of its A actions."""

    actions: int

    @property
    def pairs(self) -> tuple[Integers, Integers]:
        """First and second action of every gap."""
        first, second = np.triu_indices(self.actions, 1)
        return first, second

    def rows(self, covariance: Floats) -> Floats:
        """[N, A, A] → [N, pairs + A]: variances of all gaps, then of all actions."""
        own = np.diagonal(covariance, axis1=1, axis2=2)
        a, b = self.pairs
        return np.concatenate([np.maximum(own[:, a] + own[:, b] - 2 * covariance[:, a, b], 0.0), own], axis=1)

    def matrices(self, rows: Floats) -> Floats:
        """The covariance matrices of these rows."""
        a, b = self.pairs
        own = rows[:, len(a) :]
        covariance = np.zeros((len(rows), self.actions, self.actions))
        covariance[:, a, b] = covariance[:, b, a] = (own[:, a] + own[:, b] - rows[:, : len(a)]) / 2
        i = np.arange(self.actions)
        covariance[:, i, i] = own
        return covariance


@dataclass(frozen=True, eq=False)
class Standard(arrays.FrozenArrays):
    """Standardised inputs, or the principal components of many."""

    centre: Floats  # [d]
    scale: Floats  # [d]
    components: Floats | None  # [d, c]

    @classmethod
    def of(cls, inputs: Floats) -> Standard:
        """Means, standard deviations and components of these inputs; scale 1 where nothing varies."""
        centre, scale = inputs.mean(axis=0), inputs.std(axis=0)
        scale = np.where(scale > 1e-9 * np.abs(inputs).max(axis=0), scale, 1.0)
        if inputs.shape[1] <= _MOST_COMPONENTS:
            return cls(centre, scale, None)
        z = (inputs - centre) / scale
        _, sizes, directions = np.linalg.svd(z, full_matrices=False)
        kept = sizes[:_MOST_COMPONENTS] > 1e-9 * sizes[0]
        directions = directions[:_MOST_COMPONENTS][kept]
        return cls(centre, scale, (directions / (sizes[:_MOST_COMPONENTS][kept, None] / np.sqrt(len(z)))).T.copy())

    def __call__(self, inputs: Floats) -> Floats:
        """The inputs on this scale, [n, d or c]."""
        z = (inputs - self.centre) / self.scale
        return z if self.components is None else z @ self.components


@dataclass(frozen=True, eq=False)
class Features(arrays.FrozenArrays):
    """Standardised inputs, limited, with their squares and products, or with random waves.

    Waves are random Fourier features with parabolas in place of half periods of the sine (errors up to 0.06), which
    take a quarter of the time.
    """

    standard: Standard
    frequencies: Floats | None  # [d, waves]; None: squares and, if there are few inputs, products
    phases: Floats | None  # [waves], in periods

    @classmethod
    def of(cls, inputs: Floats, waves: int) -> Features:
        """Features of these inputs, with this many waves."""
        standard = Standard.of(inputs)
        if not waves:
            return cls(standard, None, None)
        size, draw = standard(inputs[:1]).shape[1], np.random.default_rng(0)
        return cls(standard, draw.normal(size=(size, waves)) * _PITCH / np.sqrt(size), draw.uniform(size=waves))

    def __call__(self, inputs: Floats) -> Floats:
        """Features [n, …]."""
        z = np.clip(self.standard(inputs), -_LIMIT, _LIMIT)
        if self.frequencies is not None and self.phases is not None:
            turns = z @ self.frequencies
            turns += self.phases
            turns -= np.rint(turns)
            return np.concatenate([z, turns * (8 - 16 * np.abs(turns))], axis=1)
        every = np.arange(z.shape[1])
        i, j = np.triu_indices(z.shape[1]) if z.shape[1] <= _MOST_IN_PRODUCTS else (every, every)
        return np.concatenate([z, z[:, i] * z[:, j]], axis=1)

    def times(self, inputs: Floats, coefficients: Floats) -> Floats:
        """Features times coefficients [features, m], in parts whose arrays stay in the cache: five times as fast."""
        parts = range(0, max(1, len(inputs)), _PART)
        return np.concatenate([self(inputs[i : i + _PART]) @ coefficients for i in parts])


def distinct(rows: Floats) -> tuple[Integers, Integers]:
    """Position of the first of all equal rows, and for each row which of these equals it, by sums modulo 2⁶⁴."""
    odd = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = (rows + 0.0).view(np.uint64)  # + 0.0, because −0 equals 0
    sums = ((bits ^ bits >> np.uint64(32)) * odd).sum(axis=1)  # low bits of round numbers are 0
    _, first, place = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first[place]], rows):  # equal sums of different rows
        _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, place.ravel()


class Candidate(ABC):
    """A fitted regression."""

    @abstractmethod
    def rows(self, inputs: Floats) -> Floats:
        """Predicted rows for inputs [n, d]."""


@dataclass(frozen=True, eq=False)
class Constant(arrays.FrozenArrays, Candidate):
    """The average of all states."""

    average: Floats  # [m]

    @classmethod
    def fit(cls, inputs: Floats, rows: Floats, rollouts: int) -> Constant:
        """Fit to rows [N, m] from this many rollouts each."""
        return cls(rows.mean(axis=0))

    def rows(self, inputs: Floats) -> Floats:
        """The average."""
        return np.broadcast_to(self.average, (len(inputs), len(self.average)))


@dataclass(frozen=True, eq=False)
class Table(arrays.FrozenArrays, Candidate):
    """The average of the states with the same inputs; for others the average of all."""

    keys: Floats  # [k, d], different inputs
    averages: Floats  # [k, m]
    average: Floats  # [m]

    @classmethod
    def fit(cls, inputs: Floats, rows: Floats, rollouts: int) -> Table:
        """Fit to rows [N, m] from this many rollouts each."""
        first, place = distinct(inputs)
        sums, average, prior = np.zeros((len(first), rows.shape[1])), rows.mean(axis=0), 1 / rollouts
        np.add.at(sums, place, rows)
        counts = np.bincount(place)
        return cls(inputs[first], (sums + prior * average) / (counts + prior)[:, None], average)

    def rows(self, inputs: Floats) -> Floats:
        """The averages of the inputs."""
        first, place = distinct(np.concatenate([self.keys, inputs]))
        known = np.full(len(first), len(self.keys))
        known[place[: len(self.keys)]] = np.arange(len(self.keys))
        averages = np.concatenate([self.averages, self.average[None]])
        return np.asarray(averages[known[place[len(self.keys) :]]])


@dataclass(frozen=True, eq=False)
class Neighbours(arrays.FrozenArrays, Candidate):
    """The average of the nearest states, by the distance of standardised inputs."""

    points: Floats  # [N, d], standardised
    values: Floats  # [N, m]
    standard: Standard
    count: int
    prior: float

    @classmethod
    def fit(cls, inputs: Floats, rows: Floats, rollouts: int, count: int) -> Neighbours:
        """Fit to rows [N, m] from this many rollouts each."""
        standard = Standard.of(inputs)
        return cls(standard(inputs), rows, standard, min(count, len(rows)), 1 / rollouts)

    def rows(self, inputs: Floats) -> Floats:
        """The averages of the neighbours."""
        from scipy.spatial import cKDTree

        near = cKDTree(self.points).query(self.standard(inputs), self.count)[1]
        near = near.reshape(len(inputs), self.count)
        sums = np.zeros((len(inputs), self.values.shape[1]))
        for column in near.T:  # an array of all neighbours' rows would be large
            sums += self.values[column]
        return np.asarray((sums + self.prior * self.values.mean(axis=0)) / (self.count + self.prior))


@dataclass(frozen=True, eq=False)
class Trees(arrays.FrozenArrays):
    """Binary trees over the inputs, with a row of values at each leaf."""

    roots: Integers  # [trees], first node of each tree
    feature: Integers  # [nodes], −1 for leaves
    threshold: Floats  # [nodes]
    child: Integers  # [nodes], left child, before the right one; for a leaf its row of `values`
    values: Floats  # [leaves, m]

    def __post_init__(self) -> None:
        inner, nodes = self.feature >= 0, len(self.feature)
        if not (
            len(self.roots) > 0
            and len(self.threshold) == len(self.child) == nodes
            and ((self.roots >= 0) & (self.roots < nodes)).all()
            and (self.child[inner] > np.flatnonzero(inner)).all()  # so that every path ends
            and (self.child[inner] < nodes - 1).all()
            and ((self.child[~inner] >= 0) & (self.child[~inner] < len(self.values))).all()
        ):
            raise ModelError("roots, feature and child are not those of trees. Use the trees of a fitted regression.")

    @classmethod
    def of(cls, trees: Sequence[Any], values: Sequence[Floats]) -> Trees:
        """Trees of scikit-learn (`tree_`), with values [nodes, m] of each."""
        parts, node, row = [], 0, 0
        for tree, given in zip(trees, values, strict=True):
            order, n = np.zeros(tree.node_count, np.int64), 1
            child, is_leaf = np.zeros(tree.node_count, np.int64), np.zeros(tree.node_count, np.bool_)
            leaves = 0
            for i in range(tree.node_count):  # breadth first, so that children are side by side
                left = tree.children_left[order[i]]
                if left < 0:
                    child[i], is_leaf[i] = row + leaves, True
                    leaves += 1
                else:
                    order[n], order[n + 1], child[i] = left, tree.children_right[order[i]], node + n
                    n += 2
            feature = np.where(is_leaf, -1, tree.feature[order])
            parts.append((np.array([node]), feature, tree.threshold[order], child, given[order[is_leaf]]))
            node, row = node + tree.node_count, row + leaves
        roots, feature, threshold, child, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(roots, feature.astype(np.int64), threshold.astype(np.float64), child, rows)

    def __call__(self, inputs: Floats) -> Floats:
        """The averages over the trees [n, m]."""
        inputs = np.ascontiguousarray(inputs)
        if self.feature.max() >= inputs.shape[1]:
            raise ModelError(f"The trees have more than {inputs.shape[1]} inputs. Use the inputs they were fitted to.")
        return forest_mean(inputs, self.roots, self.feature, self.threshold, self.child, self.values)


@dataclass(frozen=True, eq=False)
class Forest(Candidate):
    """Extremely randomised trees: the average over the leaves of the trees."""

    trees: Trees

    @classmethod
    def fit(cls, inputs: Floats, rows: Floats, rollouts: int, leaf: int) -> Forest:
        """Fit to rows [N, m] from this many rollouts each, with at least `leaf` states in each leaf."""
        from sklearn.ensemble import ExtraTreesRegressor

        size = np.abs(rows).mean(axis=0)
        size[size == 0] = 1.0
        share = min(1.0, _SPLITS / inputs.shape[1])
        model = ExtraTreesRegressor(_TREES, min_samples_leaf=leaf, max_features=share, random_state=0)
        model.fit(inputs, rows / size)
        trees, average, prior = [one.tree_ for one in model.estimators_], rows.mean(axis=0), 1 / rollouts
        counts = [tree.n_node_samples[:, None] for tree in trees]
        values = [
            (tree.value[:, :, 0] * size * n + prior * average) / (n + prior)
            for tree, n in zip(trees, counts, strict=True)
        ]
        return cls(Trees.of(trees, values))

    def rows(self, inputs: Floats) -> Floats:
        """The averages of the trees."""
        return self.trees(inputs)


@dataclass(frozen=True, eq=False)
class Linear(arrays.FrozenArrays, Candidate):
    """Ridge regression on `Features`. For means."""

    features: Features
    coefficients: Floats  # [features, m]
    intercept: Floats  # [m]

    @classmethod
    def fit(cls, inputs: Floats, rows: Floats, rollouts: int, waves: int = 0) -> Linear:
        """Fit to rows [N, m]; the penalty is chosen by leaving out single states."""
        from sklearn.linear_model import RidgeCV

        features = Features.of(inputs, waves)
        model = RidgeCV(np.logspace(-2, 4, 13)).fit(features(inputs), rows)
        return cls(features, np.atleast_2d(model.coef_).T.copy(), np.atleast_1d(model.intercept_))

    def rows(self, inputs: Floats) -> Floats:
        """The fitted values."""
        return self.features.times(inputs, self.coefficients) + self.intercept


class Logs(ABC):
    """A regression of logarithms of variances."""

    @abstractmethod
    def __call__(self, inputs: Floats) -> Floats:
        """Logarithms [n, k]."""


@dataclass(frozen=True, eq=False)
class LinearLogs(arrays.FrozenArrays, Logs):
    """Gamma regression with a logarithmic link on `Features`."""

    features: Features
    coefficients: Floats  # [features, k]
    intercept: Floats  # [k]
    lowest: Floats  # [k], range in the data, to which predictions are limited
    highest: Floats  # [k]

    @classmethod
    def fit(cls, inputs: Floats, targets: Floats, waves: int = 0) -> LinearLogs:
        """Fit to variances [N, k] with mean 1."""
        from sklearn.linear_model import GammaRegressor

        features = Features.of(inputs, waves)
        x, penalty = features(inputs), _PENALTY * (3 if waves else 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=UserWarning)  # the limit of iterations is a good place to stop
            models = [GammaRegressor(alpha=penalty, solver="newton-cholesky").fit(x, target) for target in targets.T]
        coefficients = np.stack([model.coef_ for model in models], axis=1)
        intercept = np.array([model.intercept_ for model in models])
        logs = x @ coefficients + intercept
        return cls(features, coefficients, intercept, logs.min(axis=0), logs.max(axis=0))

    def __call__(self, inputs: Floats) -> Floats:
        """Logarithms [n, k]."""
        logs = self.features.times(inputs, self.coefficients) + self.intercept
        return np.clip(logs, self.lowest, self.highest)


@dataclass(frozen=True, eq=False)
class BoostedLogs(Logs):
    """Boosted trees for the gamma deviance ln m + v/m, by Newton steps."""

    trees: tuple[Trees, ...]  # [k]

    @classmethod
    def fit(cls, inputs: Floats, targets: Floats) -> BoostedLogs:
        """Fit to variances [N, k] with mean 1."""
        from sklearn.tree import DecisionTreeRegressor

        found, share = [], min(1.0, _BOOSTED_SPLITS / inputs.shape[1])
        for target in targets.T:
            logs, trees, values = np.zeros(len(inputs)), [], []
            for i in range(_BOOSTED):
                ratio = target * np.exp(-logs)
                model = DecisionTreeRegressor(
                    max_leaf_nodes=8, min_samples_leaf=20, max_features=share, random_state=i
                ).fit(inputs, ratio - 1)
                tree, leaf = model.tree_, model.apply(inputs)
                sums = np.bincount(leaf, ratio, tree.node_count)
                step = (sums - np.bincount(leaf, minlength=tree.node_count)) / (sums + 1)
                logs += _RATE * step[leaf]
                trees.append(tree)
                values.append(_BOOSTED * _RATE * step[:, None])  # their average is the sum of the steps
            found.append(Trees.of(trees, values))
        return cls(tuple(found))

    def __call__(self, inputs: Floats) -> Floats:
        """Logarithms [n, k]."""
        return np.concatenate([trees(inputs) for trees in self.trees], axis=1)


@dataclass(frozen=True, eq=False)
class Scaled(arrays.FrozenArrays, Candidate):
    """One covariance matrix whose coordinates are scaled by factors that depend on the inputs. For covariances.

    The coordinates are the average of all actions' returns, and the deviation of each action from it: the variances of
    gaps are scaled separately from those of returns. All deviations have one factor if there are many actions.
    """

    matrix: Floats  # [1 + A, 1 + A], covariances of the coordinates
    logs: Logs  # logarithms of squared factors: one for each coordinate, or one for the average and one for the others

    @classmethod
    def fit(
        cls, inputs: Floats, rows: Floats, rollouts: int, regression: Callable[[Floats, Floats], Logs], most: int = 4
    ) -> Scaled:
        """Fit to rows [N, pairs + A]; with more than `most` actions the deviations have one factor."""
        A = _actions_of(rows)
        split = _splitting(A)
        covariance = split @ Moments(A).matrices(rows) @ split.T
        matrix = covariance.mean(axis=0)
        own = np.diagonal(matrix)
        unit = np.where(own > 0, own, 1.0)
        targets = np.where(own > 0, np.diagonal(covariance, axis1=1, axis2=2), 1.0) / unit
        if most < A:
            targets = np.stack([targets[:, 0], targets[:, 1:].mean(axis=1)], axis=1)
        return cls(matrix, regression(inputs, (np.maximum(targets, 0.0) + _FLOOR) / (1 + _FLOOR)))

    def rows(self, inputs: Floats) -> Floats:
        """The rows of the scaled matrices."""
        A = len(self.matrix) - 1
        factors = np.exp(self.logs(inputs) / 2)
        if factors.shape[1] == 2:
            factors = np.repeat(factors, [1, A], axis=1)
        scaled = factors[:, :, None] * self.matrix * factors[:, None, :]
        join = np.concatenate([np.ones((A, 1)), np.eye(A)], axis=1)
        return Moments(A).rows(join @ scaled @ join.T)


def _splitting(A: int) -> Floats:
    """[1 + A, A], from returns to their average and their deviations from it."""
    return np.concatenate([np.full((1, A), 1 / A), np.eye(A) - 1 / A])


def _actions_of(rows: Floats) -> int:
    """A, given that there are A (A + 1)/2 columns."""
    return int(np.sqrt(2 * rows.shape[1]))
