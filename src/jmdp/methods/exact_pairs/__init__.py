"""All second moments, and higher ones of two returns, from tables over pairs of states."""

from jmdp.methods.exact_pairs.exact_pairs import ExactPairs

__all__ = ["ExactPairs"]
