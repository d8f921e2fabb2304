"""`jmdp gate`: fail a build if a new policy is worse than the old one by more than a margin."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from jmdp.base.interval import Verdict
from jmdp.cli.command import Exit, aside, print_json
from jmdp.cli.episode_options import EpisodeSampling
from jmdp.cli.gate_report import GateReport
from jmdp.cli.options import Optionally
from jmdp.cli.policy_files import policy_digest
from jmdp.comparing_policies import compare_policies
from jmdp.errors import SettingsError
from jmdp.results.margins import Margin
from jmdp.results.outcome import Outcome

_OLD = (
    "The policy in use: POLICY is any policy of `jmdp compare-policies`, such as old.onnx, PPO:old.zip or file.py:name."
)
_MARGIN = "The largest loss to accept: in units of the return (5), or as a share of the old policy's mean return (2%)."

_UNDECIDED: dict[str | None, Exit] = {None: Exit.UNDECIDED, "fail": Exit.NO, "pass": Exit.YES}


@dataclass(frozen=True, kw_only=True)
class Gate(EpisodeSampling):
    """Fail if a new policy is worse than the old one by more than a margin.

    Each sample runs one episode of both policies from the same start, with common random numbers. Sampling stops as
    soon as it is known whether the mean return of the new policy is below that of the old one by more than the margin.
    The exit code is 0 if it is not, 1 if it is, and 3 if the budget was used up before this was known. Wrong verdicts
    have a probability of at most 1 − confidence, whenever sampling stops. ENV comes first, options after it.
    """

    examples: ClassVar = {
        "jmdp gate world:inventory --old base_stock --new reorder --margin 2%": "two policies of a built-in table",
        "jmdp gate FrozenLake-v1 --old uniform --new 0,3,3,3,0,0,0,0,3,1,0,0,0,2,1,0 --margin 0.05 "
        "--return-range 0 1": "a margin of 0.05 for returns of 0 or 1; a saved model would be --new PPO:model.zip",
        "jmdp gate CartPole-v1 --old left --new uniform --margin 5 --seconds 20 --undecided fail --json": "fail unless "
        "the new policy is known not to be worse",
    }

    old: Annotated[str, tyro.conf.arg(metavar="POLICY", help=_OLD)]
    new: Annotated[str, tyro.conf.arg(metavar="POLICY")]
    """The policy to test."""
    margin: Annotated[str, tyro.conf.arg(metavar="MARGIN", help=_MARGIN)]
    undecided: Optionally[Literal["fail", "pass"]] = None
    """Exit with 1 (fail) or 0 (pass) instead of 3 if the budget is used up."""
    summary: Annotated[Optionally[Path], tyro.conf.arg(metavar="FILE.md")] = None
    """Append a report in markdown to FILE.md, e.g. "$GITHUB_STEP_SUMMARY"."""
    discount: Optionally[float] = None
    """Discount factor per step. By default that of a table; for other environments 1, the sum over an episode."""
    precision: tyro.conf.Fixed[None] = None
    indifference: tyro.conf.Fixed[None] = None

    def run(self) -> Exit:
        """Compare, print the verdict, and return its exit code."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(aside(self.quiet))
            file = None  # opened first: a wrong path must not be found after an hour
            if self.summary is not None:
                file = stack.enter_context(self.summary.open("a", encoding="utf-8"))
            report = self._report()
            if file is not None:
                file.write(report.markdown())
            answer = report.record() if self.json else report.text()
        if self.json:
            print_json(answer)
        else:
            print(answer)
        if report.found.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        verdicts = {Verdict.YES: Exit.YES, Verdict.NO: Exit.NO, Verdict.UNKNOWN: _UNDECIDED[self.undecided]}
        return verdicts[report.answer.verdict]

    def _report(self) -> GateReport:
        margin = Margin.of(self.margin)
        chosen = self.environment()
        simulator = chosen.episode_simulator(digests=self.coupling == "local")
        discount = 1.0 if self.discount is None and simulator.discount is None else self.discount
        if discount == 1 and self.horizon is None and simulator.episode_limit is None:
            raise SettingsError(f"{simulator!r} has no time limit. Give --horizon, the largest number of steps.")
        policies = {name: (text, policy_digest(text)) for name, text in (("old", self.old), ("new", self.new))}
        found = compare_policies(
            simulator,
            {"old": chosen.policy(simulator, self.old), "new": chosen.policy(simulator, self.new)},
            starts=self.start_states(chosen),
            discount=discount,
            coupling=self.shared(),
            baseline="old",
            margin=margin,
            **self.sampling(),
        )
        return GateReport(self.env, policies, found, found.not_worse(margin), self.samples)
