"""Calibration of learned gaps against simulated ones in held-out states."""

from jmdp.results.calibration.bootstrap import Judgement
from jmdp.results.calibration.record import Calibration

__all__ = ["Calibration", "Judgement"]
