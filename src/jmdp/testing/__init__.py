"""Checks for users: likely mistakes in models, faults of simulators, and validity of certificates."""

from jmdp.simulators.checking.probe import Finding, Findings
from jmdp.testing.certificate_check import check_certificate
from jmdp.testing.model_check import ModelFinding, ModelReport, check_model
from jmdp.testing.simulator_check import check_simulator

__all__ = ["Finding", "Findings", "ModelFinding", "ModelReport", "check_certificate", "check_model", "check_simulator"]
