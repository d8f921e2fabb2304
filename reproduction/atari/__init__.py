"""Learned joint moments on Atari games, compared with simulation: ``python -m reproduction.atari --help``."""
