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
    """Average over the trees of the rows of `values` at the leaves, [n, m]. Inputs are compared in single precision."""
    n, trees, m = inputs.shape[0], roots.shape[0], values.shape[1]
    found = np.zeros((n, m))
    for start in range(0, n, 512):  # a tree stays in the cache for so many rows
        stop = min(start + 512, n)
        for t in range(trees):
            for i in range(start, stop):
                node = roots[t]
                while feature[node] >= 0:
                    right = np.float32(inputs[i, feature[node]]) > threshold[node]
                    node = child[node] + (1 if right else 0)
                row = child[node]
                for j in range(m):
                    found[i, j] += values[row, j]
    for i in range(n):
        for j in range(m):
            found[i, j] /= trees
    return found
