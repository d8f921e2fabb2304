"""Moments in the span of features: the basis they are fitted in, and the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.scale import Scale
from jmdp.methods.linear_projected.pair_features import orthonormal


@dataclass(frozen=True, eq=False)
class FeatureBasis(arrays.FrozenArrays):
    """φ and ψ in coordinates that are orthonormal under ν, and the transforms back."""

    phi: Floats  # [S·A, d]
    psi: Floats  # [S·A, e]
    to_phi: Floats  # maps parameters of the basis to those of the features as given
    to_psi: Floats

    @classmethod
    def of(cls, phi: Floats, psi: Floats, nu: Floats) -> FeatureBasis:
        """Orthonormal basis of these features under weights ν of coordinates."""
        (phi, to_phi), (psi, to_psi) = orthonormal(phi, nu), orthonormal(psi, nu)
        return cls(phi, psi, to_phi, to_psi)


@dataclass(frozen=True, eq=False)
class FittedMoments(arrays.FrozenArrays):
    """Fitted parameters, and the covariance of any pair under them."""

    basis: FeatureBasis
    theta: Floats  # [d], of means
    kernel: Floats  # [d, d]
    kernel_2: Floats  # [e, e]
    mean: Floats  # [S, A], on rewards of size 1
    target: str
    scale: Scale

    def same_state(self) -> Floats:
        """Covariances within states [S, A, A], exactly symmetric."""
        S, A = self.mean.shape
        phi, psi = self.basis.phi.reshape(S, A, -1), self.basis.psi.reshape(S, A, -1)
        found = (phi @ self.kernel) @ phi.transpose(0, 2, 1) + (psi @ self.kernel_2) @ psi.transpose(0, 2, 1)
        if self.target == "second_moment":
            found -= self.mean[:, :, None] * self.mean[:, None, :]
        return np.asarray((found + found.transpose(0, 2, 1)) / 2)

    def cross_covariance(self, s: int, a: int, t: int, b: int) -> float:
        """Cov(Z(s, a), Z(t, b)) for s ≠ t."""
        A = self.mean.shape[1]
        found = float(self.basis.phi[s * A + a] @ self.kernel @ self.basis.phi[t * A + b])
        if self.target == "second_moment":
            found -= float(self.mean[s, a] * self.mean[t, b])
        return self.scale.restore(found, 2)
