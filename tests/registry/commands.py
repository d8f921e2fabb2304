"""A small valid call of each command, for the smoke test and the fuzz of the command line: a new command joins here."""

from __future__ import annotations

import contextlib
import io
import re
from functools import cache
from string import Formatter
from typing import NamedTuple, get_args

from jmdp.cli.main import main
from jmdp.cli.options import MethodName

SLOTS = {
    "world": ["inventory", "coupled_reward_chain", "anti_correlated_bandit", "windy_gridworld", "queue_admission"],
    "env": ["world:inventory", "world:anti_correlated_bandit", "own.py:simulator", "own.py:World", "FrozenLake-v1"],
    "policy": ["uniform", "0", "1", "own.py:policy", "base_stock"],
    "margin": ["5%", "0.1"],
    "study": ["study.toml"],
    "out": ["out"],
    "scores": ["scores.csv"],
}
"""Valid arguments; the first of each is used unless another is asked for."""

FILES = {
    "study.toml": 'env = "world:inventory"\npolicy = "uniform"\nstates = [0, 3]\nmax_samples = 40\nhorizon = 4\n',
    "scores.csv": "alternative,id,score\n"
    + "".join(f"{name},{i},{i + k}\n" for k, name in enumerate("ab") for i in range(9)),
}
"""What the calls read."""


class Call(NamedTuple):
    """Required arguments of a command and a small budget, and what its answer contains."""

    arguments: str
    says: str
    helps: tuple[str, ...] = ("",)  # arguments on which its options depend

    def words(self, **chosen: str) -> list[str]:
        """The arguments, with these in place of the first valid ones."""
        slots = {name: values[0] for name, values in SLOTS.items()}
        return [word.format(**slots | chosen) for word in self.arguments.split()]

    @property
    def slots(self) -> list[str]:
        """Names of the arguments that can be chosen."""
        return [name for _, name, _, _ in Formatter().parse(self.arguments) if name]


METHODS: tuple[str, ...] = get_args(MethodName)
SAMPLING = "--max-samples 64 --horizon 4"
COMMANDS = {
    "evaluate": Call(
        "{world}", "mean return in state", tuple(f"inventory --state 0 --method {method}" for method in METHODS)
    ),
    "compare": Call(f"{{env}} {SAMPLING}", "highest mean"),
    "compare-policies": Call(f"{{env}} --policies {{policy}} new={{policy}} {SAMPLING}", "policy"),
    "compare-scores": Call("{scores}", "scores of 2 alternatives"),
    "review": Call("{env} --policy {policy} --horizon 4", "luck"),
    "study": Call("{study} --out {out}", "2 states of"),
    "gate": Call(f"{{env}} --old {{policy}} --new {{policy}} --margin {{margin}} {SAMPLING}", "margin"),
    "check": Call("{env} --steps 3", "no faults"),
}


@cache
def options(name: str) -> dict[str, bool]:
    """Options of a command in its help, and whether they have a value."""
    found: dict[str, bool] = {}
    for arguments in COMMANDS[name].helps:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert main([name, *arguments.split(), "--help"]) == 0
        found |= {option: bool(value) for option, value in re.findall(r"^\W* (--[\w-]+) (\S?)", out.getvalue(), re.M)}
    return found
