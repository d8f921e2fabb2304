"""Reviews of episodes: expectation, skill and luck of every step."""
