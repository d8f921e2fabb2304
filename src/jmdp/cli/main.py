"""Entry point of the command line: parse the arguments, run the command, map exceptions to exit codes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TextIO

from jmdp.base import optional
from jmdp.base.settings import short
from jmdp.cli.command import Exit, discard_output, one_line, standard_output
from jmdp.cli.loading import unknown
from jmdp.errors import SettingsError

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
    "compare-scores": _Entry(
        "compare_scores", "CompareScores", "Compare alternatives by scores that exist, paired by name."
    ),
    "review": _Entry("review", "ReviewCommand", "Review an episode: was it bad luck or a bad decision?"),
    "study": _Entry("study", "RunStudy", "Compare in many states, as a settings file says; results are in files."),
    "gate": _Entry("gate", "Gate", "Fail if a new policy is worse than the old one by more than a margin."),
    "check": _Entry("check", "Check", "Check that a simulator gives the same randomness to all of its actions."),
}

_EXAMPLES = {
    "jmdp evaluate inventory --state 3": "mean returns and gaps of all orders, with three units in stock",
    "jmdp compare CartPole-v1 --discount 0.9 --after left left": "push left or right, after two pushes to the left",
    "jmdp compare-policies world:inventory --policies base_stock reorder --starts 0 5": "two inventory policies",
    "jmdp gate world:inventory --old base_stock --new reorder --margin 2%": "is the new policy worse by more than 2%?",
    "jmdp compare-scores old=old.eval new=new.eval": "two models on the same tasks, by logs that exist",
    "jmdp review Blackjack-v1 --policy 1 --discount 1 --horizon 20": "one game: bad luck or a bad decision?",
    "jmdp check FrozenLake-v1": "whether its actions can share randomness",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare actions and policies under shared randomness (the same luck), on tables and simulators."""
    return exit_code(lambda: _run(_readable(sys.argv[1:] if arguments is None else arguments)))


def exit_code(run: Callable[[], int]) -> int:
    """Run a command; turn exceptions into a message of one line and an exit code."""
    if sys.stdout is None:
        return _fail("standard output is closed. Send it to a file, or to /dev/null.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # so that an encoding that lacks a character is no error
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run()
        with standard_output():
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _fail("interrupted", Exit.INTERRUPTED)
    except SystemExit as ended:  # from user code; its exit code, perhaps 0, would be mistaken for a result
        return _fail(f"user code exited before the command had finished: SystemExit({ended.code!r})")
    except Exception as error:  # probably from user code; Python's own exit code, 1, would be mistaken for a result
        return _fail(one_line(error))
    finally:
        _silence_final_flush()


def _silence_final_flush() -> None:
    """Discard what standard output could not take; otherwise Python reports it when it ends."""
    try:
        with suppress(ValueError):  # user code has closed it
            sys.stdout.flush()
    except OSError:
        discard_output()


def _fail(text: str, code: Exit = Exit.ERROR) -> Exit:
    with suppress(OSError, AttributeError, ValueError):  # standard error may be closed too
        print(f"jmdp: {text}", file=sys.stderr, flush=True)
    return code


def _readable(arguments: Sequence[str]) -> Sequence[str]:
    """Refuse arguments that no name or file of a command can be."""
    for argument in arguments:
        if "\0" in argument or any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise SettingsError(f"The argument {short(argument)} is not valid text. Use names encoded as UTF-8.")
    return arguments


def _run(arguments: Sequence[str]) -> int:
    name, *rest = arguments or [""]
    if name in ("-h", "--help"):
        with standard_output():
            _help(sys.stdout)
        return Exit.YES
    if name == "":
        _help(sys.stderr)
        return Exit.ERROR
    if name == "--version":
        return _version(rest)
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    entry = COMMANDS[name]
    optional("tyro", 'The command line needs tyro: pip install "jmdp[cli]"')
    from jmdp.cli.loading import COMMAND_LINE

    COMMAND_LINE.set(shlex.join(["jmdp", *arguments]))
    kind: type[Command] = getattr(import_module(f"jmdp.cli.commands.{entry.module}"), entry.name)
    return run_command(kind, f"jmdp {name}", rest)


def _version(options: Sequence[str]) -> Exit:
    if options not in ([], ["--verbose"]):
        raise SettingsError("The version has one option: jmdp --version --verbose")
    with standard_output():
        if options:
            from jmdp.cli.command import versions

            print(versions())
        else:
            from jmdp import __version__

            print(f"jmdp {__version__}")
    return Exit.YES


def run_command(kind: type[Command], program: str, arguments: Sequence[str]) -> int:
    """Run a command with these arguments and return its exit code."""
    command = parsed(kind, program, arguments)
    return command if isinstance(command, int) else command.run()


def parsed(kind: type[Command], program: str, arguments: Sequence[str]) -> Command | int:
    """Return the command with its settings, or an exit code if help was requested or an option is wrong."""
    from tyro import cli, conf

    if "--out=" in arguments or ("--out", "") in pairwise(arguments):  # as a path it would mean the current folder
        raise SettingsError("--out is empty. Give a folder, e.g. '.' for the current one.")
    form, arguments = kind.form(arguments)
    markers = (conf.CascadeSubcommandArgs, conf.OmitSubcommandPrefixes, conf.FlagCreatePairsOff, conf.DisallowNone)
    with standard_output():
        try:
            return cli(form, args=arguments, prog=program, config=(*markers, conf.SuppressFixed))
        except SystemExit as ended:
            if kind.examples and {"-h", "--help"} & set(arguments):
                print(_examples(kind.examples))
            return Exit.YES if ended.code is None else int(ended.code)
    return Exit.YES  # the reader of the help has ended


def _help(stream: TextIO) -> None:
    commands = "\n".join(f"  {name:<16} {entry.summary}" for name, entry in COMMANDS.items())
    print(
        f"usage: jmdp COMMAND [OPTIONS]\n\n{main.__doc__}\n\ncommands\n{commands}\n\n"
        "options\n"
        "  -h, --help  show this help; after a command, show its options\n"
        "  --version   show the version; with --verbose also those of other packages, the machine and its threads\n\n"
        "exit codes\n"
        "  0    success: converged, decided, or no fault found\n"
        "  1    finished without success: the output states the reason; gate: the new policy is worse\n"
        "  2    error in the command, its input or the installation\n"
        "  3    gate: undecided within the budget\n"
        "  130  interrupted\n\n"
        f"{_examples(_EXAMPLES)}",
        file=stream,
    )


def _examples(examples: Mapping[str, str]) -> str:
    return "\n".join(["examples", *(f"  {line}\n      {words}" for line, words in examples.items())])
