"""Policies from command-line text: a world's policy, an action, an action per state, or a user's own policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jmdp.base.labels import Labels
from jmdp.cli.choices import attribute, label_of, unknown
from jmdp.errors import MissingExtraError, PolicyError
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

_SAVED_MODEL = re.compile(r"(?P<algorithm>\w+):(?P<path>.+\.zip)")


def table_policy(text: str, model: TabularJMDP, named: Mapping[str, TabularPolicy]) -> TabularPolicy:
    """Return a policy of a table."""
    S, _, A = model.shape
    known = {"uniform": TabularPolicy.uniform(model), **named}
    if text in known:
        return known[text]
    if S > 1 and "," in text:
        return TabularPolicy.deterministic(model, [_action(part, model.actions) for part in text.split(",")])
    names = [model.actions.name(a) for a in range(A)]
    if text not in names and not text.isdecimal():
        raise unknown("policy", text, [*known, *names])
    return TabularPolicy.deterministic(model, [_action(text, model.actions)] * S)


def simulator_policy(text: str, actions: Labels | None, read_action: Callable[[str], Any]) -> Any:
    """Return a policy of a simulator; `read_action` converts continuous actions."""
    if text == "uniform":
        return "uniform"
    if ":" in text:
        saved = _SAVED_MODEL.fullmatch(text)
        return _stable_baselines(**saved.groupdict()) if saved else attribute(text)
    if actions is None:
        return Always(text, read_action(text))
    if "," in text:
        return [_action(part, actions) for part in text.split(",")]
    if text not in (actions.names or ()) and not text.isdecimal():
        raise unknown("policy", text, ["uniform", *(actions.name(a) for a in range(actions.size))])
    a = _action(text, actions)
    return Always(actions.name(a), a)


@dataclass(frozen=True)
class Always:
    """Policy that always takes the same action."""

    name: str
    action: Any

    @property
    def __name__(self) -> str:
        return f"always {self.name}"

    def __call__(self, observation: Any) -> Any:  # noqa: D102 (see the class)
        return self.action


def _action(text: str, actions: Labels) -> int:
    return actions.index(label_of(actions, text.strip()))


def _stable_baselines(algorithm: str, path: str) -> Any:
    try:
        import stable_baselines3
    except ImportError:
        raise MissingExtraError(f"{path} needs stable-baselines3: pip install stable-baselines3") from None
    kinds = {name for name in stable_baselines3.__all__ if name.isupper()}
    if algorithm not in kinds:
        raise unknown("algorithm of stable-baselines3", algorithm, sorted(kinds))
    try:
        return getattr(stable_baselines3, algorithm).load(path, device="cpu")
    except FileNotFoundError:
        raise PolicyError(f"There is no file {path!r}. Give the file that model.save({path!r}) wrote.") from None
