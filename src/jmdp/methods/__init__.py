"""The ways to get joint moments, a file each."""
