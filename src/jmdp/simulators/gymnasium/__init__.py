"""Gymnasium environments as simulators: the environment, and ways to save and restore it."""

from jmdp.simulators.gymnasium.gymnasium_simulator import GymnasiumSimulator

__all__ = ["GymnasiumSimulator"]
