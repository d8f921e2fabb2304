"""The command line: parse the arguments, call the library, print the result."""

from jmdp.cli.main import main

__all__ = ["main"]
