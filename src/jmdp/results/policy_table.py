"""A comparison of policies as text: the answer, one line per policy, then the effect of pairing and assumptions."""

from __future__ import annotations

from typing import Protocol

from jmdp.base.interval import Estimate
from jmdp.results.answer import answer_sentence
from jmdp.results.comparison_table import _Sampled, assumptions, effort, eliminated, joined, table_rows, undefined
from jmdp.results.pairing import Pairing


class _PolicyComparison(_Sampled, Protocol):
    @property
    def policies(self) -> list[str]: ...
    @property
    def pairing(self) -> Pairing: ...
    def beside_reference(self, policy: str) -> dict[str, Estimate]: ...


def policy_columns(reference: str) -> dict[str, str]:
    """Column titles, by the keys of `PolicyComparison.beside_reference`."""
    return {
        "mean": "mean return",
        "advantage": f"advantage over {reference}",
        "advantage_std": "std",
        "better": "P(better)",
        "worse": "P(worse)",
        "correlation": "correlation",
        "variance_reduction": "episodes if independent",
    }


def policy_table(c: _PolicyComparison) -> str:
    """The comparison as sentences and a table."""
    coupling, rows = c.summary.coupling, table_rows(c, policy_columns(c.reference), c.beside_reference)
    shared = f"{type(coupling).__name__} coupling, policy_luck {coupling.policy_luck}"
    return joined(
        [
            answer_sentence(c),
            f"stopped: {c.outcome.value}",
            f"{len(c.policies)} policies of {c.simulator}; {shared}, discount {c.discount:g}, horizon {c.horizon}",
        ],
        rows,
        [
            *c.pairing.sentences(),
            effort(c) + ", including these reruns" * (c.pairing.shares is not None),
            *eliminated(c),
            *assumptions(c),
            *undefined(rows),
        ],
    )
