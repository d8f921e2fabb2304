"""`jmdp check`: is a simulator what it has to be?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.base.settings import whole_number
from jmdp.cli.command import Command, Exit, aside, print_json
from jmdp.cli.environments import ACTIONS_HELP, Environment, EnvName, environment
from jmdp.cli.options import Actions, TruncatedEnds
from jmdp.simulators.simulator import Simulator
from jmdp.testing import check_model, check_simulator

_TRIED = 3
"""Actions drawn where they are not numbered and none are given."""


@dataclass(frozen=True, kw_only=True)
class Check(Command):
    """Do all actions of a simulator really meet the same luck?

    Walks about and tries: the same step twice, after other branches, in another order; does anything draw from a
    generator of its own, does a step change the state it began in, does one action draw more than another? A fault
    makes comparisons wrong, and 1 is returned; a note may be meant. A table is looked at too, for what is seldom meant.
    """

    examples: ClassVar = {
        "jmdp check FrozenLake-v1": "an environment of Gymnasium",
        "jmdp check world:windy_gridworld --steps 20 --json": "a table, for machines",
        "jmdp check ale:pong --steps 5": "an Atari game, a few states of it",
    }

    env: EnvName
    actions: Annotated[Actions, tyro.conf.arg(help=f"Which to try, {ACTIONS_HELP}")] = ()
    truncated_ends: TruncatedEnds = False
    seed: int = 0
    """Of the walk, and of its luck."""
    steps: int = 50
    """States to visit."""

    def run(self) -> Exit:
        """Check and print what was found."""
        with aside(self.quiet):
            chosen = environment(self.env, truncated_ends=self.truncated_ends)
            chosen.put(None, None, whole_number("seed", self.seed, 0))
            simulator = chosen.simulator(checked=False)
            actions = chosen.actions(simulator, self.actions) or self._drawn(chosen, simulator)
            checked = check_simulator(simulator, actions=actions, seed=self.seed, steps=self.steps)
            findings = [*checked, *(check_model(chosen.model) if chosen.model is not None else ())]
        faults = sum(finding.fault for finding in findings)
        visited = f"{simulator!r}, {self.steps} states visited from seed {self.seed}; {checked.explored}"
        if self.json:
            print_json(
                {
                    "env": self.env,
                    "simulator": repr(simulator),
                    "seed": self.seed,
                    "steps": self.steps,
                    "explored": checked.explored,
                    "faults": faults,
                    "findings": [asdict(finding) for finding in findings],
                }
            )
        else:
            for finding in findings:
                print(f"{'fault' if finding.fault else 'note'}: {finding}")
            notes = len(findings) - faults
            print(f"{_count(faults, 'fault')}, {_count(notes, 'note')}: {visited}")
        return Exit.NO if faults else Exit.YES

    def _drawn(self, chosen: Environment, simulator: Simulator) -> list[Any] | None:
        """Some actions of a space without numbers."""
        if simulator.actions is not None or chosen.space is None:
            return None
        chosen.space.seed(self.seed)
        return [chosen.space.sample() for _ in range(_TRIED)]


def _count(number: int, name: str) -> str:
    return f"{number or 'no'} {name}{'' if number == 1 else 's'}"
