"""`jmdp gate`: fail a build if a new policy is worse than the old one by more than a margin.

The result of `jmdp gate`: as text, as JSON, and as markdown for a pull request.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from jmdp.base.interval import Verdict
from jmdp.base.rounding import exactly, significant
from jmdp.cli.command import Command, Exit, Optionally, writing
from jmdp.cli.commands.compare_scores import VERDICTS, GateScores, verdict_code
from jmdp.cli.loading import Found
from jmdp.cli.options import EpisodeSampling, sampling_record, start_states
from jmdp.cli.policy_files import policy_digest
from jmdp.comparisons.answer import NotWorse
from jmdp.comparisons.compare_policies import compare_policies
from jmdp.comparisons.comparison_table import effort, stopped, validity
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.distribute.process_pool import LONGEST_BLOCK, pool_of
from jmdp.errors import SettingsError
from jmdp.results.certificate import Outcome
from jmdp.results.text import paragraphs, wrapped
from jmdp.statistics.selection import Margin

_PAST = {"fail": "failed", "pass": "passed"}

_OF_THE_BEST = ("best", "choice", "survivors", "leader", "indifference")
"""Entries of a record that answer another question, with other intervals: which policy is best?"""


@dataclass(frozen=True, eq=False)
class GateReport:
    """A comparison of old and new, and its verdict."""

    env: str
    policies: dict[str, tuple[str, str]]  # old and new: as given on the command line, and the digest before the run
    found: PolicyComparison
    answer: NotWorse
    budget: int  # largest number of pairs
    undecided: Literal["fail", "pass"] | None  # what to make of an undecided comparison

    @property
    def code(self) -> Exit:
        """Return the exit code."""
        if self.found.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        return verdict_code(self.answer.verdict, self.undecided)

    @property
    def status(self) -> str:
        """Return "passed", "failed", "undecided" or "interrupted", in agreement with the exit code."""
        if self.code is Exit.INTERRUPTED:
            return "interrupted"
        if self.answer.verdict is Verdict.UNKNOWN and self.undecided is not None:
            return f"{_PAST[self.undecided]} by --undecided {self.undecided}"
        return VERDICTS[self.answer.verdict]

    def text(self) -> str:
        """The verdict, a table, and what the intervals assume."""
        said, rows = self.answer.sentence, self._rows()
        width = max(len(title) for title, _ in rows) + 2
        return paragraphs(
            [
                said if said.startswith(self.status) else f"{self.status}: {said}",
                stopped(self.found),
                [wrapped(f"{title:<{width}}{cell}", " " * width) for title, cell in rows],
                *self._notes(),
            ]
        )

    def markdown(self) -> str:
        """The same for a pull request or the summary of a job."""
        table = [f"| {title} | {_cell(said)} |" for title, said in self._rows()]
        notes = " ".join(f"{note}." for note in self._notes())
        head = f"### jmdp gate {self.status}: `{_code(self.env)}`"
        return "\n".join(
            [head, "", f"{_cell(self.answer.sentence)}.", "", "| | |", "|---|---|", *table, "", _cell(notes), "", ""]
        )

    def record(self) -> dict[str, Any]:
        """The numbers behind the text, for JSON."""
        answer = self.answer
        return {
            "env": self.env,
            "verdict": VERDICTS[self.answer.verdict],
            "exit_code": int(self.code),
            "answer": str(answer),
            "gap": answer.gap,
            "change": answer.change,
            "margin": {"size": answer.margin.size, "relative": answer.margin.relative},
            "excess": answer.excess,
            "old_mean": self.found.mean_of(answer.old),
            "new_mean": self.found.mean_of(answer.new),
            "pairs": answer.samples,
            "budget": self.budget,
            "pairing_gain": self.found.pairing.gain,
            "smallest_loss_found": answer.smallest_loss(self._pairs),
            "unseen": self.found.unseen,
            "break_even": None if answer.unseen is None else answer.unseen.break_even,
            "policies": {name: {"policy": text, "sha256": digest} for name, (text, digest) in self.policies.items()},
            **{name: value for name, value in sampling_record(self.found).items() if name not in _OF_THE_BEST},
            "decided": answer.verdict is not Verdict.UNKNOWN,
        }

    def _rows(self) -> list[tuple[str, str]]:
        found, answer = self.found, self.answer
        return [
            ("gap", answer.numbers),
            ("margin", self._margin()),
            ("means", ", ".join(f"{name} {found.mean_of(name)}" for name in (answer.old, answer.new))),
            ("effort", f"{effort(found)}{self._reruns()}; {self._looks()}"),
            ("pairing", found.pairing.sentences()[0]),
            ("power", self._power()),
            *([] if found.summary.certain else [("unseen", answer.reversed_by.removesuffix("."))]),
            *((name, f"{text}, sha256 {digest[:16]}…") for name, (text, digest) in self.policies.items()),
        ]

    def _notes(self) -> list[str]:
        """What the interval assumes."""
        found, summary, said = self.found, self.found.summary, []
        if summary.limits.assumption is not None:
            said.append(f"Episodes are cut at step {summary.horizon}. It is assumed that {summary.limits.assumption}")
        if summary.return_range is not None:
            least, most = map(exactly, summary.return_range)
            return [*said, f"The interval is valid whenever sampling stops, for any returns in [{least}, {most}]"]
        held, loss = validity(found), summary.assume.largest_loss
        costs = "costs a whole episode" if loss is None else f"costs at most {exactly(loss)}"
        return [
            *said,
            f"{held[:1].upper()}{held[1:]}. They are large-sample intervals with an allowance for an event that was "
            f"not seen and {costs}; if returns have a known range, give --return-range",
        ]

    def _looks(self) -> str:
        fixed = self.found.summary.sampling.kind == "fixed"
        return "one look" if fixed else f"at most {self.budget:,} episodes"

    def _reruns(self) -> str:
        shares = self.found.pairing.shares
        return "" if shares is None else f", with {shares.samples} episodes run again to find the sources of variance"

    def _margin(self) -> str:
        answer = self.answer
        if not answer.margin.relative:
            return f"{answer.margin} in units of the return"
        mean = abs(float(answer.old_mean))
        return f"{answer.margin} of the mean of {answer.old}, about {significant(answer.margin.size * mean, 3)}"

    @property
    def _pairs(self) -> int:
        """Pairs that the budget allows: those drawn, if it was used up."""
        used_up = self.found.outcome in (Outcome.BUDGET_EXHAUSTED, Outcome.INTERRUPTED, Outcome.SAMPLED)
        return self.answer.samples if used_up else max(self.budget, self.answer.samples)

    def _power(self) -> str:
        """The smallest loss that this budget would have found."""
        loss = self.answer.smallest_loss(self._pairs)
        if not math.isfinite(loss):
            return "unknown: there is no interval"
        share = ""
        if self.answer.change is not None:
            share = f" ({significant(100 * loss / abs(float(self.answer.old_mean)), 2)}%)"
        return (
            f"{self._pairs:,} pairs would find a loss of {significant(loss, 3)}{share} or more with a probability of "
            "about 90%"
        )


def _cell(text: str) -> str:
    """Text in a cell of a markdown table; names may be hostile."""
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def _code(text: str) -> str:
    """Text between backticks."""
    return " ".join(text.replace("`", "'").split())


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

    @classmethod
    def form(cls, arguments: Sequence[str]) -> tuple[type[Command], Sequence[str]]:
        """With --scores the verdict is on scores that exist."""
        return (GateScores if "--scores" in arguments else cls), arguments

    def found(self, stack: ExitStack) -> Found:
        """Compare, and append the verdict to the summary."""
        self._append("")  # first: a wrong path must not be found after an hour
        report = self._report()
        self._append(report.markdown())
        return Found(report.found, report.text(), report.record, report.code)

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
