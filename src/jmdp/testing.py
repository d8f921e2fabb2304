"""Checks for users: is the model what was meant, can the simulator be branched, and does a certificate hold?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from jmdp.checking.probe import Finding, Findings
from jmdp.checking.simulator_check import check_simulator
from jmdp.errors import CertificateError, UnavailableError
from jmdp.evaluation import Evaluation
from jmdp.exact import Coordinate, ExactStep
from jmdp.methods.jipe import MomentTable
from jmdp.methods.pair_operator import PairTable
from jmdp.model import TabularJMDP
from jmdp.moment_check import MomentCheck, exactly
from jmdp.policy import TabularPolicy

__all__ = ["Finding", "Findings", "check_certificate", "check_model", "check_simulator"]

# ---------------------------------------------------------------------------------------------------- the model


def check_model(model: TabularJMDP) -> list[Finding]:
    """Look for what is allowed in a scenario table but seldom meant.

    A `TabularJMDP` that exists is well formed. This looks for the rest: states that are copies of one another
    (they draw their scenarios apart under `Local`, so splitting a state changes covariances), actions that never
    differ, scenarios that never happen, traps that earn nothing but are not terminal, states nothing leads to, and
    tables without any luck to share.
    """
    findings: list[Finding] = []
    for look in (_copies, _equal_actions, _impossible_scenarios, _idle_traps, _unreached, _no_luck):
        findings.extend(Finding(look.__name__.strip("_").replace("_", " "), message) for message in look(model))
    return findings


def _copies(model: TabularJMDP) -> Iterator[str]:
    seen: dict[bytes, int] = {}
    for s in np.flatnonzero(~model.terminal):
        row = b"".join(table[s].tobytes() for table in (model.prob, model.reward, model.next_state))
        first = seen.setdefault(row, int(s))
        if first != s:
            yield (
                f"states {model.states.name(first)} and {model.states.name(int(s))} have the same table. Local() draws "
                "their scenarios apart, so the two are less correlated than one state would be. Merge them if they are "
                "one place."
            )


def _equal_actions(model: TabularJMDP) -> Iterator[str]:
    possible = model.prob > 0
    A = model.shape[2]
    for a, b in product(range(A), range(A)):
        if a < b and all(
            (table[:, :, a] == table[:, :, b])[possible].all() for table in (model.reward, model.next_state)
        ):
            yield (
                f"actions {model.actions.name(a)} and {model.actions.name(b)} do the same everywhere. Their returns "
                "still differ unless the policy draws alike after both."
            )


def _impossible_scenarios(model: TabularJMDP) -> Iterator[str]:
    for k in np.flatnonzero((model.prob[~model.terminal] == 0).all(axis=0)):
        yield f"scenario {k} has probability 0 in every state. Drop it."


def _idle_traps(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    stays = ((model.next_state == here) | (model.prob == 0)[:, :, None]).all(axis=(1, 2))
    for s in np.flatnonzero(stays & (model.reward == 0).all(axis=(1, 2)) & ~model.terminal):
        yield f"state {model.states.name(int(s))} is never left and earns nothing. Mark it terminal."


def _unreached(model: TabularJMDP) -> Iterator[str]:
    S = model.shape[0]
    here = np.arange(S)[:, None, None]
    arrives = (model.prob > 0)[:, :, None] & (model.next_state != here) & ~model.terminal[:, None, None]
    missing = np.setdiff1d(np.arange(S), model.next_state[arrives])
    if missing.size and S > 1:
        names = ", ".join(model.states.name(int(s)) for s in missing[:8])
        yield f"nothing leads to {missing.size} of {S} states ({names}{', …' if missing.size > 8 else ''})."


def _no_luck(model: TabularJMDP) -> Iterator[str]:
    if ((model.prob > 0).sum(axis=1) <= 1).all():
        yield "every state has one possible scenario, so the environment has no luck for actions to share."


# ---------------------------------------------------------------------------------------------- the certificate


def check_certificate(model: TabularJMDP, policy: TabularPolicy, evaluation: Evaluation) -> None:
    """Check a certificate again, from the table, in exact rationals; raise `CertificateError` where it does not hold.

    The evaluation carries the tables its certificate rests on. Here their residual is formed without any rounding, in
    code that shares nothing with the methods, and every stated number is compared with what follows. The work
    grows as (S A K)², in rational arithmetic: meant for models of some tens of states.
    """
    certificate = evaluation.certificate
    if certificate is None or certificate.kind == "statistical":
        raise UnavailableError("Only exact and certified results can be checked; ExactPairs() and JIPE() give them.")
    if certificate.discount != model.discount or certificate.reward_bound != model.reward_bound:
        raise CertificateError(
            f"The certificate is for discount {certificate.discount!r} and reward bound {certificate.reward_bound!r}; "
            f"the model has {model.discount!r} and {model.reward_bound!r}."
        )
    step = ExactStep(model, policy, evaluation.coupling)
    if isinstance(evaluation.cross, PairTable):
        checker: _PairCheck | MomentCheck = _PairCheck(step, evaluation.cross)
    elif isinstance(evaluation.cross, MomentTable):
        checker = MomentCheck(step, evaluation.cross)
    else:
        raise UnavailableError(f"{type(evaluation.method).__name__} leaves no tables to check.")
    for gap, single, times in (
        (certificate.gap_mean_error, certificate.mean_error, 2),
        (certificate.gap_variance_error, certificate.covariance_error, 4),
    ):
        if not np.all(np.asarray(gap) >= times * np.asarray(single)):
            raise CertificateError("The errors stated for gaps are smaller than those of what they are made of allow.")
    S, _, A = model.shape
    mean_error, covariance_error = checker.errors()
    for x in product(range(S), range(A)):
        off = abs(exactly(evaluation.mean[x]) - checker.mean(x)) + mean_error
        _compare("mean", evaluation, x, off, certificate.mean_error)
        for b in range(A):
            y = (x[0], b)
            off = abs(exactly(evaluation.covariance[*x, b]) - checker.covariance(x, y)) + covariance_error
            _compare("covariance", evaluation, (*x, b), off, certificate.covariance_error)


def _compare(what: str, evaluation: Evaluation, at: tuple[int, ...], off: Fraction, stated: object) -> None:
    if not off <= Fraction(float(np.asarray(stated))):
        where = f"state {evaluation.states.name(at[0])}, " + ", ".join(
            f"action {evaluation.actions.name(a)}" for a in at[1:]
        )
        raise CertificateError(
            f"{what} at {where} may be off by {float(off):.6g}, but the certificate says {stated}. "
            "The result was changed, or it belongs to another model or policy."
        )


class _PairCheck:
    """What the tables of `ExactPairs` prove: v, H over state pairs and V over states, all residuals exact."""

    def __init__(self, step: ExactStep, tables: PairTable) -> None:
        self.step = step
        S, _, A = step.model.shape
        self.states, self.actions = range(S), range(A)
        scale = Fraction(2) ** tables.operator.shaped.exponent
        value = tables.operator.shaped.value
        self.value = [scale * (exactly(high) + exactly(low)) for high, low in zip(*value, strict=True)]
        self.pair = [[scale**2 * exactly(h) for h in row] for row in tables.H]
        self.variance = [scale**2 * exactly(v) for v in tables.operator.V]
        averages = [[self._expect_td((s, a)) for a in self.actions] for s in self.states]
        residual = max(abs(_dot(step.policy[s], averages[s])) for s in self.states)
        self.value_error = residual / (1 - step.discount)
        self.q = {(s, a): averages[s][a] + self.value[s] for s in self.states for a in self.actions}

    def _td(self, x: Coordinate, r: Fraction, n: int) -> Fraction:
        return r + self.step.discount * self.value[n] - self.value[x[0]]

    def _expect_td(self, x: Coordinate) -> Fraction:
        if self.step.model.terminal[x[0]]:
            return -self.value[x[0]]
        return sum((p * self._td(x, r, n) for p, _, r, n in self.step.one(x)), Fraction(0))

    def mean(self, x: Coordinate) -> Fraction:
        return self.q[x]

    def covariance(self, x: Coordinate, y: Coordinate) -> Fraction:
        return self._ahead(x, y, self.q[x], self.q[y], same_branch=x == y)

    def _ahead(self, x: Coordinate, y: Coordinate, base: Fraction, base_2: Fraction, *, same_branch: bool) -> Fraction:
        """E of the product of what two branches gain over their bases, plus γ² times the table where they go."""
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

    def errors(self) -> tuple[Fraction, Fraction]:
        """Bounds on the error of `mean` and of `covariance`."""
        gamma, step = self.step.discount, self.step
        residual = Fraction(0)
        for s, t in product(self.states, self.states):
            swept = Fraction(0)
            for w, a, b in step.actions(s, t):
                x, y = (s, a), (t, b)
                swept += w * self._ahead(x, y, self.value[s], self.value[t], same_branch=step.coalesced(x, y))
            residual = max(residual, abs(swept - self.pair[s][t]))
        drawn, centred = (
            Fraction(0),
            Fraction(0),
        )  # largest mean size of a TD error, of a policy's draw and of a coordinate
        for s in self.states:
            own = [self._ahead((s, a), (s, a), self.value[s], self.value[s], same_branch=True) for a in self.actions]
            residual = max(residual, abs(_dot(step.policy[s], own) - self.variance[s]))
            sizes = [self._mean_size((s, a), self.value[s]) for a in self.actions]
            drawn = max(drawn, _dot(step.policy[s], sizes))
            centred = max(centred, *(self._mean_size((s, a), self.q[s, a]) for a in self.actions))
        slip = 2 * self.value_error
        tables = (residual + 2 * drawn * slip + slip**2) / (1 - gamma**2)
        return self.value_error, gamma**2 * tables + 2 * centred * slip + slip**2

    def _mean_size(self, x: Coordinate, base: Fraction) -> Fraction:
        gains = ((p, r + self.step.discount * self.value[n] - base) for p, _, r, n in self.step.one(x))
        return sum((p * abs(gain) for p, gain in gains), Fraction(0))


def _dot(weights: list[Fraction], values: list[Fraction]) -> Fraction:
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0))
