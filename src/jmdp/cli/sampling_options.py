"""Options that `jmdp compare` and `jmdp compare-policies` have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from jmdp.cli.command import Exit, print_json, show
from jmdp.cli.loading import LoadingPolicies
from jmdp.cli.options import Flag, Optionally
from jmdp.cli.reporting import Reporting
from jmdp.comparisons.comparison import Comparison
from jmdp.errors import SettingsError
from jmdp.statistics.assumptions import Assumptions

_PILOT = 64
"""Samples of a pilot."""


@dataclass(frozen=True, kw_only=True)
class Sampling(LoadingPolicies, Reporting):
    """Command that samples until a comparison is decided."""

    seed: int = 0
    """Random seed of all draws."""
    confidence: float = 0.95
    """Confidence level of the decision, and of all gaps of one alternative jointly."""
    precision: Optionally[float] = None
    """Sample until every mean gap is known to within ± this, instead of until the best alternative is known."""
    indifference: Optionally[float] = None
    """Sample until one alternative is known to be within this of the best: smaller differences do not matter."""
    samples: Optionally[int] = None
    """Exactly so many samples (rollouts of each action, or episodes of each policy) and one look, instead of sampling
    until the comparison is decided."""
    max_samples: Optionally[int] = None
    """Maximum number of samples of each alternative. By default 10,000."""
    max_steps: Optionally[int] = None
    """Maximum number of simulated steps, checked at the scheduled sample sizes."""
    max_seconds: Optionally[float] = None
    """Maximum time in seconds. Sampling stops at the last scheduled sample size that can be reached in it."""
    plan: Flag = False
    """Print how many samples it would take to find a mean gap of --difference, or to know it to --precision, from a
    pilot of 64 samples (or --samples), instead of the comparison."""
    difference: Optionally[float] = None
    """The mean gap that is to be found, for --plan."""
    horizon: Optionally[int] = None
    """Steps per rollout or episode. By default the time limit if discount is 1, otherwise until discounting reduces a
    reward to less than 1/1000; longer on tables."""
    reward_bound: Optionally[float] = None
    """Bound on |reward| after the horizon. By default that of the table, or the largest reward observed."""
    return_range: Annotated[Optionally[tuple[float, float]], tyro.conf.arg(metavar="LEAST MOST")] = None
    """Range that contains all returns, if known: intervals are then valid for any distribution in it."""
    largest_loss: Optionally[float] = None
    """The most that an outcome which was not seen can cost, if known: intervals then include it."""
    tie_tolerance: float = 0.0
    """Gaps of at most this size count as ties."""
    pool: Annotated[Optionally[int], tyro.conf.arg(metavar="WORKERS")] = None
    """Number of worker processes. The result does not depend on it."""

    def sampling(self) -> dict[str, Any]:
        """Arguments of the comparison."""
        others = LoadingPolicies.__dataclass_fields__ | Reporting.__dataclass_fields__
        names = (name for name in Sampling.__dataclass_fields__ if name not in others)
        given = {name: getattr(self, name) for name in names}
        assume = {name: given.pop(name) for name in Assumptions.__dataclass_fields__ if name in given}
        if given.pop("plan"):
            if (self.difference is None) == (self.precision is None):
                raise SettingsError("--plan needs one of --difference and --precision.")
            given |= {"samples": self.samples or _PILOT, "precision": None}
        elif self.difference is not None:
            raise SettingsError("--difference needs --plan. If smaller differences do not matter, give --indifference.")
        del given["difference"]
        return given | {"assume": Assumptions(**assume), "progress": not self.quiet}

    def show_plan(self, pilot: Comparison) -> Exit:
        """Print how many samples it takes."""
        found = pilot.plan(difference=self.difference, precision=self.precision)
        if self.json:
            print_json(vars(found))
        else:
            show(found)
        return Exit.YES


def sampling_record(found: Comparison) -> dict[str, Any]:
    """The part of a record that all comparisons have."""
    return {
        "simulator": found.simulator,
        "coupling": found.summary.coupling,
        "discount": found.discount,
        "horizon": found.horizon,
        "seed": found.seed,
        "confidence": found.confidence,
        "samples": found.samples,
        "counts": found.counts,
        "reward_bound": found.limits.bound,
        "assumption": found.limits.assumption,
        "outcome": found.outcome,
        "decided": found.decided,
        "best": found.best,
        "choice": found.choice,
        "survivors": found.survivors,
        "leader": found.leader,
        "indifference": found.indifference,
        "steps": found.draws.steps,
        "intervals": "large-sample" if found.return_range is None else "any distribution in return_range",
        "return_range": found.return_range,
    }
