"""The result of `jmdp gate`: as text, as JSON, and as markdown for a pull request."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from jmdp.base.interval import Verdict
from jmdp.base.rounding import exactly, significant
from jmdp.cli.exit import Exit
from jmdp.cli.sampling_options import sampling_record
from jmdp.comparisons.comparison_table import aligned, effort, stopped, validity
from jmdp.comparisons.not_worse import NotWorse
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.results.outcome import Outcome
from jmdp.results.result import wrapped

_UNDECIDED: dict[str | None, Exit] = {None: Exit.UNDECIDED, "fail": Exit.NO, "pass": Exit.YES}
_PAST = {"fail": "failed", "pass": "passed"}

_WORDS = {Verdict.YES: "passed", Verdict.NO: "failed", Verdict.UNKNOWN: "undecided"}

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
        return {Verdict.YES: Exit.YES, Verdict.NO: Exit.NO, Verdict.UNKNOWN: _UNDECIDED[self.undecided]}[
            self.answer.verdict
        ]

    @property
    def status(self) -> str:
        """Return "passed", "failed", "undecided" or "interrupted", in agreement with the exit code."""
        if self.code is Exit.INTERRUPTED:
            return "interrupted"
        if self.answer.verdict is Verdict.UNKNOWN and self.undecided is not None:
            return f"{_PAST[self.undecided]} by --undecided {self.undecided}"
        return _WORDS[self.answer.verdict]

    def text(self) -> str:
        """The verdict, a table, and what the intervals assume."""
        said = self.answer.sentence
        rows = aligned([[title, ""] for title, _ in self._rows()])
        width = max(map(len, rows))
        lines = [f"{row.ljust(width)}  {cell}" for row, (_, cell) in zip(rows, self._rows(), strict=True)]
        return "\n".join(
            [
                wrapped(said if said.startswith(self.status) else f"{self.status}: {said}", "  "),
                wrapped(stopped(self.found), "  "),
                "",
                *(wrapped(line, " " * (width + 2)) for line in lines),
                "",
                *(wrapped(line, "  ") for line in self._notes()),
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
            "verdict": _WORDS[self.answer.verdict],
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
        found, said = self.found, []
        if found.limits.assumption is not None:
            said.append(f"Episodes are cut at step {found.horizon}. It is assumed that {found.limits.assumption}")
        if found.return_range is not None:
            least, most = map(exactly, found.return_range)
            return [*said, f"The interval is valid whenever sampling stops, for any returns in [{least}, {most}]"]
        held, loss = validity(found), found.summary.assume.largest_loss
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
