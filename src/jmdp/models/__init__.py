"""Scenario tables, policies and couplings, and a reference implementation of a step in exact rationals."""
