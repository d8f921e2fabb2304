"""`compare_scores`: compare alternatives by scores that exist, such as evaluations of agents on the same tasks."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.settings import boolean, boolean_value, choice, instance, names, probability, real_number, short
from jmdp.comparisons.question import alternative_names
from jmdp.comparisons.sampling import OUTCOMES, best_of
from jmdp.comparisons.score_comparison import ScoreComparison, Scores, ScoreSummary
from jmdp.errors import LabelError, SettingsError
from jmdp.results.certificate import Outcome
from jmdp.statistics.assumptions import Assumptions
from jmdp.statistics.levels import STATISTICS, Levels
from jmdp.statistics.selection import Margin, SelectionRule

Column = Sequence[Any]
"""The cells of one column of a table of scores."""


def compare_scores(
    scores: Any,
    *,
    pair: str | None = "id",
    levels: Sequence[str] | None = None,
    crossed: Collection[str] = (),
    own: Collection[str] = (),
    fixed: Collection[str] = (),
    alternative: str = "alternative",
    score: str | Sequence[str] = "score",
    statistic: Literal["mean", "median", "iqm"] = "mean",
    minimize: bool = False,
    baseline: str | None = None,
    margin: Margin | float | str | None = None,
    confidence: float = 0.95,
    running: bool = False,
    assume: Assumptions | None = None,
    trusted: bool = True,
) -> ScoreComparison:
    """Compare alternatives by scores that exist: agents or models on the same tasks, algorithms over training seeds.

    A pair of scores is worth more than two scores if both alternatives met the same luck: the same task, the same
    start, the same evaluation episode. Scores are therefore paired by the names of these, never by their position. What
    one alternative has no score of is left out, and the result says how many.

    Parameters
    ----------
    scores
        A table with a row for each score and the columns `alternative`, `pair` (or `levels`) and `score`: a pandas
        DataFrame, or a file (CSV, Parquet, JSON lines, or a log of a tool, see "Scores you already have"). Or a
        dictionary from names of alternatives to dictionaries ``{id: score}`` or ``{id: [scores of trials]}``, to
        tables, or to files.
    pair
        Column with the name of what pairs the scores. Scores with equal names are trials of the same task. None:
        nothing pairs them. "position": the scores of each alternative are a list, and equal positions are pairs.
    levels
        Columns of the levels of randomness, the outer one first, in place of `pair`: ``["task", "trial"]``. Trials need
        no column. With two levels, units of the inner one are those of their outer unit alone, unless they are crossed.
    crossed
        ``["episode"]``: the inner level has the same units in all units of the outer one, as when every trained agent
        is evaluated on the same episodes.
    own
        Levels that the alternatives do not share: ``["seed"]``, because training seed 3 of one algorithm has nothing to
        do with training seed 3 of another. Their variances add.
    fixed
        ``["task"]``: the statement is about these tasks, not about others like them; only trials vary. Needs two trials
        of each task.
    alternative, score
        Names of these columns. ``score=["old", "new"]``: each of these columns has the scores of the alternative of
        its name, and there is no column `alternative`.
    statistic
        What is compared: the mean, the median, or the interquartile mean ("iqm") of the mean scores of the outer units,
        of each alternative on its own.
    minimize
        True if smaller scores are better.
    baseline, margin, confidence
        As in `compare_policies`.
    running
        True if scores keep arriving and the comparison is looked at again and again: intervals then hold at all numbers
        of pairs at once, so that you may stop whenever you like. The order in which scores arrive must not depend on
        them. Otherwise the number of scores is taken as planned, and the intervals are ordinary ones.
    assume
        ``jmdp.Assumptions(return_range=(0, 1))``: scores are in this range; intervals of means are then valid for any
        distribution (by betting, if `running`). Also `tie_tolerance`.
    trusted
        False: read files in a child process with limits of memory and time.

    Returns
    -------
    ScoreComparison
        A `Comparison` whose samples are the units that pair the scores. ``found.continued(more)`` adds scores.
    """
    given = locals()
    question = ScoreQuestion(**{name: given[name] for name in ScoreQuestion.__dataclass_fields__})
    return question.answer(question.table(scores, boolean_value("trusted", trusted)))


@dataclass(frozen=True, eq=False)
class Table:
    """Scores in long form, in the order in which they were given."""

    alternatives: tuple[str, ...]  # of each row
    units: tuple[tuple[str, ...], ...]  # of each level, the name of each row's unit
    scores: Floats  # [rows]; nan for a missing one
    about: str = ""
    paired: bool = True  # False if a file has nothing that pairs its scores

    def joined(self, more: Table) -> Table:
        """These and more scores."""
        units = tuple(one + other for one, other in zip(self.units, more.units, strict=True))
        about = ". ".join(dict.fromkeys(filter(None, (self.about, more.about))))
        paired = self.paired and more.paired
        scores = np.concatenate([self.scores, more.scores])
        return Table(self.alternatives + more.alternatives, units, scores, about, paired)


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion:
    """Settings of `compare_scores`."""

    pair: str | None = "id"
    levels: tuple[str, ...] | None = None
    crossed: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    alternative: str = "alternative"
    score: str | tuple[str, ...] = "score"
    statistic: str = "mean"
    minimize: bool = False
    baseline: str | None = None
    margin: Margin | None = None
    confidence: float = 0.95
    running: bool = False
    assume: Assumptions = field(default_factory=Assumptions)

    def __post_init__(self) -> None:
        probability(self, "confidence")
        choice("statistic", self.statistic, STATISTICS)
        boolean(self, "minimize")
        boolean(self, "running")
        for name in ("levels", "crossed", "own", "fixed"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else names(name, given, SettingsError))
        if not isinstance(self.score, str):
            object.__setattr__(self, "score", names("score", self.score, SettingsError))
        if self.margin is not None:
            object.__setattr__(self, "margin", Margin.of(self.margin))
        object.__setattr__(self, "assume", Assumptions() if self.assume is None else self.assume)
        instance("assume", self.assume, Assumptions, hint="Give jmdp.Assumptions(return_range=(0, 1)).")
        self.assume.single()
        for problem, wrong in self._problems().items():
            if wrong:
                raise SettingsError(problem)

    def _problems(self) -> dict[str, bool]:
        """What may be wrong with the settings together, and whether it is."""
        named, (outer, *more) = self.columns, self.columns
        inner, ranged = more[0] if more else "trial", self.assume.return_range is not None
        unknown = sorted({*self.crossed, *self.own, *self.fixed} - {outer, inner})
        texts = isinstance(self.alternative, str) and isinstance(self.pair, str | None)
        return {
            "pair or alternative is not text. Give the name of a column.": not texts,
            "score is empty. Give the name of a column, or a list of names, one for each alternative.": not self.score,
            f"levels has {len(named)} names. Give one or two, the outer one first, and average over others before.": (
                len(named) > 2
            ),
            f"pair is {short(self.pair)}, and levels are given, the first of which pairs. Omit pair.": (
                self.levels is not None and self.pair not in ("id", None, outer)
            ),
            "pair is None, and levels are given. Say which of them the alternatives do not share: own=[…].": (
                self.pair is None and self.levels is not None and not self.own
            ),
            f"{short(', '.join(unknown))} is no level: these are {outer}, {inner}.": bool(unknown),
            'crossed is the inner one of two levels: levels=["seed", "episode"], crossed=["episode"].': (
                bool(self.crossed) and (self.crossed != (inner,) or not more)
            ),
            f"{inner}s are within a {outer}, so they cannot be fixed. Fix the {outer}s, or say crossed.": (
                inner in self.fixed and not self.crossed
            ),
            f"fixed is {short(self.fixed)}. Something that the alternatives share must be drawn.": (
                len(set(self.fixed)) == 2 or (bool(self.fixed) and outer in self.own)
            ),
            f"{inner}s are within a {outer} and always of one alternative. Leave them out of own.": (
                inner in self.own and not self.crossed
            ),
            f"statistic={self.statistic!r} is for drawn units of one level. Leave out crossed, fixed, return_range.": (
                self.statistic != "mean" and (ranged or bool(self.crossed or self.fixed))
            ),
            "running scores and a return_range are for pairs of drawn units. Leave out own, crossed and fixed.": (
                (self.running or ranged) and (self.pair is None or bool(self.own or self.crossed or self.fixed))
            ),
        }

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of `compare_scores` that are not its defaults."""
        usual = ScoreQuestion()
        found = {name: getattr(self, name) for name in ScoreQuestion.__dataclass_fields__}
        found = {name: value for name, value in found.items() if value != getattr(usual, name)}
        return {name: str(value) if isinstance(value, Margin) else value for name, value in found.items()}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the levels that have a column."""
        if self.levels is not None:
            return self.levels
        return ("id",) if self.pair is None or self.pair == "position" else (self.pair,)

    @property
    def _unpaired(self) -> bool:
        """Whether each score is a unit of its own."""
        return self.pair is None and self.levels is None

    # -------------------------------------------------------------------------------------------- reading

    def table(self, scores: Any, trusted: bool) -> Table:
        """The scores in long form."""
        if (found := self._read(scores, None, trusted)) is not None:
            return found
        if not isinstance(scores, Mapping) or not scores:
            raise SettingsError(
                f"scores is {short(scores)}. Give a DataFrame, a file, or a dictionary from names of alternatives to "
                'their scores: {"old": {"task 1": 0.5, …}, "new": …}.'
            )
        parts = [
            self._read(given, str(name), trusted) or self._of_one(str(name), given) for name, given in scores.items()
        ]
        return reduce(Table.joined, parts)

    def _read(self, given: Any, name: str | None, trusted: bool) -> Table | None:
        """The scores in a table or in files; None if it is neither. `name` is that of their alternative."""
        if hasattr(given, "columns"):
            return self._joined({str(key): list(given[key]) for key in given.columns}, name, "the table")
        if isinstance(given, (str, PathLike)):
            read = import_module("jmdp.files.scores").read  # by name: comparisons do not depend on files
            columns, about, paired = read(given, trusted)
            if not paired:
                if self.levels is not None:
                    raise SettingsError(f"{given} has no columns of levels. {about}.")
                columns[self.columns[0]] = list(range(max(map(len, columns.values()))))
            if self.alternative not in columns and name is None and isinstance(self.score, str):
                name = Path(given).stem
            return replace(self._joined(columns, name, str(given)), about=about, paired=paired)
        if _is_list(given) and len(given) > 0 and all(isinstance(one, (str, PathLike)) for one in given):
            parts = [self._read(path, name, trusted) for path in given]
            return reduce(Table.joined, [part for part in parts if part is not None])
        return None

    def _of_one(self, name: str, given: Any) -> Table:
        """The scores of one alternative: by id, each one or several, or by position."""
        if isinstance(given, Mapping) or hasattr(given, "items"):  # a Series, whose index names the scores
            rows = [(str(key), one) for key, found in given.items() for one in (found if _is_list(found) else [found])]
        elif _is_list(given) and self.pair in ("position", None):
            rows = [(str(i), one) for i, one in enumerate(given)]
        else:
            raise SettingsError(
                f"The scores of {short(name)} are a {type(given).__name__}. Give a dictionary from ids to scores. A "
                'position is not an id: give pair="position" if scores in equal positions met the same luck, or '
                "pair=None if nothing pairs them."
            )
        if len(self.columns) > 1:
            raise SettingsError(f"levels are {', '.join(self.columns)}. Give a table with these columns.")
        found = np.array([_score(one, name) for _, one in rows], dtype=float)
        return Table((name,) * len(rows), (tuple(key for key, _ in rows),), found)

    def _joined(self, columns: Mapping[str, Column], name: str | None, where: str) -> Table:
        """A table with a row for each score, or with a column of scores for each alternative."""
        if isinstance(self.score, str):
            return self._columns(columns, name, self.score, where)
        if name is not None:
            raise SettingsError(f"score names {len(self.score)} columns, and {where} is of {short(name)} alone.")
        return reduce(Table.joined, (self._columns(columns, one, one, where) for one in self.score))

    def _columns(self, columns: Mapping[str, Column], name: str | None, score: str, where: str) -> Table:
        """A table with a row for each score, of the alternative of this name."""
        wanted = [*([self.alternative] if name is None else []), *self.columns, score]
        optional = {*self.columns[1:]} - {*self.crossed} | ({*self.columns} if self._unpaired else set())
        missing = [key for key in wanted if key not in columns and key not in optional]
        if missing:
            known = ", ".join(short(key, 40) for key in list(columns)[:12])
            raise SettingsError(
                f"{where} has no column {short(missing[0])}. Its columns are {known}. Name yours: --alternative, "
                "--pair (or --levels) and --score of the command line, arguments of the same names in Python. A "
                'column for each alternative: --score old new, score=["old", "new"].'
            )
        size = len(columns[score])

        def named(column: str) -> tuple[str, ...]:
            return tuple(_name(one, column) for one in columns.get(column, range(size)))

        own = named(self.alternative) if name is None else (name,) * size
        found = np.array([_score(one, where) for one in columns[score]], dtype=float)
        return Table(own, tuple(map(named, self.columns)), found)

    # -------------------------------------------------------------------------------------------- answer

    def scores(self, table: Table) -> Scores:
        """The scores by number."""
        known = np.flatnonzero(~np.isnan(table.scores)).tolist()
        found, at = _coded([table.alternatives[i] for i in known])
        if absent := sorted({*table.alternatives} - {*found}):
            raise SettingsError(f"{short(absent[0])} has no score: all of its scores are missing.")
        columns, unpaired = self.columns, self._unpaired or not table.paired
        named = [list(map(str, known))] if unpaired else [[cells[i] for i in known] for cells in table.units]
        coded = [_coded(cells, sort=not self.running) for cells in named]
        units = np.stack([codes for _, codes in coded], axis=1)
        if not table.paired:
            columns = ("episode",)
        elif len(columns) == 1 and len({*zip(at.tolist(), units[:, 0].tolist(), strict=True)}) < len(at):
            columns = (*columns, "trial")
        if len(found) == 1:
            raise SettingsError(
                f'All scores are of {short(found[0])}. Give a name for each file or table: {{"old": …, "new": …}}, on '
                "the command line old=FILE new=FILE."
            )
        alternatives, _ = alternative_names("alternative", dict.fromkeys(found), None)
        levels = Levels(
            values=table.scores[known],
            alternative=at,
            units=units,
            names=columns,
            alternatives=alternatives.size,
            crossed=bool(self.crossed),
            own=self.own or ((columns[0],) if unpaired else ()),
            fixed=self.fixed,
            statistic=self.statistic,
        )
        names = tuple(tuple(one) for one, _ in coded)
        return Scores(
            tuple(found), levels, names, self.minimize, self.running, table.about, len(table.scores) - len(known)
        )

    def answer(self, table: Table) -> ScoreComparison:
        """The comparison of these scores."""
        scores = self.scores(table)
        _check(scores)
        labels, baseline = alternative_names("alternative", dict.fromkeys(scores.alternatives), self.baseline)
        if self.margin is not None and baseline is None:
            raise SettingsError('A margin needs a baseline: baseline="old".')
        summary = ScoreSummary.of(scores, self.confidence, self.assume)
        rule = SelectionRule(
            alternatives=labels.size,
            confidence=self.confidence,
            baseline=None if baseline is None else labels.index(baseline),
            margin=self.margin,
        )
        every = range(labels.size)
        reference = rule.reference(summary.sign * summary.means[0], list(every))
        limits = summary.verdict_limits(reference, list(every), rule.margin)
        look = rule.examine(reference, list(every), *limits, leader=summary.ranking[0])
        outcome = OUTCOMES[look.decision] if self.running else Outcome.SAMPLED
        best = best_of(summary, look, outcome)
        return ScoreComparison(
            summary=summary,
            outcome=outcome,
            best=None if best is None else labels.name(best),
            survivors=tuple(map(labels.name, look.survivors if best is None else (best,))),
            worse_than={},
            baseline=baseline,
            margin=self.margin,
            indifference=None,
            simulator="recorded scores",
            continue_with=_no_samples,
            scores=scores,
            continue_scores=ScoreContinuation(self, table),
        )


@dataclass(frozen=True, eq=False)
class ScoreContinuation:
    """Goes on with a comparison of scores."""

    question: ScoreQuestion
    table: Table

    def __call__(self, more: Any) -> ScoreComparison:
        """The comparison of all scores."""
        table = self.question.table(more, True)
        if self.question.pair == "position":  # they go on where the others end
            begin = 1 + max(int(i) for i in self.table.units[0])
            table = replace(table, units=(tuple(str(begin + int(i)) for i in table.units[0]),))
        return self.question.answer(self.table.joined(table))


def _no_samples(samples: int, given: Mapping[str, Any]) -> Any:
    raise SettingsError("Recorded scores are not drawn again. Give more of them: continued(more).")


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def _name(cell: Any, column: str) -> str:
    if cell is None or cell == "" or cell != cell:
        raise SettingsError(f"A cell of the column {column} is empty. Give a name or a number in every row.")
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # pandas reads a column of integers with a gap as floats
    return str(cell)


def _score(cell: Any, where: str) -> float:
    """The score as a float; nan for a missing one."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return math.nan
    if isinstance(cell, (bool, np.bool_)):
        return float(cell)
    if isinstance(cell, str):
        try:
            cell = float(cell)
        except ValueError:
            raise SettingsError(
                f"A score of {where} is {short(cell)}. Give a number; leave it empty if it is missing."
            ) from None
    number = real_number(cell)
    if math.isinf(number):
        raise SettingsError(f"A score of {where} is infinite. Give finite numbers.")
    return number


def _coded(cells: Sequence[str], sort: bool = False) -> tuple[list[str], Integers]:
    """The names and the number of each cell: in order of appearance, or numbers by value and then text."""

    def key(name: str) -> tuple[bool, float, str]:
        number = name.isascii() and name.removeprefix("-").isdecimal()
        return (not number, float(name) if number else 0.0, name)

    found = sorted(set(cells), key=key) if sort else list(dict.fromkeys(cells))
    index = {name: i for i, name in enumerate(found)}
    return found, np.array([index[cell] for cell in cells], np.int64)


def _check(scores: Scores) -> None:
    """Raise if there are too few pairs, or gaps in crossed levels."""
    levels, unit = scores.levels, scores.unit
    if levels.pairs is not None and int(levels.in_all.sum()) < 2:
        examples = [
            next(name for i, name in enumerate(scores.units[levels.pairs]) if np.isfinite(levels.paired[i, a]))
            for a in range(levels.alternatives)
        ]
        one, other = (
            f"{name} has {short(key)}" for name, key in zip(scores.alternatives[:2], examples[:2], strict=True)
        )
        raise LabelError(
            f"Only {int(levels.in_all.sum())} {unit}s have a score of every alternative. Names must be equal: {one}, "
            f"{other}. If nothing pairs the scores, give pair=None."
        )
    if levels.pairs is None and len(levels.paired) < 2:
        raise SettingsError(f"An alternative has fewer than two {unit}s. Give more, or say what pairs the scores.")
    if levels.crossed:
        outer, inner = levels.names
        for a, name in enumerate(scores.alternatives):
            if not np.isfinite(levels.table(a)).all():
                raise SettingsError(
                    f"crossed levels are incomplete: {name} has no score for some {outer} and {inner}. Evaluate every "
                    f"{outer} on the same {inner}s, or leave out crossed."
                )
    levels.spread(np.eye(levels.alternatives)[0].tolist())  # raises if trials are missing
