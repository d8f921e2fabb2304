"""Models in the languages of PRISM, JANI and Storm (DRN), built by stormpy.

Storm has a process of its own: some malformed files end the process that parses them, and it prints what it does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jmdp import errors
from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Floats, Integers
from jmdp.base.machine import in_words
from jmdp.base.settings import choice, error_text, short
from jmdp.errors import FileError, JMDPError, MemoryBudgetError, MissingExtraError, ModelError, SettingsError
from jmdp.models.marginals.arrays import BYTES, Listed

_MOST_BYTES = 64 * 2**20
"""Largest file that is read."""

_PRISM = (".prism", ".nm", ".pm", ".mdp", ".dtmc")
_OTHER = (".jani", ".drn")


class Entries(NamedTuple):
    """Transition matrix of Storm: choices of each state, and entries of each choice."""

    state: Integers  # [C], state of each choice
    length: Integers  # [C], entries of each choice
    column: Integers  # [N], next states
    value: Floats  # [N], probabilities


class Found(NamedTuple):
    """What a file contains."""

    listed: Listed
    states: list[str] | None
    actions: list[str] | None


def checked(path: Any, rewards: Any, constants: Any, terminal: Any) -> Path:
    """Path of a file that Storm may read; raise if the arguments are wrong or Storm is missing."""
    file = _checked_file(path)
    for name, value in {"rewards": rewards, "constants": constants, "terminal": terminal}.items():
        if not (isinstance(value, str) or (value is None and name != "constants")):
            raise SettingsError(f"{name} is {short(value)}. Give a text.")
    if find_spec("stormpy") is None:
        raise MissingExtraError('PRISM, JANI and DRN files need stormpy: pip install "jmdp[storm]"')
    return file


def _parsed(file: Path, rewards: str | None, constants: str, terminal: str | None) -> Found:
    """Lists of outcomes of a file, with names of states and actions if it has any."""
    try:
        import stormpy
    except ImportError as error:
        raise MissingExtraError(f"stormpy cannot be imported: {error_text(error)}. Install it again.") from None
    try:
        model = _built(stormpy, file, constants)
        return _found(model, rewards, terminal)
    except JMDPError:
        raise
    except MemoryError:
        raise MemoryBudgetError(f"Storm needs more memory for {short(str(file))} than there is.") from None
    except Exception as error:  # Storm raises RuntimeError, and others for text that is not valid
        raise ModelError(f"Storm cannot read {short(str(file))}: {error_text(error, 400)}") from None


def _checked_file(path: Any) -> Path:
    """The path of a regular file of a known kind, not too large."""
    try:
        file = Path(os.fsdecode(path))
        regular, size = file.is_file(), file.stat().st_size
    except (TypeError, ValueError, OSError) as error:
        raise ModelError(f"path is {short(path)}: {error_text(error)}. Give the path of a file.") from None
    if not regular:
        raise ModelError(f"{short(str(file))} is not a regular file. Give the path of a model file.")
    if size > _MOST_BYTES:
        raise ModelError(f"{short(str(file))} has {in_words(size)}. Files may have up to {in_words(_MOST_BYTES)}.")
    if file.suffix.lower() not in _PRISM + _OTHER:
        raise ModelError(f"{short(file.name)} has an unknown ending. Rename it to end with one of {_PRISM + _OTHER}.")
    return file


def _built(stormpy: Any, file: Path, constants: str) -> Any:
    """The sparse model with all labels and rewards."""
    kind = file.suffix.lower()
    if kind == ".drn":
        if constants:
            raise SettingsError("constants is given, but DRN files have none. Omit it.")
        options = stormpy.io.DirectEncodingParserOptions()
        options.build_choice_labeling = True
        return stormpy.build_model_from_drn(str(file), options=options)
    program = stormpy.parse_jani_model(str(file))[0] if kind == ".jani" else stormpy.parse_prism_program(str(file))
    if constants:
        program, _ = stormpy.instantiate_constants(program, constants)
    if program.has_undefined_constants:
        missing = ",".join(f"{constant.name}=…" for constant in program.constants if not constant.defined)
        raise SettingsError(f"{short(file.name)} has constants without a value. Give constants={missing!r}.")
    options = stormpy.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_all_labels()
    options.set_build_state_valuations()
    options.set_build_choice_labels()
    return stormpy.build_model(program, options=options)


def _found(model: Any, rewards: str | None, terminal: str | None) -> Found:
    kind = model.model_type.name
    if kind not in ("MDP", "DTMC"):
        raise ModelError(f"The file contains a {kind}. Give an MDP or a DTMC.")
    entries = _entries(model)
    reward = _rewards(model, entries, rewards)
    ends = _ends(model, terminal) | _sinks(model.nr_states, entries, reward)
    action, names = _actions(model, entries.state, ends)
    A = 1 + int(action.max(where=~ends[entries.state], initial=0))
    counts, pair = np.zeros((len(ends), A), np.int64), entries.state * A + np.minimum(action, A - 1)
    used = ~ends[entries.state]
    counts.ravel()[pair[used]] = entries.length[used]
    of_used = np.repeat(used, entries.length)
    order = np.argsort(np.repeat(pair, entries.length)[of_used], kind="stable")
    at = np.flatnonzero(of_used)[order]
    listed = Listed(counts, entries.value[at], reward[at], entries.column[at], ends)
    return Found(listed, _state_names(model), names)


def _entries(model: Any) -> Entries:
    matrix = model.transition_matrix
    arrays.refuse_large(f"Lists of {matrix.nr_entries} outcomes", BYTES * matrix.nr_entries)
    found = _columns(matrix)
    length = np.array([len(matrix.get_row(i)) for i in range(matrix.nr_rows)], np.int64)
    begin: Integers = np.arange(matrix.nr_rows + 1)
    if model.is_nondeterministic_model:
        begin = np.array(model.nondeterministic_choice_indices, np.int64)
    state = np.repeat(np.arange(model.nr_states), np.diff(begin))
    return Entries(state, length, found["column"].copy(), found["value"].copy())


def _columns(matrix: Any) -> Any:
    kind = np.dtype([("column", np.int64), ("value", np.float64)])
    return np.fromiter(((entry.column, entry.value) for entry in matrix), kind, matrix.nr_entries)


def _rewards(model: Any, entries: Entries, name: str | None) -> Floats:
    """Reward of each entry: that of the state, of the action and of the transition."""
    known = sorted(model.reward_models)
    if not known:
        raise ModelError("The file has no rewards. Add a reward structure to it.")
    if name is None and len(known) > 1:
        raise SettingsError(f"The file has the reward structures {known}. Choose one: rewards={known[0]!r}.")
    rewards = model.reward_models[choice("rewards", known[0] if name is None else name, known)]
    each = np.zeros(entries.state.size)
    if rewards.has_state_rewards:
        each += np.array(rewards.state_rewards)[entries.state]
    if rewards.has_state_action_rewards:
        each += np.array(rewards.state_action_rewards)
    found = np.repeat(each, entries.length)
    if rewards.has_transition_rewards:
        found += _of_transitions(rewards.transition_rewards, entries)
    return found


def _of_transitions(matrix: Any, entries: Entries) -> Floats:
    """Rewards of transitions, a matrix with some of the entries; the others are 0."""
    given = _columns(matrix)
    S = int(max(entries.column.max(), given["column"].max(initial=0))) + 1
    row = np.repeat(np.arange(matrix.nr_rows), [len(matrix.get_row(i)) for i in range(matrix.nr_rows)])
    keys = np.repeat(np.arange(entries.length.size), entries.length) * S + entries.column
    found = np.zeros(keys.size)
    found[np.searchsorted(keys, row * S + given["column"])] = given["value"]
    return found


def _ends(model: Any, label: str | None) -> Booleans:
    ends = np.zeros(model.nr_states, bool)
    if label is not None:
        known = sorted(model.labeling.get_labels())
        ends[list(model.labeling.get_states(choice("terminal", label, known)))] = True
    return ends


def _sinks(states: int, entries: Entries, reward: Floats) -> Booleans:
    """States that are never left and have no rewards."""
    of_entry = np.repeat(entries.state, entries.length)
    leaves = np.zeros(states, bool)
    leaves[of_entry[(entries.column != of_entry) | (reward != 0)]] = True
    return ~leaves


def _actions(model: Any, state: Integers, ends: Booleans) -> tuple[Integers, list[str] | None]:
    """Number of the action of each choice: by its label, or by its place if labels do not tell choices apart."""
    place = np.arange(state.size) - np.searchsorted(state, state)
    if not model.has_choice_labeling():
        return place, None
    used = np.flatnonzero(~ends[state])
    labelled = {name: list(model.choice_labeling.get_choices(name)) for name in model.choice_labeling.get_labels()}
    chosen = {name: np.intersect1d(choices, used) for name, choices in labelled.items()}
    names = sorted((name for name, choices in chosen.items() if choices.size), key=lambda name: int(chosen[name][0]))
    number, times = np.zeros(state.size, np.int64), np.zeros(state.size, np.int64)
    for i, name in enumerate(names):
        number[chosen[name]] = i
        times[chosen[name]] += 1
    pairs = state[used] * max(len(names), 1) + number[used]
    if not names or (times[used] != 1).any() or np.unique(pairs).size < used.size:
        return place, None
    return number, names


def _state_names(model: Any) -> list[str] | None:
    """Values of the variables in each state, e.g. "x=0 & y=1"."""
    if not model.has_state_valuations():
        return None
    values = model.state_valuations
    names = [" ".join(values.to_string(s).strip("[]").split()) for s in range(model.nr_states)]
    return names if len(set(names)) == len(names) else None


_REFUSED = 3
"""Exit code of a process that has written an error."""


def read_storm(path: Any, rewards: Any, constants: Any, terminal: Any) -> Found:
    """Lists of outcomes of a file, with names of states and actions if it has any."""
    file = checked(path, rewards, constants, terminal)
    with tempfile.TemporaryDirectory(prefix="jmdp-") as folder:
        asked = [str(file.absolute()), folder, json.dumps([rewards, constants, terminal])]
        paths = os.pathsep.join(filter(None, sys.path))
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__, *asked],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode == _REFUSED:
            kind, text = json.loads((Path(folder) / "error.json").read_text(encoding="utf-8"))
            raise getattr(errors, kind)(text)
        if done.returncode:
            raise FileError(
                f"{short(str(file), 300)} ended the process in which Storm parsed it (exit code {done.returncode}). It "
                "may have deeply nested expressions or a division by 0, or the machine too little memory. Check it "
                f"with Storm itself. {_last(done.stderr)}"
            )
        return _loaded(Path(folder))


def _last(printed: bytes) -> str:
    lines = printed.decode(errors="replace").strip().splitlines()
    return short(lines[-1], 200) if lines else ""


def _loaded(folder: Path) -> Found:
    with np.load(folder / "found.npz", allow_pickle=False) as arrays:
        listed = Listed(*(arrays[name] for name in Listed._fields))
    states, actions = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    return Found(listed, states, actions)


def _main(file: str, folder: str, asked: str) -> int:
    place = Path(folder)
    try:
        found = _parsed(Path(file), *json.loads(asked))
    except JMDPError as error:
        (place / "error.json").write_text(json.dumps([type(error).__name__, str(error)]), encoding="utf-8")
        return _REFUSED
    np.savez(place / "found.npz", **found.listed._asdict())
    (place / "names.json").write_text(json.dumps([found.states, found.actions]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
