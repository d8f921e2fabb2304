"""The branching process one draw at a time, in plain Python: the slow twin of `jmdp.kernels.branches`.

It looks luck up by what shares it (a state, a step, a branch) and draws in the kernel's order, so that from the same
generator both give the same numbers.
"""

from __future__ import annotations

import numpy as np


def step(rng, model, policy, coupling, branches):
    """Move branches [(s, a), …] one step: rewards, and where they stand then."""
    S = model.shape[0]
    cumulative = [np.cumsum(model.prob[s])[:-1] for s in range(S)]
    choices = [np.cumsum(policy.probs[s])[:-1] for s in range(S)]
    common = rng.random() if coupling.shared_between_states else None
    policy_luck = rng.random() if coupling.policy_luck == "shared" else None
    scenario_of, next_of = {}, {}
    rewards, places = [], []
    for i, (s, a) in enumerate(branches):
        if model.terminal[s]:
            rewards.append(0.0)
            places.append((s, a))
            continue
        here = s if coupling.shared_in_a_state else ("branch", i)
        if here not in scenario_of:
            u = common if common is not None else rng.random()
            scenario_of[here] = int(np.searchsorted(cumulative[s], u, side="right"))
        k = scenario_of[here]
        n = int(model.next_state[s, k, a])
        coordinate = (here, a)
        if coordinate not in next_of:
            u = policy_luck if policy_luck is not None else rng.random()
            next_of[coordinate] = int(np.searchsorted(choices[n], u, side="right"))
        rewards.append(float(model.reward[s, k, a]))
        places.append((n, next_of[coordinate]))
    return rewards, places


def returns(rng, model, policy, coupling, state, actions, samples, horizon):
    """[samples, actions], discounted returns."""
    out = np.zeros((samples, len(actions)))
    for row in range(samples):
        branches = [(state, int(a)) for a in actions]
        weight = 1.0
        for _ in range(horizon):
            rewards, branches = step(rng, model, policy, coupling, branches)
            out[row] += weight * np.array(rewards)
            if all(model.terminal[s] for s, _ in branches):
                break
            weight *= model.discount
    return out
