"""Exceptions raised by jmdp. Every message states what is wrong, where, and the fix.

All derive from `JMDPError` and from the corresponding built-in exception, so that ``except ValueError`` works.
"""

from __future__ import annotations

from typing import Any


class JMDPError(Exception):
    """Base class of all errors that jmdp raises deliberately."""


class ModelError(JMDPError, ValueError):
    """Invalid scenario table: a shape, probability, index or value is wrong."""


class PolicyError(JMDPError, ValueError):
    """Invalid policy, or a policy that does not match the model."""


class CouplingError(JMDPError, ValueError):
    """Coupling that the model, method or setting does not support."""


class SettingsError(JMDPError, ValueError):
    """Invalid argument or setting of a function, method or world."""


class SimulatorError(JMDPError, ValueError):
    """Simulator that cannot be used for comparisons under shared randomness."""


class WorkerError(SimulatorError):
    """Worker process that ended while it ran a block, again and again.

    `killed` is True if it was ended from outside: by SIGKILL or SIGTERM, with its machine, or because it did not run at
    all. Nothing is then known about the block, and the same call can be repeated. Otherwise the block ends its process,
    or takes longer than `time_limit`.
    """

    def __init__(self, message: str, killed: bool) -> None:
        super().__init__(message)
        self.killed = killed

    def __reduce__(self) -> tuple[type[WorkerError], tuple[str, bool]]:
        return type(self), (self.args[0], self.killed)


class MemoryBudgetError(JMDPError, MemoryError):
    """Method that would exceed its memory limit; raised before anything is allocated."""


class LabelError(JMDPError, LookupError):
    """Unknown state, action or policy name."""


class NotConvergedError(JMDPError, RuntimeError):
    """Method stopped before reaching its tolerance. `evaluation` has the result so far, with a valid certificate."""

    def __init__(self, message: str, evaluation: Any) -> None:
        super().__init__(message)
        self.evaluation = evaluation

    def __reduce__(self) -> tuple[type[NotConvergedError], tuple[str, Any]]:
        return type(self), (self.args[0], self.evaluation)


class UnavailableError(JMDPError, AttributeError):
    """Quantity that the chosen method does not provide. The message names a method that does."""


class UndecidedError(JMDPError, ValueError):
    """Verdict UNKNOWN used as a truth value: the threshold lies inside the interval."""


class CertificateError(JMDPError, ValueError):
    """Certificate that failed verification against the table."""


class MissingExtraError(JMDPError, ImportError):
    """Missing optional package. The message contains the command that installs it."""


class CheckpointError(JMDPError, ValueError):
    """Damaged checkpoint, or checkpoint of another run."""


class StudyError(JMDPError, ValueError):
    """Folder of a study that is damaged, in use, belongs to another study, or cannot be written."""


class FileError(JMDPError, ValueError):
    """File that cannot be read: damaged, of another kind, too large, or unsafe."""
