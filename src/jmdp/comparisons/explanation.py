"""Which sources of randomness explain the variance of a gap: the result of `Comparison.explain`.

In which futures an alternative is better: a small decision tree on what samples drew, tested on other samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from jmdp.base import optional, rounding
from jmdp.base.arrays import Booleans, Floats
from jmdp.base.interval import Estimate
from jmdp.base.luck_sources import Drawn
from jmdp.base.rounding import significant
from jmdp.base.settings import cut, short
from jmdp.errors import LabelError, UnavailableError
from jmdp.results.result import Tabulated, figure
from jmdp.results.text import Written, indented, lines, paragraphs, percent
from jmdp.statistics.anytime import fixed_chance_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_CANCELS = 4.0
"""A source cancels if it moves both returns by at least this many times as much as the gap."""

_EXACT = 1e-4
"""Error below which a share is written without its interval, in tenths of a percent."""

_SEEN = 0.1
"""It is named if it moves a return by at least this share of what the largest source does."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Explanation(Tabulated):
    """Shares of the variance of the gap first − second by source of randomness.

    The *first-order* share of a source is the variance of the mean gap given the source, Var(E[G | source]), divided by
    Var G. Its *total* share is the variance that is left when all other sources are known, E[Var(G | others)]/Var G: it
    includes interactions with other sources. First-order shares add up to 1 if there are no interactions, else to less;
    total shares to 1 or more. Estimates are not clipped, so they may be below 0 or above 1, and each interval holds on
    its own at `confidence`.
    """

    _index: ClassVar = ("source",)

    first: str
    second: str
    sources: tuple[str, ...]  # the largest total share first
    numbers: Floats  # [k, 5, 3]: first order, total, and how far the source moves both returns and the gap; with ends
    interactions: Estimate  # share of the variance that no source explains on its own
    confidence: float | None  # of each interval; None: they are certain
    samples: int  # 0: computed from a table
    runs: int  # that were simulated, of one alternative each
    seed: int
    grouped: tuple[str, ...] = ()  # sources that make up "others"
    run: str = "run"  # the name of one sample
    history: bool = False  # whether a recorded history takes the place of some random numbers
    futures: Futures | None = None  # what each sample drew, and its gap

    def first_order(self, source: str) -> Estimate:
        """Share of the variance of the gap that the source explains on its own."""
        return self._number(source, 0)

    def total(self, source: str) -> Estimate:
        """Share of the variance of the gap that the source explains together with its interactions."""
        return self._number(source, 1)

    def moves(self, source: str) -> dict[str, Estimate]:
        """Standard deviations of both returns and of the gap that are due to the source if all others are known."""
        titles = (self.first, self.second, f"{self.first} − {self.second}")
        return {title: self._number(source, 2 + i) for i, title in enumerate(titles)}

    @property
    def cancelling(self) -> tuple[str, ...]:
        """Sources that move both returns alike, so that their gap hardly changes."""
        largest = self.numbers[:, 2:4, 0].max(axis=0)
        found = []
        for source, number in zip(self.sources, self.numbers, strict=True):
            own, gap = number[2:4, 0], number[4, 0 if math.isinf(number[4, 2]) else 2]
            if own.min() >= _CANCELS * gap and own.min() > 0 and (own >= _SEEN * largest).any():
                found.append(source)
        return tuple(found)

    @property
    def answer(self) -> str:
        """What explains the gap, in one or two sentences."""
        by_share = sorted(self.sources, key=self.first_order, reverse=True)
        first, *others = (f"{name} {{}}{share_text(self.first_order(name))}" for name in by_share)
        said = first.format("explains ") + f" of the variance of the gap {self.first} − {self.second}"
        said += "".join(f", {other.format('')}" for other in others if not other.endswith("{}0%"))
        if self.interactions.low > 0:
            said += f"; the rest, {share_text(self.interactions)}, is interaction"
        elif self.interactions.has_interval:
            said += f"; interactions explain at most {rounding.percent_ends(self.interactions, 0)[1]}%"
        cancelling = [self._cancels(source) for source in self.cancelling]
        return ". ".join([said, *cancelling])

    def deciding(self) -> DecidingFutures:
        """In which futures the first alternative is better or worse: a small decision tree on what the samples drew.

        It needs scikit-learn, ``pip install "jmdp[learn]"``, and draws by name: generators are not seen.
        """
        if self.futures is None:
            raise UnavailableError(
                "Which futures decide is learned from simulated samples, but these shares were computed from a table."
            )
        return self.futures.deciding(self.first, self.seed)

    def rows(self) -> Sequence[dict[str, Any]]:
        """One row per source: its shares, and how far it moves both returns and the gap."""
        return [
            {"source": name, "explains": self.first_order(name), "with interactions": self.total(name)}
            | {f"moves {title} by": value for title, value in self.moves(name).items()}
            for name in self.sources
        ]

    def plot(self) -> Figure:
        """Draw `jmdp.plots.explanation_chart`."""
        return figure("explanation_chart", self)

    def _number(self, source: str, i: int) -> Estimate:
        if not isinstance(source, str) or source not in self.sources:
            raise LabelError(f"There is no source {short(source)}. Sources: {cut(', '.join(self.sources))}.")
        return Estimate(*self.numbers[self.sources.index(source), i].tolist())

    def _cancels(self, source: str) -> str:
        one, other, gap = (rounding.significant(float(size), 2) for size in self.moves(source).values())
        each = f"each return by {one}" if one == other else f"{self.first} by {one}, {self.second} by {other}"
        return f"{source} moves {each} and the gap by {gap}: it cancels"

    def _note(self) -> str:
        if not self.samples:
            return "computed from the table; no samples"
        sure = rounding.confidence_percent(self.confidence or 0.0)
        return (
            f"{self.samples:,} samples of their own, {self.runs:,} {self.run}s, seed {self.seed}; each interval holds "
            f"at {sure} confidence"
        )

    def _title(self) -> str:
        return self.answer

    def __repr__(self) -> str:
        rows = [
            row | {name: Written(share_text(row[name])) for name in ("explains", "with interactions")}
            for row in self.rows()
        ]
        group = [f"others: {cut(', '.join(self.grouped))}"] * bool(self.grouped)
        wide = ["Fewer than 64 samples: no intervals. explain(samples=1000) draws more."] * (0 < self.samples < 64)
        return paragraphs([self.answer, lines(rows), *group, self._note(), *wide, *[_IN_HISTORY] * self.history])


_IN_HISTORY = (
    "These are shares given this recorded history: intervals allow for the number of samples, not for how short the "
    "history is. Its columns, where they are resampled, are one source, history."
)


def share_text(share: Estimate) -> str:
    """A share with its interval in whole percents, rounded outwards: 71% [63, 78]; it may be below 0 or above 100%."""
    exact = share.has_interval and share.error < _EXACT
    value = f"{100 * share:.{int(exact)}f}%".replace("-0%", "0%")
    ends = "" if exact or not share.has_interval else " [{}, {}]".format(*rounding.percent_ends(share, 0))
    return rounding.typeset(value + ends)


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
        sklearn = optional("sklearn.tree", 'Decision trees need scikit-learn: pip install "jmdp[learn]"')
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
        tree = sklearn.DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=_LEAF, random_state=seed % 2**32)
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
            tree=tuple(sklearn.export_text(tree, feature_names=list(self.names), class_names=classes).splitlines()),
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
