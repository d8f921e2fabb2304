"""What every experiment is: settings, numbers, a figure of the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from jmdp.experiments.reproduction.findings import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Work:
    """Where and how an experiment is run; nothing here changes a number."""

    folder: Path
    """For what is worth keeping if the run is interrupted."""
    progress: bool = True
    """Show bars on a terminal."""
    workers: int = 2
    """Processes for emulators."""


@dataclass(frozen=True)
class Numbers:
    """What an experiment found."""

    findings: list[Finding]
    data: dict[str, Any]
    """What its figure shows: lists and numbers, as JSON has them."""


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """One figure or table of the paper; its fields are its settings."""

    name: ClassVar[str]
    title: ClassVar[str]
    where: ClassVar[str]
    """In the paper."""
    ours: ClassVar[str]
    """Which settings the paper does not say, and why ours are what they are."""

    @classmethod
    def quick(cls) -> Self:
        """Settings for a first look; those of a full run where that takes seconds."""
        return cls()

    @classmethod  # noqa: B027 (most need nothing more)
    def require(cls) -> None:
        """Say what is not installed, before any work is done."""

    @abstractmethod
    def run(self, work: Work) -> Numbers:
        """Find the numbers."""

    @abstractmethod
    def figure(self, data: dict[str, Any]) -> Figure:
        """Draw what was found."""

    @classmethod
    def configured(cls, quick: bool) -> Self:
        """The settings of a full or of a quick run."""
        return cls.quick() if quick else cls()
