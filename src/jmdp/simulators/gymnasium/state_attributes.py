"""Classification of the attributes of environments and wrappers: state, constants, rendering and bookkeeping."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

CONSTANT = ("spec", "_cached_spec", "metadata", "_metadata", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs",
             "action_space", "_action_space", "observation_space", "_observation_space")  # fmt: skip
"""Attributes of environments and wrappers that a step does not change, so that copies may share them."""

SPACES = {"action_space", "_action_space", "observation_space", "_observation_space"}
"""Constant attributes that are spaces: these have random generators."""

_NOT_STATE = {*CONSTANT, "_np_random", "_np_random_seed", "np_random", "render_mode", "mujoco_renderer"}
"""Attributes that do not affect future steps."""

_DRAWING = {"screen", "window", "clock", "viewer", "window_surface", "surf", "renderer"}
"""Attributes that do not affect future steps if they are rendering objects; numbers and arrays may do so."""

_ELAPSED = {"TimeLimit": {"_elapsed_steps"}}
"""Attributes of wrappers that do not affect future steps if truncation does not end the episode."""

_BOOKKEEPING = {
    "OrderEnforcing": {"_has_reset"},
    "PassiveEnvChecker": {"checked_reset", "checked_step", "checked_render", "close_called", "checked_data_reuse",
                          "_previous_data"},
    "RecordEpisodeStatistics": {"episode_count", "episode_start_time", "episode_returns", "episode_lengths",
                                "time_queue", "return_queue", "length_queue"},
}  # fmt: skip
"""Attributes of wrappers that never affect future steps."""

_TABLES = {"P", "desc", "initial_state_distrib", "lastaction", "hole_img", "cracked_hole_img", "ice_img", "elf_images",
           "goal_img", "start_img"}  # fmt: skip
"""Irrelevant attributes of environments with a table P: it is constant, and `lastaction` is only for rendering."""


def not_state(owner: object, *, time_counts: bool) -> Container[str]:
    """Names of the attributes of this object that do not affect future steps."""
    if not hasattr(type(owner), "reset") or not hasattr(type(owner), "step"):
        return ()
    return not_state_of(type(owner), vars(owner), time_counts=time_counts)


def not_state_of(kind: type, attributes: Mapping[str, Any], *, time_counts: bool) -> set[str]:
    """`not_state` for an environment or wrapper of this class with these attributes."""
    found = _NOT_STATE | _BOOKKEEPING.get(kind.__name__, set())
    if not time_counts:
        found |= _ELAPSED.get(kind.__name__, set())
    found |= {name for name in _DRAWING & attributes.keys() if _draws(attributes[name])}
    return found | _TABLES if transition_table(attributes) is not None else found


def _draws(value: object) -> bool:
    return value is None or type(value).__module__.partition(".")[0] not in ("builtins", "collections", "numpy")


def transition_table(attributes: Mapping[str, Any]) -> dict[Any, Any] | None:
    """P, if P[state][action] is a list of (probability, next state, reward, terminated); else None."""
    table = attributes.get("P")
    rows = next(iter(table.values()), None) if isinstance(table, dict) else None
    row = next(iter(rows.values()), None) if isinstance(rows, dict) else None
    known = isinstance(row, list) and all(isinstance(entry, tuple) and len(entry) == 4 for entry in row)
    return table if known else None
