"""Verification of the moments of `JIPE` in exact rational arithmetic, for `check_certificate`.

Steps of several distinct branches are enumerated over all their scenarios: slow, but easy to read.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, product
from math import comb, prod

import numpy as np

from jmdp.errors import CertificateError
from jmdp.methods.jipe.jipe import MomentTable
from jmdp.models.exact import Coordinate, ExactStep

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
