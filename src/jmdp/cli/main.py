"""Entry point of the command line: parse the arguments, run the command, map exceptions to exit codes."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TextIO

from jmdp.cli.choices import unknown
from jmdp.cli.exit import Exit
from jmdp.errors import JMDPError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from jmdp.cli.command import Command


class _Entry(NamedTuple):
    """Module and class of a command, which is imported only on use, and its summary."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "evaluate": _Entry(
        "evaluate", "Evaluate", "Evaluate a built-in world: exact means, covariances and gaps of all actions."
    ),
    "compare": _Entry(
        "compare", "Compare", "Compare the actions of a simulator in one state, under shared randomness."
    ),
    "compare-policies": _Entry(
        "compare_policies", "ComparePolicies", "Compare whole policies of a simulator under shared randomness."
    ),
    "gate": _Entry("gate", "Gate", "Fail if a new policy is worse than the old one by more than a margin."),
    "check": _Entry("check", "Check", "Check that a simulator gives the same randomness to all of its actions."),
    "reproduce": _Entry("reproduce", "Reproduce", "Reproduce the paper's experiments and write a report."),
}

_EXAMPLES = {
    "jmdp evaluate inventory --state 3": "mean returns and gaps of all orders, with three units in stock",
    "jmdp compare CartPole-v1 --discount 0.9 --after left left": "push left or right, after two pushes to the left",
    "jmdp compare-policies world:inventory --policies base_stock reorder --starts 0 5": "two inventory policies",
    "jmdp gate world:inventory --old base_stock --new reorder --margin 2%": "is the new policy worse by more than 2%?",
    "jmdp check FrozenLake-v1": "whether its actions can share randomness",
    "jmdp reproduce chain_correlation --out report": "one figure of the paper, within seconds",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare actions and policies under shared randomness (the same luck), on tables and simulators."""
    return exit_code(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def exit_code(run: Callable[[], int]) -> int:
    """Run a command; turn exceptions into a message and an exit code."""
    _replace_unknown_characters()
    try:
        code = run()
        sys.stdout.flush()
        return code
    except JMDPError as error:
        print(f"jmdp: {error}", file=sys.stderr)
        return Exit.ERROR
    except KeyboardInterrupt:
        print("jmdp: interrupted", file=sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader closed the pipe; the redirection silences Python's final flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except OSError as error:
        if error.filename is None:
            traceback.print_exc()
        else:
            print(f"jmdp: {error.filename}: {error.strerror}", file=sys.stderr)
        return Exit.ERROR
    except SystemExit as ended:  # from user code; its exit code, perhaps 0, would be mistaken for a result
        print(f"jmdp: user code exited before the command had finished: SystemExit({ended.code!r})", file=sys.stderr)
        return Exit.ERROR
    except Exception:  # probably from user code; Python's own exit code, 1, would be mistaken for a result
        traceback.print_exc()
        return Exit.ERROR


def _replace_unknown_characters() -> None:
    """Print "?" for characters such as ± that the encoding of the terminal or file does not have."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name in ("-h", "--help"):
        return _help(sys.stdout, Exit.YES)
    if name == "":
        return _help(sys.stderr, Exit.ERROR)
    if name == "--version":
        from jmdp import __version__

        print(f"jmdp {__version__}")
        return Exit.YES
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    entry = COMMANDS[name]
    try:
        import_module("tyro")
    except ImportError:
        raise MissingExtraError('The command line needs tyro: pip install "jmdp[cli]"') from None
    kind: type[Command] = getattr(import_module(f"jmdp.cli.commands.{entry.module}"), entry.name)
    command = parsed(kind, f"jmdp {name}", rest)
    return command if isinstance(command, int) else command.run()


def parsed(kind: type[Command], program: str, arguments: Sequence[str]) -> Command | int:
    """Return the command with its settings, or an exit code if help was requested or an option is wrong."""
    from tyro import cli, conf

    if "--out=" in arguments or ("--out", "") in pairwise(arguments):  # as a path it would mean the current folder
        raise SettingsError("--out is empty. Give a folder, e.g. '.' for the current one.")
    form, arguments = kind.form(arguments)
    markers = (conf.CascadeSubcommandArgs, conf.OmitSubcommandPrefixes, conf.FlagCreatePairsOff, conf.DisallowNone)
    try:
        return cli(form, args=arguments, prog=program, config=(*markers, conf.SuppressFixed))
    except SystemExit as ended:
        if kind.examples and {"-h", "--help"} & set(arguments):
            print(_examples(kind.examples))
        return Exit.YES if ended.code is None else int(ended.code)


def _help(stream: TextIO, code: Exit) -> Exit:
    commands = "\n".join(f"  {name:<16} {entry.summary}" for name, entry in COMMANDS.items())
    print(
        f"usage: jmdp COMMAND [OPTIONS]\n\n{main.__doc__}\n\ncommands\n{commands}\n\n"
        "options\n"
        "  -h, --help  show this help; after a command, show its options\n"
        "  --version   show the version\n\n"
        "exit codes\n"
        "  0    success: converged, decided, no fault found, or all claims reproduced\n"
        "  1    finished without success: the output states the reason; gate: the new policy is worse\n"
        "  2    error in the command, its input or the installation\n"
        "  3    gate: undecided within the budget\n"
        "  130  interrupted\n\n"
        f"{_examples(_EXAMPLES)}",
        file=stream,
    )
    return code


def _examples(examples: Mapping[str, str]) -> str:
    return "\n".join(["examples", *(f"  {line}\n      {words}" for line, words in examples.items())])
