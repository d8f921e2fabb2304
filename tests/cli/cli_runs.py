"""The command line in this process, and a shop to compare in."""

from __future__ import annotations

import json
import shlex
import zipfile
from dataclasses import dataclass
from importlib import import_module

from jmdp.cli import main
from jmdp.cli.main import COMMANDS

SHOP = """
import jmdp

simulator = jmdp.simulators.FunctionSimulator(
    reward=lambda stock, order, demand: 3.0 * min(stock + order, demand) - 2.0 * order - 0.1 * stock,
    next_state=lambda stock, order, demand: max(0, min(20, stock + order) - demand),
    actions=["order 0", "order 3"],
    luck=lambda rng: int(rng.poisson(3)),
    start=4,
)


def policy(stock):
    return int(stock < 4)
"""


@dataclass(frozen=True)
class Run:
    code: int
    out: str
    err: str

    @property
    def json(self):
        """What was printed, which has to be strict JSON and nothing else."""
        return json.loads(self.out, parse_constant=lambda word: 1 / 0)


def run(capsys, line: str) -> Run:
    """One command line, as a shell would give it."""
    capsys.readouterr()
    name, *arguments = shlex.split(line)
    assert name == "jmdp"
    code = main(arguments)
    said = capsys.readouterr()
    return Run(code, said.out, said.err)


def empty_model(path) -> None:
    """A file that has the members of a saved model of stable-baselines3."""
    with zipfile.ZipFile(path, "w") as file:
        for name in ("data", "policy.pth"):
            file.writestr(name, "")


def command(name: str):
    entry = COMMANDS[name]
    return getattr(import_module(f"jmdp.cli.commands.{entry.module}"), entry.name)
