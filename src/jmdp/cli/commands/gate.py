"""`jmdp gate`: fail a build if a new policy is worse than the old one by more than a margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from jmdp.cli.command import Exit, aside, print_json, show, writing
from jmdp.cli.episode_options import EpisodeSampling, start_states
from jmdp.cli.gate_report import GateReport
from jmdp.cli.options import Optionally
from jmdp.cli.policy_files import policy_digest
from jmdp.comparisons.compare_policies import compare_policies
from jmdp.distribute.pool_setting import LONGEST_BLOCK, pool_of
from jmdp.errors import SettingsError
from jmdp.statistics.margins import Margin

_OLD = (
    "The policy in use: POLICY is any policy of `jmdp compare-policies`, such as old.onnx, PPO:old.zip or file.py:name."
)
_MARGIN = "The largest loss to accept: in units of the return (5), or as a share of the old policy's mean return (2%)."


@dataclass(frozen=True, kw_only=True)
class Gate(EpisodeSampling):
    """Fail if a new policy is worse than the old one by more than a margin.

    Each sample runs one episode of both policies from the same start, with common random numbers. Sampling stops as
    soon as it is known whether the mean return of the new policy is below that of the old one by more than the margin;
    with --samples there is one look, at so many episodes. The exit code is 0 if it is not, 1 if it is, and 3 if this is
    not known at the end. Wrong verdicts have a probability of at most 1 − confidence. ENV comes first, options after
    it.
    """

    examples: ClassVar = {
        "jmdp gate world:inventory --old base_stock --new reorder --margin 2%": "two policies of a built-in table",
        "jmdp gate FrozenLake-v1 --old uniform --new 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0 --margin 0.05 "
        "--return-range 0 1": "a margin of 0.05 for returns of 0 or 1; a saved model would be --new PPO:model.zip",
        "jmdp gate CartPole-v1 --old left --new uniform --margin 5 --max-seconds 20 --undecided fail --json": "fail "
        "unless the new policy is known not to be worse",
    }

    old: Annotated[str, tyro.conf.arg(metavar="POLICY", help=_OLD)]
    new: Annotated[str, tyro.conf.arg(metavar="POLICY")]
    """The policy to test."""
    margin: Annotated[str, tyro.conf.arg(metavar="MARGIN", help=_MARGIN)]
    undecided: Optionally[Literal["fail", "pass"]] = None
    """Exit with 1 (fail) or 0 (pass) instead of 3 if the comparison is undecided."""
    summary: Annotated[Optionally[Path], tyro.conf.arg(metavar="FILE.md")] = None
    """Append a report in markdown to FILE.md, e.g. "$GITHUB_STEP_SUMMARY"."""
    discount: Optionally[float] = None
    """Discount factor per step. By default that of a table; for other environments 1, the sum over an episode."""
    precision: tyro.conf.Fixed[None] = None
    indifference: tyro.conf.Fixed[None] = None
    plan: tyro.conf.Fixed[bool] = False
    difference: tyro.conf.Fixed[None] = None

    def run(self) -> Exit:
        """Compare, print the verdict, and return its exit code."""
        with aside(self.quiet), self.reserved_page():
            self._append("")  # first: a wrong path must not be found after an hour
            report = self._report()
            self._append(report.markdown())
            self.write_page(report.found)
            answer = report.record() if self.json else report.text()
        if self.json:
            print_json(answer)
        else:
            show(answer)
        return report.code

    def _append(self, text: str) -> None:
        if self.summary is not None:
            with writing("--summary", self.summary), self.summary.open("a", encoding="utf-8") as file:
                file.write(text)

    def _report(self) -> GateReport:
        margin = Margin.of(self.margin)
        chosen = self.environment()
        simulator = chosen.episode_simulator(digests=self.coupling == "local")
        discount = 1.0 if self.discount is None and simulator.discount is None else self.discount
        if discount == 1 and self.horizon is None and simulator.episode_limit is None:
            raise SettingsError(f"{simulator!r} has no time limit. Give --horizon, the largest number of steps.")
        policies = {name: (text, policy_digest(text)) for name, text in (("old", self.old), ("new", self.new))}
        loaded = {name: chosen.policy(simulator, text) for name, (text, _) in policies.items()}
        self.refuse_unused_net()
        given = self.sampling()
        with pool_of(given.pop("pool"), LONGEST_BLOCK) as pool:
            found = compare_policies(
                simulator,
                loaded,
                starts=start_states(self.starts, chosen),
                discount=discount,
                coupling=self.shared(),
                baseline="old",
                margin=margin,
                pool=pool,
                **given,
            )
        budget = self.samples or self.max_samples or 10_000
        return GateReport(self.env, policies, found, found.not_worse(margin), budget, self.undecided)

    def policy_texts(self) -> Sequence[str]:
        """Return both policies."""
        return [self.old, self.new]
