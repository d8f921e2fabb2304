"""Error rate and simulated steps of decisions under shared randomness, in worlds whose best action is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from benchmarks.report import Goal, Report, agree
from jmdp.base.arrays import Floats, cumulative_rows
from jmdp.models.coupling import Coupling
from jmdp.statistics import means
from jmdp.statistics.assumptions import Assumptions
from jmdp.worlds import World

if TYPE_CHECKING:
    from jmdp.models.actors.actor import Actor
    from jmdp.simulators import JaxSimulator

CONFIDENCE = 0.95
MOST_NEEDED = 10_000
"""Largest expected number of samples of the unpaired decision; states that need more are left out."""

BUDGET = 10 * MOST_NEEDED
HIDDEN = 1 / 50
"""Largest truncation error of the horizon, relative to the smallest gap. Otherwise unpaired runs could not decide."""

_LOOKS = 2000
"""Samples up to which all intervals are checked, decided or not."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A world and a policy with exact solutions and a compiled simulator."""

    name: str
    model: jmdp.TabularJMDP
    simulator: JaxSimulator
    actor: Actor
    paired: jmdp.results.Evaluation
    unpaired: jmdp.results.Evaluation


@dataclass(frozen=True, eq=False)
class Question:
    """A state with its best action and the exact moments that decide it."""

    problem: Problem
    state: int
    best: int
    gap: Floats  # [A], true means of Z(best) − Z(b)
    paired_needs: int  # samples
    unpaired_needs: int
    variance_ratio: float  # of the decisive gap: unpaired over paired
    horizon: int

    def ask(self, coupling: Coupling, seed: int, samples: int = BUDGET, **more: Any) -> jmdp.comparisons.Comparison:
        """Decide by `compare`."""
        import jax.numpy as jnp

        return jmdp.compare(
            self.problem.simulator,
            self.problem.actor,
            state=jnp.int32(self.state),
            seed=seed,
            discount=self.problem.model.discount,
            coupling=coupling,
            confidence=CONFIDENCE,
            max_samples=samples,
            horizon=self.horizon,
            progress=False,
            **more,
        )


def compare(quick: bool) -> Report:
    """Decide in hundreds of states, paired and unpaired; then check intervals of gap means at every look."""
    report = Report("decisions", quick, seeds="models 0; a seed from 0 on for each run")
    states, seeds, runs = (12, 1, 10) if quick else (200, 2, 100)
    chosen = questions(problems(quick), states)
    numbers = itertools.count()  # a separate seed for every run, so that runs are independent
    found = [(question, *decided(question, next(numbers))) for _ in range(seeds) for question in chosen]
    wrong = {side: sum(pair[side].wrong for _, *pair in found) for side in (0, 1)}
    undecided = {side: sum(pair[side].undecided for _, *pair in found) for side in (0, 1)}
    n = len(found)
    report.goals += [
        Goal.at_most(f"{side}: wrong decisions out of {n}, %", 100 * wrong[i] / n, 5.0)
        for i, side in enumerate(("paired", "unpaired"))
    ]
    promised = [(q.variance_ratio, p.steps, u.steps) for q, p, u in found if q.variance_ratio >= 5]
    times = np.array([unpaired / paired for _, paired, unpaired in promised])
    what = f"{len(promised)} runs with an exact variance ratio of at least 5: ratio of steps, unpaired / paired"
    report.goals += [
        Goal.at_least(f"{what}, mean", float(times.mean()), 5.0),
        Goal.at_least(f"{what}, in total", sum(u for *_, u in promised) / sum(p for _, p, _ in promised), 5.0),
    ]
    for name in dict.fromkeys(question.problem.name for question in chosen):
        rows = [line for line in found if line[0].problem.name == name]
        report.rows.append(_row(name, [q for q, *_ in rows], [p for _, p, _ in rows], [u for *_, u in rows]))
    report.rows.append(_row("all", [q for q, *_ in found], [p for _, p, _ in found], [u for *_, u in found]))
    report.notes += [
        f"{states} states × {seeds} runs, each with a separate seed, {CONFIDENCE:.0%} confidence, at most {BUDGET} "
        "samples. The states are those "
        f"where the unpaired decision needs at most {MOST_NEEDED} samples according to the exact moments, an equal "
        "number of each world and policy where possible. Horizons truncate at most "
        f"{HIDDEN:.0%} of the smallest gap; with default horizons many unpaired runs would never decide.",
        *(
            f"{side}: {wrong[i]} wrong of {n}, so the error rate is at most {100 * upper_bound(wrong[i], n):.2g}% with "
            f"95% confidence (exact, one-sided); {undecided[i]} undecided; samples: minimum, quartiles and maximum "
            f"{_quartiles([pair[i].samples for _, *pair in found])}."
            for i, side in enumerate(("paired", "unpaired"))
        ),
        "Steps are simulated steps: merged branches count once. No decision is made before 64 samples, which limits "
        "paired runs where the exact ratio is large.",
    ]
    _watch(report, quick, runs, numbers)
    return report


@dataclass(frozen=True)
class Run:
    """Cost and correctness of one decision."""

    samples: int
    steps: int
    wrong: bool
    undecided: bool


def decided(question: Question, seed: int) -> tuple[Run, Run]:
    """Decide paired and unpaired, with one seed."""
    paired, unpaired = (_run(question, coupling, seed) for coupling in (jmdp.Synchronous(), jmdp.Independent()))
    return paired, unpaired


def _run(question: Question, coupling: Coupling, seed: int) -> Run:
    answer = question.ask(coupling, seed)
    true = question.problem.model.actions.name(question.best)
    return Run(answer.samples, answer.summary.samples.steps, answer.best not in (true, None), answer.best is None)


def problems(quick: bool) -> list[Problem]:
    """Return windy gridworlds with reward −1 for being blown, inventories, and chains with opposite rewards."""
    grids, rooms, chains = ((4,), (6,), (0.6,)) if quick else ((4, 6, 8), (6, 10, 15), (0.6, 0.7))
    worlds = {f"windy {n}×{n}": jmdp.worlds.windy_gridworld(n, n, blown_reward=-1.0, discount=0.9) for n in grids}
    worlds |= {f"inventory of {n}": jmdp.worlds.inventory(n, discount=0.9) for n in rooms}
    worlds |= {f"chain, {up:g} up": jmdp.worlds.coupled_reward_chain(up=up) for up in chains}
    policies = {"windy": ("goal_directed", "careless", "uniform"), "inventory": ("base_stock", "reorder", "uniform")}
    return [
        problem(f"{name}, {policy}", world, policy)
        for name, world in worlds.items()
        for policy in policies.get(name.split()[0], ("first", "uniform"))[: 1 if quick else None]
    ]


def problem(name: str, world: World, policy: str) -> Problem:
    """Solve a world exactly and compile its table."""
    from jmdp.models.actors.as_policy import as_policy

    model, table = world.model, world.policies[policy]
    actor = as_policy(table, model.actions)  # made once, because compiled functions are cached per actor
    paired, unpaired = (
        jmdp.evaluate(model, table, coupling, jmdp.ExactPairs())
        for coupling in (jmdp.Synchronous(), jmdp.Independent())
    )
    agree(name, float(np.abs(paired.mean - unpaired.mean).max()), 1e-6)
    return Problem(name, model, table_simulator(model), actor, paired, unpaired)


def table_simulator(model: jmdp.TabularJMDP) -> JaxSimulator:
    """Return the table as a JAX simulator. Single steps raise, so that only the compiled path can be used."""
    import jax
    import jax.numpy as jnp

    from jmdp.base.luck import Shock
    from jmdp.simulators import JaxSimulator
    from jmdp.simulators.simulator import Step

    edges = jnp.asarray(cumulative_rows(model.prob)[:, :-1], jnp.float32)
    reward, after = jnp.asarray(model.reward, jnp.float32), jnp.asarray(model.next_state, jnp.int32)
    terminal = jnp.asarray(model.terminal)

    def step(key: Any, s: Any, a: Any) -> tuple[Any, Any, Any]:
        k = (jax.random.uniform(key) >= edges[s]).sum()
        return reward[s, k, a], after[s, k, a], terminal[after[s, k, a]]

    class Compiled(JaxSimulator):
        def step(self, state: Any, action: Any, shock: Shock) -> Step:
            raise AssertionError("compare did not use the compiled path")

    return Compiled(step, [model.actions.name(a) for a in range(model.actions.size)])


def questions(problems: Iterable[Problem], count: int) -> list[Question]:
    """Return the first `count` questions, alternating between problems, with states in a fixed random order."""
    turns = itertools.zip_longest(*(_questions(one) for one in problems))
    return [question for turn in turns for question in turn if question is not None][:count]


def _questions(problem: Problem) -> Iterator[Question]:
    rng = np.random.default_rng(0)
    for s in rng.permutation(np.flatnonzero(~problem.model.terminal)):
        question = question_in(problem, int(s))
        if question.unpaired_needs <= MOST_NEEDED:
            yield question


def question_in(problem: Problem, s: int) -> Question:
    """Return the question of a state with its exact answer."""
    mean, model = problem.paired.mean[s], problem.model
    best = int(mean.argmax())
    gap = mean[best] - mean
    rivals = np.flatnonzero(np.arange(mean.size) != best)
    paired, unpaired = (
        np.array([evaluation.gap(s, best, int(b)).std for b in rivals])
        for evaluation in (problem.paired, problem.unpaired)
    )
    margins = np.maximum(gap[rivals], 1e-12)
    decisive = int((paired / margins).argmax())
    ratio = float(unpaired[decisive] / max(paired[decisive], 1e-12)) ** 2
    needs = [max(map(needed, std / margins, [rivals.size] * rivals.size)) for std in (paired, unpaired)]
    most = 2 * float(np.abs(model.reward).max()) / (1 - model.discount)
    hidden = HIDDEN * max(float(margins.min()), 1e-3)
    horizon = math.ceil(math.log(min(0.5, hidden / most)) / math.log(model.discount))
    return Question(problem, s, best, gap, needs[0], needs[1], ratio, horizon)


def needed(std: float, rivals: int) -> int:
    """Return the first look at which the interval of a gap with mean 1 and this std is expected to exclude 0."""
    error = (1 - CONFIDENCE) / rivals
    for n in looks(10 * BUDGET):
        if means.sequential_radius(n, error) * std <= math.sqrt(n):
            return n
    return 10 * BUDGET


def looks(last: int) -> Iterator[int]:
    """Yield the numbers of samples after which `compare` checks whether it can decide."""
    enough = math.log(1 / (1 - CONFIDENCE)) / Assumptions().rarest
    return itertools.takewhile(lambda n: n < last, (n for n in means.looks() if n >= enough))


def upper_bound(count: int, n: int, error: float = 0.05) -> float:
    """Return the upper Clopper-Pearson bound of a probability, given `count` events in n trials."""
    from scipy.stats import beta

    return 1.0 if count == n else float(beta.ppf(1 - error, count + 1, n - count))


def _row(name: str, asked: list[Question], paired: list[Run], unpaired: list[Run]) -> dict[str, str | float | int]:
    steps = np.array([[p.steps, u.steps] for p, u in zip(paired, unpaired, strict=True)], float)
    samples = np.array([[p.samples, u.samples] for p, u in zip(paired, unpaired, strict=True)], float)
    return {
        "world, policy": name,
        "runs": len(asked),
        "wrong, paired": sum(run.wrong for run in paired),
        "unpaired": sum(run.wrong for run in unpaired),
        "undecided": sum(run.undecided for run in [*paired, *unpaired]),
        "exact variance ratio, median": float(np.median([q.variance_ratio for q in asked])),
        "ratio of samples, expected": float(np.median([q.unpaired_needs / q.paired_needs for q in asked])),
        "ratio of samples, measured": float(np.median(samples[:, 1] / samples[:, 0])),
        "ratio of steps, median": float(np.median(steps[:, 1] / steps[:, 0])),
        "ratio of steps, total": float(steps[:, 1].sum() / steps[:, 0].sum()),
        "paired samples, median": float(np.median(samples[:, 0])),
        "unpaired samples, median": float(np.median(samples[:, 1])),
    }


def _quartiles(values: list[int]) -> str:
    return ", ".join(f"{x:.0f}" for x in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))


def _watch(report: Report, quick: bool, runs: int, numbers: Iterator[int]) -> None:
    """Measure how often an interval of the best action's mean gaps excludes the true value, at any look."""
    small = {
        "windy 3×3, careless": (jmdp.worlds.windy_gridworld(3, 3, blown_reward=-1.0, discount=0.9), "careless"),
        "windy 3×3, reward at the goal only": (jmdp.worlds.windy_gridworld(3, 3, discount=0.9), "uniform"),
        "inventory of 4": (jmdp.worlds.inventory(4, discount=0.9), "base_stock"),
        "bandit": (jmdp.worlds.anti_correlated_bandit(), "first"),
    }
    outside: list[tuple[bool, bool]] = []
    for name, (world, policy) in list(small.items())[: 1 if quick else None]:
        one = problem(name, world, policy)
        asked = [question_in(one, int(s)) for s in np.flatnonzero(~world.model.terminal)]
        for coupling in (jmdp.Synchronous(), jmdp.Independent()):
            outside += (
                found := [
                    watched(asked[i % len(asked)], coupling, next(numbers), 300 if quick else _LOOKS)
                    for i in range(runs)
                ]
            )
            shares = 100 * np.mean(found, axis=0)
            report.rows.append(
                {
                    "world, policy": f"intervals: {name}, {type(coupling).__name__}",
                    "runs": runs,
                    "true value outside an interval, up to the decision, %": float(shares[0]),
                    "up to the last look, %": float(shares[1]),
                }
            )
    report.goals += [
        Goal.at_most(f"{len(outside)} runs: true value outside any interval up to {until}, %", 100 * float(share), 5.0)
        for until, share in zip(("the decision", "the last look"), np.mean(outside, axis=0), strict=True)
    ]
    report.notes.append(
        "Intervals: share of runs in which the true mean of any gap of the best action is outside its interval at any "
        f"look, up to the decision and up to about {_LOOKS} samples. All states, including those without a best action."
    )


def watched(question: Question, coupling: Coupling, seed: int, last: int) -> tuple[bool, bool]:
    """Return whether an interval excluded the true value, up to the decision and up to the last look."""
    missed, until_decided = False, None
    answer = question.ask(coupling, seed, 2, precision=1e-12)
    for n in looks(last):
        answer = answer.continued(n)
        certificate = answer.evaluation.certificate
        assert certificate is not None
        mean, error = answer.evaluation.mean[0], np.asarray(certificate.gap_mean_error)[0, question.best]
        off = np.abs(mean[question.best] - mean - question.gap)
        missed |= bool((off > error + 1e-6).any())  # rewards are in single precision
        if answer.best is not None and until_decided is None:
            until_decided = missed
    return missed if until_decided is None else until_decided, missed
