"""Benchmarks against other software and against bare loops: `python -m benchmarks`."""
