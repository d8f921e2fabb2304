"""How far learned gaps can be trusted: a record of them beside simulated ones, its intervals, and how it prints."""

from jmdp.results.calibration.judgement import Judgement
from jmdp.results.calibration.record import Calibration

__all__ = ["Calibration", "Judgement"]
