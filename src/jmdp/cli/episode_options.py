"""Options that `jmdp compare-policies` and `jmdp gate` have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from jmdp.cli.choices import CouplingName, coupling_of, label_of
from jmdp.cli.environments import Environment, EnvName, environment
from jmdp.cli.options import PolicyDraws, TruncatedEnds
from jmdp.cli.sampling_options import Sampling
from jmdp.errors import SettingsError
from jmdp.models.coupling import Coupling

_STARTS = (
    "Start states of the episodes, for tables: states by name or number, equally likely, or STATE=PROBABILITY. By "
    "default the start distribution of the world or the environment."
)


StartStates = Annotated[tuple[str, ...], tyro.conf.arg(metavar="STATE …", help=_STARTS, help_behavior_hint="")]
"""Start states by name or number."""


@dataclass(frozen=True, kw_only=True)
class EpisodeSampling(Sampling):
    """Command that compares policies over whole episodes."""

    env: EnvName
    starts: StartStates = ()
    truncated_ends: TruncatedEnds = False
    coupling: CouplingName = "synchronous"
    """Randomness shared by all policies in a step (synchronous), by those in the same state (local), or by none."""
    policy_luck: PolicyDraws = "shared"

    def environment(self) -> Environment:
        """Return the environment that ENV names."""
        return environment(self.env, self.loader(), truncated_ends=self.truncated_ends)

    def shared(self) -> Coupling:
        """Return the coupling."""
        return coupling_of(self.coupling, self.policy_luck)


def start_states(texts: Sequence[str], chosen: Environment) -> Any:
    """Return the argument `starts` of `compare_policies` from command-line text."""
    if not texts:
        return getattr(chosen.world, "start", None)
    if chosen.model is None:
        raise SettingsError("--starts is available for tables only. Other environments draw their starts from --seed.")
    labels = chosen.model.states
    pairs = [text.rpartition("=") if "=" in text else (text, "", "") for text in texts]
    states = [labels[labels.index(label_of(labels, state))] for state, _, _ in pairs]
    if not any(chance for _, _, chance in pairs):
        return states
    try:
        return dict(zip(states, [float(chance) for _, _, chance in pairs], strict=True))
    except ValueError:
        raise SettingsError(f"--starts is {' '.join(texts)}. Give a probability for each: 0=0.5 3=0.5.") from None
