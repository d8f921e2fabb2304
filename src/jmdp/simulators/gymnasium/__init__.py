"""Gymnasium environments as simulators: the environment, and ways to save and restore it."""

from jmdp.simulators.gymnasium.environment import GymnasiumSimulator

__all__ = ["GymnasiumSimulator"]
