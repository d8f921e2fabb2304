"""What everything stands on: arrays, labels, intervals, settings, randomness, progress, files and the machine."""
