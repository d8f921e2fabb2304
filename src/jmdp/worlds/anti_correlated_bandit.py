"""The paper's Example 1: two bandit arms of which exactly one pays in each step."""

from __future__ import annotations

import numpy as np

from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.worlds.world import World


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
