"""Scenario tables, policies, couplings, and the semantics in exact rationals."""
