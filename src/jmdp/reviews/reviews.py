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
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import cut, function, whole_number
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.results.result import Tabulated, figure
from jmdp.reviews.decision import MISTAKE, Decision, average, jackknife, unseen
from jmdp.reviews.review import Review
from jmdp.reviews.review_text import answer, reviews_text

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

    _index: ClassVar = ("state",)

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
            [_printable(feature(observe(state))) for state in one.trajectory.states[: len(one)]] for one in self.reviews
        ]
        return replace(self, groups=groups)

    @cached_property
    def mean(self) -> Estimate:
        """Mean of the returns: the discounted rewards of the reviewed steps."""
        return average(self._earned, self.first.confidence)

    @cached_property
    def corrected(self) -> Estimate:
        """Mean of the returns corrected for luck."""
        return average(self._kept, self.first.confidence)

    @cached_property
    def episodes_factor(self) -> Estimate:
        """Var(return)/Var(corrected return): how many times as many episodes the plain mean needs.

        nan if all returns are equal. Without an interval for fewer than 50 episodes.
        """
        found = self._jackknife(_log_ratio, self._earned, self._kept)
        if not found.has_interval:
            return Estimate.within(math.inf if float(found) > 700 else math.exp(float(found)), None)
        return Estimate(*(math.exp(min(700.0, x)) for x in (float(found), found.low, found.high)))

    @property
    def cost(self) -> float:
        """Simulated steps of the review per step of the episodes."""
        return sum(value.steps for one in self.reviews for value in one.values) / max(1, sum(map(len, self.reviews)))

    @cached_property
    def shares(self) -> dict[str, Estimate]:
        """Shares of the variance of returns that are due to the start, to skill and to luck; they add up to 1.

        Cov(part, return)/Var(return). nan if all returns are equal. Without intervals for fewer than 50 episodes.
        """
        parts = {
            "start": np.array([float(one.expectation) - float(one.final) for one in self.reviews]),
            "skill": np.array([float(one.skill) for one in self.reviews]),
            "luck": np.array([float(one.luck) for one in self.reviews]),
        }
        return {name: self._jackknife(_share, part, self._earned) for name, part in parts.items()}

    def _jackknife(self, statistic: Callable[[Floats], Floats], x: Floats, y: Floats) -> Estimate:
        """A statistic of variances, whose intervals need many episodes."""
        found = jackknife(statistic, _moments(x, y), self.first.confidence)
        return found if len(self) >= _ENOUGH else Estimate.within(float(found), None)

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
        lost, sure = np.zeros(len(self.reviews)), np.zeros(len(self.reviews))
        for i, weight, one in visits:
            per_episode[i] += (1.0, float(one.regret), float(one.luck))
            lost[i] += weight * float(one.regret)
            sure[i] += weight * max(0.0, one.regret.low)
        confidence = self.first.confidence
        here = per_episode[per_episode[:, 0] > 0]
        known = sum(max(0.0, one.regret.low) for _, _, one in visits) / len(visits)
        regret = self._regretted(jackknife(_ratio, here[:, [1, 0]], confidence), known)
        luck = jackknife(_ratio, here[:, [2, 0]], confidence)
        if luck.has_interval:
            allowed = unseen(self._spread_of_luck, len(here), 1 - confidence)
            luck = Estimate.around(float(luck), math.hypot(luck.error, allowed))
        taken = [one.action for _, _, one in visits]
        better = [one.best for _, _, one in visits if one.best != one.action]
        return {
            "state": label,
            "visits": len(visits),
            "episodes": int((per_episode[:, 0] > 0).sum()),
            "mistakes": sum(one.judgement == MISTAKE for _, _, one in visits),
            "mean regret": regret,
            "regret per episode": self._regretted(average(lost, confidence), float(sure.mean())),
            "mean luck": luck,
            "most frequent action": max(sorted(set(taken)), key=taken.count),
            "better action": max(sorted(set(better)), key=better.count) if better else "",
            "samples": len(self),
            "seed": self.first.seed,
            "confidence": confidence,
        }

    def _regretted(self, estimate: Estimate, known: float) -> Estimate:
        """A mean of regrets, which are maxima of estimates: its lower end is at most the mean of their lower ends."""
        if not self.first.has_intervals:
            return Estimate.within(float(estimate), None)
        if not estimate.has_interval:
            return estimate
        low = estimate.low if self.first.exact else min(estimate.low, known)
        return Estimate(float(estimate), max(0.0, low), estimate.high)

    @cached_property
    def _spread_of_luck(self) -> float:
        lucks = [float(one.luck) for review in self.reviews for one in review.decisions]
        return max(lucks) - min(lucks)

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


_ENOUGH = 50
"""Episodes from which on shares of variances and their ratios have intervals."""


def _printable(value: object) -> str:
    """The text of a feature, short and without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in cut(str(value), 60))


def _moments(x: Floats, y: Floats) -> Floats:
    """Terms [n, 6] of two variables: themselves, their product and squares, centred; and what is rounding of y²."""
    noise = _ROUNDING * float(np.abs(np.concatenate([x, y])).max()) ** 2
    x, y = x - x.mean(), y - y.mean()
    return np.column_stack([x, y, x * y, x * x, y * y, np.full(len(x), noise)])


def _ratio(means: Floats) -> Floats:
    return _divided(means[..., 0], means[..., 1], means[..., 1] > 0)


def _share(means: Floats) -> Floats:
    """Cov(x, y)/Var(y) from `_moments`."""
    x, y, product, _, square, noise = np.moveaxis(means, -1, 0)
    variance = square - y * y
    return _divided(product - x * y, variance, variance > noise)


def _log_ratio(means: Floats) -> Floats:
    """Log of Var(x)/Var(y) from `_moments`; infinite if only x varies."""
    x, y, _, first, second, noise = np.moveaxis(means, -1, 0)
    plain, corrected = first - x * x, second - y * y
    found = np.log(_divided(plain, corrected, (plain > noise) & (corrected > _ROUNDING * plain)))
    return np.where((plain > noise) & (corrected <= _ROUNDING * plain), np.inf, found)


def _divided(x: Floats, y: Floats, known: Any) -> Floats:
    """x/y where it is known, nan elsewhere."""
    return np.asarray(np.divide(x, y, out=np.full(np.shape(x), np.nan), where=known))


_ROUNDING = 1e-12
"""Relative differences of this size are rounding errors."""
