"""The paper's joint iterative policy evaluation."""

from jmdp.methods.jipe.jipe import JIPE

__all__ = ["JIPE"]
