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
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from jmdp.base.settings import integer, listed, short
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

_LARGEST = 2**62
_MOST_BYTES = 2**24


class _Key(NamedTuple):
    """What a key may be."""

    valid: Callable[[Any], bool]
    wanted: str  # the fix in errors


def _is_number(low: float, high: float = math.inf, *, above: bool = False) -> Callable[[Any], bool]:
    """Check of a finite number from low to high; with `above`, low itself is excluded."""

    def valid(value: Any) -> bool:
        if type(value) not in (int, float) or abs(value) > 1e300 or not math.isfinite(value):
            return False
        return bool(low < value <= high if above else low <= value <= high)

    return valid


def _is_whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= _LARGEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != "" and "\0" not in value


def _is_one_of(texts: tuple[str, ...]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in texts


def _are_policies(value: Any) -> bool:
    return (
        isinstance(value, dict) and len(value) > 1 and all(map(_is_text, value)) and all(map(_is_text, value.values()))
    )


def _are_actions(value: Any) -> bool:
    number = _is_number(-math.inf)
    return isinstance(value, list) and len(value) > 1 and all(_is_text(one) or number(one) for one in value)


def _is_range(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and all(map(_is_number(-math.inf), value)) and value[0] < value[1]
    )


def _is_state(value: Any) -> bool:
    number = _is_number(-math.inf)
    return _is_text(value) or number(value) or (isinstance(value, list) and len(value) > 0 and all(map(number, value)))


def _are_states(value: Any) -> bool:
    if isinstance(value, dict):  # unknown keys of it have an error of their own
        whole = _is_whole(1)
        return whole(value.get("visited")) and whole(value.get("every", 1))
    if isinstance(value, list):
        return len(value) > 0 and all(map(_is_state, value))
    return isinstance(value, str) and (value == "all" or (":" in value and _is_text(value)))


def _is_probability(value: Any) -> bool:
    return _is_number(1e-12, 1)(value) and value < 1


_COUPLINGS: tuple[str, ...] = get_args(CouplingName)
_DRAWS: tuple[str, ...] = get_args(PolicyLuck)
_STATES = (
    'Give "all", a list of states by name or number, "file.py:name", or { visited = 200, every = 25 } for states that '
    "the policy visits."
)
_ENV = 'Give an environment as for jmdp compare, e.g. env = "FrozenLake-v1".'
_POLICY = 'Give a policy as for jmdp compare, e.g. policy = "uniform".'
_TABLE = 'Give two or more policies: [policies], then lines such as old = "uniform".'

_KEYS: dict[str, _Key] = {
    "env": _Key(_is_text, _ENV),
    "policy": _Key(_is_text, _POLICY),
    "policies": _Key(_are_policies, _TABLE),
    "states": _Key(_are_states, _STATES),
    "actions": _Key(_are_actions, 'Give two or more actions by name or number: actions = ["left", "right"].'),
    "seed": _Key(_is_whole(0), "Give a whole number of at least 0."),
    "discount": _Key(_is_number(0, 1), "Give a number from 0 to 1."),
    "max_samples": _Key(_is_whole(2), "Give a whole number of at least 2."),
    "indifference": _Key(_is_number(0, above=True), "Give a number > 0."),
    "confidence": _Key(_is_probability, "Give a probability, e.g. 0.95."),
    "horizon": _Key(_is_whole(1), "Give a whole number of at least 1."),
    "reward_bound": _Key(_is_number(0, above=True), "Give a number > 0."),
    "return_range": _Key(_is_range, "Give the least and the largest return: return_range = [0, 1]."),
    "largest_loss": _Key(_is_number(0, above=True), "Give a number > 0."),
    "rarest": _Key(_is_probability, "Give a probability, e.g. 0.05."),
    "tie_tolerance": _Key(_is_number(0), "Give a number ≥ 0."),
    "coupling": _Key(_is_one_of(_COUPLINGS), f"Use {' or '.join(map(repr, _COUPLINGS))}."),
    "policy_luck": _Key(_is_one_of(_DRAWS), f"Use {' or '.join(map(repr, _DRAWS))}."),
    "truncated_ends": _Key(lambda value: isinstance(value, bool), "Give true or false."),
    "pool": _Key(
        lambda value: _is_whole(1)(value) or value == "ray",
        'Give a number of worker processes of at least 1, or "ray".',
    ),
}

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
            if not _KEYS[key].valid(value):
                raise self.error(f"{key} is {short(value)}. {_KEYS[key].wanted}")
        for key in ("env", "states"):
            if key not in self.values:
                raise self.error(f"{key} is missing. {_KEYS[key].wanted}")
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
