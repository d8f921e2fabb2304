"""The key `states` of a settings file: the states in which a study compares."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from jmdp.base.settings import integer, listed, short
from jmdp.cli.choices import label_of
from jmdp.cli.environments import Environment
from jmdp.errors import SettingsError
from jmdp.simulators.functions import FunctionSimulator
from jmdp.simulators.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.visited import visited_states

_MOST = 100_000_000
_NO_NUMBERS = (
    "Tables and Gymnasium environments whose state is a number (FrozenLake, CliffWalking, Taxi) have states that can "
    'be listed. For others give states that the policy visits, { visited = 200, every = 25 }, or "file.py:name".'
)


def study_states(given: Any, chosen: Environment, simulator: Simulator, policy: Any, seed: int) -> Any:
    """Return the argument `states` of `study`."""
    if isinstance(given, dict):
        return _visited(simulator, policy, seed, **{"count": given["visited"], "every": given.get("every", 1)})
    if given == "all":
        return None if chosen.model is not None else _numbered(chosen, simulator, _not_terminal(chosen))
    if isinstance(given, list):
        return _listed(given, chosen, simulator)
    return _own(chosen.loader.attribute(given), given, chosen, simulator)


def _visited(simulator: Simulator, policy: Any, seed: int, count: int, every: int) -> Any:
    """States that the policy visits; those of environments with numbers as observations are labelled by them."""
    states = visited_states(simulator, policy, seed=seed, count=count, every=every)
    if not isinstance(simulator, GymnasiumSimulator):
        return states
    seen = [integer(simulator.observe(state)) for state in states]
    if None in seen:
        return states
    return {f"{i}: {number}": state for i, (number, state) in enumerate(zip(seen, states, strict=True))}


def _listed(given: list[Any], chosen: Environment, simulator: Simulator) -> Any:
    """States in a list of the settings file."""
    if chosen.model is not None:
        labels = chosen.model.states
        return [labels[labels.index(label_of(labels, one) if isinstance(one, str) else one)] for one in given]
    if chosen.space is not None:
        return _numbered(chosen, simulator, {str(one): one for one in given})
    if isinstance(simulator, FunctionSimulator) or not type(simulator).__module__.startswith("jmdp."):
        return [tuple(one) if isinstance(one, list) else one for one in given]
    raise SettingsError(_NO_NUMBERS)


def _own(found: Any, text: str, chosen: Environment, simulator: Simulator) -> Any:
    """States of the user: a list, a dictionary from labels to states, or a function that returns one."""
    if callable(found) and not hasattr(found, "__getitem__"):
        found = found()
    if isinstance(found, (str, bytes)) or not (hasattr(found, "__iter__") or hasattr(found, "__getitem__")):
        raise SettingsError(
            f"{text} is {short(found)}. Give a list of states, a dictionary from labels to states, or a function "
            "without arguments that returns one."
        )
    if chosen.space is None:
        return found
    if not isinstance(found, Mapping):
        found = listed(found, _MOST) or []
    states = list(found.values() if isinstance(found, Mapping) else found)
    if any(integer(state) is None for state in states):
        return found
    return _numbered(chosen, simulator, found if isinstance(found, Mapping) else {str(n): n for n in states})


def _numbered(chosen: Environment, simulator: Simulator, named: Mapping[Any, Any]) -> dict[str, Any]:
    """Snapshots of a Gymnasium environment in states with these numbers, by label."""
    count = _count(chosen)
    if count is None or not isinstance(simulator, GymnasiumSimulator):
        raise SettingsError(_NO_NUMBERS)
    inner, states = chosen.source.unwrapped, {}
    before = inner.s
    for label, given in named.items():
        number = int(given) if isinstance(given, str) and given.isdecimal() and len(given) < 19 else integer(given)
        if number is None or not 0 <= number < count:
            raise SettingsError(f"There is no state {short(given)}: states run from 0 to {count - 1}.")
        inner.s = number
        states[str(label)] = simulator.current(number)
    inner.s = before
    return states


def _count(chosen: Environment) -> int | None:
    """Number of states of a Gymnasium environment whose state is a number, which it observes; else None."""
    if chosen.space is None:
        return None
    inner = chosen.source.unwrapped
    count = getattr(inner.observation_space, "n", None)
    if count is None or not isinstance(getattr(inner, "s", None), (int, np.integer)):
        return None
    return int(count) if getattr(chosen.source.observation_space, "n", None) == count else None


def _not_terminal(chosen: Environment) -> dict[int, int]:
    """All states but those in which an episode ends, if the environment has a table of transitions that tells."""
    terminal: set[int] = set()
    with suppress(AttributeError, TypeError, ValueError):  # no P, or something else
        table = chosen.source.unwrapped.P
        terminal = {int(after) for row in table.values() for each in row.values() for _, after, _, ends in each if ends}
    return {n: n for n in range(_count(chosen) or 0) if n not in terminal}
