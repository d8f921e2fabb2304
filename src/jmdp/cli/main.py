"""From arguments to a command, and from what it raises to an exit code."""

from __future__ import annotations

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
    """Where a command is, which is loaded only when it is asked for, and what it does."""

    module: str
    name: str
    summary: str


COMMANDS = {
    "evaluate": _Entry("evaluate", "Evaluate", "A built-in world: means, covariances and gaps of all actions, exact."),
    "compare": _Entry("compare", "Compare", "A simulator, where it stands: which action is better, and how surely?"),
    "compare-policies": _Entry(
        "compare_policies", "ComparePolicies", "A simulator, whole episodes: which policy is better, and how surely?"
    ),
    "check": _Entry("check", "Check", "A simulator: do all its actions really meet the same luck?"),
    "reproduce": _Entry("reproduce", "Reproduce", "The paper's experiments again: claims, measured values, verdicts."),
}

_EXAMPLES = {
    "jmdp evaluate inventory --state 3": "how many to order, with three in stock?",
    "jmdp compare CartPole-v1 --discount 0.9 --after left left": "which way, with the pole leaning?",
    "jmdp compare-policies world:inventory --policies base_stock reorder --starts 0 5": "which policy orders better?",
    "jmdp check FrozenLake-v1": "can its luck be shared?",
    "jmdp reproduce chain_correlation --out report": "a figure of the paper, in some seconds",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Same luck, different action: joint returns of several actions, from tables and from simulators."""
    return exit_code(lambda: _run(sys.argv[1:] if arguments is None else arguments))


def exit_code(run: Callable[[], int]) -> int:
    """Run a command, and turn what it raises into a message and an exit code."""
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
    except BrokenPipeError:  # the reader has seen enough; nor may Python complain when it flushes at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except OSError as error:
        if error.filename is None:
            traceback.print_exc()
        else:
            print(f"jmdp: {error.filename}: {error.strerror}", file=sys.stderr)
        return Exit.ERROR
    except SystemExit as ended:  # in a user's own code; its exit code, 0 perhaps, would be taken for an answer
        print(f"jmdp: Python was ended before there was an answer: SystemExit({ended.code!r})", file=sys.stderr)
        return Exit.ERROR
    except Exception:  # in a user's own code, most likely; Python's own exit code for it would mean "no" here
        traceback.print_exc()
        return Exit.ERROR


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
    """The command with its settings; or the exit code, where help was asked for or an option is wrong."""
    from tyro import cli, conf

    if "--out=" in arguments or ("--out", "") in pairwise(arguments):  # which as a path would be this folder
        raise SettingsError("--out is empty. Give a folder; this one is '.'.")
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
        "  -h, --help  show this help; after a command, its options\n"
        "  --version   which jmdp this is\n\n"
        "exit codes\n"
        "  0 yes: converged, decided, no fault   1 no   2 not done: something is wrong   130 interrupted\n\n"
        f"{_examples(_EXAMPLES)}",
        file=stream,
    )
    return code


def _examples(examples: Mapping[str, str]) -> str:
    return "\n".join(["examples", *(f"  {line}\n      {words}" for line, words in examples.items())])
