"""From arguments to a command, and from what it raises to an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from jmdp.cli.bench import Bench
from jmdp.cli.command import Exit
from jmdp.errors import JMDPError, MissingExtraError


def main(arguments: Sequence[str] | None = None) -> int:
    """Same luck, different action: joint returns of several actions, from tables and from simulators."""
    try:
        try:
            import tyro
        except ImportError:
            raise MissingExtraError('The command line needs tyro: pip install "jmdp[cli]"') from None
        command = tyro.extras.subcommand_cli_from_dict(
            {"bench": Bench}, args=arguments, prog="jmdp", description=main.__doc__
        )
        return command.run()
    except JMDPError as error:
        print(f"jmdp: {error}", file=sys.stderr)
        return Exit.ERROR
    except KeyboardInterrupt:
        print("jmdp: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
