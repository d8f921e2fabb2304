"""Joint moments and distributions from simulated branches."""

from jmdp.methods.monte_carlo.monte_carlo import MonteCarlo, gap_samples

__all__ = ["MonteCarlo", "gap_samples"]
