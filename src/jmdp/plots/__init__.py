"""Figures, a file each. They need matplotlib: ``pip install "jmdp[plot]"``."""

from jmdp.plots.correlation_grid import correlation_grid
from jmdp.plots.gap_chart import gap_chart
from jmdp.plots.residual_curve import residual_curve

__all__ = ["correlation_grid", "gap_chart", "residual_curve"]
