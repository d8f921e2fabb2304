"""How any policy is taken: arrays, functions, stable-baselines3 models, torch modules, JAX functions, scikit-learn."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import PolicyError
from jmdp.models.actors.actor import Actor, ReadActor, Reading, numpy_of
from jmdp.models.actors.remembering import RecurrentModel, RememberingActor, takes_luck
from jmdp.models.actors.trained_policies import (
    Batched,
    fingerprint,
    scikit_learn,
    stable_baselines,
    stacked,
    torch_module,
)
from jmdp.models.policy import TabularPolicy


def as_policy(
    policy: Any,
    actions: Labels | None,
    *,
    logits: bool | None = None,
    greedy: bool = False,
    memory: bool = False,
    name: str | None = None,
) -> Actor:
    """Take a policy of any kind.

    Parameters
    ----------
    policy
        - probabilities ``[S, A]``, a `TabularPolicy`, or an action for each state ``[S]``; observations are then
          indices of states;
        - ``f(obs)``, ``f(obs, rng)`` or ``(apply, params)``, which return an action or a probability for each action.
          All luck comes from `rng`. What returns JAX arrays is compiled where it can be;
        - a torch module, called on a batch: logits, or the action itself where actions are not numbered;
        - a stable-baselines3 model: its distribution over numbered actions, else (DQN; SAC, TD3 and PPO with continuous
          actions) ``predict(obs, deterministic=True)``, for other draws come from torch's global generator. If the
          model holds a VecNormalize, that is applied to observations;
        - a scikit-learn estimator: ``predict_proba``, else ``predict``;
        - ``"uniform"``: every action equally likely, for simulators with numbered actions;
        - an object with ``reset()`` that is called as ``f(obs)`` or ``f(obs, rng)`` and remembers what it saw, where
          `memory` is True: each episode has a copy of its own (``copy.deepcopy``), reset at its beginning. A recurrent
          model of sb3-contrib needs no ``reset()``;
        - an `Actor`, which is returned as it is.
    actions
        The numbered actions of the simulator; None where they are not numbered.
    logits
        Numbers returned for each action are logits. By default they are for torch modules, and not for others.
    greedy
        Take the most likely action instead of drawing one, as ``deterministic=True`` does in stable-baselines3.
    memory
        Whether policies may remember earlier observations of an episode: in `compare_policies`, which runs whole
        episodes. Elsewhere the action must follow from the observation.
    name
        What messages call it, beside its kind.
    """
    said = _name(policy) if name is None else f"{name!r} ({_name(policy)})"
    reading = Reading(said, actions, bool(logits), greedy)
    if isinstance(policy, Actor):
        return policy
    if policy is None:
        raise PolicyError(f"No policy is given. For equally likely actions say policy='uniform'. {_ACCEPTED}")
    if isinstance(policy, type):
        raise PolicyError(f"The policy is the class {policy.__name__} itself. Make one: {policy.__name__}(…).")
    if isinstance(policy, str):
        return _uniform(policy, actions)
    if all(hasattr(policy, part) for part in ("predict", "action_space", "observation_space")):
        recurrent = hasattr(getattr(policy, "policy", policy), "lstm_actor")
        return RecurrentModel(policy, reading) if memory and recurrent else stable_baselines(policy, reading)
    if isinstance(policy, getattr(sys.modules.get("torch.nn"), "Module", ())):
        return torch_module(policy, replace(reading, logits=logits is not False), logits is None)
    if hasattr(policy, "predict"):
        return scikit_learn(policy, reading)
    if isinstance(policy, tuple) and len(policy) == 2 and callable(policy[0]) and not callable(policy[1]):
        return _Function(lambda observation: policy[0](policy[1], observation), reading)
    if isinstance(policy, (TabularPolicy, list, tuple)) or hasattr(policy, "__array__"):
        return _Table(_table(policy, actions), reading)
    if callable(policy) and memory and callable(getattr(policy, "reset", None)):
        return RememberingActor(policy, reading)
    if callable(policy):
        return _Function(policy, reading)
    raise PolicyError(f"A {type(policy).__name__} is no policy that jmdp knows. {_ACCEPTED}")


def _uniform(name: str, actions: Labels | None) -> Actor:
    if name != "uniform":
        raise PolicyError(f"The policy is {name!r}. The one policy with a name is 'uniform'. {_ACCEPTED}")
    if actions is None:
        raise PolicyError("The uniform policy needs numbered actions. Give f(obs, rng), which draws one.")
    return _Uniform(_EqualShares(actions.size), Reading("uniform policy", actions, logits=False, greedy=False))


_ACCEPTED = (
    "Give probabilities [S, A] or actions [S] for the states of a table, a function f(obs) or f(obs, rng), "
    "(apply, params), a stable-baselines3 model, a torch module or a scikit-learn estimator."
)


@dataclass(frozen=True)
class _EqualShares:
    """A function, and not a lambda: it can be sent to other processes, and equal ones are compiled once."""

    count: int

    def __call__(self, observation: Any) -> Floats:
        return np.full(self.count, 1 / self.count)


class _Table(ReadActor):
    """Probabilities by the index of a state."""

    def __init__(self, probs: Floats, reading: Reading) -> None:
        settled = reading.greedy or bool((probs.max(axis=1) == 1).all())
        self._probs = np.eye(probs.shape[1])[probs.argmax(axis=1)] if settled else probs
        reading = replace(reading, name=f"table of {len(probs)} states", greedy=settled)
        super().__init__(reading.among(probs.shape[1]), not settled)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        return self._reading.drawn(self._probs[[self._state(observation) for observation in observations]], shocks)

    def _state(self, observation: Any) -> int:
        try:
            s = operator.index(observation)
        except TypeError:
            what = f"was shown {observation!r}, which is no index of a state. Give a function of observations."
            raise self._reading.error(what) from None
        if not 0 <= s < len(self._probs):
            raise self._reading.error(f"was shown the observation {s}: states run from 0 to {len(self._probs) - 1}.")
        return s

    def table(self, states: int, actions: int) -> Floats | None:
        return self._probs if self._probs.shape == (states, actions) else None

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        self._state(example_observation)
        jax: Any = sys.modules.get("jax")  # which would take the last row for any beyond it
        probs = self._probs  # not self: equal parts make an equal function, which is not compiled again
        return jax and (lambda s: jax.numpy.asarray(probs).at[s].get(mode="fill", fill_value=np.nan))


def _table(policy: Any, actions: Labels | None) -> Floats:
    if isinstance(policy, TabularPolicy):
        return policy.probs
    array = numpy_of(policy)
    if array.ndim == 1 and array.size and array.dtype.kind in ("iu" if actions is None else "iuU"):
        labels = actions or Labels("action", int(array.max()) + 1)
        return np.eye(labels.size)[[labels.index(a) for a in array.tolist()]]
    if array.ndim != 2:
        fix = "Give probabilities [S, A], or integers or names [S]. The same in all states is lambda obs: probs."
        raise PolicyError(f"The policy is an array of shape {array.shape} and dtype {array.dtype}. {fix}")
    return TabularPolicy(array).probs


class _Function(ReadActor):
    """``f(obs)`` or ``f(obs, rng)``, one at a time, or many where JAX can compile it."""

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
        if not self._takes_luck:
            return self._reading.choose([self._function(observation) for observation in observations], shocks)
        rng, found = Shock(bytes(16)).generator(), []
        for observation, shock in zip(observations, shocks, strict=True):
            shock.restart(rng)
            found.append(self._function(observation, rng))
        return self._reading.choose(found, shocks)

    def _look(self, observation: Any, shock: Shock) -> None:
        """Does it answer the same when asked again, and can it be asked for many at once?"""
        found = [self._function(observation, *([shock.generator()] * self._takes_luck)) for _ in range(4)]
        answers: set[Hashable] = set()
        with contextlib.suppress(ValueError):  # objects of one's own cannot be compared
            answers = {fingerprint(value) for value in found if not numpy_of(value).dtype.hasobject}
        if len(answers) > 1:
            what = f"returned {found} for one observation and the same luck"
            raise self._reading.error(
                f"{what}. Take all randomness from rng, in f(obs, rng). In compare_policies a policy may remember what "
                "it saw if it has reset()."
            )
        self._known, jax = True, sys.modules.get("jax")
        if jax is not None and isinstance(found[0], jax.Array) and not self._takes_luck:
            compiled = jax.jit(jax.vmap(self._function))
            with contextlib.suppress(Exception):  # what JAX cannot trace is asked one at a time
                jax.eval_shape(compiled, stacked([observation]))
                self._together = Batched(lambda batch: np.asarray(compiled(batch)), self._reading)

    def traceable(self, example_observation: Any) -> Callable[[Any], Any] | None:
        jax: Any = sys.modules.get("jax")
        if jax is None or self._takes_luck:
            return None
        # Not self: equal parts make an equal function, which is not compiled again.
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
    """Every action equally likely."""

    def table(self, states: int, actions: int) -> Floats | None:
        return np.full((states, actions), 1 / actions)


def _name(policy: Any) -> str:
    policy = policy[0] if isinstance(policy, tuple) and policy else policy
    modules = {kind.__module__.split(".")[0] for kind in type(policy).__mro__}
    known = {"stable_baselines3": " (stable-baselines3)", "torch": " (torch)", "sklearn": " (scikit-learn)"}
    source = next((known[module] for module in known if module in modules), "")
    return f"function {policy.__name__}" if hasattr(policy, "__name__") else type(policy).__name__ + source
