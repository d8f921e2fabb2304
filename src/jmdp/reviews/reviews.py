"""Reviews of several episodes: where a policy loses most, and how much of the spread of returns is luck."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.reportable import Reportable
from jmdp.base.savable import Savable
from jmdp.base.settings import cut, function, whole_number
from jmdp.errors import SettingsError
from jmdp.results.outcome import Outcome
from jmdp.results.result import Tabulated, figure
from jmdp.reviews.decision import MISTAKE, Decision
from jmdp.reviews.errors import average, jackknife
from jmdp.reviews.many_text import answer, reviews_text
from jmdp.reviews.review import Review

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Reviews(Tabulated, Savable, Reportable):
    """Reviews of several episodes of one policy.

    The table has one row for each state, the one in which most is lost first; see `by`. `corrected` is the mean return
    with the luck of each episode subtracted, and the skill too if the policy is its own reference: both have mean 0, so
    the correction changes the variance and not the mean (a control variate, as in AIVAT; Burch, Schmid, Moravčík &
    Bowling, AAAI 2018). It is unbiased for any value function that does not depend on the episode itself.
    """

    index: ClassVar = ("state",)

    reviews: Sequence[Review]
    asked: int  # number of episodes that were to be reviewed
    groups: Sequence[Sequence[str]]  # labels of the steps of each episode, by which rows are formed

    @classmethod
    def of(cls, reviews: Sequence[Review], asked: int) -> Reviews:
        """Reviews with one row for each state or observation."""
        return cls(reviews, asked, [list(one.labels) for one in reviews])

    @property
    def outcome(self) -> Outcome:
        """INTERRUPTED if not all episodes were reviewed."""
        return Outcome.INTERRUPTED if len(self) < self.asked else self.first.outcome

    def __len__(self) -> int:
        return len(self.reviews)

    def __getitem__(self, at: int) -> Review:
        return self.reviews[whole_number("episode", at, 0, len(self.reviews) - 1)]

    def __iter__(self) -> Iterator[Review]:
        return iter(self.reviews)

    @property
    def first(self) -> Review:
        """The first of the reviews."""
        return self.reviews[0]

    def by(self, feature: Callable[[Any], Any]) -> Reviews:
        """The same reviews with one row for each value of a function of the observation."""
        function("feature", feature, SettingsError)
        observe = self.first.replay.player.simulator.observe
        groups = [
            [cut(str(feature(observe(state))), 60) for state in one.trajectory.states[: len(one)]]
            for one in self.reviews
        ]
        return replace(self, groups=groups)

    @cached_property
    def mean(self) -> Estimate:
        """Mean of the returns."""
        return average(self._earned, self.first.confidence)

    @cached_property
    def corrected(self) -> Estimate:
        """Mean of the returns corrected for luck."""
        return average(self._kept, self.first.confidence)

    @cached_property
    def episodes_factor(self) -> Estimate:
        """Var(return)/Var(corrected return): how many times as many episodes the plain mean needs."""
        both = np.column_stack([self._earned, self._kept])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = jackknife(_log_ratio, both, self.first.confidence)
        if not found.has_interval:
            return Estimate.within(math.exp(float(found)) if float(found) < 700 else math.inf, None)
        return Estimate(*(math.exp(min(700.0, x)) for x in (float(found), found.low, found.high)))

    @property
    def cost(self) -> float:
        """Simulated steps of the review per step of the episodes."""
        return sum(value.steps for one in self.reviews for value in one.values) / max(1, sum(map(len, self.reviews)))

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """Shares of the variance of returns that are due to the start, to skill and to luck; they add up to 1.

        Cov(part, return)/Var(return). nan if all returns are equal.
        """
        parts = {name: np.array([float(getattr(one, part)) for one in self.reviews]) for name, part in _PARTS.items()}
        whole = sum(parts.values())
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                name: jackknife(_share, np.column_stack([part, whole]), self.first.confidence)
                for name, part in parts.items()
            }

    @property
    def answer(self) -> str:
        """The verdict in one sentence."""
        return answer(self)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        found: dict[str, list[tuple[int, float, Decision]]] = {}
        for i, (one, labels) in enumerate(zip(self.reviews, self.groups, strict=True)):
            for decision, weight, label in zip(one.decisions, one.weights, labels, strict=False):
                found.setdefault(label, []).append((i, float(weight), decision))
        rows = [self._row(label, visits) for label, visits in found.items()]
        return sorted(rows, key=lambda row: (-float(row["regret per episode"]), row["state"]))

    def rows(self) -> list[dict[str, Any]]:
        """One row for each state: visits, mistakes, and regret and luck with intervals over episodes."""
        return self._rows

    def _row(self, label: str, visits: Sequence[tuple[int, float, Decision]]) -> dict[str, Any]:
        per_episode = np.zeros((len(self.reviews), 3))  # visits, regret, luck
        lost = np.zeros(len(self.reviews))
        for i, weight, one in visits:
            per_episode[i] += (1.0, float(one.regret), float(one.luck))
            lost[i] += weight * float(one.regret)
        confidence = self.first.confidence
        with np.errstate(divide="ignore", invalid="ignore"):
            regret, luck = (jackknife(_ratio, per_episode[:, [k, 0]], confidence) for k in (1, 2))
        taken = [one.action for _, _, one in visits]
        better = [one.best for _, _, one in visits if one.best != one.action]
        return {
            "state": label,
            "visits": len(visits),
            "episodes": int((per_episode[:, 0] > 0).sum()),
            "mistakes": sum(one.judgement == MISTAKE for _, _, one in visits),
            "mean regret": regret,
            "regret per episode": average(lost, confidence),
            "mean luck": luck,
            "most frequent action": max(sorted(set(taken)), key=taken.count),
            "better action": max(sorted(set(better)), key=better.count) if better else "",
            "samples": len(self),
            "seed": self.first.seed,
            "confidence": confidence,
        }

    def plot(self) -> Figure:
        """Draw `jmdp.plots.reviews_chart`: the states in which most is lost, and returns by skill and luck."""
        return figure("reviews_chart", self)

    @cached_property
    def _earned(self) -> Floats:
        return np.array([one.earned for one in self.reviews])

    @cached_property
    def _kept(self) -> Floats:
        """Returns without luck, and without skill if its mean is 0."""
        own = self.first.reference is None
        return np.array([one.earned - float(one.luck) - own * float(one.skill) for one in self.reviews])

    def _title(self) -> str:
        return self.answer

    def __repr__(self) -> str:
        return reviews_text(self)


_PARTS = {"start": "expectation", "skill": "skill", "luck": "luck"}
"""Parts of a return, as `Review` calls them."""


def _ratio(columns: Floats) -> float:
    total = columns.sum(axis=0)
    return float(total[0] / total[1]) if total[1] else math.nan


def _share(columns: Floats) -> float:
    centred = columns - columns.mean(axis=0)
    whole = float(centred[:, 1] @ centred[:, 1])
    return float(centred[:, 0] @ centred[:, 1]) / whole if whole > _noise(columns) else math.nan


def _log_ratio(columns: Floats) -> float:
    plain, corrected = columns.var(axis=0)
    if plain <= _noise(columns):
        return math.nan
    return math.inf if corrected <= _ROUNDING**2 * plain else float(np.log(plain / corrected))


def _noise(values: Floats) -> float:
    """Variances up to this size are rounding errors."""
    return _ROUNDING * float(np.abs(values).max()) ** 2


_ROUNDING = 1e-12
"""Relative differences of this size are rounding errors."""
