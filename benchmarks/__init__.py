"""Side by side with peers and with the engine bare: `python -m benchmarks`."""
