"""A comparison of policies as text: the answer in a sentence, one line a policy, and what pairing gained."""

from __future__ import annotations

import math
from typing import Protocol

from jmdp.base import rounding
from jmdp.base.interval import Estimate
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison_table import _Compared, aligned, shown
from jmdp.results.outcome import Outcome
from jmdp.results.pairing import Pairing
from jmdp.simulators.episodes import EpisodeDraws


class _PolicyComparison(_Compared, Protocol):
    """What the table reads of a `PolicyComparison`, which imports this module."""

    @property
    def policies(self) -> list[str]: ...
    @property
    def reference(self) -> str: ...
    @property
    def baseline(self) -> str | None: ...
    @property
    def paired_samples(self) -> int: ...
    @property
    def draws(self) -> EpisodeDraws: ...
    @property
    def pairing(self) -> Pairing: ...
    def beside_reference(self, policy: str) -> dict[str, Estimate]: ...


def answer_sentence(c: _PolicyComparison) -> str:
    """Who beats whom, by how much and how often; or that it is not decided."""
    if c.outcome is Outcome.ONE_FUTURE:
        tied = float(c.mean_of(c.leader)) == float(c.mean_of(c.runner_up))
        ahead = f"{c.leader} and {c.runner_up} have the largest" if tied else f"{c.leader} has the largest"
        return (
            f"All {c.samples:,} episodes of each policy gave the same return, so no confidence can be stated; {ahead}."
        )
    others = [policy for policy in c.policies if policy != c.reference]
    if c.baseline is None and len(others) > 1:
        others = [c.runner_up]
    return "; ".join(_against_reference(c, policy) for policy in others)


def _against_reference(c: _PolicyComparison, policy: str) -> str:
    """One policy and the reference, the one with the larger mean first."""
    found, first, second = c.beside_reference(policy), policy, c.reference
    gap, better, worse = found["gap"], float(found["better"]), float(found["worse"])
    if gap < 0:
        gap, first, second, better, worse = Estimate(-gap, -gap.high, -gap.low), second, first, worse, better
    often = _how_often(first, better, worse)
    if c.baseline is None and len(c.policies) > 2:
        second = f"{second}, the second best" if c.best is not None else second
    enough = c.bounded is not None or c.samples >= ENOUGH
    if gap.low > 0 and enough:
        return f"{first} beats {second}: mean return higher by {rounding.plus_minus(gap)} ({_from(c)}); {often}"
    gap_is = f"{first} − {second} = {rounding.plus_minus(gap)} ({_from(c)}); {often}"
    if not enough:
        return f"too few episodes to decide between {first} and {second}: {gap_is}"
    if c.outcome is Outcome.PRECISE:
        return f"no difference is known between {first} and {second}: {gap_is}"
    return f"not decided between {first} and {second}: {gap_is}"


def _how_often(first: str, better: float, worse: float) -> str:
    """In what part of episodes the first is better; and equal and worse, where that is not the rest."""
    parts = [better, max(0.0, 1 - better - worse), worse]
    if parts[1] > 1 - 1e-9:
        return "both have the same return in every episode"
    if parts[1] < 0.005:
        return f"{first} is better in {rounding.percentages([better, 1 - better])[0]} of episodes"
    said = rounding.percentages(parts)
    return f"{first} is better in {said[0]} of episodes, equal in {said[1]} and worse in {said[2]}"


def _from(c: _PolicyComparison) -> str:
    paired = c.paired_samples == c.samples and c.evaluation.coupling.shared_in_a_state
    episodes = f"{c.samples:,} paired episodes" if paired else f"{c.samples:,} episodes of each"
    return f"{100 * c.confidence:g}% confidence, {episodes}"


def policy_table(c: _PolicyComparison) -> str:
    """The comparison in words and columns."""
    reference, coupling = c.reference, c.evaluation.coupling
    rows = [["policy", "mean return", f"minus {reference}", "std", "P(better)", "P(worse)", "correlation", "gain"]]
    for policy in sorted(c.policies, key=lambda name: -float(c.mean_of(name))):
        if policy == reference:
            rows.append([policy, shown(c.mean_of(policy)), *[""] * 6])
            continue
        found = c.beside_reference(policy)
        rows.append(
            [
                policy,
                shown(found["mean"]),
                shown(found["gap"]),
                shown(found["gap_std"]),
                rounding.percent(found["better"]),
                rounding.percent(found["worse"]),
                *("–" if math.isnan(found[name]) else form.format(float(found[name])) for name, form in _LAST),
            ]
        )
    luck = f"{type(coupling).__name__} luck, policy luck {coupling.policy_luck}"
    assumed = (
        [] if c.limits.assumption is None else [f"assuming that {c.limits.assumption}; otherwise give reward_bound"]
    )
    holds = "large-sample" if c.bounded is None else "for any returns in that range"
    return "\n".join(
        [
            answer_sentence(c),
            f"{len(c.policies)} policies of {c.simulator}; {luck}, discount {c.discount:g}, horizon {c.horizon}",
            "",
            *aligned(rows),
            "",
            *c.pairing.sentences(),
            f"{c.samples:,} episodes of each policy from seed {c.seed}; {c.draws.steps:,} steps simulated",
            *assumed,
            f"outcomes rarer than about 1 in {1 / c.unseen:.0f} may be missing from this sample",
            f"intervals hold whenever sampling stops: those of means {holds}, those of chances for any distribution",
        ]
    )


_LAST = (("correlation", "{:.3f}"), ("variance_reduction", "{:.1f} ×"))
