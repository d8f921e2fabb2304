"""Side by side with peers and with the engine bare: `python -m benchmarks`, from the root of the repository."""
