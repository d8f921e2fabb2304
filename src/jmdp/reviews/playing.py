"""`review`: an episode step by step; which decisions were wrong, and what was luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jmdp.base.labels import PolicyLike, SimulatorLike, StartsLike
from jmdp.base.machine import interruptible
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.base.settings import asks_for_seed, boolean_value, listed, number, probability_value, short, whole_number
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import check_pool
from jmdp.errors import SettingsError, SimulatorError
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.methods.monte_carlo.samples import compiled
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Synchronous
from jmdp.models.tabular import problem_discount
from jmdp.reviews.question import ReviewQuestion, ReviewSettings
from jmdp.reviews.recorded import of_history
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.rollout_values import LookaheadValues, RolloutValues
from jmdp.reviews.trajectory import Player
from jmdp.reviews.values import Alternatives
from jmdp.simulators import as_simulator
from jmdp.simulators.adapters.functions import table_of
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.rollouts.plan import BranchPlan, enough_steps
from jmdp.simulators.simulator import Simulator, candidate_actions
from jmdp.simulators.starts import Starts


@interruptible
@asks_for_seed
def review(
    simulator: SimulatorLike,
    policy: PolicyLike,
    *,
    seed: int,
    reference: PolicyLike = None,
    played: Sequence[Any] | None = None,
    luck: RecordedLuck | None = None,
    others: Mapping[str, Any] | None = None,
    recorded: Sequence[Any] | None = None,
    tolerance: float = 0.0,
    episode: int = 0,
    episodes: int | Sequence[int] | None = None,
    starts: StartsLike = None,
    steps: range | None = None,
    actions: Any = None,
    method: RolloutValues | LookaheadValues | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    confidence: float = 0.95,
    pool: int | Pool | None = None,
    progress: bool = True,
) -> Review | Reviews:
    """Review an episode step by step: was it luck, or a bad decision?

    Plays one episode, or several, and splits its return into expectation + skill + luck, the values being those of a
    reference policy; see `Review`. For each step it finds what each action would have earned on average from there, and
    what it would have earned in this very luck, by replaying the step under the same random keys.

    Parameters
    ----------
    simulator
        A Gymnasium or gymnax environment, a table (`TabularJMDP`), a world, or any `Simulator`. States are simulated
        again, so environments must support copies, as in `compare`.
    policy
        The policy that is reviewed; see `as_policy`. It may have a memory if a reference is given.
    seed
        Random seed of all draws. Episode i depends only on the seed and i. It is sample i of `compare_policies` with
        the same seed and its default coupling, if that simulates step by step (not a compiled table or JAX program).
    reference
        The policy whose values are used, and which follows after every other action. None: the reviewed policy.
    played
        Actions that were taken, for example by a person; None: those of the policy. The policy is then the reference
        only.
    luck
        The reviewed periods of a history, ``history.part("2025-03-01", "2025-03-31")``: what happened in them takes the
        place of random numbers, and the steps read it (`exogenous` of `ObjectSimulator` and `FunctionSimulator`). With
        `played`, the actions that were taken, it is the review of a real month. Expectations are not hindsight: they
        are over blocks of the other periods of the history, or over what the simulator draws, where `exogenous` has a
        function. The discount is then 1.
    others
        Dictionary from names to other policies: the review says what each would have earned from the first reviewed
        step on, in this very luck.
    recorded
        What was observed before each step in reality (and after the last). The largest deviation of the simulator from
        it is stated; if it is larger than `tolerance`, an error says where.
    tolerance
        Largest deviation from `recorded` to accept.
    episode
        Number of the episode.
    episodes
        Number of episodes, or a list of their numbers, to review several of them. None: one, `episode`.
    starts
        Start states, as in `compare_policies`.
    steps
        Steps to review, ``range(first, stop)``, of a long episode. None: all of them.
    actions
        Actions whose values are found, by index or name; None: all. With continuous actions: a list or dictionary of
        actions, to which the one that was taken is added.
    method
        How values are found: `RolloutValues` or `LookaheadValues`. None: exactly for a table whose policy is a table;
        by rollouts for one episode, and by lookahead with fitted values for several.
    discount
        Discount factor γ; a table has its own. With 1 and a `horizon` the return is the sum of rewards over its steps;
        values of a table are then found by rollouts.
    horizon
        Largest number of steps of an episode. Default: with discount 1 the time limit of the environment, otherwise the
        smallest with γ^horizon ≤ 1/1000. With a discount below 1 it is also the number of steps that rollouts continue
        after the last reviewed step, so that all count the same steps; `steps` may then be later than `horizon`.
    confidence
        Confidence level of each interval.
    pool
        Worker processes, as in `compare`. The result does not depend on it.
    progress
        Show progress if the computation takes long.

    Returns
    -------
    Review or Reviews
        The review of one episode; with `episodes`, of several.
    """
    settings = ReviewSettings(
        seed=whole_number("seed", seed, 0),
        confidence=probability_value("confidence", confidence),
        horizon=None if horizon is None else whole_number("horizon", horizon, 1, LONGEST),
        numbers=_numbers(episode, episodes),
        steps=_steps(steps),
        progress=boolean_value("progress", progress),
        history=luck,
        recorded=None if recorded is None else _recorded(recorded),
        tolerance=number("tolerance", tolerance, 0),
    )
    check_pool(pool)
    if luck is not None and episodes is not None:
        raise SettingsError("luck is one history, and several episodes are reviewed. Omit episodes.")
    question = _question(simulator, policy, reference, played, starts, actions, discount, settings)
    question = replace(question, others={} if others is None else _others(others, question))
    values = question.values(method)
    found = question.reviewed(values, pool, whole_episodes=episodes is None)
    return found[0] if episodes is None else Reviews.of(found, len(settings.numbers))


def _numbers(episode: Any, episodes: Any) -> list[int]:
    """Numbers of the episodes."""
    if episodes is None:
        return [whole_number("episode", episode, 0)]
    if isinstance(episodes, (int, float)) or not hasattr(episodes, "__len__"):
        return list(range(whole_number("episodes", episodes, 2, _MOST_EPISODES)))
    found = listed(episodes, _MOST_EPISODES)
    if found is None or not 2 <= len(found) <= _MOST_EPISODES:
        raise SettingsError(f"episodes is {short(episodes)}. Give a number or a list of at least two episodes.")
    numbers = [whole_number("episodes", one, 0) for one in found]
    if len(set(numbers)) < len(numbers):
        raise SettingsError(f"episodes is {short(numbers)}, with a number twice. Give each once.")
    return numbers


_MOST_EPISODES = 1_000_000


def _steps(steps: Any) -> range | None:
    if steps is None:
        return None
    if not isinstance(steps, range) or steps.step != 1 or not 0 <= steps.start < steps.stop:
        raise SettingsError(f"steps is {short(steps)}. Give the steps to review: steps=range(first, stop).")
    return steps


def _question(
    source: Any,
    policy: PolicyLike,
    reference: PolicyLike,
    played: Any,
    starts: StartsLike,
    actions: Any,
    discount: float | None,
    settings: ReviewSettings,
) -> ReviewQuestion:
    """Check that simulator, policies and settings are compatible, and combine them."""
    simulator, history = compiled(_simulator(source, discount)), settings.history
    month, outside = (None, None) if history is None else of_history(history, simulator)
    if history is not None:
        settings, discount = settings.within(len(history)), 1.0 if discount is None else discount
        if discount != 1:
            raise SettingsError(f"discount is {discount!r}. What was earned in recorded periods counts alike: omit it.")
    gamma = problem_discount(simulator.discount, discount, horizon=settings.horizon)
    horizon = _horizon(simulator, gamma, settings.horizon)
    table = table_of(simulator)
    follower = as_policy(policy if reference is None else reference, simulator.actions, table=table)
    actor = follower
    if reference is not None:
        actor = as_policy(policy, simulator.actions, memory=True, table=table)
    plan = BranchPlan(
        starts=Starts.of(starts, simulator, source),
        actors=[actor],
        coupling=Synchronous(policy_luck="shared"),
        discount=gamma,
        horizon=horizon,
        seed=settings.seed,
        history=history,
    )
    taken = None if played is None else _played(played, simulator, settings)
    if taken is not None and reference is not None:
        raise SettingsError("played and reference are given. With played, the policy is the reference: leave one out.")
    own = reference is not None or taken is not None
    alternatives = _alternatives(simulator, actions, own)
    return ReviewQuestion(
        player=Player(simulator, plan),
        actor=actor,
        follower=follower,
        played=taken,
        itself=reference is None,
        alternatives=alternatives,
        settings=settings,
        month=month,
        outside=outside,
    )


def _horizon(simulator: Simulator, discount: float, given: int | None) -> int:
    """Largest number of steps of an episode."""
    horizon = given
    if horizon is None:
        horizon = simulator.episode_limit if discount == 1 else enough_steps(discount, 1e-3 / (1 - discount))
    if horizon is None:
        raise SettingsError(
            f"{simulator!r} has no time limit, and discount is 1. Give horizon=… (--horizon), the largest number of "
            "steps of an episode. Episodes that end earlier are not affected."
        )
    return horizon


def _others(given: Any, question: ReviewQuestion) -> dict[str, Actor]:
    """Other policies by name, after the reference if that is another than the reviewed one."""
    if not isinstance(given, Mapping):
        raise SettingsError(f"others is {short(given)}. Give a dictionary from names to policies.")
    own = question.played is not None or not question.itself
    found = {f"{question.follower!r} (reference)": question.follower} if own else {}
    simulator = question.player.simulator
    for name, rule in given.items():
        found[str(name)] = as_policy(rule, simulator.actions, memory=True, name=str(name), table=table_of(simulator))
    return found


def _recorded(states: Any) -> list[Any]:
    found = listed(states, LONGEST)
    if found is None:
        raise SettingsError(f"recorded is {short(states)}. Give a list of observed states.")
    return found


def _simulator(source: Any, discount: float | None) -> Simulator:
    """The simulator of what was given. Without discounting, a truncation ends an episode of an environment."""
    parts = [getattr(source, name, None) for name in ("unwrapped", "action_space")]
    if isinstance(source, Simulator) or any(part is None for part in parts):
        return as_simulator(source)
    return _environment(source, truncated_ends=problem_discount(None, discount) == 1)


def _environment(env: Any, *, truncated_ends: bool) -> GymnasiumSimulator:
    """A Gymnasium environment by copies or, because episodes start with a reset, otherwise by replay."""
    try:
        return GymnasiumSimulator(env, truncated_ends=truncated_ends)
    except SimulatorError as error:
        try:
            return GymnasiumSimulator(env, truncated_ends=truncated_ends, snapshot="replay")
        except SimulatorError:
            raise error from None


def _played(played: Any, simulator: Simulator, settings: ReviewSettings) -> list[Any]:
    """The given actions, as the simulator takes them."""
    if len(settings.numbers) > 1:
        raise SettingsError("played has the actions of one episode. Give episode=… instead of episodes=….")
    found = listed(played, LONGEST)
    if not found:
        raise SettingsError(f"played is {short(played)}. Give the list of the actions that were taken.")
    labels = simulator.actions
    return found if labels is None else [labels.index(action) for action in found]


def _alternatives(simulator: Simulator, actions: Any, own: bool) -> Alternatives:
    """The actions whose values are found."""
    if simulator.actions is not None:
        chosen, labels = candidate_actions(simulator.actions, actions)
        return Alternatives([labels.name(i) for i in range(labels.size)], chosen, discrete=True, own=False)
    chosen, labels = candidate_actions(None, actions)
    first = ["taken", *(["reference"] if own else [])]
    names = [*first, *(labels.name(i) for i in range(labels.size))]
    if len(set(names)) < len(names):
        raise SettingsError(
            f"actions has the name {first[0]!r} or {first[-1]!r}, which have a meaning. Give other names."
        )
    return Alternatives(names, chosen, discrete=False, own=own)
