"""Policies of any kind, as rollouts use them."""
