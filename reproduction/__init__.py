"""The paper again: experiments with public names only, their claims, verdicts, records, and the report."""
