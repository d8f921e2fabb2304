"""Policies with a memory: one copy an episode, reset at its beginning. They act in whole episodes alone."""

from __future__ import annotations

import contextlib
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
    """An object with ``reset()`` that is called as ``f(obs)`` or ``f(obs, rng)``."""

    def __init__(self, policy: Any, reading: Reading) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck(policy, reading)
        kept = next(_generators(policy), None)
        if kept is not None:
            raise reading.error(
                f"keeps a random generator, {kept}: its copy in each episode would draw the same numbers. Draw from a "
                "second argument: __call__(self, obs, rng)."
            )
        asked = inspect.signature(policy.reset).parameters.values()
        if any(p.default is p.empty and p.kind in _BY_PLACE for p in asked):
            raise reading.error("has a reset() that needs arguments. It is called without any, before each episode.")

    def for_episode(self) -> Actor:
        """A copy that remembers nothing yet."""
        try:
            own = copy.deepcopy(self._policy)
        except Exception as error:
            raise PolicyError(
                f"The policy, {self!r}, cannot be copied: {error}. A policy with a memory has a copy in each episode; "
                "give it __deepcopy__, which may share what never changes."
            ) from error
        own.reset()
        return _InOneEpisode(own, self._reading, self._takes_luck)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Not here: only a copy in an episode acts."""
        raise PolicyError(f"The policy, {self!r}, has a memory. Only jmdp.compare_policies runs whole episodes.")


class _InOneEpisode(ReadActor):
    """A policy with its memory."""

    def __init__(self, policy: Callable[..., Any], reading: Reading, takes_luck: bool) -> None:
        super().__init__(reading)
        self._policy, self._takes_luck = policy, takes_luck

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """In the order of time; one episode asks for one action at a time."""
        values = [
            self._policy(observation, *([shock.generator()] * self._takes_luck))
            for observation, shock in zip(observations, shocks, strict=True)
        ]
        return self._reading.choose(values, shocks)


class RecurrentModel(ReadActor):
    """A recurrent model of sb3-contrib: ``predict(obs, state, episode_start, deterministic=True)``."""

    def __init__(self, model: Any, reading: Reading) -> None:
        super().__init__(reading, needs_luck=False)
        self._model, self._state, self._begins = model, None, True

    def for_episode(self) -> Actor:
        """The same model, with a hidden state of its own."""
        return RecurrentModel(self._model, self._reading)

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """In the order of time; one episode asks for one action at a time."""
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
    """Names of generators among the attributes of an object, and among theirs."""
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
    """Whether a function is f(obs, rng), and not f(obs)."""
    parameters: list[inspect.Parameter] = []
    with contextlib.suppress(ValueError):  # some functions of C do not tell
        parameters = list(inspect.signature(function).parameters.values())
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in plain)
    if required > 2:
        raise reading.error(f"takes {required} arguments. Give f(obs) or f(obs, rng).")
    return required == 2 or any(p.name == "rng" for p in plain[1:2])
