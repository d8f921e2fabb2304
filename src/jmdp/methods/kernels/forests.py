"""Prediction of forests: every tree is walked from its root to a leaf."""

from __future__ import annotations

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.compiled_kernel import compiled


@compiled()
def forest_mean(
    inputs: Floats,  # [n, d]
    roots: Integers,  # [trees]
    feature: Integers,  # [nodes], −1 for leaves
    threshold: Floats,  # [nodes]
    child: Integers,  # [nodes], left child, before the right one; for a leaf its row of `values`
    values: Floats,  # [leaves, m]
) -> Floats:
    """Average over the trees of the rows of `values` at the leaves, [n, m]. Inputs are compared in single precision.

    Some hundred rows walk through a tree side by side, level by level. Steps of different rows do not wait for each
    other, and a tree stays in the cache. Leaves lead to themselves, so that all rows take equally many steps.
    """
    n, trees, m, nodes = inputs.shape[0], roots.shape[0], values.shape[1], feature.shape[0]
    tested, limit, following = np.empty(nodes, np.int32), np.empty(nodes), np.empty(nodes, np.int32)
    levels = np.zeros(nodes, np.int32)  # below each node; children come after their parent
    for node in range(nodes - 1, -1, -1):
        if feature[node] < 0:
            tested[node], limit[node], following[node] = 0, np.inf, node
        else:
            tested[node], limit[node], following[node] = feature[node], threshold[node], child[node]
            levels[node] = 1 + max(levels[child[node]], levels[child[node] + 1])

    found = np.zeros((n, m))
    at = np.empty(256, np.int32)
    x = np.empty((256, inputs.shape[1]), np.float32)
    for start in range(0, n, 256):
        rows = min(256, n - start)
        for i in range(rows):
            for j in range(inputs.shape[1]):
                x[i, j] = inputs[start + i, j]
        for t in range(trees):
            at[:rows] = roots[t]
            for _ in range(levels[roots[t]]):
                for i in range(rows):
                    node = at[i]
                    at[i] = following[node] + (1 if x[i, tested[node]] > limit[node] else 0)
            for i in range(rows):
                leaf = child[at[i]]
                for j in range(m):
                    found[start + i, j] += values[leaf, j]
    for i in range(n):
        for j in range(m):
            found[i, j] /= trees
    return found
