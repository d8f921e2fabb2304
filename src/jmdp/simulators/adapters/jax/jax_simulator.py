"""Simulator of an environment given by JAX functions, whose only source of randomness is the key.

Checks of user-defined functions while JAX traces them: return values, and dtypes of states.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.base import settings
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.errors import CouplingError, MissingExtraError, PolicyError, SettingsError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.adapters.jax.lockstep import Lockstep
from jmdp.simulators.adapters.jax.rollouts import (
    CompiledEpisodes,
    CompiledRollouts,
    EpisodeLockstep,
    Request,
    lanes_at_once,
    start_number,
)
from jmdp.simulators.digests import digest_of
from jmdp.simulators.rollouts.draws import Draws, EpisodeDraws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.simulator import Simulator, Step, action_labels

StepFunction = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
"""step(key, state, action) -> (reward, state, terminated)."""


def checked_step(function: StepFunction, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
    """Call the user's step function; raise during tracing if its return value is invalid."""
    given = function(key, state, action)
    if not isinstance(given, tuple) or len(given) != 3:
        raise SimulatorError(f"step returned {_described(given)}. Return (reward, state, terminated).")
    reward, after, terminated = given[0], jax.tree.map(_strongly_typed, given[1]), given[2]
    for name, value in (("reward", reward), ("terminated", terminated)):
        if not isinstance(value, (bool, int, float, np.generic, np.ndarray, jax.Array)) or jnp.shape(value) != ():
            raise SimulatorError(f"step returned {_described(value)} as {name}. Return a scalar for one state.")
    old: Any = jax.tree.structure(state)
    new: Any = jax.tree.structure(after)
    if old != new:
        raise SimulatorError(f"step received a state {old} and returned {new}. Return a state with the same fields.")
    for (path, before), leaf in zip(
        jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(after), strict=True
    ):
        if jnp.shape(before) != jnp.shape(leaf):
            raise SimulatorError(
                f"step changes the state's {jax.tree_util.keystr(path)} from shape {jnp.shape(before)} to "
                f"{jnp.shape(leaf)}. Return it with the same shape."
            )
    number = jnp.asarray(reward)
    number = number.astype(jnp.promote_types(number.dtype, jnp.float32))
    return number, after, jnp.asarray(terminated).astype(bool)


def checked_policy_output(given: Any, A: int) -> jax.Array:
    """Check the return value of the user's policy during tracing: an action, or probabilities [A]."""
    shape = jnp.shape(given) if hasattr(given, "dtype") or isinstance(given, int) else None
    action = shape == () and jnp.issubdtype(jnp.asarray(given).dtype, jnp.integer)
    probabilities = shape == (A,) and jnp.issubdtype(given.dtype, jnp.floating)
    if not (action or probabilities):
        raise PolicyError(
            f"The policy returned {_described(given)} for one observation. Return the probabilities of all {A} "
            f"actions, floats of shape ({A},), or one action, an integer of shape ()."
        )
    return jnp.asarray(given)


def stable_dtypes(step: StepFunction, state: Any) -> tuple[Any, ...]:
    """Dtypes of the leaves of a state that a step preserves."""
    try:
        leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, state))
    except TypeError as error:
        raise SimulatorError(f"A leaf of the state is not an array: {error}. Give a pytree of arrays.") from None
    for _ in range(2):
        given = jax.tree.unflatten(tree, leaves)
        after = jax.eval_shape(step, jax.random.key(0), given, jnp.int32(0))[1]
        new = jax.tree.leaves(after)
        if [leaf.dtype for leaf in new] == [leaf.dtype for leaf in leaves]:
            return tuple(leaf.dtype for leaf in leaves)
        leaves = [as_dtype(leaf, target.dtype) for leaf, target in zip(leaves, new, strict=True)]
    i = next(i for i, leaf in enumerate(leaves) if leaf.dtype != new[i].dtype)
    name = jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(state)[0][i][0])
    raise SimulatorError(
        f"step changes the state's {name} from {leaves[i].dtype} to {new[i].dtype}. Return it with its dtype, using "
        ".astype(…)."
    )


def same_function(one: Any, other: Any) -> bool:
    """True if these are one function, or two with the same code and the same enclosed objects."""
    if one is other or not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return one is other
    parts = [
        (f.__code__, f.__globals__, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(),
         *(cell.cell_contents for cell in f.__closure__ or ()))
        for f in (one, other)
    ]  # fmt: skip
    return len(parts[0]) == len(parts[1]) and all(map(operator.is_, *parts))


def as_dtype(leaf: Any, dtype: Any) -> jax.Array:
    """Convert to an array of this dtype that is not weakly typed, because JAX recompiles for weak types."""
    if isinstance(leaf, jax.Array) and leaf.dtype == dtype and not getattr(leaf, "weak_type", False):
        return leaf
    return jnp.asarray(leaf, dtype)


def _strongly_typed(leaf: Any) -> jax.Array:
    array = jnp.asarray(leaf)
    return as_dtype(array, array.dtype)


def numpy_leaf(leaf: jax.Array) -> npt.NDArray[Any]:
    """Convert a leaf to an array with a NumPy dtype."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {jnp.shape(value)}"
    return f"{len(value)} values" if isinstance(value, tuple) else f"a {type(value).__name__}"


try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise MissingExtraError('JAX simulators require JAX: pip install "jmdp[jax]"') from None


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
        self._counts: dict[Any, tuple[bool, ...]] = {}  # by structure of states
        self.checked: dict[Any, bool] = {}  # by kind of state, once a traced step was checked: whether it calls Python
        self._traced: tuple[Actor, Any, Any] | None = None  # last actor and state, and the policy to compile
        self._programs: list[tuple[Any, Any, CompiledRollouts]] = []
        self._episode_programs: list[tuple[BranchPlan, Callable[[int, int], EpisodeDraws]]] = []

    def __getstate__(self) -> dict[str, Any]:
        compiled = (
            "_start",
            "_step",
            "_observation",
            "_table",
            "_checked_step",
            "_dtypes",
            "_counts",
            "checked",
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

    def program(self, plan: BranchPlan) -> Callable[[int, int], Draws] | None:
        """Compiled rollouts or episodes, as a function of (first, count); None if JAX cannot trace a policy."""
        return self._episodes(plan) if plan.actions is None else self._rollouts(plan, plan.actors[0])

    def _rollouts(self, plan: BranchPlan, actor: Actor) -> Callable[[int, int], Draws] | None:
        """`paired_draws` as a function of (first, count)."""
        if self._traced is None or self._traced[0] is not actor or self._traced[1] is not plan.state:
            self._traced = actor, plan.state, actor.traceable(self.observe(plan.state))
        policy = self._traced[2]
        return None if policy is None else partial(self.paired_draws, plan, policy)

    def _episodes(self, plan: BranchPlan) -> Callable[[int, int], EpisodeDraws] | None:
        """Compiled episodes of all policies, from a small cache."""
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
            self._compared(example),
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

    def _start_of(self, plan: BranchPlan) -> Callable[[Any, Any], Any]:
        """Function of a key and the number of a sample: its start state."""
        if not plan.starts.given:
            start = self._start_function
            assert start is not None
            return lambda key, sample: start(key)
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(self.settled, plan.starts.states))
        number = start_number(plan)
        return lambda key, sample: jax.tree.map(lambda leaf: leaf[number(key, sample)], states)

    def paired_draws(self, plan: BranchPlan, policy: Any, first: int, count: int) -> Draws:
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

    def kind(self, state: Any) -> Any:
        """What the traced program of a step depends on: structure, shapes and dtypes of the state."""
        leaves, tree = jax.tree.flatten(self.settled(state))
        return tree, tuple((leaf.shape, leaf.dtype) for leaf in leaves)

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

    def _compared(self, state: Any) -> tuple[bool, ...]:
        """For each leaf, whether it is used to compare states."""
        tree = jax.tree.structure(state)
        if tree not in self._counts:
            self._counts[tree] = tuple(path is not None for path, _ in self._leaves(state))
        return self._counts[tree]

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
        counts = self._compared(state)
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
