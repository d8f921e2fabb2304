"""Policies from command-line text: a world's policy, an action, an action per state, or a user's own policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jmdp.base.labels import Labels
from jmdp.cli.choices import label_of, unknown
from jmdp.cli.loading import Loader
from jmdp.cli.policy_files import file_policy, names_a_file
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP


def table_policy(text: str, model: TabularJMDP, named: Mapping[str, TabularPolicy]) -> TabularPolicy:
    """Return a policy of a table."""
    S, _, A = model.shape
    known = {"uniform": TabularPolicy.uniform(model), **named}
    if text in known:
        return known[text]
    if S > 1 and "," in text:
        return TabularPolicy.deterministic(model, [label_of(model.actions, part.strip()) for part in text.split(",")])
    names = [model.actions.name(a) for a in range(A)]
    if text not in names and not text.isdecimal():
        raise unknown("policy", text, [*known, *names])
    return TabularPolicy.deterministic(model, dict.fromkeys(model.states, label_of(model.actions, text)))


def simulator_policy(text: str, actions: Labels | None, read_action: Callable[[str], Any], loader: Loader) -> Any:
    """Return a policy of a simulator; `read_action` converts continuous actions."""
    if text == "uniform":
        return "uniform"
    if names_a_file(text):
        return file_policy(text, loader)
    if actions is None:
        return Always(text, read_action(text))
    if "," in text:
        return [_action(part, actions) for part in text.split(",")]
    if text not in (actions.names or ()) and not text.isdecimal():
        raise unknown("policy", text, ["uniform", "file.py:name", *(actions.name(a) for a in range(actions.size))])
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
