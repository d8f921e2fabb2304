"""Joint moments learned from one-step samples: the method, its coordinate sampling and its step sizes."""

from jmdp.methods.incremental.coordinate_sampling import (
    BlockSampling,
    CoordinateSampling,
    TrajectorySampling,
    UniformSampling,
)
from jmdp.methods.incremental.incremental import Incremental
from jmdp.methods.incremental.stochastic_approximation import ConstantSteps, PolynomialSteps

__all__ = [
    "BlockSampling",
    "ConstantSteps",
    "CoordinateSampling",
    "Incremental",
    "PolynomialSteps",
    "TrajectorySampling",
    "UniformSampling",
]
