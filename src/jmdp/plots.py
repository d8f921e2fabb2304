"""Figures. They need matplotlib: ``pip install "jmdp[plot]"``."""

from jmdp.show.plots.beaten_grid import beaten_grid
from jmdp.show.plots.calibration_scatter import calibration_scatter
from jmdp.show.plots.comparison_chart import comparison_chart
from jmdp.show.plots.correlation_grid import correlation_grid
from jmdp.show.plots.explanation_chart import explanation_chart
from jmdp.show.plots.frontier_chart import frontier_chart
from jmdp.show.plots.gap_chart import gap_chart
from jmdp.show.plots.gap_distribution import gap_distribution
from jmdp.show.plots.residual_curve import residual_curve
from jmdp.show.plots.review_chart import review_chart
from jmdp.show.plots.reviews_chart import reviews_chart
from jmdp.show.plots.study_gaps import study_gaps
from jmdp.show.plots.study_map import study_map
from jmdp.show.plots.superiority_matrix import superiority_matrix
from jmdp.show.plots.td_errors import td_errors

__all__ = [
    "beaten_grid",
    "calibration_scatter",
    "comparison_chart",
    "correlation_grid",
    "explanation_chart",
    "frontier_chart",
    "gap_chart",
    "gap_distribution",
    "residual_curve",
    "review_chart",
    "reviews_chart",
    "study_gaps",
    "study_map",
    "superiority_matrix",
    "td_errors",
]
