"""Pairs of walks in plain Python: the slow twin of `jmdp.simulators.rollouts.pair_walks`.

Nothing is merged, no digest is spared and no state is used up. A branch is told its keys and nothing else of the other:
that branches which have met are one must follow from equal keys alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.simulators.digests import digest_of


def starts(simulator, actor, plan, root: Shock) -> list[Any]:
    """States in which the walks of a block begin: all that the policy comes through, every `spacing`-th of them."""
    root = root.derived(b"starts")
    skip, episode = int(root.generator().integers(plan.spacing)), 0
    state, passed = simulator.start(root.derived(b"start", 0)), []
    for t in range(skip + plan.spacing * plan.visits):
        passed.append(state)
        (action,) = actor.act([simulator.observe(state)], [root.derived(b"policy", t)])
        _, state, terminated = simulator.step(state, action, root.derived(b"environment", t))
        if terminated:
            episode += 1
            state = simulator.start(root.derived(b"start", episode))
    return passed[skip :: plan.spacing][: plan.visits]


class Branch:
    """One branch of a walk, which knows nothing of the other."""

    def __init__(self, state: Any, action: int) -> None:
        self.state, self.action, self.ended = state, action, False
        self.rewards: list[float] = []
        self.passed: list[tuple[np.ndarray, int, bool]] = []  # what was seen, which action was taken, was it over

    def note(self, simulator) -> None:
        seen = np.array(simulator.observe(self.state))
        self.passed.append((seen, 0 if self.ended else self.action, self.ended))

    def step(self, simulator, actor, environment: Shock, policy: Shock) -> None:
        if self.ended:
            self.rewards.append(0.0)
            return
        reward, self.state, self.ended = simulator.step(self.state, self.action, environment)
        self.rewards.append(reward)
        if not self.ended:
            (self.action,) = actor.act([simulator.observe(self.state)], [policy])


def walk(simulator, actor, coupling, root: Shock, state: Any, pair: list[int], length: int) -> dict[str, np.ndarray]:
    """One walk: both branches go on, each by itself, whether they have met or not."""
    both = [Branch(state, a) for a in pair]
    same, one = [], False
    for t in range(length + 1):
        for branch in both:
            branch.note(simulator)
        at_one_place = simulator.digest(both[0].state) == simulator.digest(both[1].state)
        go_on = not (both[0].ended or both[1].ended)
        same.append(at_one_place and (one or go_on) and (coupling.shared_in_a_state or t == 0))
        if one:  # by equal keys alone
            assert at_one_place
            assert both[0].passed[-1][1:] == both[1].passed[-1][1:]
        one = one or (same[-1] and both[0].action == both[1].action)
        if t < length:
            for b, branch in enumerate(both):
                place = bytes([0 if same[-1] else b])
                environment = coupling.environment_shock(root, t, place, b)
                branch.step(simulator, actor, environment, coupling.policy_shock(root, t, place + taken(branch), b))
    found = {
        name: np.stack([np.array([entry[i] for entry in branch.passed]) for branch in both], axis=1)
        for i, name in enumerate(("observation", "action", "ended"))
    }
    return {**found, "reward": np.array([branch.rewards for branch in both]).T, "same": np.array(same)}


def taken(branch: Branch) -> bytes:
    """The name of an action in keys."""
    return digest_of(branch.action)


def block(simulator, actor, coupling, plan, seed: int, number: int) -> dict[str, np.ndarray]:
    """All arrays of `PairWalks` for one block."""
    root = Shock.of_sample(seed, number)
    choose = root.derived(b"actions").generator()
    rows, visits = [], []
    for visit, state in enumerate(starts(simulator, actor, plan, root)):
        pair = choose.choice(simulator.actions.size, 2, replace=False).tolist()
        for _ in range(plan.repeats):
            luck = root.derived(b"walk", len(rows))
            rows.append(walk(simulator, actor, coupling, luck, state, pair, plan.length))
            visits.append(visit)
    return {"visit": np.array(visits), **{name: np.array([row[name] for row in rows]) for name in rows[0]}}
