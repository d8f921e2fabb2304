"""Options shared by several commands, with their help texts."""

from __future__ import annotations

from typing import Annotated, TypeVar

import tyro

from jmdp.models.coupling import PolicyLuck

Value = TypeVar("Value")

Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
"""Flag that is off by default; its help omits the default."""

Optionally = Annotated[Value | None, tyro.conf.arg(help_behavior_hint="")]
"""Option whose help text describes its default."""

Names = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME …]", help_behavior_hint="")]
"""Names of the items to run."""

Actions = Annotated[tuple[str, ...], tyro.conf.arg(metavar="ACTION …", help_behavior_hint="")]
"""Actions by name or number."""

TruncatedEnds = Annotated[
    Flag,
    tyro.conf.arg(help="Treat truncation (a time limit, the end of the data) as termination: no reward follows it."),
]

PolicyDraws = Annotated[
    PolicyLuck,
    tyro.conf.arg(
        help="Randomness of the policy's actions: drawn independently in each branch, or from one number in each step "
        "(shared)."
    ),
]
