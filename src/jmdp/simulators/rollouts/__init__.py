"""Rollouts: pairs and episodes under shared randomness, one at a time or many."""
