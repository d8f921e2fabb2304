"""Base class of all experiments: settings, numbers, and a figure of the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from reproduction.findings import Finding

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Work:
    """Execution settings of an experiment; they do not affect its numbers."""

    folder: Path
    """Folder for intermediate results, which an interrupted run reuses."""
    progress: bool = True
    """Show progress bars on a terminal."""
    workers: int = 2
    """Number of worker processes for emulators."""


@dataclass(frozen=True)
class Numbers:
    """Results of an experiment."""

    findings: list[Finding]
    data: dict[str, Any]
    """Data of its figure: lists and numbers that JSON can store."""


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """Experiment for one figure or table of the paper; its fields are its settings."""

    name: ClassVar[str]
    title: ClassVar[str]
    where: ClassVar[str]
    """Place in the paper."""
    ours: ClassVar[str]
    """Settings that the paper does not state, with the reasons for ours."""

    @classmethod
    def quick(cls) -> Self:
        """Return settings for a quick run; those of a full run if that takes only seconds."""
        return cls()

    @classmethod  # noqa: B027 (most need nothing more)
    def require(cls) -> None:
        """Raise `MissingExtraError` if a required package is not installed."""

    @abstractmethod
    def run(self, work: Work) -> Numbers:
        """Compute the numbers."""

    @abstractmethod
    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot the data of the results."""

    @classmethod
    def configured(cls, quick: bool) -> Self:
        """Return the settings of a full or a quick run."""
        return cls.quick() if quick else cls()
