"""Atari on the authors' settings: pair queries in a random walk, their network read plainly, and simulated gaps."""
