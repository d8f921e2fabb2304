"""The paper's joint iterative policy evaluation (Section 5)."""

from jmdp.methods.jipe.jipe import JIPE

__all__ = ["JIPE"]
