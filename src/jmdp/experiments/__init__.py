"""Experiments, one folder each. They use public names only and save their numbers before their figures."""
