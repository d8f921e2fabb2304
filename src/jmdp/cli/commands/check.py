"""`jmdp check`: check that the actions of a simulator can share randomness."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.base.settings import whole_number
from jmdp.cli.command import Actions, Exit, TruncatedEnds, aside, print_json, show
from jmdp.cli.environments import ACTIONS_HELP, Environment, EnvName, environment
from jmdp.cli.loading import Loading
from jmdp.simulators.simulator import Simulator
from jmdp.testing import check_model, check_simulator

_TRIED = 3
"""Number of actions sampled from a continuous action space if none are given."""


@dataclass(frozen=True, kw_only=True)
class Check(Loading):
    """Check that a simulator gives the same randomness to all of its actions.

    Visits states and repeats steps there: twice, after other branches, and in another order. Detects random generators
    that are not controlled by the seed, steps that change the state they start from, and actions that draw more random
    numbers than others. Faults make comparisons wrong and set the exit code to 1; notes may be intended. Tables are
    also checked for likely mistakes.
    """

    examples: ClassVar = {
        "jmdp check FrozenLake-v1": "a Gymnasium environment",
        "jmdp check world:windy_gridworld --steps 20 --json": "a built-in table, with JSON output",
        "jmdp check ale:pong --steps 5": "an Atari game, in five states",
    }

    env: EnvName
    actions: Annotated[Actions, tyro.conf.arg(help=f"Actions to try, {ACTIONS_HELP}")] = ()
    truncated_ends: TruncatedEnds = False
    seed: int = 0
    """Random seed of the states visited and of all steps."""
    steps: int = 50
    """Number of states to visit."""

    def run(self) -> Exit:
        """Check the simulator and print the findings."""
        with aside(self.quiet):
            chosen = environment(self.env, self.loader(), truncated_ends=self.truncated_ends)
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
                show(f"{'fault' if finding.fault else 'note'}: {finding}")
            notes = len(findings) - faults
            show(f"{_count(faults, 'fault')}, {_count(notes, 'note')}: {visited}")
        return Exit.NO if faults else Exit.YES

    def _drawn(self, chosen: Environment, simulator: Simulator) -> list[Any] | None:
        """Return sampled actions of a continuous action space; None for other spaces."""
        if simulator.actions is not None or chosen.space is None:
            return None
        chosen.space.seed(self.seed)
        return [chosen.space.sample() for _ in range(_TRIED)]


def _count(number: int, name: str) -> str:
    return f"{number or 'no'} {name}{'' if number == 1 else 's'}"
