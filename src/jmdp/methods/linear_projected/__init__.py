"""Joint moments fitted in linear features: the method, its features, and the weights of pairs."""

from jmdp.methods.linear_projected import features
from jmdp.methods.linear_projected.linear_projected import LinearProjected
from jmdp.methods.linear_projected.pair_steps import Restart, Stationary

__all__ = ["LinearProjected", "Restart", "Stationary", "features"]
