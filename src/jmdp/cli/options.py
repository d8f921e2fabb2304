"""Options that `jmdp compare` and `jmdp compare-policies` have in common.

Options that `jmdp compare-policies` and `jmdp gate` have in common.

Methods that evaluate a table, with the settings that the command line offers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_args

import tyro

import jmdp
from jmdp.cli.command import Exit, Flag, Optionally, PolicyDraws, TruncatedEnds
from jmdp.cli.environments import Environment, EnvName, environment
from jmdp.cli.loading import CouplingName, Found, LoadingPolicies, Reporting, coupling_of, label_of
from jmdp.comparisons.answer import chosen
from jmdp.comparisons.comparison import Comparison
from jmdp.errors import SettingsError
from jmdp.methods.method import Method
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
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

    def compared(self, found: Comparison, record: Callable[[], dict[str, Any]]) -> Found:
        """The comparison, or with --plan how many samples it takes."""
        if self.plan:
            plan = found.plan(difference=self.difference, precision=self.precision)
            return Found(found, plan, partial(vars, plan), Exit.YES)
        code = Exit.YES if found.decided else Exit.NO
        return Found(found, found, record, Exit.INTERRUPTED if found.outcome is Outcome.INTERRUPTED else code)


def sampling_record(found: Comparison) -> dict[str, Any]:
    """The part of a record that all comparisons have."""
    return {
        "simulator": found.simulator,
        "coupling": found.summary.coupling,
        "discount": found.summary.discount,
        "horizon": found.summary.horizon,
        "seed": found.seed,
        "confidence": found.confidence,
        "samples": found.samples,
        "counts": found.counts,
        "reward_bound": found.summary.limits.bound,
        "assumption": found.summary.limits.assumption,
        "outcome": found.outcome,
        "decided": found.decided,
        "best": found.best,
        "choice": chosen(found),
        "survivors": found.survivors,
        "leader": found.leader,
        "indifference": found.indifference,
        "steps": found.summary.samples.steps,
        "intervals": "large-sample" if found.summary.return_range is None else "any distribution in return_range",
        "return_range": found.summary.return_range,
    }


_STARTS = (
    "Start states of the episodes, for tables: states by name or number, equally likely, or STATE=PROBABILITY. By "
    "default the start distribution of the world or the environment."
)


StartStates = Annotated[tuple[str, ...], tyro.conf.arg(metavar="STATE …", help=_STARTS, help_behavior_hint="")]
"""Start states by name or number."""


@dataclass(frozen=True, kw_only=True)
class EpisodeSampling(Sampling):
    """Command that compares policies over whole episodes."""

    env: EnvName
    starts: StartStates = ()
    truncated_ends: TruncatedEnds = False
    coupling: CouplingName = "synchronous"
    """Randomness shared by all policies in a step (synchronous), by those in the same state (local), or by none."""
    policy_luck: PolicyDraws = "shared"

    def environment(self) -> Environment:
        """Return the environment that ENV names."""
        return environment(self.env, self.loader(), truncated_ends=self.truncated_ends)

    def shared(self) -> Coupling:
        """Return the coupling."""
        return coupling_of(self.coupling, self.policy_luck)


def start_states(texts: Sequence[str], chosen: Environment) -> Any:
    """Return the argument `starts` of `compare_policies` from command-line text."""
    if not texts:
        return getattr(chosen.world, "start", None)
    if chosen.model is None:
        raise SettingsError("--starts is available for tables only. Other environments draw their starts from --seed.")
    labels = chosen.model.states
    pairs = [text.rpartition("=") if "=" in text else (text, "", "") for text in texts]
    states = [labels[labels.index(label_of(labels, state))] for state, _, _ in pairs]
    if not any(chance for _, _, chance in pairs):
        return states
    try:
        return dict(zip(states, [float(chance) for _, _, chance in pairs], strict=True))
    except ValueError:
        raise SettingsError(f"--starts is {' '.join(texts)}. Give a probability for each: 0=0.5 3=0.5.") from None


MethodName = Literal["exact-pairs", "exact-distribution", "reachable-pairs", "jipe", "monte-carlo", "incremental"]


@dataclass(frozen=True, kw_only=True)
class MonteCarlo(jmdp.MonteCarlo):
    """Simulation of all actions under shared randomness, with confidence intervals and bands."""

    seed: int = 0
    states: tyro.conf.Suppress[None] = None  # for simulators only
    pool: tyro.conf.Suppress[None] = None


@dataclass(frozen=True, kw_only=True)
class Incremental(jmdp.Incremental):
    """The paper's incremental learning from single steps, with confidence intervals."""

    seed: int = 0
    steps: tyro.conf.Suppress[Any] = jmdp.Incremental.steps
    sampling: tyro.conf.Suppress[Any] = jmdp.Incremental.sampling
    path: Optionally[str] = None


@dataclass(frozen=True)
class ReachablePairs(jmdp.ReachablePairs):
    """Certified intervals at one state of a world of any size; needs --state."""

    state: tyro.conf.Suppress[Any] = None  # set from --state


_METHODS: dict[str, Method[Evaluation]] = dict(
    zip(
        get_args(MethodName),
        (jmdp.ExactPairs(), jmdp.ExactDistribution(), ReachablePairs(), jmdp.JIPE(), MonteCarlo(), Incremental()),
        strict=True,
    )
)


def settings_asked_for(arguments: Sequence[str]) -> Method[Evaluation]:
    """Return the default settings of the method that --method names; of the first if it is absent."""
    given = [
        value.removeprefix("--method=")
        for before, value in zip(["", *arguments], arguments, strict=False)
        if before == "--method" or value.startswith("--method=")
    ]
    return _METHODS.get(given[-1] if given else "", next(iter(_METHODS.values())))


def summary(method: Method[Evaluation]) -> str:
    """Return the method's name and the first paragraph of its docstring."""
    first = (inspect.getdoc(method) or "").split("\n\n")[0].replace("\n", " ")
    return f"Settings of {type(method).__name__}: {first}"
