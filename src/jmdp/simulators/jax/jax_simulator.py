"""Simulator of an environment given by JAX functions, whose only source of randomness is the key."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import settings
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.errors import CouplingError, MissingExtraError, PolicyError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.candidates import action_labels
from jmdp.simulators.digests import digest_of
from jmdp.simulators.draws import Draws
from jmdp.simulators.episodes import EpisodeDraws, EpisodePlan
from jmdp.simulators.rollouts import RolloutPlan
from jmdp.simulators.simulator import Simulator, Step

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise MissingExtraError('JAX simulators require JAX: pip install "jmdp[jax]"') from None

from jmdp.simulators.jax.lockstep import Lockstep
from jmdp.simulators.jax.policy_episodes import CompiledEpisodes, EpisodeLockstep, start_number
from jmdp.simulators.jax.rollouts import CompiledRollouts, Request, lanes_at_once
from jmdp.simulators.jax.traced_functions import (
    StepFunction,
    as_dtype,
    checked_policy_output,
    checked_step,
    numpy_leaf,
    same_function,
    stable_dtypes,
)


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """Rewards and next states of all actions under each of n shocks."""

    reward: npt.NDArray[np.floating[Any]]  # [n, A]
    state: Any  # pytree of [n, A, …]
    terminated: npt.NDArray[np.bool_]  # [n, A]


class JaxSimulator(Simulator):
    """Simulator of a function ``step(key, state, action) -> (reward, state, terminated)`` that JAX can trace.

    A state is a pytree of arrays. `terminated` means that no reward can follow; it does not include time limits. All
    randomness comes from the key. Its use must not depend on the action, otherwise actions do not share randomness.

    Parameters
    ----------
    step
        Step function of a single state, as above.
    actions
        Number of actions, or their names.
    start
        ``start(key) -> state`` draws a start state.
    observe
        ``observe(state) -> observation``, the input of a policy. Default: the state itself.
    ignore
        Names of fields of the state to ignore when states are compared, e.g. ``["key"]``. A name applies to every field
        of this name and to its contents.
    lanes
        Number of branches that a device simulates at once. A sample is bitwise independent of how many samples are
        drawn with it and of the number of devices. With another number of lanes, results may be rounded differently.
    """

    def __init__(
        self,
        step: StepFunction,
        actions: int | Sequence[str],
        *,
        start: Callable[[Any], Any] | None = None,
        observe: Callable[[Any], Any] | None = None,
        ignore: Sequence[str] = (),
        lanes: int = 4096,
    ) -> None:
        for name, function in (("step", step), ("start", start), ("observe", observe)):
            settings.function(name, function, SimulatorError, optional=name != "step")
        self.actions: Labels = action_labels(actions)
        self.lanes = lanes
        settings.whole(self, "lanes", 1, 2**24)
        self.ignore = frozenset(settings.names("ignore", ignore, SettingsError))
        self._function, self._start_function = step, start
        self._observe = _itself if observe is None else observe
        self._compile()

    def _compile(self) -> None:
        """Make the compiled functions, which are not pickled, so also after unpickling in another process."""
        self._checked_step = partial(checked_step, self._function)
        self._start = None if self._start_function is None else jax.jit(self._start_function)
        self._step = jax.jit(self._checked_step)
        self._observation = jax.jit(self._observe)
        self._table = jax.jit(jax.vmap(jax.vmap(self._checked_step, (None, None, 0)), (0, None, None)))
        self._dtypes: dict[Any, tuple[Any, ...]] = {}
        self._traced: tuple[Actor, Any, Any] | None = None  # last actor and state, and the policy to compile
        self._programs: list[tuple[Any, Any, CompiledRollouts]] = []
        self._episode_programs: list[tuple[EpisodePlan, Callable[[int, int], EpisodeDraws]]] = []

    def __getstate__(self) -> dict[str, Any]:
        compiled = (
            "_start",
            "_step",
            "_observation",
            "_table",
            "_checked_step",
            "_dtypes",
            "_traced",
            "_programs",
            "_episode_programs",
        )
        return {name: value for name, value in vars(self).items() if name not in compiled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def step(self, state: Any, action: Label, shock: Shock) -> Step:
        """Reward, next state and termination of one action under the shock's key."""
        a = np.int32(self.actions.index(action))
        reward, after, terminated = self._step(shock.key(), self.settled(state), a)
        return Step(float(reward), after, bool(terminated))

    def digest(self, state: Any) -> bytes:
        """Digest of all leaves that are not ignored, with their names."""
        leaves = self._leaves(self.settled(state))
        return digest_of({path: numpy_leaf(leaf) for path, leaf in leaves if path is not None})

    def observe(self, state: Any) -> Any:
        """Observation of a state."""
        return self._observation(self.settled(state))

    def start(self, shock: Shock) -> Any:
        """Draw a start state with the shock's key."""
        if self._start is None:
            return super().start(shock)
        return self.settled(self._start(shock.key()))

    def outcomes(self, state: Any, luck: Any, actions: Sequence[Label] | None = None) -> OutcomeTable:
        """Rewards and next states of each action (default: all) in one state, under each of n shocks or keys.

        The results equal those of `step`, but are computed in one compiled call.
        """
        if isinstance(luck, Shock) or (isinstance(luck, Sequence) and len(luck) == 0):
            raise SettingsError(f"luck is {luck!r}. Give a list of shocks, [shock], or an array of keys.")
        keys = jnp.stack([shock.key() for shock in luck]) if isinstance(luck, Sequence) else luck
        if not jnp.issubdtype(keys.dtype, jax.dtypes.prng_key):
            keys = jax.random.wrap_key_data(keys)
        if keys.ndim != 1:
            raise SettingsError(f"luck has shape {keys.shape}. Give [n] keys, e.g. jax.random.split(key, n).")
        which = self._indices(actions)
        reward, after, terminated = self._table(keys, self.settled(state), which)
        return OutcomeTable(np.asarray(reward), after, np.asarray(terminated))

    def compiled_draws(self, actor: Actor, plan: RolloutPlan) -> Callable[[int, int], Draws] | None:
        """`paired_draws` as a function of (first, count); None if JAX cannot trace the policy."""
        if self._traced is None or self._traced[0] is not actor or self._traced[1] is not plan.state:
            self._traced = actor, plan.state, actor.traceable(self.observe(plan.state))
        policy = self._traced[2]
        return None if policy is None else partial(self.paired_draws, plan, policy)

    def compiled_episodes(self, plan: EpisodePlan) -> Callable[[int, int], EpisodeDraws] | None:
        """Compiled episodes of all policies, from a small cache; None if JAX cannot trace one of them."""
        for known, program in self._episode_programs:
            same = (known.starts is plan.starts, known.coupling == plan.coupling, known.fresh == plan.fresh)
            numbers = all(getattr(known, name) == getattr(plan, name) for name in _PLAN_NUMBERS)
            if numbers and all(same) and all(map(operator.is_, known.actors, plan.actors)):
                return program
        example = self.settled(plan.starts.states[0]) if plan.starts.given else self.start(Shock(bytes(16)))
        policies = [actor.traceable(self.observe(example)) for actor in plan.actors]
        traced = [partial(_checked_policy, policy, self.actions.size) for policy in policies if policy is not None]
        if len(traced) < len(policies):
            return None
        for policy in traced:
            jax.eval_shape(policy, jax.eval_shape(self._observe, example))
        lockstep = EpisodeLockstep(
            self._checked_step,
            self._observe,
            _no_policy,
            tuple(path is not None for path, _ in self._leaves(example)),
            self.actions.size,
            len(traced),
            plan.coupling,
            policies=tuple(traced),
            draw_start=self._start_of(plan),
            fresh=plan.fresh,
        )
        lanes = lanes_at_once(example, len(traced), self.lanes)
        draw = CompiledEpisodes(lockstep, plan, example, lanes).draw
        self._episode_programs = [(plan, draw), *self._episode_programs[:7]]
        return draw

    def _start_of(self, plan: EpisodePlan) -> Callable[[Any, Any], Any]:
        """Function of a key and the number of a sample: its start state."""
        if not plan.starts.given:
            start = self._start_function
            assert start is not None
            return lambda key, sample: start(key)
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(self.settled, plan.starts.states))
        number = start_number(plan)
        return lambda key, sample: jax.tree.map(lambda leaf: leaf[number(key, sample)], states)

    def paired_draws(self, plan: RolloutPlan, policy: Any, first: int, count: int) -> Draws:
        """Returns of the actions under shared randomness, followed by the policy: samples first … first + count − 1.

        Sample k depends only on the seed and k. Samples are distributed over all devices. A multiple of
        `samples_at_once` is most efficient, because incomplete blocks are padded.

        Parameters
        ----------
        policy
            Function that JAX can trace, from an observation to the probabilities of all actions or to an integer
            action; or a pair (function, parameters), called as ``function(parameters, observation)``, which is not
            recompiled if only the parameters change.
        """
        if not isinstance(plan.coupling, Coupling):
            raise CouplingError(f"coupling is {plan.coupling!r}. Use Local(), Synchronous() or Independent().")
        request = Request(plan.discount, plan.horizon, plan.seed, first, count)
        state, which = self.settled(plan.state), self._indices(plan.actions)
        function, parameters = policy if isinstance(policy, tuple) and len(policy) == 2 else (policy, None)
        if not callable(function):
            raise PolicyError(f"policy is {policy!r}. Give a function of an observation, or (function, parameters).")
        program = self._program(state, which.size, function, isinstance(policy, tuple), parameters, plan.coupling)
        return program.draws(state, parameters, which, plan.branches, request)

    def trace(self, state: Any) -> str:
        """Traced program (jaxpr) of a step as text; nothing is compiled."""
        traced = jax.make_jaxpr(lambda *given: self._checked_step(*given))
        return str(traced(jax.random.key(0), self.settled(state), jnp.int32(0)))

    def generators(self, state: Any) -> dict[str, Any]:
        """Empty: JAX functions draw random numbers from their key only."""
        return {}

    def samples_at_once(self, state: Any, branches: int) -> int:
        """Number of samples drawn in one compiled call on all devices."""
        most = self._most_branches(branches)
        return lanes_at_once(self.settled(state), most, self.lanes) // branches * jax.local_device_count()

    def settled(self, state: Any) -> Any:
        """State with its leaves converted to arrays of the types that `step` returns."""
        leaves, tree = jax.tree.flatten(state)
        key = (tree, *((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves))
        dtypes = self._dtypes.get(key)
        if dtypes is None:
            dtypes = self._dtypes[key] = stable_dtypes(self._checked_step, state)
        return jax.tree.unflatten(tree, [as_dtype(leaf, dtype) for leaf, dtype in zip(leaves, dtypes, strict=True)])

    def _leaves(self, state: Any) -> list[tuple[str | None, Any]]:
        """Leaves with their paths; the path is None for ignored leaves."""
        found: list[tuple[str | None, Any]] = []
        fields: set[str] = set()
        for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
            names = {str(getattr(part, "name", getattr(part, "key", getattr(part, "idx", part)))) for part in path}
            fields |= names
            found.append((None if names & self.ignore else jax.tree_util.keystr(path), leaf))
        unknown = sorted(self.ignore - fields)
        if unknown:
            raise SettingsError(
                f"ignore names {unknown[0]!r}, but the fields of a state are {', '.join(sorted(fields))}."
            )
        return found

    def _indices(self, actions: Sequence[Label] | None) -> npt.NDArray[np.int32]:
        if actions is None:
            return np.arange(self.actions.size, dtype=np.int32)
        if isinstance(actions, str) or not hasattr(actions, "__len__") or len(actions) == 0:
            raise SettingsError(f"actions is {actions!r}. Give a list of at least one action.")
        return np.array([self.actions.index(action) for action in actions], np.int32)

    def _most_branches(self, branches: int) -> int:
        """Number of branches for which a program is compiled, so that one program simulates any subset of actions."""
        few = 64  # programs for more branches take long to compile; their numbers are rounded up to powers of 2
        return max(branches, min(self.actions.size, few)) if branches <= few else 1 << (branches - 1).bit_length()

    def _program(
        self, state: Any, branches: int, function: Any, parametric: bool, parameters: Any, coupling: Coupling
    ) -> CompiledRollouts:
        """Compiled rollouts, from a small cache."""
        counts = tuple(path is not None for path, _ in self._leaves(state))
        most = self._most_branches(branches)
        lanes = lanes_at_once(state, most, self.lanes)
        key = (most, parametric, type(coupling), coupling, counts, lanes)
        for known, owner, program in self._programs:
            if known == key and same_function(owner, function):
                return program

        def policy(parameters: Any, observation: Any) -> jax.Array:
            given = function(parameters, observation) if parametric else function(observation)
            return checked_policy_output(given, self.actions.size)

        jax.eval_shape(policy, parameters, jax.eval_shape(self._observe, state))
        lockstep = Lockstep(self._checked_step, self._observe, policy, counts, self.actions.size, most, coupling)
        program = CompiledRollouts(lockstep, lanes)
        self._programs = [(key, function, program), *self._programs[:7]]
        return program

    def __repr__(self) -> str:
        return f"JaxSimulator({self.actions.size} actions)"


_PLAN_NUMBERS = ("discount", "horizon", "seed", "branches", "stratify")


def _checked_policy(policy: Callable[[Any], Any], actions: int, observation: Any) -> jax.Array:
    return checked_policy_output(policy(observation), actions)


def _no_policy(parameters: Any, observation: Any) -> Any:
    """Placeholder for the policy of a `Lockstep` if each branch has its own."""


def _itself(state: Any) -> Any:
    return state
