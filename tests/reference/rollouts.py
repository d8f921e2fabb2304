"""Paired rollouts one branch at a time, in plain Python: the slow twin of `jmdp.rollouts`.

No branch knows of another, nothing is merged, no digest is spared, and the keys are those of DESIGN 3.6, written out:
that branches share luck and go on as one once they have met must follow from equal keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jmdp.base.luck import Shock
from jmdp.simulators.digests import digest_of


@dataclass
class Branch:
    """One branch of one sample."""

    value: float = 0.0  # its return
    rewards: list[float] = field(default_factory=list)
    coordinates: list[tuple[bytes, bytes]] = field(default_factory=list)  # before each step
    end: tuple[bytes, bytes] | None = None  # where it stands at the horizon; None if all was over before


def keys(coupling, root: Shock, t: int, state: bytes, action: bytes, branch: int) -> tuple[Shock, Shock]:
    """The shocks of environment and policy."""
    kind, mine = type(coupling).__name__, branch.to_bytes(8, "little")
    where = {"Local": state, "Synchronous": b"", "Independent": mine}[kind]
    chosen = mine if kind == "Independent" else state + action
    environment = root.derived(b"environment", t, where)
    if coupling.policy_luck == "shared":
        return environment, root.derived(b"policy", t)
    return environment, root.derived(b"policy", t, chosen)


def branch_of(simulator, state: Any, action: Any, actor, coupling, root: Shock, i: int, discount, horizon) -> Branch:
    """Branch number i of the sample with this root."""
    branch, weight = Branch(), 1.0
    for t in range(horizon):
        here = simulator.digest(state), digest_of(action)
        branch.coordinates.append(here)
        environment, policy = keys(coupling, root, t, *here, i)
        reward, state, terminated = simulator.step(state, action, environment)
        branch.value += weight * reward
        branch.rewards.append(reward)
        if terminated:
            return branch
        weight *= discount
        (action,) = actor.act([simulator.observe(state)], [policy])
    branch.end = simulator.digest(state), digest_of(action)
    return branch


def paired_branches(
    simulator, state, actions, actor, coupling, *, discount, horizon, seed, first, count
) -> list[list[Branch]]:
    """[count][actions], all branches of these samples."""
    return [
        [
            branch_of(
                simulator, state, action, actor, coupling, Shock.of_sample(seed, first + n), i, discount, horizon
            )
            for i, action in enumerate(actions)
        ]
        for n in range(count)
    ]  # fmt: skip
