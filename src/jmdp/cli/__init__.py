"""The command line: parse, call, print."""

from jmdp.cli.main import main

__all__ = ["main"]
