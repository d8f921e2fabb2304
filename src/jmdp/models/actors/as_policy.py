"""`as_policy`: convert arrays, functions, stable-baselines3 models, torch and ONNX networks to one interface."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, refuse_large
from jmdp.base.labels import Labels, PolicyLike
from jmdp.base.luck import Shock
from jmdp.base.settings import boolean_value, short
from jmdp.errors import PolicyError, SettingsError
from jmdp.models.actors.actor import Actor, ReadActor, Reading, RecurrentModel, RememberingActor, numpy_of, takes_luck
from jmdp.models.actors.trained_policies import (
    Batched,
    Predict,
    fingerprint,
    is_estimator,
    is_session,
    onnx_network,
    scikit_learn,
    stable_baselines,
    stacked,
    torch_module,
)
from jmdp.models.policy import TabularPolicy, array_policy
from jmdp.models.tabular import TabularJMDP


def as_policy(
    policy: PolicyLike,
    actions: Labels | None,
    *,
    logits: bool | None = None,
    greedy: bool = False,
    memory: bool = False,
    name: str | None = None,
    table: TabularJMDP | None = None,
) -> Actor:
    """Convert a policy of any supported kind to an `Actor`, the interface that rollouts use.

    Parameters
    ----------
    policy
        - probabilities ``[S, A]``, a `TabularPolicy`, or one action per state ``[S]``; observations must then be
          indices of states. For a table also ``{state: action}`` and ``{state: {action: probability}}``, by label;
        - ``f(obs)``, ``f(obs, rng)`` or ``(apply, params)``, which return an action or a probability for each action.
          All randomness must come from `rng`. Functions that return JAX arrays are compiled if possible;
        - a torch module, called on a batch, that returns logits or, for continuous actions, the action itself;
        - a stable-baselines3 model: its distribution over discrete actions, otherwise (DQN; SAC, TD3 and PPO with
          continuous actions) ``predict(obs, deterministic=True)``, because random predictions would use torch's global
          generator. If the model has a VecNormalize, it is applied to the observations;
        - an ``onnxruntime.InferenceSession`` whose inputs and output are batches. A dictionary of observations is given
          to the inputs by name. The output is the only one, or the first of those called logits, probabilities and
          action: numbers ``[batch, A]`` are logits, or probabilities if the output is called so; integers ``[batch]``
          are actions. For continuous actions it is the action itself. Worker processes make the session again, with
          the same providers and default options;
        - a scikit-learn estimator: ``predict_proba``, otherwise ``predict``, on a batch;
        - any other object with ``predict(obs)``, called for one observation, that returns the action or (action, None);
        - ``"uniform"``: all actions equally likely, for simulators with discrete actions;
        - with `memory`, an object with ``reset()`` that is called as ``f(obs)`` or ``f(obs, rng)`` and may use earlier
          observations. Each episode uses its own copy (``copy.deepcopy``), after a reset. A recurrent model of
          sb3-contrib needs no ``reset()``;
        - an `Actor`, which is returned unchanged.
    actions
        Discrete actions of the simulator; None for other action spaces.
    logits
        Whether the numbers returned for each action are logits. Default: True for torch modules and for ONNX networks
        whose output is not called probabilities, False otherwise.
    greedy
        Use the most likely action instead of a random one, as ``deterministic=True`` does in stable-baselines3.
    memory
        Whether the policy may depend on earlier observations of an episode. Only `compare_policies` allows this,
        because it simulates whole episodes.
    name
        Name of the policy in messages, in addition to its kind.
    table
        Table whose states the observations number; None for other simulators. Its policies are those that
        `TabularPolicy.of` takes too, such as ``{state: action}`` by label, and a function receives the label of a state
        and returns that of an action.
    """
    if not (actions is None or isinstance(actions, Labels)):
        raise SettingsError(f"actions is {short(actions)}. Give the actions of the simulator: simulator.actions.")
    for setting, value in {"logits": logits is not None and logits, "greedy": greedy, "memory": memory}.items():
        boolean_value(setting, value)
    said = _name(policy) if name is None else f"{short(name)} ({_name(policy)})"
    reading = Reading(said, actions, bool(logits), greedy)
    if isinstance(policy, Actor):
        return policy
    if policy is None:
        raise PolicyError(f"No policy is given. For equally likely actions, use policy='uniform'. {_ACCEPTED}")
    if isinstance(policy, type):
        raise PolicyError(f"The policy is the class {policy.__name__}, not an instance. Use {policy.__name__}(…).")
    if isinstance(policy, str):
        return _uniform(policy, actions)
    if hasattr(policy, "predict") and hasattr(policy, "action_space") and hasattr(policy, "observation_space"):
        recurrent = hasattr(getattr(policy, "policy", policy), "lstm_actor")
        return RecurrentModel(policy, reading) if memory and recurrent else stable_baselines(policy, reading)
    if isinstance(policy, getattr(sys.modules.get("torch.nn"), "Module", ())):
        return torch_module(policy, replace(reading, logits=logits is not False), logits is None)
    if is_session(policy):
        return onnx_network(policy, reading, logits)
    if is_estimator(policy):
        return scikit_learn(policy, reading)
    if callable(getattr(policy, "predict", None)):
        return _Function(Predict.of(policy, reading), reading)
    if isinstance(policy, tuple) and len(policy) == 2 and callable(policy[0]) and not callable(policy[1]):
        return _Function(lambda observation: policy[0](policy[1], observation), reading)
    array = isinstance(policy, (TabularPolicy, list, tuple)) or hasattr(policy, "__array__")
    if table is not None and (array or isinstance(policy, Mapping)):
        return _TableActor(TabularPolicy.of(policy, table), reading)
    if array:
        return _TableActor(array_policy(policy, actions), reading)
    if callable(policy) and memory and callable(getattr(policy, "reset", None)):
        return RememberingActor(policy, replace(reading, table=table))
    if callable(policy) and table is not None and not takes_luck(policy, reading):
        try:
            return _TableActor(TabularPolicy.of(policy, table), reading)
        except Exception as error:
            error.add_note(f"The policy is {said}.")
            raise
    if callable(policy):
        return _Function(policy, replace(reading, table=table))
    acts = callable(getattr(policy, "act", None)) * " Its method act may be one: lambda seen: agent.act(seen)."
    raise PolicyError(f"An object of type {type(policy).__name__} cannot be used as a policy. {_ACCEPTED}{acts}")


def _uniform(name: str, actions: Labels | None) -> Actor:
    if name != "uniform":
        raise PolicyError(f"The policy is {short(name)}. The only policy given by name is 'uniform'. {_ACCEPTED}")
    if actions is None:
        raise PolicyError("The uniform policy requires discrete actions. Give f(obs, rng), which draws an action.")
    refuse_large(f"A uniform policy with {actions.size:,} actions", 8.0 * actions.size)
    return _Uniform(_EqualShares(actions.size), Reading("uniform policy", actions, logits=False, greedy=False))


_ACCEPTED = (
    "Give {state: action}, probabilities [S, A] or actions [S] for the states of a table, a function f(obs) or "
    "f(obs, rng), (apply, params), a stable-baselines3 model, a torch module, an onnxruntime session, a scikit-learn "
    "estimator or an object with predict(obs)."
)


@dataclass(frozen=True)
class _EqualShares:
    """Uniform probabilities. Unlike a lambda it can be pickled, and equal instances are compiled once."""

    count: int

    def __call__(self, observation: Any) -> Floats:
        return np.full(self.count, 1 / self.count)


class _TableActor(ReadActor):
    """Table of probabilities, with state indices as observations."""

    def __init__(self, policy: TabularPolicy, reading: Reading) -> None:
        probs, settled = policy.probs, reading.greedy or bool(policy.certain.all())
        self._probs = np.eye(probs.shape[1])[probs.argmax(axis=1)] if settled else probs
        reading = replace(reading, name=f"table of {len(probs)} states", greedy=settled)
        super().__init__(reading.among(probs.shape[1]), not settled)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        return self._reading.drawn(self._probs[list(map(self._state, observations))], shocks)

    def _state(self, observation: Any) -> int:
        try:
            s = operator.index(observation)
        except TypeError:
            what = f"received {short(observation)}, which is not the index of a state. Give a function of observations."
            raise self._reading.error(what) from None
        if not 0 <= s < len(self._probs):
            raise self._reading.error(
                f"received the observation {short(s)}. Valid states are 0 to {len(self._probs) - 1}."
            )
        return s

    def rule(self) -> tuple[Callable[[Any], Any], Reading]:
        return self._row, self._reading

    def _row(self, observation: Any) -> Floats:
        return np.asarray(self._probs[self._state(observation)])

    def table(self, states: int, actions: int) -> Floats | None:
        return self._probs if self._probs.shape == (states, actions) else None

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        self._state(example_observation)
        jax: Any = sys.modules.get("jax")  # jax would otherwise clamp an index beyond the last row
        probs = self._probs  # without self, functions of equal parts are equal and not recompiled
        return jax and (lambda s: jax.numpy.asarray(probs).at[s].get(mode="fill", fill_value=np.nan))


_GENERATOR = operator.methodcaller("generator")


class _Function(ReadActor):
    """``f(obs)`` or ``f(obs, rng)``, called for one observation at a time, or for many if JAX can compile it."""

    batched = False  # until it returns probabilities, or JAX has compiled it

    def __init__(self, function: Callable[..., Any], reading: Reading) -> None:
        super().__init__(reading)
        self._function, self._known = function, False
        self._together: Actor | None = None
        self._takes_luck = takes_luck(function, reading)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        if not self._known and observations:
            self._look(observations[0], shocks[0])
        if self._together is not None:
            return self._together.act(observations, shocks)
        reading, left = self._reading, iter(observations)
        luck = (map(_GENERATOR, shocks),) if self._takes_luck else ()
        try:
            found = list(map(self._function, left if reading.table is None else map(reading.seen, left), *luck))
        except Exception as error:
            reading.add_note(error, observations[len(observations) - operator.length_hint(left) - 1])
            raise
        if reading.table is not None:
            found = list(map(reading.chosen, found, observations))
        return reading.choose(found, shocks, observations)

    def act_one(self, observation: Any, shocks: Sequence[Shock]) -> Any:
        """Action for one observation."""
        if self._together is not None or not self._known:
            return super().act_one(observation, shocks)
        reading = self._reading
        value = self._call(observation, *((shocks[0].generator(),) if self._takes_luck else ()))
        if type(value) is int and reading.actions is not None and 0 <= value < reading.actions.size:
            return value
        (action,) = reading.choose([value], shocks, [observation])
        return action

    def chooser(self, shocks: Sequence[Shock], note: Callable[[Exception], None]) -> Callable[[Any], Any]:
        """`Actor.chooser`, without calls in between for the usual functions: most return an index at once."""
        function, reading = self._function, self._reading
        if self._together is not None or not self._known or self._takes_luck or reading.table is not None:
            return super().chooser(shocks, note)
        size = 0 if reading.actions is None else reading.actions.size

        def choose(observation: Any) -> Any:
            try:
                value = function(observation)
            except Exception as error:
                reading.add_note(error, observation)
                note(error)
                raise
            if type(value) is int and 0 <= value < size:
                return value
            try:
                return reading.choose([value], shocks, [observation])[0]
            except Exception as error:
                note(error)
                raise

        return choose

    def _call(self, observation: Any, *rng: Any) -> Any:
        """Value of the function; what it raises gets a note."""
        try:
            value = self._function(self._reading.seen(observation), *rng)
        except Exception as error:
            self._reading.add_note(error, observation)
            raise
        return self._reading.chosen(value, observation)

    def rule(self) -> tuple[Callable[[Any], Any], Reading] | None:
        return None if self._takes_luck else (self._call, self._reading)

    def _look(self, observation: Any, shock: Shock) -> None:
        """Check that repeated calls return equal values, and compile the function if possible."""
        luck = self._takes_luck
        found = [self._call(observation, *((shock.generator(),) if luck else ())) for _ in range(4)]
        answers: set[Hashable] = set()
        with contextlib.suppress(ValueError):  # objects of user-defined classes cannot be compared
            answers = {fingerprint(value) for value in found if not numpy_of(value).dtype.hasobject}
            self.batched = self._reading.actions is not None and np.ndim(found[0]) > 0  # actions are drawn together
        if len(answers) > 1:
            what = f"returned {short(found, 200)} for one observation and the same random numbers"
            raise self._reading.error(
                f"{what}. Take all randomness from rng, in f(obs, rng). In compare_policies a policy may use earlier "
                "observations if it has reset()."
            )
        self._known, jax = True, sys.modules.get("jax")
        if jax is not None and isinstance(found[0], jax.Array) and not self._takes_luck and self._reading.table is None:
            compiled = jax.jit(jax.vmap(self._function))
            with contextlib.suppress(Exception):  # other functions are called for one observation at a time
                jax.eval_shape(compiled, stacked([observation]))
                self.batched, self._together = True, Batched(lambda batch: np.asarray(compiled(batch)), self._reading)

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        jax: Any = sys.modules.get("jax")
        if jax is None or self._takes_luck or self._reading.table is not None:
            return None
        # Without self, functions of equal parts are equal and not recompiled.
        function, logits, greedy = self._function, self._reading.logits, self._reading.greedy
        size = None if self._reading.actions is None else self._reading.actions.size

        def traced(observation: Any) -> Any:
            value = jax.numpy.asarray(function(observation))
            if size is None or (value.size == 1 and value.dtype.kind in "iu"):
                return value if size is None else value.reshape(())
            value = (jax.nn.softmax(value) if logits else value * 1.0).reshape(size)
            return value.argmax() if greedy else value

        self._look(example_observation, Shock(bytes(16)))
        with contextlib.suppress(Exception):
            jax.eval_shape(traced, example_observation)
            return traced
        return None


class _Uniform(_Function):
    """Policy with equally likely actions."""

    def table(self, states: int, actions: int) -> Floats | None:
        return np.full((states, actions), 1 / actions)


def _name(policy: Any) -> str:
    policy = policy[0] if isinstance(policy, tuple) and policy else policy
    if hasattr(policy, "__name__"):
        return f"function {policy.__name__}"
    for kind in type(policy).__mro__:
        if (module := kind.__module__.partition(".")[0]) in _LIBRARIES:
            return f"{type(policy).__name__} ({_LIBRARIES[module]})"
    return type(policy).__name__


_LIBRARIES = {
    "stable_baselines3": "stable-baselines3",
    "torch": "torch",
    "sklearn": "scikit-learn",
    "onnxruntime": "ONNX",
}
"""Names of libraries, by their packages."""
