"""The paper's Example 1: two bandit arms of which exactly one pays in each step.

The paper's coupled-reward chain: two actions with the same transitions and opposite rewards.
"""

from __future__ import annotations

import numpy as np

from jmdp.base.settings import number, whole_number
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.adapters.functions import refuse_large_table
from jmdp.worlds.world import World, amount


def anti_correlated_bandit(*, discount: float = 0.9) -> World:
    """One state, two arms: in each step a fair coin U, 0 or 1, pays U to the first and 1 − U to the second.

    Each arm alone is a fair coin, so an ordinary MDP cannot distinguish this from two independent arms. Under policy
    "first", Var(Z(first) − Z(second)) is 1 with shared randomness (`Local`) and ½/(1 − γ²) with `Independent`.

    Paper: Example 1. Policies: "first", "uniform".
    """
    model = TabularJMDP(
        [[0.5, 0.5]], [[[0.0, 1.0], [1.0, 0.0]]], [[[0, 0], [0, 0]]], discount, None, ["play"], ["first", "second"]
    )
    policies = {"first": TabularPolicy.deterministic(model, ["first"]), "uniform": TabularPolicy.uniform(model)}
    return World(model, policies, start=np.ones(1))


def coupled_reward_chain(length: int = 25, *, reward: float = 1.0, up: float = 0.5, discount: float = 0.95) -> World:
    """A chain in which both actions lead to the next state and have opposite rewards.

    In each state a sign is drawn: + with probability `up`. The first action earns sign × `reward`, the second the
    opposite; both lead to the next state, and the last state is terminal. So the two rewards of a step have
    correlation −1, while everything after it is shared.

    Paper: Section 6, "Coupled-reward chain", Figure 3, with |S| = 25. Its rewards ±r are outside the interval [0, 1]
    that its Lemma 5.2 requires; here any bound is allowed. It does not specify how r is drawn; the fair sign is our
    choice.

    Actions are named a1, a2. Policies: "uniform", "first", "second". `World.start`: s0.
    """
    length, reward, up = whole_number("length", length, 2, 2**31), amount("reward", reward), number("up", up, 0, 1)
    refuse_large_table(length, 2, 2)
    onward = np.minimum(np.arange(length) + 1, length - 1)
    model = TabularJMDP(
        np.tile([up, 1 - up], (length, 1)),
        np.tile([[reward, -reward], [-reward, reward]], (length, 1, 1)),
        np.broadcast_to(onward[:, None, None], (length, 2, 2)),
        discount,
        np.arange(length) == length - 1,
        [f"s{i}" for i in range(length)],
        ["a1", "a2"],
    )
    always = {name: TabularPolicy.deterministic(model, [a] * length) for name, a in (("first", "a1"), ("second", "a2"))}
    return World(model, {"uniform": TabularPolicy.uniform(model), **always}, start=np.eye(1, length)[0])
