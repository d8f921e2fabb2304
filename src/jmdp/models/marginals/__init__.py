"""Ordinary MDPs: the distribution of the reward and next state of each single action, from arrays and files."""

from jmdp.models.marginals.marginals import Marginals

__all__ = ["Marginals"]
