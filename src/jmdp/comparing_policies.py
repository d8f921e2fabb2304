"""The verb for whole policies: every policy from the same starts, the same luck, until one is known to be better."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.errors import LabelError, PolicyError, SettingsError
from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, rollout_horizon
from jmdp.methods.monte_carlo.table_rollouts import compiled
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling, Independent, Synchronous
from jmdp.models.discount import problem_discount
from jmdp.results.anytime import ENOUGH
from jmdp.results.comparison import Comparison
from jmdp.results.outcome import Outcome
from jmdp.results.pairing import pairing_costs
from jmdp.results.policy_comparison import PolicyComparison
from jmdp.results.samples.limits import known_reward_bound
from jmdp.sequential import Question, Settings
from jmdp.simulators import episode_simulator
from jmdp.simulators.checking.sampling import check_episodes
from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan, LuckProbe, paired_episodes
from jmdp.simulators.functions import TabularSimulator
from jmdp.simulators.simulator import Draws, Simulator
from jmdp.simulators.starts import Starts

_FIRST = 32
"""Samples after which pairing may be given up."""

_MANY_STARTS = 16
"""Starts of a table beyond which its largest reward is taken, not that of the states that can be reached."""

_RUN_AGAIN = 32
"""Samples that are run again to see where the randomness is."""


def compare_policies(
    simulator: Any,
    policies: Mapping[str, Any],
    *,
    starts: Any = None,
    seed: int,
    discount: float | None = None,
    coupling: Coupling = Synchronous(policy_luck="shared"),
    baseline: str | None = None,
    confidence: float = 0.95,
    precision: float | None = None,
    samples: int = 10_000,
    max_steps: int | None = None,
    horizon: int | None = None,
    reward_bound: float | None = None,
    return_range: tuple[float, float] | None = None,
    tie_tolerance: float = 0.0,
    progress: bool = True,
) -> PolicyComparison:
    """Compare whole policies under shared luck, and stop when the question is decided.

    Each sample draws one start and runs an episode of every policy from there, all of them meeting the luck that
    `coupling` has them share. After every batch the mean gaps have intervals that hold whenever one stops. Nothing is
    copied or restored, so environments that `compare` cannot branch are fine.

    Parameters
    ----------
    simulator
        A Gymnasium environment, a gymnax one, a table, a world, or any `Simulator`. Environments are reset for each
        episode, with a seed from the sample's luck.
    policies
        Two or more, by name; each as `as_policy` takes it. One with a memory has ``reset()`` and is called on the
        observation: each episode has a copy of its own, reset at its beginning.
    starts
        Where episodes start. None: the simulator's own start, or the `start` of a world. A list of states, equally
        likely; a dictionary from states to probabilities; of a table also an array [S] of probabilities.
    seed
        Of all luck. Sample i depends on the seed and i alone.
    discount
        γ; a table has its own. With 1 the return is the sum of an episode's rewards.
    coupling
        As in `compare`. By default all policies meet the same shock in each step and invert the same uniform number
        for their own draws. `Independent` draws starts independently too.
    baseline
        The policy that the others are compared with: sampling stops when each is known to be better or worse than it.
        None stops when one policy is known to be better than every other.
    confidence
        Of the decision, and of all gaps of one policy together.
    precision
        If given, stop when every mean gap (to the baseline, if there is one) is known to ± this instead.
    samples, max_steps
        The budget: episodes of each policy, and simulated steps, if limited. Steps are counted after each batch, the
        first of which is 64 episodes of each policy.
    horizon
        Steps of an episode at most. None is the environment's time limit where discount is 1; else as in `compare`:
        with a discount below 1 the question is the return over all time, and what a horizon cuts off is in the
        intervals. For returns over so many steps of a table, see `evaluate`.
        With discount 1 a truncation signalled by a Gymnasium environment ends the episode; with a smaller one it does
        not, unless the simulator was made with ``truncated_ends=True``.
    reward_bound, return_range, tie_tolerance, progress
        As in `compare`.

    Returns
    -------
    PolicyComparison
        A `Comparison` with policies as alternatives: `answer` in one sentence, `pairing` (what sharing luck gained and
        where the luck is), `by_start`. If sharing is seen to cost more than it gains, later samples are drawn
        independently: decided from earlier batches alone, so means stay unbiased and their intervals hold.
    """
    settings = Settings.of(locals())
    question = _question(simulator, policies, starts, discount, baseline, settings, progress)
    found = question.answer([], settings.samples)
    assert isinstance(found, PolicyComparison)
    return found


def _question(
    source: Any,
    policies: Mapping[str, Any],
    starts: Any,
    discount: float | None,
    baseline: str | None,
    settings: Settings,
    progress: bool,
) -> _Question:
    """What is asked, once simulator, policies, starts and settings are known to fit one another."""
    names = _names(policies, baseline)
    coupling = settings.coupling
    branches_meet = coupling.shared_in_a_state and not coupling.shared_between_states
    simulator = compiled(episode_simulator(source, digests=branches_meet))
    simulator.check_coupling(coupling)
    gamma = problem_discount(simulator.discount, discount)
    horizon = simulator.episode_limit if settings.horizon is None and gamma == 1 else settings.horizon
    if gamma == 1 and horizon is None:
        raise SettingsError(
            f"{simulator!r} has no time limit, and discount is 1. Give horizon=…, the most steps that an episode may "
            "take: one that ends before is not cut."
        )
    begin = Starts.of(starts, simulator, source)
    plan = EpisodePlan(
        starts=begin,
        actors=[_actor(name, policy, simulator) for name, policy in policies.items()],
        coupling=coupling,
        discount=gamma,
        horizon=rollout_horizon(simulator, gamma, horizon, MonteCarlo.samples),
        seed=settings.seed,
    )
    return _Question(
        simulator=simulator,
        labels=Labels.of("policy", len(names), names),
        settings=settings,
        discount=gamma,
        horizon=plan.horizon,
        reward_bound=_reward_bound(simulator, begin, settings.reward_bound),
        progress=progress,
        plan=plan,
        baseline=baseline,
    )


def _reward_bound(simulator: Simulator, starts: Starts, given: float | None) -> float | None:
    """The largest |reward| there can be, where it is known."""
    if not starts.given:
        return given
    if isinstance(simulator, TabularSimulator) and len(starts.states) > _MANY_STARTS:
        return simulator.model.reward_bound
    return known_reward_bound(simulator, starts.states, given)


def _names(policies: Any, baseline: Any) -> list[str]:
    if not isinstance(policies, Mapping):
        raise SettingsError(
            f'policies is a {type(policies).__name__}. Give a dictionary of names and policies: {{"old": …, "new": …}}.'
        )
    names = [str(name) for name in policies]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(f"policies are {names}. Give two or more, with different names.")
    if baseline is not None and baseline not in names:
        close = difflib.get_close_matches(str(baseline), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise LabelError(f"baseline is {baseline!r}. It is one of the policies: {', '.join(names)}.{hint}")
    return names


def _actor(name: str, policy: Any, simulator: Simulator) -> Any:
    try:
        return as_policy(policy, simulator.actions, memory=True, name=name)
    except PolicyError as error:
        raise PolicyError(f"Policy {name!r}: {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question(Question):
    """Which policy is better?"""

    verb = "compare policies"

    plan: EpisodePlan
    baseline: str | None

    def _draw(self, first: int, count: int, drawn: list[Draws]) -> Draws:
        if first == 0 and count > _FIRST:  # in two parts: little is lost where pairing costs
            start = self._draw(0, _FIRST, [])
            return EpisodeDraws.joined([start, self._draw(_FIRST, count - _FIRST, [start])])
        plan, past = self.plan, EpisodeDraws.joined(drawn) if drawn else None
        if past is not None and self._pairing_costs(past):
            apart = replace(plan, coupling=Independent())
            return replace(paired_episodes(self.simulator, apart, first, count), paired=0)
        new = paired_episodes(self.simulator, plan, first, count)
        if past is None:
            check_episodes(new, self.simulator, plan)
        elif first >= ENOUGH and past.probe is None and plan.coupling.shared_in_a_state:
            probe, steps = self._probe(past)
            new = replace(new, probe=probe, steps=new.steps + steps)
        return new

    def _pairing_costs(self, past: EpisodeDraws) -> bool:
        """Whether sampling goes on independently: once it does, or when the gain so far is clearly below 1."""
        if past.paired < len(past.returns):
            return True
        if not self.plan.coupling.shared_in_a_state or past.paired < _FIRST:
            return False
        means = past.returns.mean(axis=0)
        r = int(means.argmax()) if self.baseline is None else self.labels.index(self.baseline)
        return pairing_costs(past.returns, r)

    def _probe(self, past: EpisodeDraws) -> tuple[LuckProbe, int]:
        """Some samples again: with the same start alone, and with the same start and steps where policies draw."""
        count = min(_RUN_AGAIN, past.paired)
        both = paired_episodes(self.simulator, replace(self.plan, fresh=frozenset({"steps", "policies"})), 0, count)
        own = None
        if any(actor.needs_luck for actor in self.plan.actors):
            own = paired_episodes(self.simulator, replace(self.plan, fresh=frozenset({"policies"})), 0, count)
        steps = both.steps + (own.steps if own else 0)
        return LuckProbe(past.returns[:count], both.returns, own.returns if own else None), steps

    def _one_future(self, draws: Draws, decided: bool) -> bool:
        return draws.one_future and not isinstance(self.simulator, TabularSimulator)

    def _settled(self, low: Floats, sure: bool) -> Outcome | None:
        if sure or self.baseline is None:
            return super()._settled(low, sure)
        b = self.labels.index(self.baseline)
        return Outcome.BASELINE_COMPARED if ((low[b] > 0) | (low[:, b] > 0)).all() else None

    def _errors_asked_for(self, errors: Floats) -> Floats:
        return errors if self.baseline is None else errors[self.labels.index(self.baseline)]

    def _result(self, common: dict[str, Any], draws: Any) -> Comparison:
        said = ", ".join(repr(actor) for actor in self.plan.actors)
        return PolicyComparison(**common, policy=said, numbers=None, starts=self.plan.starts, baseline=self.baseline)
