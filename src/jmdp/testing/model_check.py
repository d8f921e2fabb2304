"""Detection of likely mistakes in a scenario table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Booleans, Integers, Words
from jmdp.base.labels import Labels
from jmdp.base.settings import cut, instance
from jmdp.errors import ModelError
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.checking.probe import Finding
from jmdp.simulators.starts import Starts

_SHOWN = 8
"""Names that a message lists."""

_BYTES = 40.0
"""Memory for each number of the table while it is checked."""

Severity = Literal["problem", "note"]


@dataclass(frozen=True)
class ModelFinding(Finding):
    """Feature of a table that is allowed, but is probably a mistake ("problem") or may be one ("note")."""

    severity: Severity = "note"


@dataclass(frozen=True, eq=False, repr=False)
class ModelReport(Sequence[Finding]):
    """Findings of `check_model`, at most one of each kind. Printed, it says what to do; as a sequence, it has them."""

    findings: tuple[ModelFinding, ...]
    states: dict[str, Integers]
    """Indices of all states that a finding is about, by its kind; messages name the first ones."""
    model: str

    @property
    def problems(self) -> tuple[ModelFinding, ...]:
        """Findings that are probably mistakes."""
        return tuple(finding for finding in self.findings if finding.severity == "problem")

    @property
    def notes(self) -> tuple[ModelFinding, ...]:
        """Findings that may be intended."""
        return tuple(finding for finding in self.findings if finding.severity == "note")

    def __str__(self) -> str:
        if not self.findings:
            return f"no problem found in {self.model}"
        counts = f"{_count(len(self.problems), 'problem')}, {_count(len(self.notes), 'note')}"
        lines = [f"{finding.severity}: {finding}" for finding in (*self.problems, *self.notes)]
        return "\n".join([f"{counts} in {self.model}", *lines])

    __repr__ = __str__

    def __len__(self) -> int:
        return len(self.findings)

    @overload
    def __getitem__(self, i: int) -> ModelFinding: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[ModelFinding, ...]: ...
    def __getitem__(self, i: int | slice) -> ModelFinding | tuple[ModelFinding, ...]:
        return self.findings[i]

    def __eq__(self, other: object) -> bool:
        """Whether the findings are equal; a list of findings can be compared too."""
        return isinstance(other, (ModelReport, list, tuple)) and self.findings == tuple(other)

    def __hash__(self) -> int:
        return hash(self.findings)


def check_model(model: TabularJMDP, starts: Any = None) -> ModelReport:
    """Report features of a scenario table that are allowed but are likely mistakes.

    The constructor of `TabularJMDP` checks that a table is well formed. This function reports

    - states with identical tables: under `Local` they draw separate scenarios, so splitting a state changes
      covariances;
    - actions with the same effect in every state (problem), and scenarios of probability 0;
    - states that are never left and have no reward but are not terminal (problem), and other sets of states without a
      terminal one that cannot be left;
    - states that cannot be reached from `starts`; without starts, those that no transition from another state leads to;
    - rows of `prob` whose sums were not 1 and were corrected, tables without randomness, and tables whose joint
      outcomes were chosen by a coupling.

    Parameters
    ----------
    model
        The table.
    starts
        Start states: a list of states, {state: probability}, or an array [S] of probabilities.

    Returns
    -------
    ModelReport
        ``print(report)`` shows each finding with its states, why it matters, and the fix. It is a sequence of findings,
        empty if nothing was found.
    """
    instance("model", model, TabularJMDP, ModelError)
    S, K, A = model.shape
    arrays.refuse_large(f"The check of {S:,} states, {K:,} scenarios and {A:,} actions", _BYTES * S * K * A)
    begun = None if starts is None else np.array(Starts.of(starts, TabularSimulator(model)).states, np.int64)
    table = _CheckedTable(model, begun)
    findings, states = [], {}
    for look in _LOOKS:
        for message, where in look(table):
            kind = look.__name__.strip("_").replace("_", " ")
            findings.append(ModelFinding(kind, message, severity="problem" if look in _PROBLEMS else "note"))
            states[kind] = where
    return ModelReport(tuple(findings), states, repr(model))


_Message = tuple[str, Integers]
"""What was found, and the states concerned."""

_NO_STATES: Integers = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class _CheckedTable:
    """A table, its start states if they are given, and what several checks need."""

    model: TabularJMDP
    starts: Integers | None

    @cached_property
    def possible(self) -> Booleans:
        """[S, K], scenarios that can happen; none in terminal states."""
        return np.asarray((self.model.prob > 0) & ~self.model.terminal[:, None])

    @cached_property
    def graph(self) -> Any:
        """Transitions of positive probability as a sparse matrix, with node S in front of all starts.

        Each transition is there once: SciPy 1.13 does not return from a search in a graph with repeated ones.
        """
        from scipy.sparse import csr_array

        S, _, A = self.model.shape
        starts = _NO_STATES if self.starts is None else self.starts
        to = np.concatenate([self.model.next_state[self.possible].ravel(), starts])
        source = np.repeat(np.arange(S + 1), np.concatenate([self.possible.sum(axis=1) * A, [starts.size]]))
        source, to = np.divmod(np.unique(source * (S + 1) + to), S + 1)
        first = np.searchsorted(source, np.arange(S + 2))
        return csr_array((np.ones(to.size, np.int8), to, first), shape=(S + 1, S + 1))

    @cached_property
    def sources(self) -> Integers:
        """State in which each entry of the graph's `indices` begins."""
        counts = np.diff(self.graph.indptr)
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def idle(self) -> Booleans:
        """[S], non-terminal states that are never left and have no reward."""
        model = self.model
        here = np.arange(model.shape[0])[:, None, None]
        stays = ((model.next_state == here) | ~self.possible[:, :, None]).all(axis=(1, 2))
        return np.asarray(stays & (model.reward == 0).all(axis=(1, 2)) & ~model.terminal)

    def names(self, states: Integers) -> str:
        """The first of these states, by name."""
        return _names(self.model.states, states)


def _copies(table: _CheckedTable) -> Iterator[_Message]:
    groups = equal_states(table.model)
    if not groups:
        return
    states = np.concatenate(groups)
    more = f", and {_count(len(groups) - 1, 'more group')} like this ({states.size:,} states in all)"
    message = (
        f"states {table.names(groups[0])} have the same table{more if len(groups) > 1 else ''}. Local() draws separate "
        "scenarios for them, so returns are less correlated than if they were one state. Merge them if they represent "
        "the same state."
    )
    yield message, states


def _equal_actions(table: _CheckedTable) -> Iterator[_Message]:
    groups = equal_actions(table.model)
    if not groups:
        return
    more = f", and {_count(len(groups) - 1, 'more group')} like this" if len(groups) > 1 else ""
    message = (
        f"actions {_names(table.model.actions, groups[0])} have the same effect in every state{more}. Their returns "
        "still differ unless the policy draws the same actions after both. Drop one, or correct its outcomes."
    )
    yield message, _NO_STATES


def _impossible_scenarios(table: _CheckedTable) -> Iterator[_Message]:
    never = np.flatnonzero(~table.possible.any(axis=0))
    if never.size and not table.model.terminal.all():
        names = _names(Labels.of("scenario", table.model.shape[1], None), never)
        which = f"scenario {names} has" if never.size == 1 else f"scenarios {names} have"
        it = "it" if never.size == 1 else "them"
        yield f"{which} probability 0 in every state. Drop {it}, to save time and memory.", _NO_STATES


def _idle_traps(table: _CheckedTable) -> Iterator[_Message]:
    states = np.flatnonzero(table.idle)
    if states.size == 1:
        yield f"state {table.names(states)} is never left and has no reward. Mark it terminal.", states
    elif states.size:
        yield f"states {table.names(states)} are never left and have no reward. Mark them terminal.", states


def _closed_sets(table: _CheckedTable) -> Iterator[_Message]:
    from scipy.sparse.csgraph import connected_components

    model, graph = table.model, table.graph
    S = model.shape[0]
    count, label = connected_components(graph, directed=True, connection="strong")
    source = table.sources
    closed = np.ones(count, bool)
    closed[label[source[label[source] != label[graph.indices]]]] = False
    ends = model.terminal | table.idle
    closed[label[:S][ends]] = False
    states = np.flatnonzero(closed[label[:S]])
    sets = len(np.unique(label[states]))
    if sets == 0 or (sets == 1 and not ends.any()):
        return  # one closed set is what continuing problems have
    first = states[label[states] == label[states[0]]]
    which = f"states {table.names(first)} are" if first.size > 1 else f"state {table.names(first)} is"
    more = f", and {_count(sets - 1, 'more set')} like this ({states.size:,} states in all)" if sets > 1 else ""
    message = (
        f"{which} never left, and not terminal{more}. Returns from there never end; only the discount "
        f"{model.discount:g} limits them. Add the missing transitions, or mark states terminal in which episodes end."
    )
    yield message, states


def _unreached(table: _CheckedTable) -> Iterator[_Message]:
    S = table.model.shape[0]
    reached = np.zeros(S + 1, bool)
    if table.starts is None:
        to = table.graph.indices
        reached[to[to != table.sources]] = True
        what = "no transition leads to"
    else:
        from scipy.sparse.csgraph import breadth_first_order

        reached[breadth_first_order(table.graph, S, return_predecessors=False)] = True
        what = "the starts do not lead to"
    missing = np.flatnonzero(~reached[:S])
    if missing.size and S > 1:
        more = ", …" * (missing.size > _SHOWN)
        where = f"{what} {missing.size:,} of {S:,} states ({table.names(missing[:_SHOWN])}{more})"
        yield f"{where}. If episodes do not start there, drop them, or add the missing transitions.", missing


def _no_luck(table: _CheckedTable) -> Iterator[_Message]:
    if (table.possible.sum(axis=1) <= 1).all():
        yield "every state has one possible scenario, so there is no randomness for actions to share.", _NO_STATES


def _corrected_sums(table: _CheckedTable) -> Iterator[_Message]:
    off = table.model.normalised
    if off > 0:
        message = (
            f"rows of prob had sums that differ from 1 by up to {off:.1g}, and were divided by them. This is expected "
            "of rounded or single-precision numbers; otherwise a scenario is missing or counted twice."
        )
        yield message, _NO_STATES


def _chosen_coupling(table: _CheckedTable) -> Iterator[_Message]:
    how = table.model.coupled_by
    if how is not None:
        message = (
            f"the joint outcomes were chosen by {how}, not given: outcomes of single actions do not determine them. "
            "Means are not affected; covariances, gaps and probabilities of superiority depend on this choice."
        )
        yield message, _NO_STATES


_PROBLEMS: tuple[Callable[[_CheckedTable], Iterator[_Message]], ...] = (_equal_actions, _idle_traps)

_LOOKS: tuple[Callable[[_CheckedTable], Iterator[_Message]], ...] = (
    _copies,
    _equal_actions,
    _impossible_scenarios,
    _idle_traps,
    _closed_sets,
    _unreached,
    _no_luck,
    _corrected_sums,
    _chosen_coupling,
)


def _names(labels: Labels, indices: Integers) -> str:
    """The first names, e.g. "a, b and c"."""
    shown = [cut(labels.name(int(i)), 40) for i in indices[:_SHOWN]]
    if len(indices) > _SHOWN:
        return f"{', '.join(shown)}, … ({len(indices):,} in all)"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _count(number: int, name: str) -> str:
    return f"{number or 'no'} {name}{'s' * (number != 1)}"


_BLOCK = 1 << 20
"""Numbers that are hashed at once."""


def equal_states(model: TabularJMDP) -> list[Integers]:
    """Groups of at least two non-terminal states with the same table."""
    states = np.flatnonzero(~model.terminal)
    _, K, A = model.shape
    weights = _weights(K * (1 + 2 * A))
    step = max(1, _BLOCK // (K * (1 + 2 * A)))
    hashes = np.zeros(states.size, np.uint64)
    for i in range(0, states.size, step):
        hashes[i : i + step] = _mixed(_state_rows(model, states[i : i + step])) @ weights
    return _verified(states, hashes, lambda some: _state_rows(model, some), step)


def _state_rows(model: TabularJMDP, states: Integers) -> Words:
    """The table of each of these states as one row of words; where scenarios cannot happen, next states are 0."""
    prob = model.prob[states]
    after = np.where((prob > 0)[:, :, None], model.next_state[states], 0)
    parts = (prob, model.reward[states], after)
    return np.hstack([_words(part).reshape(len(states), -1) for part in parts])


def equal_actions(model: TabularJMDP) -> list[Integers]:
    """Groups of at least two actions with the same effect in every state."""
    S, K, A = model.shape
    hashes = np.zeros(A, np.uint64)
    step = max(1, _BLOCK // (K * A))
    for i in range(0, S, step):
        rows = _action_rows(model, slice(i, i + step), np.arange(A))
        hashes = _mixed(hashes) + _mixed(rows) @ _weights(rows.shape[1])
    return _verified(np.arange(A), hashes, lambda some: _action_rows(model, slice(None), some), 1)


def _action_rows(model: TabularJMDP, states: slice, actions: Integers) -> Words:
    """Rewards and next states of each of these actions as one row of words."""
    possible = (model.prob[states] > 0)[:, :, None]
    parts = (model.reward[states, :, actions], np.where(possible, model.next_state[states, :, actions], 0))
    return np.hstack([_words(np.moveaxis(part, 2, 0)).reshape(part.shape[2], -1) for part in parts])


def _words(part: Any) -> Words:
    """Numbers as words of 64 bits; −0.0 becomes 0.0."""
    return np.ascontiguousarray(part + part.dtype.type(0)).view(np.uint64)


def _mixed(words: Words) -> Words:
    """Words whose bits all depend on all bits of the given ones (SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _weights(count: int) -> Words:
    """Odd numbers, by which the words of a row are multiplied."""
    return _mixed(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _verified(members: Integers, hashes: Words, rows: Callable[[Integers], Words], step: int) -> list[Integers]:
    """Groups of members with equal hashes whose rows equal that of the first; `step` rows are compared at once."""
    order = np.argsort(hashes, kind="stable")
    new = np.concatenate([[True], np.diff(hashes[order]) != 0]) if order.size else np.zeros(0, bool)
    first = np.maximum.accumulate(np.where(new, np.arange(order.size), 0))
    again = np.flatnonzero(~new)  # positions in `order` whose hash occurred before
    equal = np.zeros(again.size, bool)
    for i in range(0, again.size, step):
        some = again[i : i + step]
        equal[i : i + step] = (rows(members[order[some]]) == rows(members[order[first[some]]])).all(axis=1)
    again = again[equal]
    leaders, begin = np.unique(first[again], return_index=True)
    groups = zip(leaders.tolist(), np.split(again, begin[1:]), strict=True) if again.size else ()
    found = [members[order[np.concatenate([[leader], rest])]] for leader, rest in groups]
    return sorted(found, key=lambda group: int(group[0]))
