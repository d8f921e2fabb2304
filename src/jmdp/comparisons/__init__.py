"""Comparisons of actions, policies and whole runs under shared randomness."""
