"""Compiled loops that take and fill arrays. This is the only part of the package that uses numba."""
