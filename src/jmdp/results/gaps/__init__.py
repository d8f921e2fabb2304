"""What is asked of two actions at once: the gap between their returns."""
