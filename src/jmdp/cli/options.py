"""Options that several commands have, with their help."""

from __future__ import annotations

from typing import Annotated, TypeVar

import tyro

from jmdp.models.coupling import PolicyLuck

Value = TypeVar("Value")

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
"""Off unless it is given, which help need not say."""

Optionally = Annotated[Value | None, tyro.conf.arg(help_behavior_hint="")]
"""An option whose help says itself what holds without it."""

Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME …]", help_behavior_hint="")]
"""Which of several things to run."""

Actions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ACTION …", help_behavior_hint="")]
"""Some, by name or number."""

TruncatedEnds = Annotated[
    Flag,
    tyro.conf.arg(help="Treat truncation (a time limit, data that run out) as the end: nothing after it counts."),
]

PolicyDraws = Annotated[
    PolicyLuck,
    tyro.conf.arg(
        help="Whether branches draw the policy's actions independently, or from one number in each step (shared)."
    ),
]
