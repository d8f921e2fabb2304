"""Compiled loops: arrays in, arrays out. Nothing else in the package compiles."""
