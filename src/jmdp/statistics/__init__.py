"""Results from samples: moments, distributions and confidence intervals."""
