"""What comes back: evaluations, comparisons, gaps, calibrations, and their intervals."""
