"""Verification of certificates, recomputed from the table in exact rational arithmetic.

Steps of several distinct branches, for the moments of `JIPE`, are enumerated over all their scenarios: slow, but easy
to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, product
from math import comb, prod

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.settings import instance
from jmdp.errors import CertificateError, UnavailableError
from jmdp.methods.exact_pairs.pair_table import PairTable
from jmdp.methods.jipe.jipe import MomentTable
from jmdp.methods.method import check_table
from jmdp.models.exact import Coordinate, ExactStep
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.result import Quantity, unavailable, who_gives


def check_certificate(model: TabularJMDP, policy: TabularPolicy, evaluation: Evaluation) -> None:
    """Verify a certificate from the table in exact rational arithmetic; raise `CertificateError` if it is invalid.

    The evaluation contains the tables on which its certificate is based. Their residual is computed here without
    rounding, in code independent of the methods, and every stated error is compared with the bound that follows. The
    work grows as (S A K)² in rational arithmetic, so models should have at most some tens of states.
    """
    instance("evaluation", evaluation, Evaluation)
    policy = check_table(model, policy, evaluation.coupling)
    certificate = evaluation.certificate
    if certificate is None or certificate.kind == "statistical":
        raise UnavailableError(
            f"Only exact and certified results can be checked: those of {who_gives(Quantity.CHECKED_TABLES)}."
        )
    if evaluation.actions.kind == "policy" or evaluation.outcome is Outcome.ALL_STEPS:
        raise UnavailableError(
            "Only evaluations of one policy over an infinite horizon can be checked. This one compares policies or has "
            "a finite horizon."
        )
    if certificate.discount != model.discount or certificate.reward_bound != model.reward_bound:
        raise CertificateError(
            f"The certificate is for discount {certificate.discount!r} and reward bound {certificate.reward_bound!r}; "
            f"the model has {model.discount!r} and {model.reward_bound!r}."
        )
    if not isinstance(evaluation.cross, PairTable | MomentTable):
        raise unavailable(type(evaluation.method).__name__, Quantity.CHECKED_TABLES)
    if evaluation.mean.shape != policy.probs.shape:
        raise CertificateError(
            f"The evaluation has the shape {evaluation.mean.shape} = [S, A], the model {policy.probs.shape}."
        )
    step = ExactStep(model, policy, evaluation.coupling)
    if isinstance(evaluation.cross, PairTable):
        checker: _PairCheck | MomentCheck = _PairCheck(step, evaluation.cross)
    else:
        checker = MomentCheck(step, evaluation.cross)
    S, _, A = model.shape
    mean_error = np.broadcast_to(certificate.mean_error, (S, A))
    covariance_error = np.broadcast_to(certificate.covariance_error, (S, A, A))
    gap_mean = evaluation.gap_mean
    gap_mean_error = np.broadcast_to(certificate.gap_mean_error, (S, A, A))
    own = np.einsum("saa->sa", covariance_error)
    _check_gaps(certificate.gap_variance_error, own[:, :, None] + own[:, None, :] + 2 * covariance_error)
    if gap_mean is None:
        _check_gaps(gap_mean_error, mean_error[:, :, None] + mean_error[:, None, :])
    for x in product(range(S), range(A)):
        off = abs(exactly(evaluation.mean[x]) - checker.mean(x)) + checker.mean_error(x)
        _compare("mean", evaluation, x, off, mean_error[x])
        for b in range(A):
            y = (x[0], b)
            if gap_mean is not None and y != x:
                off = abs(exactly(gap_mean[*x, b]) - (checker.mean(x) - checker.mean(y)))
                off += checker.mean_error(x) + checker.mean_error(y)
                _compare("mean of a gap", evaluation, (*x, b), off, gap_mean_error[*x, b])
            off = abs(exactly(evaluation.covariance[*x, b]) - checker.covariance(x, y)) + checker.covariance_error(x, y)
            _compare("covariance", evaluation, (*x, b), off, covariance_error[*x, b])
        for t, b in product(range(x[0] + 1, S), range(A)):
            _check_between_states(evaluation, checker, x, (t, b))


def _check_gaps(stated: float | Floats, parts: Floats) -> None:
    if not np.all(np.asarray(stated) >= parts):
        raise CertificateError("The errors stated for gaps are smaller than those of the means and covariances allow.")


def _check_between_states(
    evaluation: Evaluation, checker: _PairCheck | MomentCheck, x: Coordinate, y: Coordinate
) -> None:
    states, actions = evaluation.states, evaluation.actions
    stated = evaluation.cross_covariance_interval(states[x[0]], actions[x[1]], states[y[0]], actions[y[1]])
    assert stated is not None  # because there is a certificate
    right, error = checker.covariance(x, y), checker.covariance_error(x, y)
    if not (exactly(stated.low) <= right - error and right + error <= exactly(stated.high)):
        raise CertificateError(
            f"The covariance of state {evaluation.states.name(x[0])}, action {evaluation.actions.name(x[1])} and state "
            f"{evaluation.states.name(y[0])}, action {evaluation.actions.name(y[1])} is {float(right):.6g} with "
            f"an error of at most {float(error):.6g}, but the certificate states {stated}."
        )


def _compare(what: str, evaluation: Evaluation, at: tuple[int, ...], off: Fraction, stated: float) -> None:
    if not (stated == np.inf or off <= exactly(stated)):
        where = f"state {evaluation.states.name(at[0])}, " + ", ".join(
            f"action {evaluation.actions.name(a)}" for a in at[1:]
        )
        raise CertificateError(
            f"{what} at {where} may have an error of {float(off):.6g}, but the certificate states "
            f"{float(stated):.6g}. The result was changed, or it belongs to another model or policy."
        )


class _PairCheck:
    """Error bounds from the tables of `ExactPairs`: v, H over state pairs and V over states, with exact residuals."""

    def __init__(self, step: ExactStep, tables: PairTable) -> None:
        self.step = step
        S, _, A = step.model.shape
        self.states, self.actions = range(S), range(A)
        shaped = tables.operator.shaped
        scale = shaped.scale.factor
        self.value = [
            scale * (exactly(gain) / (1 - step.discount) + exactly(high) + exactly(low))
            for gain, high, low in zip(shaped.gain, *shaped.relative, strict=True)
        ]
        units = [scale * Fraction(2) ** int(unit) for unit in tables.operator.units.state]
        low, variances = np.zeros_like(tables.H), (tables.operator.V, np.zeros(S))
        if tables.refined is not None:
            low, variances = tables.refined.H.low, tables.refined.V
        self.pair = [
            [units[s] * units[t] * (exactly(tables.H[s, t]) + exactly(low[s, t])) for t in self.states]
            for s in self.states
        ]
        self.variance = [u**2 * (exactly(v) + exactly(w)) for u, v, w in zip(units, *variances, strict=True)]
        averages = [[self._expect_td((s, a)) for a in self.actions] for s in self.states]
        self.reached = [self._reached(s) for s in self.states]
        residuals = [abs(_dot(step.policy[s], averages[s])) / (1 - step.discount) for s in self.states]
        self.value_errors = self._reachable_max(residuals)
        self.q = {(s, a): averages[s][a] + self.value[s] for s in self.states for a in self.actions}
        self.table_errors = self._table_errors()

    def _reached(self, s: int) -> set[int]:
        """States that the policy can reach from s, including s."""
        reached, new = {s}, [s]
        while new:
            here = new.pop()
            drawn = (a for a in self.actions if self.step.policy[here][a] > 0)
            onward = {n for a in drawn for _, _, _, n in self.step.one((here, a))} - reached
            reached |= onward
            new.extend(onward)
        return reached

    def _reachable_max(self, values: list[Fraction]) -> list[Fraction]:
        return [max(values[n] for n in self.reached[s]) for s in self.states]

    def _expect_td(self, x: Coordinate) -> Fraction:
        if self.step.model.terminal[x[0]]:
            return -self.value[x[0]]
        gamma, here = self.step.discount, self.value[x[0]]
        return sum((p * (r + gamma * self.value[n] - here) for p, _, r, n in self.step.one(x)), Fraction(0))

    def mean(self, x: Coordinate) -> Fraction:
        return self.q[x]

    def covariance(self, x: Coordinate, y: Coordinate) -> Fraction:
        return self._ahead(x, y, self.q[x], self.q[y], same_branch=x == y)

    def _ahead(self, x: Coordinate, y: Coordinate, base: Fraction, base_2: Fraction, *, same_branch: bool) -> Fraction:
        """E of the product of two branches' gains over their bases, plus γ² times the table at their next states."""
        gamma = self.step.discount
        total = Fraction(0)
        if same_branch:
            for p, _, r, n in self.step.one(x):
                total += p * ((r + gamma * self.value[n] - base) ** 2 + gamma**2 * self.variance[n])
            return total
        for w, r, n, u, m in self.step.two(x, y):
            gained, gained_2 = r + gamma * self.value[n] - base, u + gamma * self.value[m] - base_2
            total += w * (gained * gained_2 + gamma**2 * self.pair[n][m])
        return total

    def mean_error(self, x: Coordinate) -> Fraction:
        """Bound on the error of `mean`."""
        return self.step.discount * max((self.value_errors[n] for _, _, _, n in self.step.one(x)), default=Fraction(0))

    def covariance_error(self, x: Coordinate, y: Coordinate) -> Fraction:
        """Bound on the error of `covariance`."""
        one, other = ({n for _, _, _, n in self.step.one(z)} for z in (x, y))
        ahead = max((self.table_errors[n][m] for n in one for m in other), default=Fraction(0))
        td_error, td_error_2 = 2 * self.mean_error(x), 2 * self.mean_error(y)
        size, size_2 = self._mean_size(x, self.q[x]), self._mean_size(y, self.q[y])
        return self.step.discount**2 * ahead + size * td_error_2 + size_2 * td_error + td_error * td_error_2

    def _table_errors(self) -> list[list[Fraction]]:
        """Bounds on the errors of the tables over pairs of states.

        The set of pairs reachable from (s, t) is closed, and the sweep contracts there with γ² in the maximum norm.
        """
        gamma, step = self.step.discount, self.step
        residual = [[Fraction(0) for _ in self.states] for _ in self.states]
        for s, t in product(self.states, self.states):
            swept = Fraction(0)
            for w, a, b in step.actions(s, t):
                x, y = (s, a), (t, b)
                swept += w * self._ahead(x, y, self.value[s], self.value[t], same_branch=step.coalesced(x, y))
            residual[s][t] = abs(swept - self.pair[s][t])
        for s in self.states:  # merged branches are on the diagonal
            own = [self._ahead((s, a), (s, a), self.value[s], self.value[s], same_branch=True) for a in self.actions]
            residual[s][s] = max(residual[s][s], abs(_dot(step.policy[s], own) - self.variance[s]))
        sizes = [
            _dot(step.policy[s], [self._mean_size((s, a), self.value[s]) for a in self.actions]) for s in self.states
        ]
        drawn = self._reachable_max(sizes)

        def error(s: int, t: int) -> Fraction:
            largest = max(max(residual[n][m], residual[m][n]) for n in self.reached[s] for m in self.reached[t])
            td_error, td_error_2 = 2 * self.value_errors[s], 2 * self.value_errors[t]
            return (largest + drawn[s] * td_error_2 + drawn[t] * td_error + td_error * td_error_2) / (1 - gamma**2)

        return [[error(s, t) for t in self.states] for s in self.states]

    def _mean_size(self, x: Coordinate, base: Fraction) -> Fraction:
        gains = ((p, r + self.step.discount * self.value[n] - base) for p, _, r, n in self.step.one(x))
        return sum((p * abs(gain) for p, gain in gains), Fraction(0))


def _dot(weights: list[Fraction], values: list[Fraction]) -> Fraction:
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0))


Branches = tuple[tuple[Coordinate, int], ...]
"""Distinct branches, each with the power of its return."""
Ahead = tuple[tuple[int, int], ...]
"""Next states of distinct branches, each with a power."""


class MomentCheck:
    """Error bounds proven by the moments of `JIPE` (Theorem 5.3), in the norm of Eq. (34), with an exact residual."""

    def __init__(self, step: ExactStep, table: MomentTable) -> None:
        self.step, self.order = step, table.order
        S, _, A = step.model.shape
        self.coordinates = list(product(range(S), range(A)))
        scale = table.operator.rewards.scale.factor
        self.stated = scale * exactly(table.error)
        self.moments = {
            self._merged(list(zip(xs, m, strict=True))): scale ** sum(m) * exactly(value)
            for m, values in reversed(table.tables.items())
            for xs, value in zip(product(self.coordinates, repeat=len(m)), values.ravel().tolist(), strict=True)
            if self._are_distinct(xs)
        }

    def _are_distinct(self, xs: tuple[Coordinate, ...]) -> bool:
        """True if these branches are distinct; entries of branches that the coupling merges are not used."""
        return not any(self.step.coalesced(x, y) for i, x in enumerate(xs) for y in xs[:i])

    def _merged(self, branches: list[tuple[Coordinate, int]]) -> Branches:
        """Return branches and their powers, sorted, with branches merged where the coupling merges them."""
        if self.step.coupling.shared_in_a_state:
            powers: dict[Coordinate, int] = {}
            for x, power in branches:
                powers[x] = powers.get(x, 0) + power
            branches = list(powers.items())
        return tuple(sorted(branches))

    def mean(self, x: Coordinate) -> Fraction:
        """E[Z(x)] according to the tables."""
        return self.moments[((x, 1),)]

    def covariance(self, x: Coordinate, y: Coordinate) -> Fraction:
        """Cov(Z(x), Z(y)) according to the tables."""
        both = ((x, 2),) if x == y else tuple(sorted([(x, 1), (y, 1)]))
        return self.moments[both] - self.mean(x) * self.mean(y)

    def mean_error(self, x: Coordinate) -> Fraction:
        """Bound on the error of `mean`, the same for all coordinates."""
        return self._errors[0]

    def covariance_error(self, x: Coordinate, y: Coordinate) -> Fraction:
        """Bound on the error of `covariance`, the same for all coordinates."""
        return self._errors[1]

    @cached_property
    def _errors(self) -> tuple[Fraction, Fraction]:
        """‖M − T M‖_λ/(1 − γ), Eq. (23), and the resulting bound for a covariance; raise if the tables state less."""
        bound, rest = Fraction(self.step.model.reward_bound), 1 - self.step.discount
        weight = 2 * bound / rest if bound else Fraction(1)
        ahead: dict[Ahead, Fraction] = {}
        error = Fraction(0)
        for branches, value in self.moments.items():
            order = sum(power for _, power in branches)
            error = max(error, abs(self._swept(branches, ahead) - value) / weight ** (order - 1) / rest)
        if error > self.stated:
            raise CertificateError(
                f"moments may have an error of {float(error):.6g} in the paper's norm, but the tables state at most "
                f"{float(self.stated):.6g}. The result was changed, or it belongs to another model or policy."
            )
        largest = max(abs(self.mean(x)) for x in self.coordinates)
        return error, weight * error + 2 * largest * error + error**2

    def _swept(self, branches: Branches, ahead: dict[Ahead, Fraction]) -> Fraction:
        """E of the product of (R + γ Z')^power over distinct branches: Eq. (33), and Eq. (19) for order 2."""
        gamma, total = self.step.discount, Fraction(0)
        for w, outcomes in self._steps([x for x, _ in branches]):
            for later_powers in product(*(range(power + 1) for _, power in branches)):
                term, left = w, []
                for (_, power), (r, n), i in zip(branches, outcomes, later_powers, strict=True):
                    term *= comb(power, i) * r ** (power - i) * gamma**i
                    if i:
                        left.append((n, i))
                if term:
                    at = tuple(sorted(left))
                    if at not in ahead:
                        ahead[at] = self._later(at)
                    total += term * ahead[at]
        return total

    def _steps(self, xs: list[Coordinate]) -> Iterator[tuple[Fraction, list[tuple[Fraction, int]]]]:
        """Yield the outcomes of distinct branches: probability, and reward and next state of each branch."""
        c = self.step.coupling
        for drawn in product(*(self.step.one(x) for x in xs)):
            weight, scenarios = Fraction(1), dict[int, int]()  # one per state, or one for all states
            for (s, _), (p, k, _, _) in zip(xs, drawn, strict=True):
                place = 0 if c.shared_between_states else s
                if not c.shared_in_a_state or place not in scenarios:
                    weight *= p
                    scenarios[place] = k
                elif scenarios[place] != k:
                    break
            else:
                yield weight, [(r, n) for _, _, r, n in drawn]

    def _later(self, at: Ahead) -> Fraction:
        """E of the product of powers of the returns from these states, with actions drawn from the policy."""
        if not at:
            return Fraction(1)
        rows = [self.step.policy[n] for n, _ in at]
        total = Fraction(0)
        for w, actions in _draws(rows, shared=self.step.coupling.policy_luck == "shared"):
            total += w * self.moments[self._merged([((n, a), i) for (n, i), a in zip(at, actions, strict=True)])]
        return total


def _draws(rows: list[list[Fraction]], *, shared: bool) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """Yield the probability and the actions of distinct branches with these policy rows."""
    if not shared:
        for actions in product(*(range(len(row)) for row in rows)):
            w = prod((row[a] for row, a in zip(rows, actions, strict=True)), start=Fraction(1))
            if w:
                yield w, actions
        return
    ends = [list(accumulate(row)) for row in rows]
    u = Fraction(0)
    while u < 1:
        chosen = tuple(next(a for a, end in enumerate(row) if end > u) for row in ends)
        up_to = min(row[a] for row, a in zip(ends, chosen, strict=True))
        yield up_to - u, chosen
        u = up_to


def exactly(value: float) -> Fraction:
    """Return a number of a result, which must be finite, as a rational."""
    value = float(value)
    if not np.isfinite(value):
        raise CertificateError(f"The result contains {value}, which no certificate covers.")
    return Fraction(value)
