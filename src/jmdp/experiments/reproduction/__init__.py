"""What experiments that reproduce a paper share: claims, verdicts, records, and the report."""
