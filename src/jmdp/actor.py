"""How any policy is taken: arrays, functions, stable-baselines3 models, torch modules, JAX functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from jmdp.luck import Shock


class Actor(ABC):
    """A policy as rollouts use it: many observations at once, each with its own luck."""

    needs_luck: bool = True  # False where an observation settles the action

    @abstractmethod
    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """One action for each observation. Equal observations with equal shocks get equal actions."""
