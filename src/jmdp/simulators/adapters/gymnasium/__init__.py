"""Simulators of Gymnasium environments, and the ways to take snapshots of them."""

from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator

__all__ = ["GymnasiumSimulator"]
