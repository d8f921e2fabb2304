"""Checks that simulators are pure and draw all randomness from the shock."""
