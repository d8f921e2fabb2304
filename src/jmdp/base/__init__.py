"""Shared foundations: arrays, labels, intervals, settings, randomness, progress, files and the machine."""
