"""Slow twins: the same quantities by other routes, written to be read."""
