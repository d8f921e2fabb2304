"""`study`: compare actions or policies in many states, with results in files that can be read at any time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jmdp.base.labels import PolicyLike, SimulatorLike
from jmdp.base.machine import interruptible
from jmdp.base.settings import asks_for_seed, boolean_value, cut, number, short, whole_number
from jmdp.comparisons.compare import ActionQuestion, action_question
from jmdp.comparisons.compare_policies import PolicyQuestion, policy_question
from jmdp.comparisons.question import ComparisonSettings
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import LONGEST_BLOCK, check_pool, pool_of
from jmdp.errors import CouplingError, SettingsError, StudyError, WorkerError
from jmdp.methods.evaluate import check_lazy_policy
from jmdp.methods.method import check_kind
from jmdp.models.coupling import Coupling, Synchronous
from jmdp.models.lazy import LazyJMDP
from jmdp.models.policy import TabularPolicy, is_one_policy
from jmdp.models.tabular import TabularJMDP, problem_discount
from jmdp.results.certificate import Outcome
from jmdp.simulators.simulator import candidate_actions
from jmdp.statistics.assumptions import Assumptions
from jmdp.studies.driver import Control, Driver, rungs
from jmdp.studies.folder import Chunk, Folder
from jmdp.studies.parts import Columns, arrow, read_parts
from jmdp.studies.points import Failure, Points
from jmdp.studies.study import Study
from jmdp.studies.work import CertifiedWork, SimulatedWork, Work


@interruptible
@asks_for_seed
def study(
    simulator: SimulatorLike,
    policy: PolicyLike,
    states: Any = None,
    actions: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    seed: int,
    path: str | Path,
    pool: int | Pool | None = None,
    indifference: float | None = None,
    max_samples: int = 10_000,
    resume: bool = True,
    retry_failed: bool = False,
    trusted: bool = True,
    discount: float | None = None,
    coupling: Coupling | None = None,
    confidence: float = 0.95,
    horizon: int | None = None,
    assume: Assumptions | None = None,
    tolerance: float = 0.01,
    progress: bool = True,
) -> Study:
    """Compare actions, or policies, in many states; each state is sampled until it is decided.

    In each state this is `compare`, or `compare_policies` if `policy` is a dictionary of policies, with a random seed
    of its own. A state is finished when its comparison is decided or its `max_samples` are used up. States that are not
    decided after a small number of samples wait until all others have been tried.

    Results are written to the folder `path` while the study runs: Parquet files in ``path/parts``, with a row for each
    state and alternative. They can be read at any time, with `Study.open`, pandas, polars or DuckDB. If the study is
    interrupted or killed, the same call continues it, and the files are the same as without an interruption. Parts that
    are missing or damaged are simulated again.

    A state whose comparison raises an error, or ends its worker process when it is tried alone, is marked as failed,
    and the others go on. A worker that is killed from outside says nothing about its states: they are tried again. If
    the machine does not recover, the study ends with the outcome `INTERRUPTED`.

    Parameters
    ----------
    simulator
        What `compare` accepts; or a `LazyJMDP`, whose states are evaluated by `ReachablePairs` with certified
        intervals instead of by simulation.
    policy
        The policy to follow after the first action, or a dictionary from names to policies to compare.
    states
        List of states, or a dictionary from labels to states. Long lists may be any object with a length and indices,
        which is asked for one state at a time. For a table: states by index or name; None for all that are not
        terminal.
    actions
        Actions to compare, as in `compare`.
    seed
        Random seed of the study. The column `key` has the seed of each state's own comparison.
    path
        Folder of the results.
    pool
        Worker processes: their number, a `jmdp.distribute.ProcessPool` or a `jmdp.distribute.RayPool`. The results do
        not depend on it. With a number, a state that takes longer than an hour fails; a pool has its own `time_limit`.
    indifference
        Differences of means up to this size do not matter; see `compare`.
    max_samples
        Largest number of rollouts of each alternative in each state. For a `LazyJMDP`: of states to explore.
    resume
        Continue a study that is in the folder. False raises an error if there is one.
    retry_failed
        Simulate states that have failed in an earlier call again, e.g. after the simulator was corrected.
    trusted
        False: a study that is in the folder already is read as by ``Study.open(path, trusted=False)``.
    discount, horizon, assume
        As in `compare`.
    coupling
        Which randomness is shared. Default: that of `compare` or `compare_policies`. A `LazyJMDP` has no default.
    confidence
        Confidence level of the decision in each state. Among many states, a share of up to 1 − confidence of them may
        be decided wrongly. For all decisions jointly, give ``1 - 0.05 / len(states)``.
    tolerance
        For a `LazyJMDP`: relative width of the intervals; see `ReachablePairs`.
    progress
        Show progress: a bar on a terminal, otherwise a line every minute.

    Returns
    -------
    Study
        The results so far: of all states, unless the study was interrupted by Ctrl-C or because workers were killed.
    """
    arrow()
    folder = _path(path)
    boolean_value("resume", resume)
    boolean_value("retry_failed", retry_failed)
    boolean_value("trusted", trusted)
    check_pool(pool)
    settings = {
        "seed": whole_number("seed", seed, 0),
        "indifference": indifference,
        "max_samples": whole_number("max_samples", max_samples, 1 if isinstance(simulator, LazyJMDP) else 2),
        "confidence": confidence,
        "horizon": horizon,
        "assume": Assumptions() if assume is None else assume,
        "progress": progress,
    }
    points = Points.of(states, simulator)
    if isinstance(simulator, LazyJMDP):
        if any(value is not None for value in (actions, horizon, assume)):
            raise SettingsError(
                "actions, horizon or assume is given, but a study of a LazyJMDP compares all actions, and simulates "
                "nothing. Omit it."
            )
        works, header = _certified(simulator, policy, points, coupling, discount, tolerance, settings)
    else:
        works, header = _simulated(simulator, policy, points, actions, coupling, discount, settings)
    header["states"] = len(points)
    stopped = None
    with Folder.writer(folder, header, resume, trusted) as written, pool_of(pool, time_limit=LONGEST_BLOCK) as workers:
        control = _check_repeated(written, works, points)
        try:
            Driver(points, works, written, workers, progress, retry_failed, control).run()
        except KeyboardInterrupt:
            stopped = "Ctrl-C."
        except WorkerError as error:
            if not error.killed:
                raise
            stopped = f"workers were ended again and again, which says nothing about their states. {error}"
    return Study(Folder.read(folder, written.trusted), stopped)


def _path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise SettingsError(f"path is {short(path)}. Give a folder for the results.") from None


def _simulated(
    simulator: SimulatorLike,
    policy: PolicyLike,
    points: Points,
    actions: Any,
    coupling: Coupling | None,
    discount: float | None,
    settings: dict[str, Any],
) -> tuple[list[Work], dict[str, Any]]:
    """Work of each rung, and the header of the ledger."""
    first, table = _first(points), getattr(simulator, "model", simulator)
    if isinstance(table, TabularJMDP):
        first = table.states[first]
        if isinstance(policy, Mapping) and is_one_policy(policy, table):
            policy = TabularPolicy.of(policy, table)
    several = isinstance(policy, Mapping)
    shared = Synchronous(policy_luck="shared") if several else Synchronous()
    common = ComparisonSettings(**settings, coupling=shared if coupling is None else coupling)
    question: ActionQuestion | PolicyQuestion
    if several:
        if actions is not None:
            raise SettingsError("actions is given together with several policies. Give one policy to compare actions.")
        question = policy_question(simulator, policy, [first], discount, None, common)
        said = ", ".join(map(repr, question.plan.actors))
    else:
        question = action_question(simulator, policy, first, actions, discount, common)
        said = repr(question.actor)
    question = replace(question, plan=replace(question.plan, starts=replace(question.plan.starts, states=())))
    columns = Columns("policy" if several else "action", points.coordinates)
    sizes = rungs(common.most)
    works: list[Work] = [
        SimulatedWork(columns=columns, seed=common.seed, last=size == sizes[-1], question=question, budget=size)
        for size in sizes
    ]
    header = _header(works[0], repr(question.simulator), said, common, question.discount, question.horizon)
    return works, header


def _certified(
    model: LazyJMDP,
    policy: PolicyLike,
    points: Points,
    coupling: Coupling | None,
    discount: float | None,
    tolerance: float,
    settings: dict[str, Any],
) -> tuple[list[Work], dict[str, Any]]:
    """Work of the only rung, and the header of the ledger."""
    if coupling is None:
        raise CouplingError(
            "coupling is missing: it is part of the question. Give jmdp.Local(), jmdp.Synchronous() or "
            "jmdp.Independent()."
        )
    check_kind("coupling", coupling, Coupling, CouplingError)
    check_lazy_policy(policy)
    gamma, first = problem_discount(model.discount, discount), _first(points)
    model.expand(model.index(first))
    if model.actions is None:
        raise SettingsError("The first state is terminal. Give states in which actions can be taken.")
    names = [model.actions.name(a) for a in range(model.actions.size)]
    candidate_actions(model.actions, None)  # raises unless there are at least two
    common = ComparisonSettings(**settings | {"max_samples": max(2, settings["max_samples"])}, coupling=coupling)
    work = CertifiedWork(
        columns=Columns("action", points.coordinates),
        seed=common.seed,
        last=True,
        model=model,
        policy=policy,
        coupling=coupling,
        tolerance=number("tolerance", tolerance, 0.0),
        budget=settings["max_samples"],
        indifference=common.indifference,
        alternatives=names,
    )
    header = _header(work, f"LazyJMDP, discount {gamma:g}", getattr(policy, "__name__", "policy"), common, gamma, None)
    header["settings"] |= {"tolerance": work.tolerance, "max_samples": work.budget}
    return [work], header


def _first(points: Points) -> Any:
    """The first state, with which the settings are checked before any work begins."""
    block = points.block([0], lambda state: state)
    if isinstance(block.states[0], Failure):
        raise SettingsError(f"The first state cannot be obtained:\n{block.states[0].text}")
    return block.states[0]


def _header(
    work: Work, simulator: str, policy: str, settings: ComparisonSettings, discount: float, horizon: int | None
) -> dict[str, Any]:
    return {
        "simulator": cut(simulator, 1000),
        "policy": cut(policy, 1000),
        "alternative": work.columns.alternative,
        "alternatives": work.names,
        "coordinates": dict(work.columns.coordinates),
        "settings": {
            "seed": settings.seed,
            "max_samples": settings.most,
            "discount": discount,
            "horizon": horizon,
            "coupling": repr(settings.coupling),
            "confidence": settings.confidence,
            "indifference": settings.indifference,
            **_assumed(settings.assume),
        },
    }


def _assumed(assume: Assumptions) -> dict[str, Any]:
    """The assumptions, as JSON."""
    values = {name: getattr(assume, name) for name in assume.__dataclass_fields__}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _check_repeated(folder: Folder, works: Sequence[Work], points: Points) -> Control | None:
    """Raise if a state of the first or the last part has another result now: something must have changed.

    Return such a state, if there is one.
    """
    sound = [chunk for key, chunk in folder.chunks.items() if key not in folder.damaged]
    known = [chunk for chunk in sound if set(chunk.outcomes) - {Outcome.FAILED.name}]
    control = None
    for chunk in known[:1] + known[1:][-1:]:
        control = _check_chunk(folder, works, points, chunk)
    return control


def _check_chunk(folder: Folder, works: Sequence[Work], points: Points, chunk: Chunk) -> Control:
    """Compare in the first state of a part that has not failed, once more; return that state."""
    if not 0 < chunk.rung <= len(works) or chunk.last >= len(points):
        raise StudyError(f"{folder.path} has a ledger that does not match its settings.")
    pa, work = arrow(), works[chunk.rung - 1]
    path = folder.part_path(chunk.rung, chunk.first, chunk.last)
    (table,) = read_parts([(path, chunk.part)], folder.columns, folder.trusted)
    from pyarrow import compute

    table = table.filter(compute.not_equal(table["outcome"], Outcome.FAILED.name))
    state = table["number"][0].as_py()
    before = table.filter(compute.equal(table["number"], state)).combine_chunks()
    found = work(points.block([state], work.pack))
    again = pa.Table.from_batches(found.batches).combine_chunks()
    if not again.equals(before):
        raise StudyError(
            f"State {before['state'][0].as_py()!r} has another result than in {path}: the simulator, the policy or the "
            "states are not those of the study in this folder. Give the same ones, or another path."
        )
    return work, state
