"""Discounted visitation of a policy: mass pushed along its Markov chain from states whose tables are known."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.compiled_kernel import compiled
from jmdp.methods.kernels.tables import Chain


@compiled()
def push(
    chain: Chain,
    decay: float,
    threshold: float,
    mass: Floats,  # [S], changed in place
    most: int,
) -> None:
    """Push mass from every known state that has at least `threshold`, until none has or `most` pushes are made."""
    prob, next_state, policy, known, terminal = chain
    S, K, A = next_state.shape
    queue, queued = np.empty(S, np.int64), np.zeros(S, np.bool_)
    head = count = 0
    for s in range(S):
        if known[s] and not terminal[s] and mass[s] >= threshold:
            queue[count] = s
            queued[s] = True
            count += 1
    pushes = 0
    while count > 0 and pushes < most:
        pushes += 1
        s = queue[head]
        head = (head + 1) % S
        count -= 1
        queued[s] = False
        moving = decay * mass[s]
        mass[s] = 0.0
        for k in range(K):
            for a in range(A):
                share = prob[s, k] * policy[s, a]
                if share > 0:
                    n = next_state[s, k, a]
                    mass[n] += moving * share
                    if known[n] and not terminal[n] and not queued[n] and mass[n] >= threshold:
                        queue[(head + count) % S] = n
                        queued[n] = True
                        count += 1
