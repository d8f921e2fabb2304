"""A comparison of policies or runs as text: the answer, a line for each, then the effect of pairing, assumptions."""

from __future__ import annotations

from typing import Protocol

from jmdp.base.interval import Estimate
from jmdp.comparisons.comparison_table import (
    _Sampled,
    assumptions,
    effort,
    eliminated,
    in_one_run,
    joined,
    stopped,
    table_rows,
    undefined,
    unvaried,
)
from jmdp.comparisons.pairing import Pairing


class _WholeComparison(_Sampled, Protocol):
    @property
    def answer(self) -> str: ...
    @property
    def pairing(self) -> Pairing: ...
    def beside_reference(self, name: str) -> dict[str, Estimate]: ...


def whole_columns(c: _WholeComparison) -> dict[str, str]:
    """Column titles, by the keys of `WholeComparison.beside_reference`."""
    return {
        "mean": c.mean_title,
        "advantage": f"advantage over {c.reference}",
        "advantage_std": "std",
        "better": "P(better)",
        "worse": "P(worse)",
        "correlation": "correlation",
        "variance_reduction": f"{c.run}s if independent",
        "variance_reduction_ceiling": "ceiling",
    }


def whole_table(c: _WholeComparison, about: str) -> str:
    """The comparison as sentences and a table; `about` states what was compared."""
    rows = table_rows(c, whole_columns(c), c.beside_reference)
    return joined(
        [c.answer, stopped(c), about],
        rows,
        [
            *in_one_run(c),
            *c.pairing.sentences(),
            effort(c) + ", including these reruns" * (c.pairing.shares is not None),
            *unvaried(c, c.beside_reference),
            *eliminated(c),
            *assumptions(c),
            *undefined(rows),
        ],
    )
