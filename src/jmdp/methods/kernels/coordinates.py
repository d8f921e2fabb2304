"""How coordinates of moments are written.

`one` is x = state × A + action. `other` is y ≥ x for the product of two branches on x and y, or says what of the
one branch is meant.
"""

MEAN, SQUARE = -1, -2

ENDED = -1
"""Where a branch stands after it reached a terminal state."""
