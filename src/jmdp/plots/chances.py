"""How figures write chances and other estimates: to the digits that say something, and how far they can be off."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jmdp.base.interval import Estimate
from jmdp.base.rounding import at_least, at_most, outwards
from jmdp.results.gaps.distribution import Distribution

_NEGLIGIBLE = 1e-12
"""A chance this near to 0 or 1 is rounding."""

NOTABLE = 0.005
"""From here on a chance, or its error, shows at two decimals."""


def chance(value: float, decimals: int = 3) -> str:
    """0.312, 0 and 1 only where that is so, <0.001 and >0.999 next to them."""
    least = 10.0**-decimals
    if value <= _NEGLIGIBLE or value >= 1 - _NEGLIGIBLE:
        return f"{round(value)}"
    if value < least / 2:
        return f"<{least:.{decimals}f}"
    if value > 1 - least / 2:
        return f">{1 - least:.{decimals}f}"
    return f"{value:.{decimals}f}"


def short_chance(value: float) -> str:
    """Two decimals and no zero before them, for the cells of a matrix."""
    return chance(value, 2).replace("0.", ".")


def number(value: float, decimals: int) -> str:
    """A number that is no chance; 0 without decimals or sign."""
    plain = _has_decimals(value, decimals)
    if plain and abs(value) < 0.5 * 10.0**-decimals:
        return "0"
    text = f"{value:.{decimals}f}" if plain else f"{value:.3g}"
    return text.replace("-", "−").replace("inf", "∞")


def with_interval(estimate: Estimate, write: Callable[[float, int], str], decimals: int, *, between: str = " ") -> str:
    """The value, and its interval where it is wider than the last digit."""
    value = write(estimate, decimals)
    if estimate.error < 0.5 * 10.0**-decimals:
        return value
    return f"{value}{between}{interval(estimate, write, decimals)}"


def interval(estimate: Estimate, write: Callable[[float, int], str], decimals: int) -> str:
    """[low, high], rounded outwards."""
    low, high = outwards(estimate.low, estimate.high, decimals)
    low = low if _has_decimals(low, decimals) else float(at_least(estimate.low, 3))
    high = high if _has_decimals(high, decimals) else float(at_most(estimate.high, 3))
    return f"[{write(low, decimals)}, {write(high, decimals)}]"


def _has_decimals(value: float, decimals: int) -> bool:
    """Whether it is written with decimals; else with three significant digits."""
    return decimals <= 6 and abs(value) < 1e6


def short_interval(estimate: Estimate) -> str:
    """An interval of a chance for the cells of a matrix."""
    return interval(estimate, chance, 2).replace("0.", ".")


def trust_of_pairs(distributions: Iterable[Distribution]) -> str:
    """`Distribution.trust` of many distributions, the least of them: each has a band of its own."""
    sure = [distribution.confidence for distribution in distributions if distribution.confidence is not None]
    return f"each pair at {100 * min(sure):g}% confidence" if sure else "certified"


def largest_error(estimates: Iterable[Estimate]) -> str:
    """The most by which any can be off, to two digits, rounded up, for it is a bound."""
    return at_most(max(estimate.error for estimate in estimates), 2)


def uneven(estimates: Iterable[Estimate]) -> bool:
    """Are some much better known than others, so that the largest error would not do for all?"""
    errors = [estimate.error for estimate in estimates]
    return max(errors) - min(errors) >= NOTABLE
