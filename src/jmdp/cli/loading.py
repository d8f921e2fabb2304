"""Code of users: said before it is run, or refused by `--safe`. Options of the commands that may load it."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from jmdp.base.settings import short
from jmdp.cli.choices import attribute, source_and_name
from jmdp.cli.command import Command
from jmdp.cli.options import Flag, Optionally
from jmdp.errors import SettingsError

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
