"""Distributions of every return and every gap, certified."""

from jmdp.methods.exact_distribution.exact_distribution import ExactDistribution

__all__ = ["ExactDistribution"]
