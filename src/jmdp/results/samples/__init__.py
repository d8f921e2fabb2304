"""Results from samples: moments, distributions and intervals of what was drawn."""
