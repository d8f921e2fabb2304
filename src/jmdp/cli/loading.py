"""Code of users: said before it is run, or refused by `--safe`. Options of the commands that may load it.

Conversion of command-line text to couplings, labels and user-defined objects.

The option --report of all commands that have a result.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from jmdp.base.labels import Label, Labels
from jmdp.base.settings import short
from jmdp.base.whole_files import replacement, reserved
from jmdp.cli.command import Command, Exit, Flag, Optionally, aside, print_json, show, writing
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.models.coupling import Coupling, Independent, Local, PolicyLuck, Synchronous
from jmdp.show.reports.page import check_extras, html_of

CouplingName = Literal["local", "synchronous", "independent"]

_COUPLINGS: dict[CouplingName, type[Coupling]] = {
    "local": Local,
    "synchronous": Synchronous,
    "independent": Independent,
}


_DIGITS = 18
"""Largest number of digits of an index."""

_FILES: dict[Path, ModuleType] = {}
"""Modules loaded from user files, each once, so that a class in a file stays the same class."""


def coupling_of(name: CouplingName, policy_luck: PolicyLuck) -> Coupling:
    """Return the coupling of this name."""
    return _COUPLINGS[name](policy_luck)


def label_of(labels: Labels, text: str) -> Label:
    """Return a state or action by its name or, if there is no such name, by its number."""
    if text in (labels.names or ()) or not text.isdecimal() or len(text) > _DIGITS:
        return text
    return int(text)


def unknown(kind: str, text: str, known: Iterable[str]) -> SettingsError:
    """Return the error for an unknown name, with the known names and the closest match."""
    names = list(known)
    text = text[:200]
    close = difflib.get_close_matches(text, names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return SettingsError(f"There is no {kind} {text!r}.{hint} Available: {', '.join(names)}.")


def source_and_name(text: str) -> tuple[str, str]:
    """Return module or file, and attribute, of `package.module:attribute` or `path/to/file.py:attribute`."""
    source, _, name = text.rpartition(":")
    if not all(name.split(".")) or not (source.endswith(".py") or all(source.split("."))):
        raise SettingsError(f"{short(text)} does not name an object. Give package.module:name or file.py:name.")
    return source, name


def attribute(text: str) -> Any:
    """Return a user's object, given as `package.module:attribute` or `path/to/file.py:attribute`."""
    source, name = source_and_name(text)
    module = _from_file(Path(source)) if source.endswith(".py") else _from_name(source)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise unknown("attribute", part, sorted(known for known in dir(found) if not known.startswith("_")))
        found = getattr(found, part)
    return found


def _from_name(name: str) -> ModuleType:
    _importable(Path.cwd())
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is not None and f"{name}.".startswith(f"{missing.name}."):
            raise SettingsError(
                f"There is no module {missing.name!r} in the current folder or among the installed packages. To load a "
                f"file, give its extension too: {missing.name}.py:…"
            ) from None
        raise MissingExtraError(f"{name} needs {missing.name}: pip install {missing.name}") from missing


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise SettingsError(f"There is no file {str(path)!r} in {Path.cwd()}.")
    path = path.resolve()
    if path not in _FILES:
        _importable(path.parent)
        _FILES[path] = import_module(path.stem) if _import_gets(path) else _under_another_name(path)
    return _FILES[path]


def _import_gets(path: Path) -> bool:
    """True if importing the file's name loads this very file, and no other module of that name."""
    name = path.stem
    if "." in name:
        return False
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name)
        origin = None if spec is None else spec.origin
    return origin is not None and Path(origin).resolve() == path


def _under_another_name(path: Path) -> ModuleType:
    name = f"file {path.stem}"  # without the folder: digests, and so random draws, may depend on the name
    while name in sys.modules:
        name += "'"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and copies of states look it up here
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importable(folder: Path) -> None:
    if os.fspath(folder) not in sys.path:
        sys.path.insert(0, os.fspath(folder))


_ANNOUNCED: set[str] = set()
"""Files and modules whose code was announced in this process, each once."""


@dataclass(frozen=True)
class Loader:
    """Loads what a command line names, and says before it runs code of a file; with `safe` it refuses to."""

    safe: bool
    net: str | None = None
    """Class or function that makes the torch module for files of weights, as ``file.py:name``."""
    greedy: bool = False
    """Whether trained policies take their most likely action."""

    def attribute(self, text: str) -> Any:
        """Return a user's object, given as ``package.module:attribute`` or ``path/to/file.py:attribute``."""
        source, _ = source_and_name(text)
        self.allow(text, source)
        return attribute(text)

    def allow(self, text: str, source: str) -> None:
        """Say that `text` runs the code in `source`, a file or a module; raise `SettingsError` if safe."""
        if self.safe:
            raise SettingsError(
                f"--safe refuses {text}: loading it runs code that {source} contains. Give policies as ONNX files and "
                "environments by the id of an installed one, or leave out --safe if you trust the code."
            )
        if source not in _ANNOUNCED:
            _ANNOUNCED.add(source)
            print(f"jmdp: loading {text} runs code that {source} contains; --safe refuses this", file=sys.stderr)
            sys.stderr.flush()


@dataclass(frozen=True, kw_only=True)
class Loading(Command):
    """Command that loads an environment."""

    safe: Flag = False
    """Refuse everything that runs code of your files or of modules that you name: file.py:name, package.module:name,
    module:Env-v0, PPO:model.zip and --net. Results are read in a child process with limits of memory and time. Without
    it, such code is announced on standard error, also if --quiet."""

    def loader(self) -> Loader:
        """Return the loader of this command."""
        if self.safe:
            _import_installed_packages_only()
        return Loader(self.safe)


@dataclass(frozen=True, kw_only=True)
class LoadingPolicies(Loading):
    """Command that loads an environment and policies."""

    net: Annotated[Optionally[str], tyro.conf.arg(metavar="FILE.py:CLASS")] = None
    """Class, or function without arguments, that makes the torch module for policies given as weights, FILE.pt."""
    greedy: Flag = False
    """Take the most likely action of policies given as files. By default networks with logits or probabilities draw
    their actions."""

    @abstractmethod
    def policy_texts(self) -> Sequence[str]:
        """Return the policies as given."""

    def refuse_unused_net(self) -> None:
        """Raise if --net is given and no policy uses it. Called after loading, so those errors come first."""
        if self.net is not None and not any(text.lower().endswith((".pt", ".pth")) for text in self.policy_texts()):
            raise SettingsError(
                f"--net is {short(self.net)}, but no policy is a file of weights, FILE.pt. Leave out --net, or give "
                "the file."
            )

    def loader(self) -> Loader:
        """Return the loader of this command."""
        return replace(super().loader(), net=self.net, greedy=self.greedy)


def _import_installed_packages_only() -> None:
    """Import nothing from the current folder, which may contain a numpy.py, neither here nor in worker processes."""
    here = Path.cwd()
    if any(Path(entry).resolve() == here for entry in sys.path):
        raise SettingsError(
            f"--safe: Python imports modules from the current folder, {here}. Use the command jmdp, not python -m jmdp "
            "(or python -P -m jmdp), and remove the folder from PYTHONPATH."
        )
    for name in _READ_ON_IMPORT:
        if Path(name).exists():
            raise SettingsError(
                f"--safe: {name} in the current folder would be read by an installed package, and could make it load "
                "other files. Run the command in another folder."
            )
    os.environ["PYTHONSAFEPATH"] = "1"


_READ_ON_IMPORT = (".numba_config.yaml", "matplotlibrc")
"""Settings that numba and matplotlib read from the current folder; those of numba name a folder of pickled caches."""


COMMAND_LINE: ContextVar[str | None] = ContextVar("COMMAND_LINE", default=None)
"""The command line that is being run, as a shell reads it."""


def reserve(stack: ExitStack, option: str, path: Path) -> None:
    """Reserve a file before it is needed: a wrong path must not be found after an hour."""
    with writing(option, path):
        stack.enter_context(reserved(path))


class Found(NamedTuple):
    """What a command has found, and how it says so."""

    result: Any  # what the page is about
    text: Any
    record: Callable[[], Any]  # for JSON
    code: Exit
    focus: Mapping[str, Any] = {}  # what the page shows


@dataclass(frozen=True, kw_only=True)
class Reporting(Command):
    """Command that finds a result, which has a page, and prints it."""

    report: Annotated[Optionally[Path], tyro.conf.arg(metavar="PAGE.html")] = None
    """Write a self-contained HTML page about the result to PAGE.html; this command is in it."""

    def run(self) -> Exit:
        """Find the result, write its page, print it, and return the exit code."""
        with aside(self.quiet), ExitStack() as stack:
            if self.report is not None:
                check_extras()
                reserve(stack, "--report", self.report)
            found = self.found(stack)
            answer = found.record() if self.json else found.text
            if self.report is not None:
                page = html_of(found.result, COMMAND_LINE.get(), **found.focus).encode("utf-8")
                with writing("--report", self.report), replacement(self.report) as file:
                    file.write(page)
        print_json(answer) if self.json else show(answer)
        return found.code

    @abstractmethod
    def found(self, stack: ExitStack) -> Found:
        """The result. Files that are reserved in the stack are free again when its page is written."""
