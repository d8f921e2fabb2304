"""Learned joint moments on Atari games, against simulation: ``python -m experiments.atari --help``."""
