"""Second moments of returns, and higher joint moments of two returns, from tables over state pairs."""

from jmdp.methods.exact_pairs.exact_pairs import ExactPairs

__all__ = ["ExactPairs"]
