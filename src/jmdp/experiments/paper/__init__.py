"""Reproductions of the paper's figures, tables, theorems and examples, one file each. `jmdp reproduce` runs them."""

from __future__ import annotations

from jmdp.experiments.paper.atari_gap_variances import AtariGapVariances
from jmdp.experiments.paper.atari_td_errors import AtariTDErrors
from jmdp.experiments.paper.chain_correlation import ChainCorrelation
from jmdp.experiments.paper.example_2 import Example2
from jmdp.experiments.paper.gap_validation import GapValidation
from jmdp.experiments.paper.gridworld_correlations import GridworldCorrelations
from jmdp.experiments.paper.incremental import IncrementalConvergence
from jmdp.experiments.paper.jipe_n import JIPEn
from jmdp.experiments.paper.projection import ProjectedContraction
from jmdp.experiments.paper.residuals import Residuals
from jmdp.experiments.reproduction.experiment import Experiment

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind
    for kind in (
        Example2, IncrementalConvergence, JIPEn, Residuals, GridworldCorrelations, ChainCorrelation, GapValidation,
        AtariTDErrors, ProjectedContraction, AtariGapVariances,
    )
}  # fmt: skip
"""In the order of the paper."""
