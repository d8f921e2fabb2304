"""`jmdp compare-scores`, and `jmdp gate --scores`: alternatives compared by scores that exist."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import tyro

from jmdp.base.interval import Verdict
from jmdp.base.rounding import significant
from jmdp.base.settings import short
from jmdp.cli.command import Exit, Flag, Optionally
from jmdp.cli.loading import Found, Reporting
from jmdp.comparisons.compare_scores import compare_scores
from jmdp.comparisons.score_comparison import ScoreComparison
from jmdp.errors import SettingsError
from jmdp.results.text import paragraphs
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.planning import expected_pairs
from jmdp.statistics.selection import Margin

_FILES = (
    "One table with a row for each score (CSV, Parquet, JSON lines), or a file for each alternative, as FILE or "
    "NAME=FILE: a table, a log of Inspect, samples of lm-evaluation-harness, an evaluation of lerobot, evaluations.npz "
    "or monitor.csv of stable-baselines3. Files of equal names are joined."
)
_LEVELS = (
    "Columns of the levels of randomness, the outer one first, in place of --pair: task trial, or seed episode. Trials "
    "need no column."
)
_SCORE = "Column with the score; or columns, one for each alternative, whose name is that of the column."
_WORSE = (
    "A second, larger margin: pass if the new one is certainly not worse by this, fail if it is certainly worse by "
    "more than --margin. Between these two hypotheses either verdict is right, so that fewer pairs are needed."
)

VERDICTS = {Verdict.YES: "passed", Verdict.NO: "failed", Verdict.UNKNOWN: "undecided"}


def verdict_code(verdict: Verdict, undecided: Literal["fail", "pass"] | None) -> Exit:
    """The exit code of a verdict; `undecided` is what to make of one that is not known."""
    unknown = {None: Exit.UNDECIDED, "fail": Exit.NO, "pass": Exit.YES}[undecided]
    return {Verdict.YES: Exit.YES, Verdict.NO: Exit.NO, Verdict.UNKNOWN: unknown}[verdict]


@dataclass(frozen=True, kw_only=True)
class _ScoreOptions(Reporting):
    """Options of commands that read scores."""

    pair: str = "id"
    """Column with the name of what pairs the scores; "none" if nothing does."""
    levels: Annotated[tuple[str, ...], tyro.conf.arg(metavar="LEVEL …", help=_LEVELS, help_behavior_hint="")] = ()
    crossed: Annotated[Optionally[str], tyro.conf.arg(metavar="LEVEL")] = None
    """The inner level, if its units are the same in all units of the outer one: the same episodes for every seed."""
    own: Annotated[Optionally[str], tyro.conf.arg(metavar="LEVEL")] = None
    """A level that the alternatives do not share, such as training seeds."""
    fixed: Annotated[Optionally[str], tyro.conf.arg(metavar="LEVEL")] = None
    """A level that the statement is about as it is: these tasks, not others like them."""
    alternative: str = "alternative"
    """Column with the name of the alternative."""
    score: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN …", help=_SCORE)] = ("score",)
    statistic: Literal["mean", "median", "iqm"] = "mean"
    """What is compared; iqm is the interquartile mean."""
    minimize: Flag = False
    """Smaller scores are better."""
    confidence: float = 0.95
    """Confidence level of the decision."""
    running: Flag = False
    """Scores keep arriving and are looked at again and again: intervals hold at all numbers of pairs at once."""
    score_range: Annotated[Optionally[tuple[float, float]], tyro.conf.arg(metavar="LEAST MOST")] = None
    """Range that contains all scores: intervals of means are then valid for any distribution in it."""
    safe: Flag = False
    """Read files in a child process with limits of memory and time."""

    def compared(self, scores: Any, baseline: str | None, margin: str | None) -> ScoreComparison:
        """The comparison of these scores."""
        return compare_scores(
            scores,
            pair=None if self.pair == "none" else self.pair,
            levels=list(self.levels) or None,
            crossed=[self.crossed] if self.crossed else [],
            own=[self.own] if self.own else [],
            fixed=[self.fixed] if self.fixed else [],
            alternative=self.alternative,
            score=self.score if len(self.score) > 1 else self.score[0],
            statistic=self.statistic,
            minimize=self.minimize,
            baseline=baseline,
            margin=margin,
            confidence=self.confidence,
            running=self.running,
            assume=Assumptions(return_range=self.score_range),
            trusted=not self.safe,
        )


@dataclass(frozen=True, kw_only=True)
class CompareScores(_ScoreOptions):
    """Compare alternatives by scores that exist: agents or models on the same tasks, algorithms over training seeds.

    Scores are paired by name (--pair, or the outer one of --levels), never by position; what another alternative lacks
    is left out and counted. The exit code is 0 if it is decided which alternative is best (with --baseline: whether
    each is better or worse than it), and 1 if the scores do not decide it. FILES come first, options after them.
    """

    examples: ClassVar = {
        "jmdp compare-scores scores.csv --baseline old": "a table with columns alternative, id and score",
        "jmdp compare-scores old=old.eval new=new.eval": "two logs of Inspect, paired by the id of the sample",
        "jmdp compare-scores runs.csv --levels seed episode --crossed episode --own seed": "two algorithms, five "
        "training seeds each, all evaluated on the same episodes",
    }

    files: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE …", help=_FILES)]
    baseline: Annotated[Optionally[str], tyro.conf.arg(metavar="NAME")] = None
    """Alternative that the others are compared with. By default the one with the best mean."""

    def found(self, stack: ExitStack) -> Found:
        """Compare."""
        found = self.compared(_given(self.files), self.baseline, None)
        return Found(found, found, lambda: score_record(found), Exit.YES if found.decided else Exit.NO)


@dataclass(frozen=True, kw_only=True)
class GateScores(_ScoreOptions):
    """Fail if a new alternative is worse than the old one by more than a margin, by scores that exist.

    The exit code is 0 if it is not, 1 if it is, and 3 if these scores do not decide it. With --running the command may
    be repeated as scores arrive: wrong verdicts have a probability of at most 1 − confidence, whenever it is stopped.
    """

    examples: ClassVar = {
        "jmdp gate --scores old.eval new.eval --margin 1%": "is the new model worse by more than 1%?",
        "jmdp gate --scores old.csv new.csv --margin 1% --worse 3% --running": "two hypotheses, while scores arrive",
    }

    scores: Annotated[tuple[str, str], tyro.conf.arg(metavar="OLD NEW")]
    """Files with the scores of the old and of the new alternative."""
    margin: Annotated[str, tyro.conf.arg(metavar="MARGIN")]
    """The largest loss to accept: in units of the score (5), or as a share of the old mean (2%)."""
    worse: Annotated[Optionally[str], tyro.conf.arg(metavar="MARGIN", help=_WORSE)] = None
    undecided: Optionally[Literal["fail", "pass"]] = None
    """Exit with 1 (fail) or 0 (pass) instead of 3 if the scores do not decide it."""

    def found(self, stack: ExitStack) -> Found:
        """Compare, and say the verdict."""
        old, new = self.scores
        c = self.compared({"old": old, "new": new}, "old", self.margin)
        verdict, near = self._verdict(c)
        word, code = VERDICTS[verdict], verdict_code(verdict, self.undecided)
        text = paragraphs([f"{word}: {near}", *self._expected(c, self.worse), c.effort, *c.remarks()])
        head = {"verdict": word, "exit_code": int(code), "answer": near}
        return Found(c, text, lambda: score_record(c) | head, code)

    def _verdict(self, found: ScoreComparison) -> tuple[Verdict, str]:
        """The verdict, and what it says."""
        near = found.not_worse(self.margin)
        if self.worse is None:
            return near.verdict, str(near)
        far = found.not_worse(self.worse)
        if _size(found, far.margin) <= _size(found, near.margin):
            raise SettingsError(f"--worse is {self.worse}. Give more than --margin, which is {self.margin}.")
        if far.verdict is Verdict.YES:
            return Verdict.YES, str(far)
        return (Verdict.NO if near.verdict is Verdict.NO else Verdict.UNKNOWN), str(near)

    def _expected(self, found: ScoreComparison, worse: str | None) -> list[str]:
        """How many pairs a verdict takes if nothing has changed, and if the loss is that of a hypothesis."""
        if not found.scores.levels.simple or found.samples < 8:
            return []
        near = _size(found, Margin.of(self.margin))
        far = near if worse is None else _size(found, Margin.of(worse))
        z = found.summary.samples.returns[:, 1] - found.summary.samples.returns[:, 0]
        std, error = float(z.std(ddof=1)), found.summary.error
        unit = f"{found.scores.unit}s"

        def pairs(distance: float) -> str:
            return significant(expected_pairs(std, distance, error, running=self.running), 2)

        said = f"about {pairs(far)} {unit} pass if nothing has changed"
        if worse is not None and far > near:
            said += f"; about {pairs(far - near)} decide if the loss is exactly {self.margin} or {worse}"
        return [f"{said}, with the standard deviation of these {found.samples:,} gaps"]


def _size(found: ScoreComparison, margin: Margin) -> float:
    """A margin in units of the score."""
    return margin.size * (abs(float(found.mean_of(found.reference))) if margin.relative else 1.0)


def _given(files: tuple[str, ...]) -> Any:
    """The argument of `compare_scores`."""
    pairs = [text.partition("=") for text in files]
    if not files:
        raise SettingsError("Give a file of scores, or one for each alternative.")
    if not any(equals for _, equals, _ in pairs):
        return files[0] if len(files) == 1 else list(files)
    for name, _, path in pairs:
        if name in _ScoreOptions.__dataclass_fields__ and not Path(path).exists():
            raise SettingsError(f"There is no file {short(path)}. If {name} is an option, write --{name} {path}.")
    if not all(equals for _, equals, _ in pairs):
        raise SettingsError(f"{short(' '.join(files))} has files with and without a name. Give NAME=FILE for each.")
    named: dict[str, list[str]] = {}
    for name, _, path in pairs:
        named.setdefault(name, []).append(path)
    return named


def score_record(found: ScoreComparison) -> dict[str, Any]:
    """Return the contents of the table and what is behind it."""
    levels = found.scores.levels
    return {
        "answer": found.answer,
        "decided": found.decided,
        "best": found.best,
        "baseline": found.baseline,
        "reference": found.reference,
        "confidence": found.confidence,
        "unit": found.scores.unit,
        "units": found.samples,
        "scores": len(levels.values),
        "left_out": found.scores.left_out,
        "levels": levels.names,
        "own": levels.own,
        "fixed": levels.fixed,
        "statistic": levels.statistic,
        "remarks": found.remarks(),
        "alternatives": [{"alternative": name, **found.beside(name)} for name in found.alternatives],
    }
