"""What each method gives, declared once; and the messages that name the methods that give what another does not."""

from __future__ import annotations

from enum import Enum

from jmdp.errors import UnavailableError


class Quantity(Enum):
    """What some methods give and others do not, and what some take and others do not."""

    CROSS_COVARIANCES = "covariances between states"
    HIGHER_MOMENTS = "moments of higher orders"
    DISTRIBUTIONS = "distributions"
    VARIANCE_INTERVALS = "intervals of variances"
    SWEEPS = "residuals of sweeps"
    CHECKED_TABLES = "a certificate that can be checked again from its tables"
    FROM_LAZY_MODELS = "answers for a model that is never enumerated"
    FROM_SIMULATORS = "answers for a simulator"
    FINITE_HORIZONS = "answers for a finite horizon"
    SEVERAL_POLICIES = "joint moments of the returns of several policies"


_Q = Quantity

GIVES: dict[str, frozenset[Quantity]] = {
    "ExactPairs()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.HIGHER_MOMENTS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
            _Q.SEVERAL_POLICIES,
            _Q.FINITE_HORIZONS,
        }
    ),
    "ExactDistribution()": frozenset(
        {
            _Q.CROSS_COVARIANCES,
            _Q.DISTRIBUTIONS,
            _Q.VARIANCE_INTERVALS,
            _Q.SWEEPS,
            _Q.CHECKED_TABLES,
            _Q.SEVERAL_POLICIES,
        }
    ),
    "JIPE()": frozenset({_Q.CROSS_COVARIANCES, _Q.HIGHER_MOMENTS, _Q.VARIANCE_INTERVALS, _Q.SWEEPS, _Q.CHECKED_TABLES}),
    "ReachablePairs(state)": frozenset({_Q.VARIANCE_INTERVALS, _Q.FROM_LAZY_MODELS, _Q.SEVERAL_POLICIES}),
    "MonteCarlo(seed=…)": frozenset({_Q.DISTRIBUTIONS, _Q.VARIANCE_INTERVALS, _Q.FROM_SIMULATORS, _Q.SEVERAL_POLICIES}),
    "Incremental(seed=…)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "LinearProjected(features)": frozenset({_Q.CROSS_COVARIANCES, _Q.VARIANCE_INTERVALS}),
    "NeuralGram(seed=…)": frozenset({_Q.FROM_SIMULATORS}),
}
"""Methods as one writes them, and what they give. `tests/methods/test_contract.py` holds every method to its line."""


def gives(method: str) -> frozenset[Quantity]:
    """What the method of this name gives; nothing is known of a method that is not ours."""
    return next((given for call, given in GIVES.items() if call.partition("(")[0] == method), frozenset())


def who_gives(quantity: Quantity) -> str:
    """The methods that give it, as one would write them: "ExactPairs(), JIPE() and Incremental(seed=…)"."""
    calls = [call for call, given in GIVES.items() if quantity in given]
    return calls[0] if len(calls) == 1 else f"{', '.join(calls[:-1])} and {calls[-1]}"


def unavailable(method: str, quantity: Quantity) -> UnavailableError:
    """The error of a method that does not give it."""
    verb = "gives" if who_gives(quantity).count("(") == 1 else "give"
    return UnavailableError(f"{method} gives no {quantity.value}. {who_gives(quantity)} {verb} them.")
