"""Figures. They need matplotlib: ``pip install "jmdp[plot]"``."""

from jmdp.show.plots.comparison_chart import comparison_chart
from jmdp.show.plots.gaps import explanation_chart, frontier_chart, gap_chart, gap_distribution
from jmdp.show.plots.grids import beaten_grid, correlation_grid, superiority_matrix
from jmdp.show.plots.learning import calibration_scatter, residual_curve, td_errors
from jmdp.show.plots.reviews import review_chart, reviews_chart
from jmdp.show.plots.studies import study_gaps, study_map

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
