"""The errors of jmdp. Every message says what is wrong, where, and the mend.

All derive from `JMDPError`, and from the built-in error a caller would expect, so that
``except ValueError`` keeps working.
"""

from __future__ import annotations

from typing import Any


class JMDPError(Exception):
    """Base of every error this package raises on purpose."""


class ModelError(JMDPError, ValueError):
    """A scenario table that is not one: a shape, a probability, an index or a number is wrong."""


class PolicyError(JMDPError, ValueError):
    """A policy that does not fit: its probabilities, or the model it is used with."""


class CouplingError(JMDPError, ValueError):
    """A coupling that this model, method or setting does not allow."""


class SettingsError(JMDPError, ValueError):
    """A setting of a method or world outside its range."""


class SimulatorError(JMDPError, ValueError):
    """A simulator that does not do what is needed to compare actions under shared luck."""


class MemoryBudgetError(JMDPError, MemoryError):
    """A method that would need more memory than it may use; nothing was allocated."""


class LabelError(JMDPError, LookupError):
    """A state or action that the model does not have."""


class NotConvergedError(JMDPError, RuntimeError):
    """A method stopped before its tolerance. What it reached is in `evaluation`, with a valid certificate."""

    def __init__(self, message: str, evaluation: Any) -> None:
        super().__init__(message)
        self.evaluation = evaluation

    def __reduce__(self) -> tuple[type[NotConvergedError], tuple[str, Any]]:
        return type(self), (self.args[0], self.evaluation)


class UnavailableError(JMDPError, AttributeError):
    """A quantity the chosen method does not give. The message names a method that does."""


class UndecidedError(JMDPError, ValueError):
    """A yes or no was asked of an answer that is UNKNOWN: the threshold lies inside the interval."""


class CertificateError(JMDPError, ValueError):
    """A certificate that does not hold when it is checked again from the table."""


class MissingExtraError(JMDPError, ImportError):
    """An optional package is not installed. The message is the command that installs it."""


class CheckpointError(JMDPError, ValueError):
    """A checkpoint that is damaged, or that belongs to another run."""
