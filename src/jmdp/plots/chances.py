"""Text for figures of probabilities: the numbers in their cells, and error bounds."""

from __future__ import annotations

from collections.abc import Iterable

from jmdp.base.interval import Estimate
from jmdp.base.rounding import at_most, chance, ends_to_decimals
from jmdp.results.gaps.distribution import Distribution

NOTABLE = 0.005
"""Smallest probability or error that is visible at two decimals."""


def short_chance(value: float) -> str:
    """Return a probability for a cell: two decimals, without the leading zero."""
    return chance(value, 2).replace("0.", ".")


def short_interval(estimate: Estimate) -> str:
    """Return the interval of a probability for a cell."""
    return ends_to_decimals(estimate, 2, chance).replace("0.", ".")


def confidence_of_pairs(distributions: Iterable[Distribution]) -> str:
    """Return the smallest confidence of the distributions as text; each distribution has its own band."""
    sure = [distribution.confidence for distribution in distributions if distribution.confidence is not None]
    return f"each pair at {100 * min(sure):g}% confidence" if sure else "certified"


def largest_error(estimates: Iterable[Estimate]) -> str:
    """Return the largest error of any estimate, rounded up to two digits because it is a bound."""
    return at_most(max(estimate.error for estimate in estimates), 2)


def uneven(estimates: Iterable[Estimate]) -> bool:
    """Return whether errors differ so much that the largest does not describe all estimates."""
    errors = [estimate.error for estimate in estimates]
    return max(errors) - min(errors) >= NOTABLE
