"""Paired rollouts in plain Python: the slow twin of `LockstepBranches`.

All branches of a sample take every step themselves: nothing is merged, and all states are compared by digests in every
step. The keys are those of DESIGN 3.6 with a number in place of the digest of a state or coordinate: the smallest of
the branches there. That branches which have met stay equal must follow from equal keys alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jmdp.base.luck import Shock
from jmdp.simulators.digests import digest_of


@dataclass
class Branch:
    """One branch of one sample."""

    number: int
    state: Any
    action: Any
    value: float = 0.0  # its return
    rewards: list[float] = field(default_factory=list)
    coordinates: list[tuple[bytes, bytes]] = field(default_factory=list)  # before each step
    over: bool = False
    end: tuple[bytes, bytes] | None = None  # where it stands at the horizon; None if all was over before


def keys(coupling, root: Shock, t: int, branch: Branch, branches: list[Branch]) -> tuple[Shock, Shock]:
    """The shocks of environment and policy for one of these branches, all of which have `coordinates` of step t."""
    here = branch.coordinates[-1]
    in_state = min(other.number for other in branches if other.coordinates[-1][0] == here[0])
    at_coordinate = min(other.number for other in branches if other.coordinates[-1] == here)
    kind, mine = type(coupling).__name__, branch.number
    where = {"Local": in_state, "Synchronous": None, "Independent": mine}[kind]
    environment = root.derived(b"environment", t, b"" if where is None else where.to_bytes(8, "little"))
    if coupling.policy_luck == "shared":
        return environment, root.derived(b"policy", t)
    chosen = mine if kind == "Independent" else at_coordinate
    return environment, root.derived(b"policy", t, chosen.to_bytes(8, "little"))


def sample_of(simulator, state, actions, numbers, actor, coupling, root: Shock, discount, horizon) -> list[Branch]:
    """All branches of the sample with this root."""
    branches = [Branch(i, state, action) for i, action in zip(numbers, actions, strict=True)]
    weight = 1.0
    for t in range(horizon):
        going = [branch for branch in branches if not branch.over]
        for branch in going:
            branch.coordinates.append((simulator.digest(branch.state), digest_of(branch.action)))
        luck = [keys(coupling, root, t, branch, going) for branch in going]
        for branch, (environment, policy) in zip(going, luck, strict=True):
            reward, branch.state, branch.over = simulator.step(branch.state, branch.action, environment)
            branch.value += weight * reward
            branch.rewards.append(reward)
            if not branch.over:
                (branch.action,) = actor.act([simulator.observe(branch.state)], [policy])
        weight *= discount
    for branch in branches:
        if not branch.over:
            branch.end = simulator.digest(branch.state), digest_of(branch.action)
    return branches


def paired_branches(
    simulator, state, actions, actor, coupling, *, discount, horizon, seed, first, count, numbers=None
) -> list[list[Branch]]:
    """[count][actions], all branches of these samples."""
    numbers = range(len(actions)) if numbers is None else numbers
    roots = [Shock.of_sample(seed, first + n) for n in range(count)]
    return [sample_of(simulator, state, actions, numbers, actor, coupling, root, discount, horizon) for root in roots]
