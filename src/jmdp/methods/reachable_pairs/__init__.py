"""Certified intervals at one state of a model that is never enumerated."""

from jmdp.methods.reachable_pairs.reachable_pairs import ReachablePairs

__all__ = ["ReachablePairs"]
