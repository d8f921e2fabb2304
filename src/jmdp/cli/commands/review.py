"""`jmdp review`: an episode step by step; which decisions were wrong, and what was luck."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import tyro

import jmdp
from jmdp.cli.command import Actions, Exit, Optionally
from jmdp.cli.environments import ACTIONS_HELP, EnvName, environment
from jmdp.cli.loading import Found, LoadingPolicies, Reporting
from jmdp.cli.options import StartStates, start_states
from jmdp.cli.policy_files import FILES_HELP
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.reviews.playing import review
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews
from jmdp.reviews.rollout_values import LookaheadValues, RolloutValues

_POLICY = (
    "uniform; an action by name or number, taken in every step; comma-separated actions, one per state, 0,3,3,1; a "
    f"policy of the world, by name; {FILES_HELP}."
)


@dataclass(frozen=True, kw_only=True)
class ReviewCommand(LoadingPolicies, Reporting):
    """Review an episode: was it bad luck or a bad decision?

    Plays an episode and splits its return into expectation, skill and luck. For every step it finds what each action
    would have earned on average from there, and what it would have earned in the same luck. The worst decisions are
    printed; with --episodes, the states in which most is lost. ENV comes first, options after it.
    """

    examples: ClassVar = {
        "jmdp review Blackjack-v1 --policy 1 --discount 1 --horizon 20 --seed 3": "always hit: which cards were bad "
        "luck?",
        "jmdp review world:inventory --policy base_stock --report page.html": "an exact review of a table, as a page",
        "jmdp review FrozenLake-v1 --policy uniform --discount 0.95 --episodes 100": "where a policy loses most, over "
        "a hundred episodes",
    }

    env: EnvName
    policy: Annotated[str, tyro.conf.arg(metavar="POLICY", help=f"Policy to review: {_POLICY}")]
    reference: Annotated[Optionally[str], tyro.conf.arg(metavar="POLICY")] = None
    """Policy whose values are used, and which follows after every other action. By default the reviewed one."""
    played: Actions = ()
    """Actions that were taken, by name or number. The policy is then the reference only."""
    episode: int = 0
    """Number of the episode; each has its own randomness."""
    episodes: Annotated[Optionally[int], tyro.conf.arg(metavar="COUNT")] = None
    """Number of episodes to review, instead of one."""
    starts: StartStates = ()
    steps: Annotated[Optionally[tuple[int, int]], tyro.conf.arg(metavar="FIRST STOP")] = None
    """Steps to review, without STOP. By default all of them."""
    actions: Annotated[Actions, tyro.conf.arg(help=f"Actions whose values are found, {ACTIONS_HELP}")] = ()
    rollouts: Annotated[Optionally[int], tyro.conf.arg(metavar="COUNT")] = None
    """Rollouts of each action from each state. By default 128 for one episode; tables are exact."""
    lookahead: Annotated[Optionally[int], tyro.conf.arg(metavar="COUNT")] = None
    """Steps of lookahead of each action, with values fitted to the other episodes. By default 16 with --episodes."""
    discount: Optionally[float] = None
    """Discount factor per step. Tables have their own; with 1, a return is the sum over the whole episode."""
    horizon: Optionally[int] = None
    """Largest number of steps of an episode. By default the time limit if discount is 1."""
    seed: int = 0
    """Random seed of all draws."""
    confidence: float = 0.95
    """Confidence level of each interval."""
    pool: Annotated[Optionally[int], tyro.conf.arg(metavar="WORKERS")] = None
    """Number of worker processes. The result does not depend on it."""

    def policy_texts(self) -> Sequence[str]:
        """Return the policies as given."""
        return [self.policy, *([] if self.reference is None else [self.reference])]

    def found(self, stack: ExitStack) -> Found:
        """Review."""
        chosen = environment(self.env, self.loader(), frames=self.report is not None)
        simulator = chosen.episode_simulator(digests=False)
        if self.discount is None and simulator.discount is None:
            raise SettingsError(f"{simulator!r} has no discount. Give one, e.g. --discount 1 for whole episodes.")
        policy, *others = (chosen.policy(simulator, text) for text in self.policy_texts())
        self.refuse_unused_net()
        found = review(
            chosen.source,
            policy,
            seed=self.seed,
            reference=others[0] if others else None,
            played=chosen.actions(simulator, self.played) or None,
            episode=self.episode,
            episodes=self.episodes,
            starts=start_states(self.starts, chosen),
            steps=None if self.steps is None else range(*self.steps),
            actions=chosen.candidates(simulator, self.actions),
            method=self._method(),
            discount=self.discount,
            horizon=self.horizon,
            confidence=self.confidence,
            pool=self.pool,
            progress=not self.quiet,
        )
        code = Exit.INTERRUPTED if found.outcome is Outcome.INTERRUPTED else Exit.YES
        return Found(found, found, lambda: self._record(found), code)

    def _method(self) -> RolloutValues | LookaheadValues | None:
        if self.rollouts is not None and self.lookahead is not None:
            raise SettingsError("--rollouts and --lookahead exclude each other. Give one of them.")
        if self.rollouts is not None:
            return RolloutValues(self.rollouts)
        return None if self.lookahead is None else LookaheadValues(samples=self.lookahead)

    def _record(self, found: Review | Reviews) -> dict[str, Any]:
        """The numbers behind the text."""
        first = found if isinstance(found, Review) else found.first
        asked = ("simulator", "policy", "reference", "method", "discount", "seed", "confidence")
        common = {"env": self.env, "answer": found.answer, **{name: getattr(first, name) for name in asked}}
        common["jmdp"] = jmdp.__version__
        if isinstance(found, Review):
            parts = {
                name: getattr(found, name) for name in ("earned", "final", "expectation", "skill", "luck", "regret")
            }
            return {**common, "episode": found.episode, **parts, "steps": found.rows()}
        return {
            **common,
            "episodes": len(found),
            "mean": found.mean,
            "corrected": found.corrected,
            "episodes_factor": found.episodes_factor,
            "simulated_steps_per_step": found.cost,
            "shares": found.shares,
            "states": found.rows(),
        }
