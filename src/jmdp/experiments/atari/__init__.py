"""Learned joint moments on Atari games, against simulation: ``python -m jmdp.experiments.atari --help``."""
