"""Policies with memory. Each episode uses its own copy, after a reset; only whole episodes can use them."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.errors import PolicyError
from jmdp.models.actors.actor import Actor, ReadActor, Reading


class RememberingActor(ReadActor):
    """Policy with memory: an object with ``reset()`` that is called as ``f(obs)`` or ``f(obs, rng)``."""

    def __init__(self, policy: Any, reading: Reading) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck(policy, reading)
        kept = next(_generators(policy), None)
        if kept is not None:
            raise reading.error(
                f"contains a random generator, {kept}, whose copies would draw the same numbers in each episode. Use a "
                "second argument instead: __call__(self, obs, rng)."
            )
        if required_parameters(policy.reset):
            raise reading.error("has a reset() with required arguments. Make them optional: jmdp calls reset() only.")

    def for_episode(self) -> Actor:
        """Copy of the policy after a reset."""
        try:
            own = copy.deepcopy(self._policy)
        except Exception as error:  # copying may raise anything
            raise PolicyError(
                f"The policy, {self!r}, cannot be copied: {error}. A policy with memory is copied for each episode. "
                "Give it __deepcopy__, which may share constant parts."
            ) from error
        own.reset()
        return _InOneEpisode(own, self._reading, self._takes_luck)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Raises an error: only a copy made by `for_episode` can act."""
        raise PolicyError(f"The policy, {self!r}, has memory. Only jmdp.compare_policies supports this.")


class _InOneEpisode(ReadActor):
    """Copy of a policy with memory, used in one episode."""

    def __init__(self, policy: Callable[..., Any], reading: Reading, takes_luck: bool) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Actions for observations of one episode, in order of time."""
        values = []
        for observation, shock in zip(observations, shocks, strict=True):
            try:
                value = self._policy(
                    self._reading.seen(observation), *((shock.generator(),) if self._takes_luck else ())
                )
            except Exception as error:
                self._reading.add_note(error, observation)
                raise
            values.append(self._reading.chosen(value, observation))
        return self._reading.choose(values, shocks, observations)


class RecurrentModel(ReadActor):
    """Recurrent model of sb3-contrib, by ``predict(obs, state, episode_start, deterministic=True)``."""

    def __init__(self, model: Any, reading: Reading) -> None:
        super().__init__(reading, needs_luck=False)
        self._model, self._state, self._begins = model, None, True

    def for_episode(self) -> Actor:
        """The same model with a new hidden state."""
        return RecurrentModel(self._model, self._reading)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Actions for observations of one episode, in order of time."""
        actions = []
        for observation in observations:
            action, self._state = self._model.predict(
                observation, state=self._state, episode_start=np.array([self._begins]), deterministic=True
            )
            self._begins = False
            actions.append(action)
        return self._reading.choose(actions, shocks)


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _generators(value: Any, name: str = "", depth: int = 4) -> Iterator[str]:
    """Names of random generators among the attributes of an object, searched recursively."""
    if isinstance(value, (np.random.Generator, np.random.RandomState, random.Random)):
        yield name
    elif depth:
        parts: Any = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        if isinstance(value, (list, tuple)):
            parts = {str(i): part for i, part in enumerate(value)}
        for key, part in parts.items():
            if not isinstance(part, (str, bytes, np.ndarray, type)):
                yield from _generators(part, f"{name}.{key}" if name else str(key), depth - 1)


def takes_luck(function: Callable[..., Any], reading: Reading) -> bool:
    """Whether a function is called as f(obs, rng) instead of f(obs)."""
    required = len(required_parameters(function))
    if required > 2 or not takes_argument(function):
        raise reading.error(f"takes {required} arguments. Give f(obs) or f(obs, rng).")
    second = [p for p in _parameters(function) or () if p.kind in _BY_PLACE][1:2]
    return required == 2 or any(p.name == "rng" for p in second)


def takes_argument(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with a positional argument, as far as is known."""
    plain = _parameters(function)
    return plain is None or any(p.kind in _BY_PLACE or p.kind is p.VAR_POSITIONAL for p in plain)


def required_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Positional parameters without defaults; none if they are unknown."""
    return [p for p in _parameters(function) or () if p.kind in _BY_PLACE and p.default is p.empty]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """All parameters; None if they are unknown, as of some C functions."""
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:
        return None
