"""The contract of a method: settings in a frozen dataclass, and one way to run."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jmdp.coupling import Coupling
from jmdp.evaluation import Evaluation
from jmdp.model import TabularJMDP
from jmdp.policy import TabularPolicy


class Method(ABC):
    """A way to get joint moments. Subclasses are frozen dataclasses of settings."""

    @abstractmethod
    def run(self, model: TabularJMDP, policy: TabularPolicy, coupling: Coupling, progress: bool) -> Evaluation:
        """Evaluate; the three nouns are known to fit one another. Users call `jmdp.evaluate`."""
