"""Which attributes of an environment and its wrappers are part of its state, and which are constants or bookkeeping."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

CONSTANT = ("spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs",
             "action_space", "_action_space", "observation_space", "_observation_space")  # fmt: skip
"""Attributes of environments and wrappers that copies may share: a step does not change them."""

SPACES = {"action_space", "_action_space", "observation_space", "_observation_space"}
"""Of these, the ones that can be drawn from."""

_NOT_STATE = {*CONSTANT, "_np_random", "_np_random_seed", "np_random", "render_mode", "mujoco_renderer"}
"""Attributes that say nothing of what will happen."""

_DRAWING = {"screen", "window", "clock", "viewer", "window_surface", "surf", "renderer"}
"""The same where they are things to draw with; a number or an array of such a name may well matter."""

_ELAPSED = {"TimeLimit": {"_elapsed_steps"}}
"""The same, of wrappers, where truncation by a time limit does not end the problem."""

_BOOKKEEPING = {
    "OrderEnforcing": {"_has_reset"},
    "PassiveEnvChecker": {"checked_reset", "checked_step", "checked_render", "close_called", "checked_data_reuse",
                          "_previous_data"},
    "RecordEpisodeStatistics": {"episode_count", "episode_start_time", "episode_returns", "episode_lengths",
                                "time_queue", "return_queue", "length_queue"},
}  # fmt: skip
"""The same, of wrappers, always."""

_TABLES = {"P", "desc", "initial_state_distrib", "lastaction", "hole_img", "cracked_hole_img", "ice_img", "elf_images",
           "goal_img", "start_img"}  # fmt: skip
"""The same for environments with a table P: it never changes, and the last action is kept for drawings only."""


def not_state(owner: object, *, time_counts: bool) -> Container[str]:
    """Attributes of this object that do not matter for what will happen."""
    if not hasattr(type(owner), "reset") or not hasattr(type(owner), "step"):
        return ()
    return not_state_of(type(owner), vars(owner), time_counts=time_counts)


def not_state_of(kind: type, attributes: Mapping[str, Any], *, time_counts: bool) -> set[str]:
    """`not_state` of an environment or wrapper of this class, with these attributes."""
    found = _NOT_STATE | _BOOKKEEPING.get(kind.__name__, set())
    if not time_counts:
        found |= _ELAPSED.get(kind.__name__, set())
    found |= {name for name in _DRAWING & attributes.keys() if _draws(attributes[name])}
    return found | _TABLES if transition_table(attributes) is not None else found


def _draws(value: object) -> bool:
    return value is None or type(value).__module__.partition(".")[0] not in ("builtins", "collections", "numpy")


def transition_table(attributes: Mapping[str, Any]) -> dict[Any, Any] | None:
    """P, if P[state][action] is a list of (chance, next state, reward, end)."""
    table = attributes.get("P")
    rows = next(iter(table.values()), None) if isinstance(table, dict) else None
    row = next(iter(rows.values()), None) if isinstance(rows, dict) else None
    known = isinstance(row, list) and all(isinstance(entry, tuple) and len(entry) == 4 for entry in row)
    return table if known else None
