"""How far learned gaps can be trusted: a record of them beside simulated ones, its intervals, and how it prints."""

from jmdp.calibration.judgement import Judgement
from jmdp.calibration.record import Calibration

__all__ = ["Calibration", "Judgement"]
