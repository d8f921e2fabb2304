"""The paper's figures, tables, theorems and examples, one file each; `python -m reproduction` runs them."""

from __future__ import annotations

from reproduction.experiment import Experiment
from reproduction.paper.atari_gap_variances import AtariGapVariances
from reproduction.paper.atari_on_theirs import AuthorsGapVariances, AuthorsTDErrors
from reproduction.paper.atari_td_errors import AtariTDErrors
from reproduction.paper.chain_correlation import ChainCorrelation
from reproduction.paper.diagonal import Diagonal
from reproduction.paper.example_2 import Example2
from reproduction.paper.gap_validation import GapValidation
from reproduction.paper.gridworld_correlations import GridworldCorrelations
from reproduction.paper.incremental import IncrementalConvergence
from reproduction.paper.jipe_n import JIPEn
from reproduction.paper.projection import ProjectedContraction
from reproduction.paper.residuals import Residuals

EXPERIMENTS: dict[str, type[Experiment]] = {
    kind.name: kind
    for kind in (
        Example2, Diagonal, IncrementalConvergence, JIPEn, Residuals, GridworldCorrelations, ChainCorrelation,
        GapValidation, AuthorsTDErrors, AtariTDErrors, ProjectedContraction, AuthorsGapVariances, AtariGapVariances,
    )
}  # fmt: skip
"""In the order of the paper."""
