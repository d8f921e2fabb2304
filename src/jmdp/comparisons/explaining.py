"""`Comparison.explain` and `Comparison.value_of_knowing`: samples in which some sources of randomness are drawn again.

They have random numbers of their own: the samples of the comparison decided when to stop and which gap is asked for.

Exact shares of the variance of a gap by source, for tables whose scenarios combine independent sources.

Two copies of the gap that have the draws of some sources in common, and all others drawn on their own, have the
covariance Var(E[gap | these sources]). A branch of one copy and a branch of the other never coalesce, and what only one
of them draws can be seen as a part of its action. So this is the covariance of the returns of two policies in a table
whose scenarios are the outcomes of the common sources, and whose actions are pairs of an action and an outcome of the
others: systems between pairs of states, which `ExactPairs` solves.

Shares of the variance of a gap by source of randomness, from runs in which sources were drawn again.

A row of samples has the run A, the run B in which every source is drawn again, and for each source i the run M_i, which
is A with source i from B. With V the variance of the gap, and ½ E(A − M_i)² = V − Cov(A, M_i):

    first order   S_i = Var(E[gap | source i])/V      = Cov(B, M_i)/V
    total         T_i = E[Var(gap | all but i)]/V     = 1 − Cov(A, M_i)/V

Cov(A, B) = 0, so S_i and 1 − T_i are the coefficients in the regression of M_i on B and A, each in units of its own
standard deviation. Estimated in this way they have a small variance for any share: S_i = T_i = 0 exactly if source i
never changes the gap, and 1 if no other source does. Correlations are 2 Σ x y/(Σ x² + Σ y²), about a common mean
(Janon et al., "Asymptotic normality and efficiency of two Sobol index estimators", ESAIM: P&S 2014).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.interval import Estimate
from jmdp.base.luck import Shock
from jmdp.base.luck_by_purpose import UNNAMED
from jmdp.base.luck_sources import Drawn, Redraw
from jmdp.base.progress import status_bar
from jmdp.base.settings import cut, short, whole_number
from jmdp.comparisons.explanation import Explanation, Futures
from jmdp.distribute.process_pool import pool_of
from jmdp.errors import LabelError, SettingsError, UnavailableError
from jmdp.methods.evaluate import evaluate
from jmdp.models.coupling import Coupling
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.rollouts.runs import RunDraws
from jmdp.statistics.means import FEW, fixed_errors

if TYPE_CHECKING:
    from jmdp.comparisons.comparison import Comparison
    from jmdp.comparisons.question import Question
    from jmdp.distribute.pools import Pool


_TIMES, _MOST = 10, 1000
"""Cost at most, in times of that of the comparison, and samples at most, unless their number is given."""

_SCOUTS, _PILOT = 16, 8
"""Samples that show which sources there are; at least, and twice as many at most, which of many are the largest."""

_SOURCES, OTHERS = 8, "others"
"""Sources at most; the smallest of more are one source."""

_FIRST = {"scouts": 0, "pilot": 1 << 20, "main": 1 << 21, "knowing": 1 << 22}
"""Number of the first sample of each purpose: none is used for two."""

_ROUNDING = 1e-12
"""Share of the size of returns below which differences are due to rounding."""


@dataclass(frozen=True, eq=False)
class SourceDraws:
    """Returns [n, runs, alternatives] of samples in which sources were drawn again, in other ways in each run."""

    returns: Floats
    used: set[str]  # sources that were drawn from
    drawn: list[dict[str, Drawn]]  # what the first run of each sample drew, if that was noted


@dataclass(frozen=True, eq=False)
class SourceBlocks:
    """Blocks of such samples: a pure function of the numbers of samples and alternatives."""

    work: Any  # blocks of the comparison
    seed: int
    measure: int
    redraws: tuple[Redraw, ...]

    def __call__(self, first: int, count: int, alternatives: tuple[int, ...], paired: bool) -> SourceDraws:
        """Samples first … first + count − 1 of some alternatives."""
        values, used, drawn = list[Floats](), set[str](), list[dict[str, Drawn]]()
        for redraw in self.redraws:
            own = copy.deepcopy(redraw)  # records what this block uses
            draws = self.work.redrawn(own, self.seed)(first, count, alternatives, paired)
            values.append(draws.values[:, :, self.measure] if isinstance(draws, RunDraws) else draws.returns)
            used |= own.used
            drawn = drawn or [own.described(i) for i in range(first, first + count)]
        return SourceDraws(np.stack(values, axis=1), used, drawn)


class SourceSampling:
    """Draws such samples of some alternatives of a comparison, within a budget of runs."""

    def __init__(self, question: Question, c: Comparison, alternatives: tuple[int, ...], pool: Pool) -> None:
        self._question, self._pool, self._alternatives, self._run = question, pool, alternatives, c.wording.run
        self._seed = Shock.of_sample(question.settings.seed, 0).derived(b"explain").seed()
        self._compared, self._seconds = sum(c.counts.values()), 0.0
        self.runs = 0  # so far

    def left(self, each: int) -> int:
        """Number of samples of so many runs of each alternative that the budget still allows."""
        return int((_TIMES * self._compared - self.runs) // (each * len(self._alternatives)))

    def draw(self, purpose: str, samples: int, redraws: Sequence[Redraw]) -> SourceDraws:
        """Samples in which these sources are drawn again; those so far, from 64 on, if interrupted."""
        k, first, begun, settings = len(self._alternatives), _FIRST[purpose], time.monotonic(), self._question.settings
        work = SourceBlocks(self._question.work, self._seed, self._question.measure, tuple(redraws))
        size = max(1, min(samples, self._question.block_size(k, self._seconds)))
        places = range(first, first + samples, size)
        blocks = ((at, min(size, places.stop - at), self._alternatives, True) for at in places)
        runs, found = samples * len(redraws) * k, list[SourceDraws]()
        name = f"explain: {samples:,} samples of {len(redraws)} {self._run}s of {k} {self._question.labels.plural}, "
        name += f"{(self.runs + runs) / self._compared:.2g} × the comparison"
        with status_bar(name, settings.progress, 0, runs, unit=f"{self._run}s") as report:
            stream = self._pool.ordered(work, blocks)
            try:
                for block in stream:
                    found.append(block)
                    report(sum(one.returns.size for one in found), "")
            except KeyboardInterrupt:
                if sum(len(one.returns) for one in found) < FEWEST:
                    raise
            finally:
                stream.close()
        returns = np.concatenate([one.returns for one in found])
        self.runs += returns.size
        self._seconds = (time.monotonic() - begun) / returns.size
        used = {name for one in found for name in one.used}
        return SourceDraws(returns, used, [drawn for one in found for drawn in one.drawn])

    def sources(self, samples: int | None) -> list[str]:
        """Names of the sources that a few samples draw from; raise if they have no names."""
        found = sorted(self.draw("scouts", min(_SCOUTS, samples or _SCOUTS), [Redraw()]).used)
        if not found:
            raise UnavailableError("No sample used any randomness, so there is no variance to explain.")
        if found == [UNNAMED]:
            raise UnavailableError(
                f"All randomness of {cut(self._question.described())} is unnamed, so its sources cannot be told apart. "
                'Name the draws: in a run luck.poisson("demand", day, mean=4), in Simulator.step the same with luck = '
                "jmdp.Luck(shock), in an ordinary object a generator for each purpose, in functions exogenous="
                '{"demand": lambda luck: luck.poisson("demand", mean=4)}, in a table sources={"demand": 12, "lead": 3}.'
            )
        return found

    def largest(self, sources: list[str]) -> list[str]:
        """The sources with the largest total shares in a few samples, which are not used again."""
        count = min(2 * _PILOT, self.left(1 + len(sources)) // 5)
        if count < _PILOT:
            raise SettingsError(
                f"There are {len(sources)} sources, too many for a pilot with a fifth of {_TIMES} times the "
                'comparison. Continue it first, or use fewer names: luck.exponential("service", customer, mean=3.0) '
                f'has the source "service" for all customers. Sources: {cut(", ".join(sources))}.'
            )
        returns = self.draw("pilot", count, [Redraw(), *[Redraw([name]) for name in sources]]).returns
        gaps = returns[..., 0] - returns[..., 1]
        total = ((gaps[:, 1:] - gaps[:, :1]) ** 2).mean(axis=0)
        return sorted(sources[i] for i in np.argsort(-total, kind="stable")[: _SOURCES - 1])


def explained(question: Question, c: Comparison, pair: tuple[int, int], samples: int | None) -> Explanation:
    """Shares of the variance of the gap between two alternatives by source, the largest total share first."""
    table = question.table_gap(pair) if samples is None else None
    more: dict[str, Any] = {"confidence": None, "samples": 0, "runs": 0}
    if table is not None:
        names, (numbers, interactions) = list(table.sources), table.shares
    else:
        names, (numbers, interactions), more = _sampled(question, c, pair, samples)
    order = np.argsort(-numbers[:, 1, 0], kind="stable").tolist()
    return Explanation(
        first=c.alternatives[pair[0]],
        second=c.alternatives[pair[1]],
        sources=tuple(names[i] for i in order),
        numbers=numbers[order],
        interactions=Estimate(*interactions.tolist()),
        seed=c.seed,
        run=c.wording.run,
        history=question.history is not None,
        **more,
    )


def _sampled(
    question: Question, c: Comparison, pair: tuple[int, int], samples: int | None
) -> tuple[list[str], tuple[Floats, Floats], dict[str, Any]]:
    """Names of the sources, their numbers, and other fields of the explanation."""
    n = None if samples is None else whole_number("samples", samples, 2, 10**9)
    with pool_of(question.settings.pool) as pool:
        sampling = SourceSampling(question, c, pair, pool)
        sources = sampling.sources(n)
        names = sources if len(sources) <= _SOURCES else sampling.largest(sources)
        grouped = sorted({*sources} - {*names})
        n = n or min(sampling.left(3 + len(names)), _MOST)
        if n < 2:
            raise SettingsError(
                "The comparison has too few samples for an explanation at 10 times its cost. Continue it first, or "
                "give the number of samples: explain(samples=1000)."
            )
        rest = Redraw(names, others=True)
        redraws = [Redraw(notes=True), Redraw(others=True), *[Redraw([name]) for name in names]]
        draws = sampling.draw("main", n, [*redraws, *[rest] * bool(grouped)])
        n, returns, late = len(draws.returns), draws.returns, draws.used - {*sources}
        if late and not grouped:  # sources so rare that the scouts had none of them
            those = sampling.draw("main", n, [rest]).returns
            n = len(those)
            returns = np.concatenate([returns[:n], those], axis=1)
    gaps = (returns[:, 0, 0] - returns[:, 0, 1]) * c.summary.sign
    varied = int((np.abs(gaps - np.median(gaps)) > _ROUNDING * np.abs(returns).max()).sum())
    if varied < min(n, FEW):
        raise UnavailableError(
            f"The gap was {np.median(gaps):g} in all but {varied} of {n:,} samples: there is hardly any variance to "
            "explain. Give more samples: explain(samples=10_000)."
        )
    fields = {"confidence": c.confidence, "samples": n, "runs": sampling.runs, "grouped": (*grouped, *sorted(late))}
    names = [*names, *[OTHERS] * (returns.shape[1] > 2 + len(names))]
    futures = Futures.of(draws.drawn[:n], gaps)
    return names, gap_shares(returns, 1 - c.confidence), {**fields, "futures": futures}


def value_of_knowing(question: Question, c: Comparison, source: str, samples: int | None) -> Estimate:
    """E[max_a E(Z_a | source)] − max_a E(Z_a), with an interval; see `Comparison.value_of_knowing`."""
    most = None if samples is None else whole_number("samples", samples, 2, 10**9)
    with pool_of(question.settings.pool) as pool:
        sampling = SourceSampling(question, c, tuple(range(len(c.alternatives))), pool)
        known = sampling.sources(most)
        if not isinstance(source, str) or source not in known:
            raise LabelError(f"There is no source {short(source)}. Sources: {cut(', '.join(known))}.")
        most = most or sampling.left(1)
        again = min(round(most**0.4), most // FEWEST)  # runs with the same draws of the source
        if again < 2:
            raise SettingsError(
                f"{most:,} samples are too few for two with each of {FEWEST} draws of the source. Continue the "
                'comparison first, or give their number: value_of_knowing("demand", samples=10_000).'
            )
        redraws = [Redraw([source], others=True, number=j) for j in range(again)]
        returns = sampling.draw("knowing", most // again, redraws).returns
    return known_value(c.summary.sign * returns, c.alternatives.index(c.ranked[0]), 1 - c.confidence)


def known_value(returns: Floats, leader: int, error: float) -> Estimate:
    """The value of knowing what is the same in all runs of a sample, from returns [n, runs, alternatives].

    Cross-fitted: for each run, the others choose the alternative. What is chosen so is worse than the best, and the
    maximum of the means of all runs is better: the interval is from below the first to above the second. Its lower end
    is relative to the best of all alternatives, its upper end to the one that led in other samples.
    """
    total = returns.sum(axis=1, keepdims=True)
    choices = (total - returns).argmax(axis=2, keepdims=True)
    chosen = np.take_along_axis(returns, choices, axis=2)[..., 0].mean(axis=1)
    means = total[:, 0] / returns.shape[1]
    gained, most = chosen[:, None] - means, means.max(axis=1) - means[:, leader]
    gained[np.abs(gained) <= _ROUNDING * np.abs(returns).max()] = 0.0
    low = gained.mean(axis=0) - fixed_errors(gained, error)[0]
    high = most.mean() + fixed_errors(most[:, None], error)[1][0]
    value = float(gained.mean(axis=0).min())
    return Estimate(value, float(low.min()), max(float(high), value))


@dataclass(frozen=True, eq=False)
class TableGap:
    """The gap of two deterministic policies from one state of a table with sources."""

    model: TabularJMDP
    coupling: Coupling
    state: int
    policies: tuple[Floats, Floats]  # [S + 1, A] each; state S is the first one, in which actions may be chosen
    discount: float
    horizon: int | None  # None: infinite

    @classmethod
    def of(
        cls,
        question: Question,
        model: TabularJMDP,
        state: int,
        policies: Sequence[Floats | None],
        actions: Sequence[int] = (),
    ) -> Self | None:
        """From the policies [S, A], after a first action if one is given; None if there is no exact solution."""
        coupling, tables = question.settings.coupling, [policy for policy in policies if policy is not None]
        random = [policy for policy in tables if ((policy > 0) & (policy < 1))[~model.terminal].any()]
        if model.sources is None or random or len(tables) < 2 or not coupling.shared_in_a_state:
            return None
        first = [np.eye(model.shape[2])[a] for a in actions] or [policy[state] for policy in tables]
        one, other = (np.vstack([policy, row]) for policy, row in zip(tables, first, strict=True))
        horizon = question.horizon if question.discount == 1 else None
        return cls(model, type(coupling)(), state, (one, other), question.discount, horizon)

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(self.model.sources or ())

    @cached_property
    def shares(self) -> tuple[Floats, Floats]:
        """Numbers of each source [k, 5, 3] and share of interactions [3], as `gap_shares`, with certified intervals."""
        whole = self.given(self.sources)
        found = []
        for name in self.sources:
            own, rest = self.given([name]), self.given([other for other in self.sources if other != name])
            left = [_difference(one, other) for one, other in zip(whole, rest, strict=True)]
            moves = [[math.sqrt(max(0.0, end)) for end in _ends(left[i])] for i in range(3)]
            found.append([_ratio(own[2], whole[2]), _ratio(left[2], whole[2]), *moves])
        numbers = np.array(found)
        alone = numbers[:, 0].sum(axis=0)
        return numbers, 1 - alone[[0, 2, 1]]

    def given(self, sources: Collection[str]) -> tuple[Estimate, Estimate, Estimate]:
        """Var(E[· | sources]) of both returns and of their gap."""
        evaluation = evaluate(*self._with_common(sources), self.coupling, **self._horizon, progress=False)
        found, certificate = evaluation.covariance[-1], evaluation.certificate
        assert certificate is not None
        errors = np.broadcast_to(certificate.covariance_error, evaluation.covariance.shape)[-1]
        gap = found[0, 1] + found[2, 3] - 2 * found[0, 2]
        error = errors[0, 1] + errors[2, 3] + 2 * errors[0, 2] + 8 * np.finfo(float).eps * np.abs(found).max()
        return _estimate(found[0, 1], errors[0, 1]), _estimate(found[2, 3], errors[2, 3]), _estimate(gap, error)

    @property
    def _horizon(self) -> dict[str, Any]:
        return {} if self.horizon is None else {"horizon": self.horizon, "discount": self.discount}

    def _with_common(self, sources: Collection[str]) -> tuple[TabularJMDP, dict[str, TabularPolicy]]:
        """Table whose scenarios are those of some sources, and two copies of each policy that draw the others."""
        model, sizes = self.model, self.model.sources or {}
        S, _, A = model.shape
        rows = np.append(np.arange(S), self.state)
        axes = [1 + i for i, name in enumerate(sizes) if name in sources]
        own = [1 + i for i, name in enumerate(sizes) if name not in sources]

        def split(table: Any) -> Any:
            parts = table[rows].reshape(S + 1, *sizes.values(), -1)
            shape = math.prod(parts.shape[i] for i in axes), math.prod(parts.shape[i] for i in own), parts.shape[-1]
            return parts.transpose(0, *axes, *own, parts.ndim - 1).reshape(S + 1, *shape)

        prob = split(model.prob[..., None])[..., 0]  # [S + 1, C, R]
        C, R = prob.shape[1:]
        reduced = TabularJMDP(
            prob.sum(axis=2),
            split(model.reward).reshape(S + 1, C, R * A),
            split(model.next_state).reshape(S + 1, C, R * A),
            model.discount,
            model.terminal[rows],
        )
        drawn = prob.sum(axis=1)[:, :, None]
        both = [TabularPolicy((drawn * policy[:, None]).reshape(S + 1, R * A)) for policy in self.policies]
        return reduced, {name: both[i // 2] for i, name in enumerate(("first", "again", "second", "again too"))}


def _estimate(value: np.float64, error: np.float64) -> Estimate:
    return Estimate.around(float(value), float(error))


def _ends(value: Estimate) -> tuple[float, float, float]:
    return float(value), value.low, value.high


def _difference(one: Estimate, other: Estimate) -> Estimate:
    return Estimate.within(one - other, one.interval + other.negative().interval)


def _ratio(part: Estimate, whole: Estimate) -> tuple[float, float, float]:
    """Share of a positive variance."""
    if not whole.low > 0:
        return part / whole, -math.inf, math.inf
    ends = [x / y for x in (part.low, part.high) for y in (whole.low, whole.high)]
    return part / whole, math.nextafter(min(ends), -math.inf), math.nextafter(max(ends), math.inf)


FEWEST = 64
"""Samples below which shares have no intervals."""

_DECIMALS = 9
"""Decimals of a share that are not rounding errors."""


def gap_shares(returns: Floats, error: float) -> tuple[Floats, Floats]:
    """Numbers of each source [k, 5, 3], and the share of interactions [3]: estimate and both ends of its interval.

    `returns` [n, 2 + k, 2] are those of both alternatives in the runs A, B and M_i. The numbers are S_i, T_i, and the
    standard deviations due to the source with all others given: of the returns of the first and of the second
    alternative, and of their gap. Each interval fails with probability `error`.
    """
    gap = returns[..., 0] - returns[..., 1]
    changed = np.abs(gap - gap[:, :1]) > _ROUNDING * np.abs(returns).max(initial=0.0)
    gap = np.where(changed, gap, gap[:, :1])
    pseudo = _pseudo_shares(gap)
    values = np.concatenate([returns, gap[..., None]], axis=2)
    squares = (values[:, 2:] - values[:, :1]) ** 2 / 2  # [n, k, 3]
    moves = _with_interval(squares, error)
    moves = np.where(np.isinf(moves), moves, np.sqrt(np.maximum(moves, 0.0)))
    found = np.concatenate([_with_interval(pseudo, error), moves], axis=1)
    return found, _with_interval(1 - pseudo[..., :1].sum(axis=1, keepdims=True), error)[0, 0]


def _pseudo_shares(gap: Floats) -> Floats:
    """Pseudo-values [n, k, 2] of the jackknife for S_i and T_i, from the gaps [n, 2 + k] in the runs A, B and M_i."""
    n = len(gap)
    centred = gap - gap.mean()
    a, b, m = np.broadcast_arrays(centred[:, :1], centred[:, 1:2], centred[:, 2:])
    rows = np.stack([a, b, m, a * a, b * b, m * m, a * b, a * m, b * m])
    sums = rows.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # one row alone may vary
        whole, without = _shares(sums, n), _shares(sums - rows, n - 1)
        return np.asarray(np.round(n * whole - (n - 1) * without, _DECIMALS))  # 0 and 1 exactly, where they are


def _shares(sums: Floats, n: int) -> Floats:
    """S and T from the sums over n rows of a, b, m and their products."""
    a, b, m, aa, bb, mm, ab, am, bm = sums
    mean = (a + b + m) / (3 * n)

    def about_mean(product: Floats, x: Floats, y: Floats) -> Floats:
        return np.asarray(product - mean * (x + y) + n * mean**2)

    squares = about_mean(aa, a, a), about_mean(bb, b, b), about_mean(mm, m, m)
    ab = 2 * about_mean(ab, a, b) / (squares[0] + squares[1])
    am = 2 * about_mean(am, a, m) / (squares[0] + squares[2])
    bm = 2 * about_mean(bm, b, m) / (squares[1] + squares[2])
    return np.stack([bm - am * ab, 1 - ab**2 - am + bm * ab], axis=-1) / (1 - ab**2)[..., None]


def _with_interval(values: Floats, error: float) -> Floats:
    """Means over the rows of values [n, k, q], and both ends of their intervals, [k, q, 3].

    Intervals are as wide on both sides as on that of the longer tail. There is none if few rows differ.
    """
    n, *shape = values.shape
    mean = values.mean(axis=0)
    wide = np.full(mean.size, np.inf)
    if n >= FEWEST:
        flat = values.reshape(n, -1)
        known = np.isfinite(flat).all(axis=0)
        wide[known] = np.maximum(*fixed_errors(flat[:, known], error))
    wide = wide.reshape(shape)
    return np.stack([mean, mean - wide, mean + wide], axis=-1)
