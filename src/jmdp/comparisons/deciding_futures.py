"""In which futures an alternative is better: a small decision tree on what samples drew, tested on other samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from jmdp.base.arrays import Booleans, Floats
from jmdp.base.interval import Estimate
from jmdp.base.luck_sources import Drawn
from jmdp.base.rounding import significant
from jmdp.errors import MissingExtraError, UnavailableError
from jmdp.results.text import indented, paragraphs, percent
from jmdp.statistics.anytime import fixed_chance_interval

_WHAT = ("number of draws of {}", "mean {}", "smallest {}", "largest {}")
"""What is known of the draws of a source in one sample."""

_DEPTH, _LEAF = 3, 0.05
"""Depth of the tree, and the smallest share of the samples in a leaf."""

_FEWEST = 100
"""Samples of the smallest tree; a third of them test it."""


@dataclass(frozen=True, eq=False)
class Futures:
    """What each sample drew, and by how much the first alternative was better."""

    names: tuple[str, ...]
    values: Floats  # [n, names]
    gaps: Floats  # [n]

    @classmethod
    def of(cls, drawn: Sequence[Mapping[str, Drawn]], gaps: Floats) -> Self:
        """From the draws of each sample; without any of a source, they count as the smallest ones."""
        sources = sorted({name for one in drawn for name in one})
        none = (0, np.nan, np.nan, np.nan)
        values = np.array([[one.get(name, none) for name in sources] for one in drawn], float).reshape(len(drawn), -1)
        values = np.where(np.isnan(values), np.nanmin(values, axis=0, keepdims=True), values)
        varies = (values != values[0]).any(axis=0)
        names = [what.format(name) for name in sources for what in _WHAT]
        return cls(tuple(np.array(names, object)[varies].tolist()), values[:, varies], gaps)

    def deciding(self, first: str, seed: int) -> DecidingFutures:
        """The tree, from two thirds of the samples, and its accuracy in the others."""
        try:
            from sklearn.tree import DecisionTreeClassifier, export_text
        except ImportError:
            raise MissingExtraError('Decision trees need scikit-learn: pip install "jmdp[learn]"') from None
        n, better = len(self.gaps), self.gaps > 0
        if not self.names:
            raise UnavailableError(
                'No draws are known by name. Draw single numbers, such as luck.poisson("demand", day, mean=4): those '
                "of generators are not seen."
            )
        if n < _FEWEST or min(better.sum(), (~better).sum()) < _FEWEST * _LEAF:
            raise UnavailableError(
                f"{first} is better in {int(better.sum())} of {n} samples. A tree needs {_FEWEST}, and at least 5 of "
                "each kind: explain(samples=1000)."
            )
        held, worse = np.arange(n) % 3 == 2, "not better" if (self.gaps == 0).any() else "worse"
        tree = DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=_LEAF, random_state=seed % 2**32)
        tree.fit(self.values[~held], better[~held])
        values, truth = self.values[held], better[held]
        classes = [f"{first} is {word}" for word in (worse, "better")]
        column, threshold = int(tree.tree_.feature[0]), float(tree.tree_.threshold[0])
        above = values[:, column] > threshold
        sentence = f"No rule tells when {first} is {worse}"
        if column >= 0 and 0 < above.sum() < len(above):
            shares = _share(~truth[above]), _share(~truth[~above])
            high, low = sorted(shares, reverse=True)
            sentence = (
                f"{classes[0]} {'mostly' if high > 0.5 else 'more often'} when the {self.names[column]} "
                f"{'exceeds' if shares[0] >= shares[1] else 'is at most'} {significant(threshold, 3)}: in "
                f"{percent(high)} of such samples, and in {percent(low)} of the others"
            )
        return DecidingFutures(
            sentence=sentence,
            tree=tuple(export_text(tree, feature_names=list(self.names), class_names=classes).splitlines()),
            accuracy=_share(tree.predict(values) == truth),
            always=_share(truth == (better[~held].mean() > 0.5)),
            samples=len(truth),
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DecidingFutures:
    """Rules by what a sample drew, learned from two thirds of the samples, and how often they hold in the others."""

    sentence: str  # the first rule, with its shares in the other samples
    tree: tuple[str, ...]  # all rules, line by line
    accuracy: Estimate  # share of the other samples in which the rules are right
    always: Estimate  # share of them in which it is right to say always what is more frequent
    samples: int  # number of the others

    def __repr__(self) -> str:
        tested = (
            f"The rules are right in {percent(self.accuracy)} of {self.samples:,} samples that they were not learned "
            f"from; to say always the same is right in {percent(self.always)}."
        )
        return paragraphs([f"{self.sentence}.", indented(self.tree), tested])


def _share(which: Booleans) -> Estimate:
    """Share of at least one sample, with a 95% interval."""
    count, n = int(which.sum()), len(which)
    return Estimate.within(count / n, fixed_chance_interval(count, n, 0.05))
