"""Experiments: one folder each, over public names; numbers are saved before figures."""
