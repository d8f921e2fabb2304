"""Simulators of ordinary Python objects with `step` and generators of their own."""
