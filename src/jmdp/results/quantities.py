"""Quantities that each method provides, and the error messages that list the methods that provide one."""

from __future__ import annotations

from enum import Enum

from jmdp.errors import UnavailableError


class Quantity(Enum):
    """Outputs that only some methods provide."""

    CROSS_COVARIANCES = "covariances between states"
    HIGHER_MOMENTS = "moments of order 3 and higher"
    DISTRIBUTIONS = "distributions"
    VARIANCE_INTERVALS = "intervals of variances"
    SWEEPS = "residuals of sweeps"
    CHECKED_TABLES = "certificates that can be verified from the tables"


_Q = Quantity

GIVES: dict[str, frozenset[Quantity]] = {
    "ExactPairs()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.HIGHER_MOMENTS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
        }
    ),
    "ExactDistribution()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.DISTRIBUTIONS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
        }
    ),
    "JIPE()": frozenset({_Q.CROSS_COVARIANCES, _Q.HIGHER_MOMENTS, _Q.VARIANCE_INTERVALS, _Q.SWEEPS, _Q.CHECKED_TABLES}),
    "ReachablePairs(state)": frozenset({_Q.VARIANCE_INTERVALS}),
    "MonteCarlo(seed=…)": frozenset({_Q.DISTRIBUTIONS, _Q.VARIANCE_INTERVALS}),
    "Incremental(seed=…)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "LinearProjected(features)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "NeuralGram(seed=…)": frozenset(),
}
"""Methods, as written in code, and the quantities they provide; checked by `tests/methods/test_contract.py`."""


def gives(method: str) -> frozenset[Quantity]:
    """Quantities that the method of this name provides; empty for methods outside jmdp."""
    return next((given for call, given in GIVES.items() if call.partition("(")[0] == method), frozenset())


def who_gives(quantity: Quantity) -> str:
    """Methods that provide the quantity, as text: "ExactPairs(), JIPE() and Incremental(seed=…)"."""
    calls = [call for call, given in GIVES.items() if quantity in given]
    return calls[0] if len(calls) == 1 else f"{', '.join(calls[:-1])} and {calls[-1]}"


def unavailable(method: str, quantity: Quantity) -> UnavailableError:
    """The error for a method that does not provide the quantity, or not for the question of this evaluation."""
    if quantity in gives(method):
        return UnavailableError(
            f"This evaluation has no {quantity.value}. {method} provides them, but not for a random start, nor for a "
            "policy that is given twice."
        )
    verb = "provides" if who_gives(quantity).count("(") == 1 else "provide"
    return UnavailableError(f"{method} does not provide {quantity.value}. {who_gives(quantity)} {verb} them.")
