"""Learned joint moments on Atari games, compared with simulation: ``python -m jmdp.experiments.atari --help``."""
