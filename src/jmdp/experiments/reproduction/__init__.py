"""Shared parts of experiments that reproduce a paper: claims, verdicts, records, and the report."""
