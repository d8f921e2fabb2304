"""A small result of each kind, for tests of files, pages and protocols: a new kind joins by an entry in `kinds`."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp.base.luck import Shock
from jmdp.methods.linear_projected import features
from jmdp.results.calibration import Calibration
from jmdp.simulators import Simulator, Step, action_labels

PLAIN = ("up", "down")


@dataclass(frozen=True)
class Case:
    """What a result is made of: the seed, names of its alternatives, and a title of its simulator and policies."""

    seed: int = 7
    names: tuple[str, str] = PLAIN
    title: str = "walk"

    def table(self, states: int = 4, scenarios: int = 2) -> jmdp.TabularJMDP:
        """A random table with a terminal state, and with names if the seed is odd."""
        rng = np.random.default_rng(self.seed)
        prob = rng.dirichlet(np.ones(scenarios), states)
        reward = rng.normal(size=(states, scenarios, 2)) * 10.0 ** rng.integers(-3, 4)
        following = rng.integers(0, states, (states, scenarios, 2))
        names: dict[str, Any] = {}
        if self.seed % 2:
            names = {"action_names": list(self.names), "state_names": [*self.names, "c, d", "é\n", "e"][:states]}
        terminal = np.arange(states) == states - 1
        return jmdp.TabularJMDP(prob, reward, following, float(rng.choice([0.0, 0.5, 0.9])), terminal, **names)

    def policy(self, number: int = 0) -> jmdp.TabularPolicy:
        """A random policy of the table."""
        return jmdp.TabularPolicy(np.random.default_rng([self.seed, number]).dirichlet(np.ones(2), 4))

    @property
    def policies(self) -> dict[str, Always]:
        """Two policies of the walk."""
        return {name: Always(action, self.title) for action, name in enumerate(self.names)}

    @property
    def runs(self) -> dict[str, Callable[[jmdp.Luck], dict[str, float]]]:
        """Two designs with two measures."""

        def run(luck: jmdp.Luck, rate: float) -> dict[str, float]:
            return {self.title: luck.uniform("wait") / rate, "cost": rate * luck.uniform("cost")}

        first, second = self.names
        return {first: lambda luck: run(luck, 1.0), second: lambda luck: run(luck, 1.25)}

    @property
    def single_runs(self) -> dict[str, Callable[[jmdp.Luck], float]]:
        """Two designs with one measure."""
        return {name: (lambda luck, run=run: run(luck)[self.title]) for name, run in self.runs.items()}


class Walk(Simulator):
    """A random walk of four steps; the second action earns more."""

    discount = 0.9

    def __init__(self, names: tuple[str, ...] = PLAIN, title: str = "walk") -> None:
        self.actions = action_labels(list(names))
        self.title = title

    def start(self, shock: Shock) -> tuple[int, int]:
        """The origin."""
        return 0, 0

    def observe(self, state: tuple[int, int]) -> Any:
        """The state as an array."""
        return np.array(state, float)

    def step(self, state: tuple[int, int], action: int, shock: Shock) -> Step:
        """One step."""
        noise = shock.generator().normal()
        return Step((1 + 0.2 * action) * noise + 0.1 * action, (state[0] + 1, action), state[0] >= 3)

    def __repr__(self) -> str:
        return self.title


class Choices(Walk):
    """Two actions are nearly equal. A third is much worse, and is eliminated soon."""

    def __init__(self) -> None:
        super().__init__((*PLAIN, "lose"))

    def step(self, state: tuple[int, int], action: int, shock: Shock) -> Step:
        """One step."""
        found = super().step(state, action, shock)
        return found._replace(reward=found.reward - (0.0, 0.1, 5.0)[action])


@dataclass(frozen=True, repr=False)
class Always:
    """A policy with a title."""

    action: int
    title: str = "always the same"

    def __call__(self, observation: Any) -> int:
        return self.action

    def __repr__(self) -> str:
        return self.title


def kinds(case: Case) -> dict[str, Callable[[], Any]]:
    """Results by kind, each made when it is called. All can be saved but the last two."""
    seed, first = case.seed, case.names[0]
    rng = np.random.default_rng(seed)
    model, p, q = case.table(), case.policy(), case.policy(1)
    both = {"p": p, first: q, "p again": p}
    coupling = [jmdp.Local(), jmdp.Independent(policy_luck="shared"), jmdp.Local(policy_luck="shared")][seed % 3]
    start = {"starts": np.array([0.5, 0.5, 0.0, 0.0])}
    sampled = jmdp.MonteCarlo(seed=seed, samples=20)
    evaluations: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "ExactPairs": (p, jmdp.ExactPairs(), {}),
        "ExactPairs of order 4": (p, jmdp.ExactPairs(order=4), {}),
        "ExactPairs over a horizon": ([p, q, p], jmdp.ExactPairs(order=3), {"horizon": 3, "discount": 1.0}),
        "ExactPairs of policies": (both, jmdp.ExactPairs(order=3), start),
        "ExactDistribution": (p, jmdp.ExactDistribution(tolerance=0.2, cells=64, max_cells=64), {}),
        "JIPE": (p, jmdp.JIPE(order=3), {}),
        "ReachablePairs": (p, jmdp.ReachablePairs(0), {}),
        "MonteCarlo": (p, sampled, {}),
        "MonteCarlo of policies": (both, sampled, start),
        "Incremental": (p, jmdp.Incremental(seed=seed, updates=20_000), {}),
        "LinearProjected": (p, jmdp.LinearProjected(rng.normal(size=(8, 3))), {"coupling": jmdp.Local()}),
        "LinearProjected, one-hot": (p, jmdp.LinearProjected(features.OneHot()), {"coupling": jmdp.Local()}),
    }

    def evaluated(policy: Any, method: Any, more: dict[str, Any]) -> Callable[[], jmdp.results.Evaluation]:
        return lambda: jmdp.evaluate(model, policy, **{"coupling": coupling, "method": method, "throw": False, **more})

    walk, policies = Walk(case.names, case.title), case.policies
    up, down = policies.values()
    common: dict[str, Any] = {"seed": seed, "max_samples": 100, "progress": False}
    fixed: dict[str, Any] = {"seed": seed, "samples": 60, "progress": False}
    steps: dict[str, Any] = {"seed": seed, "horizon": 5, "progress": False}
    states = [(0, 0), (2, 1)]
    return {
        "table": lambda: model,
        "calibration": lambda: calibration(seed),
        **{f"evaluation {name}": evaluated(*given) for name, given in evaluations.items()},
        "evaluation MonteCarlo on a simulator": lambda: jmdp.evaluate(
            walk, up, jmdp.Local(), jmdp.MonteCarlo(seed=seed, samples=20, states=states)
        ),
        "comparison compare": lambda: jmdp.compare(walk, policy=up, **common),
        "comparison compare three actions": lambda: jmdp.compare(Choices(), policy=up, **common),
        "comparison compare in a table": lambda: jmdp.compare(model, p, state=0, coupling=jmdp.Local(), **fixed),
        "comparison compare with a range": lambda: jmdp.compare(
            walk, up, state=(1, 0), assume=jmdp.Assumptions(return_range=(-1e3, 1e3)), **common
        ),
        "comparison compare_policies": lambda: jmdp.compare_policies(
            walk, policies, starts=[(0, 0), (1, 1)], looks="planned", **common
        ),
        "comparison compare_policies with a margin": lambda: jmdp.compare_policies(
            walk, policies, baseline=first, margin="5%", **common
        ),
        "comparison compare_runs": lambda: jmdp.compare_runs(
            case.runs,
            minimize=[case.title],
            assume=jmdp.Assumptions(largest_loss={case.title: 5.0}, tie_tolerance={"cost": 0.01}),
            **common,
        ),
        "comparison compare_scores": lambda: jmdp.compare_scores(scores(case), baseline=first),
        "comparison compare_scores of training seeds": lambda: jmdp.compare_scores(
            trained(case), levels=["seed", "episode"], crossed=["episode"], own=["seed"]
        ),
        "comparison compare_runs, one number": lambda: jmdp.compare_runs(case.single_runs, minimize=True, **fixed),
        "comparison compare_runs in a history": lambda: jmdp.compare_runs(
            recorded_runs(case), luck=history(case).resampled(), **fixed
        ),
        "review of recorded days": lambda: jmdp.review(
            store(case),
            up,
            luck=history(case).part(20, 27),
            played=[0, 1] * 3,
            others={first: down},
            recorded=[0.0] * 6,
            tolerance=100.0,
            method=jmdp.reviews.RolloutValues(4),
            seed=seed,
            progress=False,
        ),
        "review": lambda: jmdp.review(walk, up, method=jmdp.reviews.RolloutValues(2 + seed % 38), **steps),
        "review of a table": lambda: jmdp.review(model, p, starts=[0], reference=[0] * 4, **steps),
        "reviews": lambda: jmdp.review(walk, down, episodes=6, **steps),
        "learned moments": lambda: regressed(case),
        "study": lambda: jmdp.study(
            walk, up, {first: (0, 0)}, seed=seed, max_samples=64, path=folder(), progress=False
        ),
        "learned": lambda: learned(case),
    }


CASE = Case()
KINDS = tuple(kinds(CASE))
SAVED = KINDS[:-2]
"""Kinds with a file. A study is a folder, and `learned` has no network, which a page does not need."""
PAGES = (
    *(f"evaluation {name}" for name in ("ExactPairs", "ExactPairs of policies", "MonteCarlo")),
    *("comparison compare", "comparison compare_policies", "comparison compare_policies with a margin"),
    *(
        "comparison compare_runs, one number",
        "comparison compare_runs",
        "comparison compare_runs in a history",
        "comparison compare_scores",
        "calibration",
        "learned",
    ),
)
"""Kinds whose pages differ in more than numbers. Pages of reviews and studies have other parts, and their own tests."""


@cache
def made(kind: str, case: Case = CASE) -> Any:
    """The result, made once in this process."""
    return kinds(case)[kind]()


@cache
def saved(kind: str) -> bytes:
    """Contents of the file of the result."""
    path = folder() / "result.nc"
    made(kind).save(path)
    return path.read_bytes()


def folder() -> Path:
    """A new folder that is there until the process ends."""
    found = tempfile.TemporaryDirectory()
    atexit.register(found.cleanup)
    return Path(found.name)


def history(case: Case) -> jmdp.RecordedLuck:
    """Recorded demand of eighty days."""
    demand = np.random.default_rng(case.seed).poisson(5, 80)
    return jmdp.RecordedLuck(
        {case.title: list(range(80)), "demand": demand, "out": demand > 8},
        period=case.title,
        censored={"demand": "out"},
    )


def recorded_runs(case: Case) -> dict[str, Callable[[jmdp.Luck], list[float]]]:
    """Two designs in a history."""

    def sold(luck: jmdp.Luck, stock: int) -> list[float]:
        return [float(min(stock, luck.recorded("demand", day)) - 0.5 * stock) for day in luck.periods]

    return {name: partial(sold, stock=stock) for name, stock in zip(case.names, (4, 6), strict=True)}


def store(case: Case) -> jmdp.simulators.FunctionSimulator:
    """A store with recorded demand."""
    return jmdp.simulators.FunctionSimulator(
        lambda stock, a, u, demand: float(min(stock + 6 * a, demand) - 0.1 * stock),
        lambda stock, a, u, demand: max(0.0, min(20.0, stock + 6 * a - demand)),
        list(case.names),
        start=0.0,
        exogenous={"demand": history(case)},
    )


def scores(case: Case) -> dict[str, dict[int, float]]:
    """Scores of two alternatives on the same items."""
    numbers = ((name, np.random.default_rng([case.seed, k]).normal(k, size=30)) for k, name in enumerate(case.names))
    return {name: dict(enumerate(found)) for name, found in numbers}


def trained(case: Case) -> Any:
    """Scores of two alternatives, three training seeds each, on the same episodes."""
    import pandas as pd

    rng = np.random.default_rng(case.seed)
    skill, ease = rng.normal(size=(2, 3)), rng.normal(size=8)
    rows = [
        {"alternative": name, "seed": s, "episode": e, "score": skill[k, s] + ease[e] + rng.normal()}
        for k, name in enumerate(case.names)
        for s in range(3)
        for e in range(8)
    ]
    return pd.DataFrame(rows)


def calibration(seed: int) -> Calibration:
    """A calibration of random gaps."""
    rng, gaps = np.random.default_rng(seed), 5
    pairs = [rng.integers(0, 9, gaps) for _ in range(3)]
    moments = [rng.normal(size=gaps), *rng.exponential(size=(2, gaps))]
    formula = rng.exponential(size=gaps) if seed % 2 else None
    return Calibration(*pairs, *moments, rng.normal(size=(gaps, 6, 2)), seed, formula)


def regressed(case: Case) -> Any:
    """Learned moments with one candidate of every kind, fitted to random returns."""
    from jmdp.methods.learned import RegressedEvaluation
    from jmdp.methods.learned.candidates import Linear
    from jmdp.methods.learned.inputs import Inputs
    from jmdp.methods.learned.stack import COVARIANCES, CovarianceStack, MeanStack, covariance_rows
    from jmdp.results.certificate import Outcome

    walk, rng = Walk(case.names, case.title), np.random.default_rng(case.seed)
    seen, returns = rng.integers(0, 4, size=(25, 2)), rng.normal(size=(25, 4, 2))
    inputs = Inputs.of(seen)
    x = inputs(seen)
    fitted = tuple(fit(x, covariance_rows(returns), 4) for fit in COVARIANCES.values())
    weights = rng.dirichlet(np.ones(len(fitted)))
    return RegressedEvaluation(
        simulator=walk, actor=Always(0, case.title), coupling=jmdp.Local(), method=jmdp.LearnedMoments(seed=case.seed),
        discount=0.9, horizon=12, actions=walk.actions, outcome=Outcome.NOT_BETTER, calibration=calibration(case.seed),
        observation=((2,), seen.dtype.str), inputs=inputs,
        mean_stack=MeanStack(("linear",), (Linear.fit(x, returns.mean(axis=1), 4, 5),), np.ones(1), np.ones(1)),
        covariance_stack=CovarianceStack(tuple(COVARIANCES), fitted, weights, 1.1), constant=np.eye(2),
        states=25, rollouts=4, variation=0.2,
    )  # fmt: skip


def learned(case: Case, *, held_out: bool = True) -> Any:
    """A learned evaluation without its network, with or without a calibration."""
    from jmdp.methods.neural_gram import LearnedEvaluation, NeuralGram
    from jmdp.results.certificate import Outcome
    from jmdp.results.result import LearningCurve

    walk = Walk(case.names, case.title)
    curve = LearningCurve(("mean",), np.array([40.0]), np.ones((1, 1)), np.ones((1, 1)))
    outcome, record = (Outcome.TRAINED, calibration(case.seed)) if held_out else (Outcome.NOT_JUDGED, None)
    return LearnedEvaluation(
        network=None, encoder=None, learning=curve, simulator=walk, actor=Always(0, case.title), coupling=jmdp.Local(),
        method=NeuralGram(seed=case.seed), discount=0.9, horizon=12, actions=walk.actions, outcome=outcome,
        calibration=record, observation=((1,), "f8"),
    )  # fmt: skip
