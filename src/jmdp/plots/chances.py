"""Shared by figures of chances: texts of their cells, and the largest error of the chances."""

from __future__ import annotations

from collections.abc import Iterable

from jmdp.base.interval import Estimate
from jmdp.base.rounding import at_most, chance, confidence_percent, ends_to_decimals
from jmdp.results.gaps.distribution import Distribution

NOTABLE = 0.005
"""The smallest chance, or error of a chance, that is visible at two decimals."""


def short_chance(value: float) -> str:
    """Two decimals and no zero before them, for the cells of a matrix."""
    return chance(value, 2).replace("0.", ".")


def short_interval(estimate: Estimate) -> str:
    """An interval of a chance for the cells of a matrix."""
    return ends_to_decimals(estimate, 2, chance).replace("0.", ".")


def confidence_of_pairs(distributions: Iterable[Distribution]) -> str:
    """The lowest confidence of the distributions in words; each has its own band."""
    sure = [distribution.confidence for distribution in distributions if distribution.confidence is not None]
    return f"each pair at {confidence_percent(min(sure))} confidence" if sure else "certified"


def largest_error(estimates: Iterable[Estimate]) -> str:
    """The largest error, to two digits and rounded up, because it is a bound."""
    return at_most(max(estimate.error for estimate in estimates), 2)


def uneven(estimates: Iterable[Estimate]) -> bool:
    """True if errors differ so much that the largest one does not describe all."""
    errors = [estimate.error for estimate in estimates]
    return max(errors) - min(errors) >= NOTABLE
