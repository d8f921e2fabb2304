"""Simulators of JAX environments: step functions, and environments of gymnax."""
