"""Figures, a file each; `jmdp.plots` has their names."""
