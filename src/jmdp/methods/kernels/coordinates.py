"""Encoding of the coordinates of moments.

`one` is x = state × A + action. `other` is y ≥ x for the product of two branches at x and y, or MEAN or SQUARE for a
moment of one branch.
"""

MEAN, SQUARE = -1, -2

ENDED = -1
"""Coordinate of a branch that has reached a terminal state."""
