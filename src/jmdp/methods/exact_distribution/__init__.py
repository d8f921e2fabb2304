"""Certified distributions of all returns and gaps."""

from jmdp.methods.exact_distribution.exact_distribution import ExactDistribution

__all__ = ["ExactDistribution"]
