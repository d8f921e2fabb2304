"""Base class of all experiments: settings, numbers, and a figure of the numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
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
    tell: Callable[[str], None] = field(default=lambda text: None, compare=False)
    """Report what is being done."""


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
    described: ClassVar[str] = ""
    """What the paper's figure shows, which is not reproduced here; empty if it has none."""
    theirs: ClassVar[str] = ""
    """The authors' settings; empty if the paper has no experiment of it."""
    costs: ClassVar[str] = ""
    """What it costs, if its numbers may not be stored."""
    ours: ClassVar[str]
    """Our settings, with the reasons for them."""

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
