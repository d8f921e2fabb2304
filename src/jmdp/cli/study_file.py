"""The settings file of `jmdp study`: reading it, checking it, and its copy in the folder of the results.

The key `states` of a settings file: the states in which a study compares.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from jmdp.base.settings import choice, integer, listed, number, probability_value, real_number, short, whole_number
from jmdp.base.whole_files import whole_file
from jmdp.cli.environments import Environment
from jmdp.cli.loading import CouplingName, label_of, unknown
from jmdp.errors import (
    CouplingError,
    LabelError,
    MissingExtraError,
    ModelError,
    PolicyError,
    SettingsError,
    SimulatorError,
    StudyError,
)
from jmdp.models.coupling import PolicyLuck
from jmdp.simulators.adapters.functions import FunctionSimulator
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.simulator import Simulator
from jmdp.simulators.visited import visited_states

_MOST_BYTES = 2**24


def _is_number(value: Any) -> bool:
    return math.isfinite(real_number(value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != "" and "\0" not in value


def _are_policies(value: Any) -> bool:
    return (
        isinstance(value, dict) and len(value) > 1 and all(map(_is_text, value)) and all(map(_is_text, value.values()))
    )


def _are_actions(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(_is_text(one) or _is_number(one) for one in value)


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) and value[0] < value[1]


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 1


def _is_state(value: Any) -> bool:
    several = isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))
    return several or _is_text(value) or _is_number(value)


def _are_states(value: Any) -> bool:
    if isinstance(value, dict):  # unknown keys of it have an error of their own
        return _is_whole(value.get("visited")) and _is_whole(value.get("every", 1))
    if isinstance(value, list):
        return len(value) > 0 and all(map(_is_state, value))
    return isinstance(value, str) and (value == "all" or (":" in value and _is_text(value)))


def _if(valid: Callable[[Any], bool], wanted: str) -> Callable[[str, Any], None]:
    """Check of a key: raise with what is wanted unless the value is valid."""

    def check(key: str, value: Any) -> None:
        if not valid(value):
            raise SettingsError(f"{key} is {short(value)}. {wanted}")

    return check


_WANTED = {
    "env": 'Give an environment as for jmdp compare, e.g. env = "FrozenLake-v1".',
    "states": 'Give "all", a list of states by name or number, "file.py:name", or { visited = 200, every = 25 } for '
    "states that the policy visits.",
}
_POLICY = 'Give a policy as for jmdp compare, e.g. policy = "uniform".'
_TABLE = 'Give two or more policies: [policies], then lines such as old = "uniform".'
_POSITIVE = _if(lambda value: 0 < real_number(value) < math.inf, "Give a number > 0.")

_KEYS: dict[str, Callable[[str, Any], object]] = {
    "env": _if(_is_text, _WANTED["env"]),
    "policy": _if(_is_text, _POLICY),
    "policies": _if(_are_policies, _TABLE),
    "states": _if(_are_states, _WANTED["states"]),
    "actions": _if(_are_actions, 'Give two or more actions by name or number: actions = ["left", "right"].'),
    "seed": partial(whole_number, least=0),
    "discount": partial(number, low=0, high=1),
    "max_samples": partial(whole_number, least=2),
    "indifference": _POSITIVE,
    "confidence": probability_value,
    "horizon": partial(whole_number, least=1),
    "reward_bound": _POSITIVE,
    "return_range": _if(_is_range, "Give the least and the largest return: return_range = [0, 1]."),
    "largest_loss": _POSITIVE,
    "rarest": probability_value,
    "tie_tolerance": _if(lambda value: 0 <= real_number(value) < math.inf, "Give a number ≥ 0."),
    "coupling": partial(choice, allowed=get_args(CouplingName)),
    "policy_luck": partial(choice, allowed=get_args(PolicyLuck)),
    "truncated_ends": _if(lambda value: isinstance(value, bool), "Give true or false."),
    "pool": _if(
        lambda value: _is_whole(value) or value == "ray",
        'Give a number of worker processes of at least 1, or "ray".',
    ),
}
"""What checks the value of each key."""

_RENAMED = (SettingsError, SimulatorError, PolicyError, ModelError, CouplingError, LabelError, MissingExtraError)


@dataclass(frozen=True)
class StudyFile:
    """Settings of a study, checked: every key is known, and its value is of the right kind."""

    path: Path
    text: bytes
    values: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> StudyFile:
        """Read and check a file. Errors state the file, the key, the value and the fix."""
        if not path.is_file():
            raise SettingsError(
                f"There is no file {str(path)!r} in {Path.cwd()}. Give a settings file, e.g. study.toml."
            )
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise SettingsError(
                f"{path} has more than {_MOST_BYTES:,} bytes. Give long lists of states as file.py:name."
            )
        found = cls(path, text, _parsed(path, text))
        found._check()
        return found

    def _check(self) -> None:
        for key, value in self.values.items():
            if key not in _KEYS:
                raise self.error(f"{key} is {short(value)}. {unknown('key', key, _KEYS)}")
            if key == "states" and isinstance(value, dict):
                for name in value:
                    if name not in ("visited", "every"):
                        raise self.error(f"states is {short(value)}. {unknown('key', name, ('visited', 'every'))}")
            with self.naming():
                _KEYS[key](key, value)
        for key, wanted in _WANTED.items():
            if key not in self.values:
                raise self.error(f"{key} is missing. {wanted}")
        given = [key for key in ("policy", "policies", "actions") if key in self.values]
        if "policies" in given and len(given) > 1:
            raise self.error(
                f"{given[given[0] == 'policies']} is given together with [policies]. Remove [policies] to compare "
                "actions, or the other to compare policies."
            )
        if not {"policy", "policies"} & set(given):
            raise self.error(f"policy is missing. {_POLICY} To compare policies: {_TABLE}")

    def error(self, text: str) -> SettingsError:
        """Error that names the file."""
        return SettingsError(f"{self.path}: {text}")

    @contextmanager
    def naming(self, key: str | None = None) -> Iterator[None]:
        """State the file in errors and, if they are of what a key names, the key and its value."""
        try:
            yield
        except _RENAMED as error:
            value = "" if key is None else f"{key} is {short(self.values[key])}. "
            named = copy(error)
            named.args = (f"{self.path}: {value}{error}",)
            raise named from error

    @property
    def policies(self) -> dict[str, str]:
        """The policies to compare by name; of a study of actions its only policy."""
        return dict(self.values.get("policies") or {"policy": self.values["policy"]})

    def check_same(self, out: Path) -> None:
        """Raise `StudyError` if the folder has a study with other settings. Only the pool may change."""
        if not (out / "ledger.jsonl").exists():
            return
        copy = out / "study.toml"
        if not copy.is_file():
            raise StudyError(
                f"{out} has a study that jmdp study has not made: study.toml is missing. Give another --out."
            )
        try:
            before = _parsed(copy, copy.read_bytes())
        except SettingsError as error:
            raise StudyError(
                f"{error} It is the copy of the settings of the study in {out}. Give another --out."
            ) from error
        for key in (*_KEYS, *before):
            mine, given = before.get(key), self.values.get(key)
            if key != "pool" and mine != given:
                raise StudyError(
                    f"{out} has a study with {_said(key, mine)}, but {self.path} has {_said(key, given)}. Give the "
                    "same settings, or give another --out."
                )

    def write_to(self, out: Path) -> None:
        """Copy the file to the folder of the results, unless a study there has its settings already."""
        if (out / "ledger.jsonl").exists():
            return
        try:
            with whole_file(out / "study.toml") as file:
                file.write(self.text)
        except OSError as error:
            reason = error.strerror or error
            raise StudyError(f"--out {out} cannot be written: {reason}. Give another folder.") from error


def _said(key: str, value: Any) -> str:
    return f"no {key}" if value is None else f"{key} {short(value)}"


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(text.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not a text in UTF-8. Save it in that encoding.") from None
    except (ValueError, RecursionError) as error:  # also an integer with too many digits, or too many brackets
        raise SettingsError(
            f'{path} is not valid TOML: {error}. Write lines such as key = 3 or key = "text".'
        ) from None


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
