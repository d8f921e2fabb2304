"""`compare_policies`: simulate policies from the same starts under shared randomness until the best one is known."""

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
"""Samples after which pairing may be switched off."""

_MANY_STARTS = 16
"""With more starts, the reward bound of a table covers all its states, not only the reachable ones."""

_RUN_AGAIN = 32
"""Samples simulated again to attribute variance to starts, steps and policies."""


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
    """Compare whole policies under shared randomness (luck), and stop when the comparison is decided.

    Each sample draws one start state and simulates one episode of every policy from there. The episodes share random
    numbers as `coupling` specifies. After every batch the confidence intervals of the mean gaps are updated; they are
    valid at any stopping time. No state is copied or restored, so environments that `compare` cannot branch work too.

    Parameters
    ----------
    simulator
        A Gymnasium or gymnax environment, a table (`TabularJMDP`), a world, or any `Simulator`. Environments are reset
        for each episode, with a seed derived from `seed` and the number of the sample.
    policies
        Dictionary from names to two or more policies of any kind that `as_policy` accepts. A policy with memory is an
        object that has ``reset()`` and is called with the observation; each episode uses its own copy, after a reset.
    starts
        Start states of the episodes. None: the simulator's own start, or the `start` of a world. Otherwise a list of
        equally likely states, a dictionary from states to probabilities or, for a table, an array [S] of probabilities.
    seed
        Random seed of all draws. Sample i depends only on the seed and i.
    discount
        Discount factor γ; a table has its own. With 1 the return is the sum of an episode's rewards.
    coupling
        Which randomness the episodes share, as in `compare`. By default all policies receive the same shock in each
        step, and random policies draw their actions with the same uniform number. `Independent` also draws starts
        independently.
    baseline
        Name of the policy to compare the others with: sampling stops when each is known to be better or worse than the
        baseline. None: sampling stops when one policy is known to be better than all others.
    confidence
        Confidence level of the decision, and of all gaps of one policy jointly.
    precision
        If given, stop when every mean gap (to the baseline, if one is given) is known to ± this value instead.
    samples, max_steps
        Budget: largest number of episodes of each policy and, optionally, of simulated steps. Steps are counted after
        each batch; the first batch has 64 episodes of each policy.
    horizon
        Largest number of steps of an episode. Default with discount 1: the environment's time limit; otherwise as in
        `compare`. With a discount below 1 the return is that over infinitely many steps, and the intervals account for
        rewards after the horizon. For finite-horizon returns of a table, see `evaluate`.
        With discount 1, a truncation signalled by a Gymnasium environment ends the episode. With a smaller one it does
        not, unless the simulator was made with ``truncated_ends=True``.
    reward_bound, return_range, tie_tolerance, progress
        As in `compare`.

    Returns
    -------
    PolicyComparison
        A `Comparison` of policies, with `answer` (the decision in one sentence), `pairing` (variance reduction by
        shared randomness, and the sources of variance) and `by_start`. If shared randomness increases the variance,
        later samples are drawn independently. This depends on earlier batches only, so means stay unbiased and their
        intervals valid.
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
    """Check that simulator, policies, starts and settings are compatible, and combine them."""
    names = _names(policies, baseline)
    coupling = settings.coupling
    branches_meet = coupling.shared_in_a_state and not coupling.shared_between_states
    simulator = compiled(episode_simulator(source, digests=branches_meet))
    simulator.check_coupling(coupling)
    gamma = problem_discount(simulator.discount, discount)
    horizon = simulator.episode_limit if settings.horizon is None and gamma == 1 else settings.horizon
    if gamma == 1 and horizon is None:
        raise SettingsError(
            f"{simulator!r} has no time limit, and discount is 1. Give horizon=…, the largest number of steps of an "
            "episode. Episodes that end earlier are not affected."
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
    """Largest possible |reward|, or None if unknown."""
    if not starts.given:
        return given
    if isinstance(simulator, TabularSimulator) and len(starts.states) > _MANY_STARTS:
        return simulator.model.reward_bound
    return known_reward_bound(simulator, starts.states, given)


def _names(policies: Any, baseline: Any) -> list[str]:
    if not isinstance(policies, Mapping):
        raise SettingsError(
            f"policies is a {type(policies).__name__}. Give a dictionary from names to policies: "
            '{"old": …, "new": …}.'
        )
    names = [str(name) for name in policies]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SettingsError(f"policies has the names {names}. Give two or more policies with different names.")
    if baseline is not None and baseline not in names:
        close = difflib.get_close_matches(str(baseline), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise LabelError(f"baseline is {baseline!r}. Give the name of one of the policies: {', '.join(names)}.{hint}")
    return names


def _actor(name: str, policy: Any, simulator: Simulator) -> Any:
    try:
        return as_policy(policy, simulator.actions, memory=True, name=name)
    except PolicyError as error:
        raise PolicyError(f"Policy {name!r}: {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _Question(Question):
    """Comparison of policies over whole episodes."""

    verb = "compare policies"

    plan: EpisodePlan
    baseline: str | None

    def _draw(self, first: int, count: int, drawn: list[Draws]) -> Draws:
        if first == 0 and count > _FIRST:  # in two parts, so that harmful pairing is noticed after few samples
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
        """Whether to sample independently: if this has begun, or if the gain so far is clearly below 1."""
        if past.paired < len(past.returns):
            return True
        if not self.plan.coupling.shared_in_a_state or past.paired < _FIRST:
            return False
        means = past.returns.mean(axis=0)
        r = int(means.argmax()) if self.baseline is None else self.labels.index(self.baseline)
        return pairing_costs(past.returns, r)

    def _probe(self, past: EpisodeDraws) -> tuple[LuckProbe, int]:
        """Simulate some samples again: with the same start only; and, if policies are random, the same steps too."""
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
