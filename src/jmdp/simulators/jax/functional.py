"""Environments that are functions of JAX: the luck is the key, and `vmap` over actions is the outcome table."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base import settings
from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.errors import CouplingError, MissingExtraError, PolicyError, SettingsError, SimulatorError
from jmdp.models.coupling import Coupling
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Draws, Simulator, Step, action_labels

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise MissingExtraError('Simulators in JAX need JAX: pip install "jmdp[jax]"') from None

from jmdp.simulators.jax.rollouts import Program, Recipe, samples_at_once

StepFunction = Callable[[Any, Any, Any], tuple[Any, Any, Any]]
"""step(key, state, action) -> (reward, state, terminated)."""


@dataclass(frozen=True, eq=False)
class OutcomeTable:
    """What every action would have met, shock by shock."""

    reward: npt.NDArray[np.floating[Any]]  # [n, A]
    state: Any  # pytree of [n, A, …]
    terminated: npt.NDArray[np.bool_]  # [n, A]


@dataclass(frozen=True)
class _Request:
    """Which samples are asked for."""

    discount: float
    horizon: int
    seed: int
    first: int
    count: int

    def __post_init__(self) -> None:
        settings.nonnegative(self, "discount")
        if self.discount > 1:
            raise SettingsError(f"discount is {self.discount!r}. Give a number from 0 to 1.")
        settings.whole(self, "horizon", 1, 2**31 - 64)
        settings.whole(self, "seed", 0, 2**64 - 1)
        settings.whole(self, "first", 0, 2**31)
        settings.whole(self, "count", 1, 2**31 - self.first)


class JaxSimulator(Simulator):
    """Any function ``step(key, state, action) -> (reward, state, terminated)`` that JAX can trace.

    A state is a pytree of arrays; `terminated` means that nothing is earned from there on, and no time limit. All luck
    comes from the key: what it is used for must not depend on the action, or actions do not meet the same.

    Parameters
    ----------
    step
        As above, of one state.
    actions
        Their number, or their names.
    start
        ``start(key) -> state``.
    observe
        ``observe(state) -> observation``, what a policy sees; without it the state.
    ignore
        Fields of the state that do not count when states are compared, e.g. ``["key"]``. A name stands for every field
        of this name and for all that is in it.
    lanes
        How many branches a device simulates at once. A sample does not depend on how many are drawn with it, nor on the
        number of devices, to the last bit; but another number of lanes is another program and may round differently.
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
            if not callable(function) and (name == "step" or function is not None):
                raise SimulatorError(f"{name} is {function!r}. Give a function.")
        if isinstance(ignore, str):
            raise SettingsError(f"ignore is {ignore!r}. Give a list of names, [{ignore!r}].")
        self.actions: Labels = action_labels(actions)
        self.lanes = lanes
        settings.whole(self, "lanes", 1, 2**24)
        self.ignore = frozenset(ignore)
        self._function, self._start_function = step, start
        self._observe = _itself if observe is None else observe
        self._compile()

    def _compile(self) -> None:
        """What follows from the functions, and is made again in another process."""
        self._start = None if self._start_function is None else jax.jit(self._start_function)
        self._step = jax.jit(self._checked_step)
        self._observation = jax.jit(self._observe)
        self._table = jax.jit(jax.vmap(jax.vmap(self._checked_step, (None, None, 0)), (0, None, None)))
        self._kinds: dict[Any, tuple[Any, ...]] = {}
        self._programs: list[tuple[Any, Any, Program]] = []

    def __getstate__(self) -> dict[str, Any]:
        compiled = ("_start", "_step", "_observation", "_table", "_kinds", "_programs")
        return {name: value for name, value in vars(self).items() if name not in compiled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()

    def step(self, state: Any, action: Label, shock: Shock) -> Step:
        """What the action does under the shock's key."""
        a = np.int32(self.actions.index(action))
        reward, after, terminated = self._step(shock.key(), self.settled(state), a)
        return Step(float(reward), after, bool(terminated))

    def digest(self, state: Any) -> bytes:
        """Of all leaves that are not ignored, with their names."""
        return digest_of({path: _plain(leaf) for path, leaf in self._leaves(self.settled(state)) if path is not None})

    def observe(self, state: Any) -> Any:
        """What a policy sees of a state."""
        return self._observation(self.settled(state))

    def start(self, shock: Shock) -> Any:
        """A state drawn with the shock's key."""
        if self._start is None:
            return super().start(shock)
        return self.settled(self._start(shock.key()))

    def outcomes(self, state: Any, luck: Any, actions: Sequence[Label] | None = None) -> OutcomeTable:
        """What each action (all, unless some are given) does in the state under each of n shocks or keys.

        Equal to single steps, in one compiled call.
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

    def paired_draws(
        self,
        state: Any,
        actions: Sequence[Label] | None,
        policy: Any,
        coupling: Coupling,
        *,
        discount: float,
        horizon: int,
        seed: int,
        first: int = 0,
        count: int,
    ) -> Draws:
        """Returns of the actions under shared luck, the policy followed afterwards: samples first … first + count − 1.

        Sample k is a function of the seed and k alone, whatever else is drawn and on however many devices; samples are
        spread over all of them. Best ask for a multiple of `samples_at_once`: others are filled up.

        Parameters
        ----------
        policy
            A function that JAX can trace, from an observation to the probabilities of all actions or to one action as a
            whole number; or a pair (function, parameters) of ``function(parameters, observation)``, which is not
            compiled again for other parameters.
        """
        if not isinstance(coupling, Coupling):
            raise CouplingError(f"coupling is {coupling!r}. Use Local(), Synchronous() or Independent().")
        request = _Request(discount, horizon, seed, first, count)
        state, which = self.settled(state), self._indices(actions)
        function, parameters = policy if isinstance(policy, tuple) and len(policy) == 2 else (policy, None)
        if not callable(function):
            raise PolicyError(f"policy is {policy!r}. Give a function of an observation, or (function, parameters).")
        program = self._program(state, which.size, function, isinstance(policy, tuple), parameters, coupling)
        return program.draws(state, parameters, which, **vars(request))

    def trace(self, state: Any) -> str:
        """The program of a step, traced again; nothing is compiled."""
        traced = jax.make_jaxpr(lambda *given: self._checked_step(*given))
        return str(traced(jax.random.key(0), self.settled(state), jnp.int32(0)))

    def generators(self, state: Any) -> dict[str, Any]:
        """None: a function of JAX draws from its key alone."""
        return {}

    def samples_at_once(self, state: Any, branches: int) -> int:
        """How many samples are drawn in one compiled call on all devices."""
        return samples_at_once(self.settled(state), branches, self.lanes) * jax.local_device_count()

    def settled(self, state: Any) -> Any:
        """The state with leaves that are arrays of the types that `step` returns."""
        leaves, tree = jax.tree.flatten(state)
        key = (tree, *((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves))
        kinds = self._kinds.get(key)
        if kinds is None:
            kinds = self._kinds[key] = self._stable_kinds(state)
        return jax.tree.unflatten(tree, [_as_kind(leaf, kind) for leaf, kind in zip(leaves, kinds, strict=True)])

    def _stable_kinds(self, state: Any) -> tuple[Any, ...]:
        """Types of the leaves that a step leaves as they are."""
        try:
            leaves, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, state))
        except TypeError as error:
            raise SimulatorError(f"A state holds what is no array: {error}. Give a pytree of arrays.") from None
        for _ in range(2):
            given = jax.tree.unflatten(tree, leaves)
            after = jax.eval_shape(self._checked_step, jax.random.key(0), given, jnp.int32(0))[1]
            new = jax.tree.leaves(after)
            if [leaf.dtype for leaf in new] == [leaf.dtype for leaf in leaves]:
                return tuple(leaf.dtype for leaf in leaves)
            leaves = [_as_kind(leaf, target.dtype) for leaf, target in zip(leaves, new, strict=True)]
        i = next(i for i, leaf in enumerate(leaves) if leaf.dtype != new[i].dtype)
        name = jax.tree_util.keystr(jax.tree_util.tree_flatten_with_path(state)[0][i][0])
        raise SimulatorError(
            f"step turns the state's {name} from {leaves[i].dtype} into {new[i].dtype}. Return it as it came, with "
            ".astype(…)."
        )

    def _checked_step(self, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """The user's step, refused while it is traced if what it returns is no outcome."""
        given = self._function(key, state, action)
        if not isinstance(given, tuple) or len(given) != 3:
            raise SimulatorError(f"step returned {_shape(given)}. It returns (reward, state, terminated).")
        reward, after, terminated = given[0], jax.tree.map(_strong, given[1]), given[2]
        for name, value in (("reward", reward), ("terminated", terminated)):
            if not isinstance(value, (bool, int, float, np.generic, np.ndarray, jax.Array)) or jnp.shape(value) != ():
                raise SimulatorError(f"step returned {_shape(value)} as {name}. It is one number for one state.")
        old: Any = jax.tree.structure(state)
        new: Any = jax.tree.structure(after)
        if old != new:
            raise SimulatorError(f"step was given a state {old} and returned {new}. They have the same fields.")
        for (path, before), leaf in zip(
            jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(after), strict=True
        ):
            if jnp.shape(before) != jnp.shape(leaf):
                raise SimulatorError(
                    f"step turns the state's {jax.tree_util.keystr(path)} from shape {jnp.shape(before)} into "
                    f"{jnp.shape(leaf)}. Shapes stay."
                )
        number = jnp.asarray(reward)
        number = number.astype(jnp.promote_types(number.dtype, jnp.float32))
        return number, after, jnp.asarray(terminated).astype(bool)

    def _leaves(self, state: Any) -> list[tuple[str | None, Any]]:
        """Leaves with their paths; None for those that do not count."""
        found: list[tuple[str | None, Any]] = []
        met: set[str] = set()
        for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
            names = {str(getattr(part, "name", getattr(part, "key", getattr(part, "idx", part)))) for part in path}
            met |= names
            found.append((None if names & self.ignore else jax.tree_util.keystr(path), leaf))
        unknown = sorted(self.ignore - met)
        if unknown:
            raise SettingsError(
                f"ignore names {unknown[0]!r}, but a state has no such field: {', '.join(sorted(met))}."
            )
        return found

    def _indices(self, actions: Sequence[Label] | None) -> npt.NDArray[np.int32]:
        if actions is None:
            return np.arange(self.actions.size, dtype=np.int32)
        if isinstance(actions, str) or not hasattr(actions, "__len__") or len(actions) == 0:
            raise SettingsError(f"actions is {actions!r}. Give a list of at least one action.")
        return np.array([self.actions.index(action) for action in actions], np.int32)

    def _program(
        self, state: Any, branches: int, function: Any, parametric: bool, parameters: Any, coupling: Coupling
    ) -> Program:
        """The compiled rollouts, from the last few if they are among them."""
        counts = tuple(path is not None for path, _ in self._leaves(state))
        samples = samples_at_once(state, branches, self.lanes)
        key = (branches, parametric, type(coupling), coupling, counts, samples)
        for known, owner, program in self._programs:
            if known == key and _same(owner, function):
                return program

        def policy(parameters: Any, observation: Any) -> jax.Array:
            given = function(parameters, observation) if parametric else function(observation)
            return self._checked_policy(given)

        jax.eval_shape(policy, parameters, jax.eval_shape(self._observe, state))
        recipe = Recipe(self._checked_step, self._observe, policy, counts, self.actions.size, branches, coupling)
        program = Program(recipe, samples)
        self._programs = [(key, function, program), *self._programs[:7]]
        return program

    def __repr__(self) -> str:
        return f"JaxSimulator({self.actions.size} actions)"

    def _checked_policy(self, given: Any) -> jax.Array:
        A = self.actions.size
        shape = jnp.shape(given) if hasattr(given, "dtype") or isinstance(given, int) else None
        action = shape == () and jnp.issubdtype(jnp.asarray(given).dtype, jnp.integer)
        probabilities = shape == (A,) and jnp.issubdtype(given.dtype, jnp.floating)
        if not (action or probabilities):
            raise PolicyError(
                f"The policy returned {_shape(given)} for one observation. It returns the probabilities of all {A} "
                f"actions, floats of shape ({A},), or one action, a whole number of shape ()."
            )
        return jnp.asarray(given)


def _itself(state: Any) -> Any:
    return state


def _same(one: Any, other: Any) -> bool:
    """Are these one function, or one made twice of the same code and the same objects?"""
    if one is other or not (isinstance(one, FunctionType) and isinstance(other, FunctionType)):
        return one is other
    parts = [
        (f.__code__, f.__globals__, *(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values(),
         *(cell.cell_contents for cell in f.__closure__ or ()))
        for f in (one, other)
    ]  # fmt: skip
    return len(parts[0]) == len(parts[1]) and all(map(operator.is_, *parts))


def _as_kind(leaf: Any, kind: Any) -> jax.Array:
    """An array of this type for good: JAX compiles again for numbers whose type is only supposed."""
    if isinstance(leaf, jax.Array) and leaf.dtype == kind and not getattr(leaf, "weak_type", False):
        return leaf
    return jnp.asarray(leaf, kind)


def _strong(leaf: Any) -> jax.Array:
    array = jnp.asarray(leaf)
    return _as_kind(array, array.dtype)


def _plain(leaf: jax.Array) -> npt.NDArray[Any]:
    """A leaf as an array of NumPy's own types."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _shape(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {jnp.shape(value)}"
    return f"{len(value)} values" if isinstance(value, tuple) else f"a {type(value).__name__}"
