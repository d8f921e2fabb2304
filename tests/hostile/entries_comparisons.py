"""Entries of `compare`, `compare_policies` and `compare_runs`, and what the caller's functions return to them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry
from hostile.entries_samples import Walk, alternate, frozen_lake, table, walk
from jmdp.base.interval import Estimate
from jmdp.simulators import ObjectSimulator


def other(observation: Any) -> int:
    """Another policy."""
    return 1


def plain(luck: jmdp.Luck) -> float:
    """A run."""
    return luck.uniform("x")


def shifted(luck: jmdp.Luck) -> float:
    """A better run."""
    return luck.uniform("x") + 0.1 * luck.uniform("y")


def several(luck: jmdp.Luck) -> dict[str, float]:
    """A run with two measures."""
    return {"cost": luck.uniform("x"), "wait": luck.uniform("y")}


def settings(rng: np.random.Generator, *without: str) -> Arguments:
    """Settings of a short comparison."""
    found: Arguments = {
        "seed": 5,
        "confidence": 0.9,
        "precision": None,
        "indifference": None,
        "samples": None,
        "max_samples": int(rng.choice([2, 8, 40])),
        "max_seconds": None,
        "looks": "scheduled",
        "assume": [None, jmdp.Assumptions(return_range=(-10.0, 20.0))][rng.integers(2)],
        "progress": False,
    }
    several_choices = rng.integers(5)
    if several_choices < 2:
        found["precision" if several_choices else "indifference"] = 0.5
    if several_choices == 2:
        found |= {"samples": found["max_samples"], "max_samples": None}
    if several_choices == 3:
        found["looks"] = "planned"
    return {name: value for name, value in found.items() if name not in without}


_SIMULATORS: list[Callable[[], Arguments]] = [
    lambda: {"simulator": walk(), "discount": 0.5},
    lambda: {"simulator": walk(terminal=lambda state: state == 3), "discount": 1.0},
    lambda: {"simulator": walk(actions=["stay", "go"]), "discount": 0.0},
    lambda: {"simulator": table(), "discount": None},
    lambda: {"simulator": ObjectSimulator(Walk, 2), "discount": 0.5},
    lambda: {"simulator": frozen_lake(), "discount": 0.5},
]
_CHANCES = [0.35, 0.15, 0.15, 0.25, 0.05, 0.05]


def _simulator(rng: np.random.Generator) -> Arguments:
    return _SIMULATORS[rng.choice(len(_SIMULATORS), p=_CHANCES)]()


def _compare(rng: np.random.Generator) -> Arguments:
    return {
        **_simulator(rng),
        "state": [None, 1][rng.integers(2)] if rng.random() < 0.5 else None,
        "policy": ["uniform", alternate][rng.integers(2)],
        "actions": [0, 1],
        "coupling": [jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()][rng.integers(3)],
        **settings(rng),
        "max_steps": None,
        "horizon": 3,
    }


def _compare_policies(rng: np.random.Generator) -> Arguments:
    simulator = _simulator(rng)
    own = simulator["simulator"]
    given = [[0, 1], {0: 0.5, 1: 0.5}, [1]][rng.integers(3)]
    starts = given if isinstance(own, jmdp.TabularJMDP) or (type(own).__name__ == "FunctionSimulator") else None
    found = {
        **simulator,
        "policies": {"old": alternate, "new": [other, "uniform"][rng.integers(2)]},
        "starts": starts,
        "coupling": [jmdp.Synchronous(policy_luck="shared"), jmdp.Local(), jmdp.Independent()][rng.integers(3)],
        "baseline": [None, "old"][rng.integers(2)],
        **settings(rng),
        "max_steps": None,
        "horizon": 3,
    }
    if found["baseline"] and rng.random() < 0.5:
        found |= {"precision": None, "indifference": None, "margin": [0.5, "2%"][rng.integers(2)]}
    return found


def _compare_runs(rng: np.random.Generator) -> Arguments:
    measures = bool(rng.integers(2))
    found = {
        "runs": {"a": several, "b": several} if measures else {"a": plain, "b": shifted},
        "minimize": ["cost"] if measures else bool(rng.integers(2)),
        "baseline": [None, "a"][rng.integers(2)],
        **settings(rng),
    }
    if measures:
        found |= {"precision": {"cost": 0.5}, "indifference": None, "samples": None, "max_samples": 40}
        found["assume"] = jmdp.Assumptions(tie_tolerance={"wait": 0.1})
    return found


def parts(found: Any) -> Iterable[jmdp.comparisons.Comparison]:
    """The comparisons of a result."""
    return found.values() if isinstance(found, jmdp.comparisons.RunComparisons) else [found]


def sound(found: Any, given: object) -> str | None:
    """What is wrong with a comparison, or None."""
    for c in parts(found):
        plain_numbers = (type(c.seed), type(c.samples), type(c.summary.horizon), *map(type, c.counts.values()))
        if set(plain_numbers) != {int} or type(c.confidence) is not float or type(c.summary.discount) is not float:
            return f"seed, samples, horizon, confidence or discount is not a plain number: {plain_numbers}"
        estimates: dict[str, Estimate] = {}
        for a in c.alternatives:
            regret = c.regret(a)
            estimates |= {f"mean of {a!r:.20}": c.mean_of(a), f"regret of {a!r:.20}": regret.mean}
            estimates |= {"quantile of regret": regret.quantile(0.5), "cvar of regret": regret.cvar(0.5)}
            for b in c.alternatives:
                estimates |= {"advantage": c.advantage(a, b), "superiority": c.superiority(a, b)}
        for name, estimate in estimates.items():
            if not (math.isfinite(estimate) and estimate.low <= estimate <= estimate.high):
                return f"{name} is {estimate!r}, {estimate.low} to {estimate.high}"
            if name == "superiority" and not 0 <= estimate.low <= estimate.high <= 1:
                return f"a chance is {estimate!r}, {estimate.low} to {estimate.high}"
    return None


def numbers(found: Any) -> Any:
    """All samples and decisions of a comparison."""
    return [
        (c.summary.samples.returns.tobytes(), c.mean.tobytes(), c.outcome, c.best, c.seed, c.confidence)
        for c in parts(found)
    ]


THEN: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "answer": lambda found: found.answer,
    "html": lambda found: found._repr_html_(),
    "table": lambda found: found.to_dataframe(),
}


def _returned(name: str, valid: Any, call: Callable[[Any], Any]) -> Entry:
    """Entry whose only argument is what a function of the caller returns."""
    return Entry(name, call, lambda rng: {"returned": valid}, check=sound, answer=numbers, then=THEN)


_SHORT: Arguments = {"seed": 1, "max_samples": 4, "discount": 0.5, "horizon": 2, "progress": False}


def _rewarded(returned: Any) -> Any:
    """Action 1 earns this in every other state."""
    simulator = walk(reward=lambda s, a, u: returned if a and s % 2 else float(u))
    return jmdp.compare(simulator, alternate, state=1, **_SHORT)


def _rewarded_episodes(returned: Any) -> Any:
    simulator = walk(reward=lambda s, a, u: returned if a and s % 2 else float(u))
    return jmdp.compare_policies(simulator, {"a": alternate, "b": other}, **_SHORT)


def _moved(returned: Any) -> Any:
    simulator = walk(reward=lambda s, a, u: float(u) * (1 + a), next_state=lambda s, a, u: returned if a else 0)
    return jmdp.compare(simulator, lambda observation: 0, state=0, **_SHORT | {"horizon": 3})


def _moved_locally(returned: Any) -> Any:
    simulator = walk(reward=lambda s, a, u: float(u) * (1 + a), next_state=lambda s, a, u: returned if a else 0)
    policies = {"a": lambda observation: 0, "b": lambda observation: 1}
    return jmdp.compare_policies(simulator, policies, coupling=jmdp.Local(), **_SHORT | {"horizon": 3})


def _ended(returned: Any) -> Any:
    return jmdp.compare(walk(terminal=lambda s: returned if s > 1 else False), alternate, state=1, **_SHORT)


def _observed(returned: Any) -> Any:
    return jmdp.compare(walk(observe=lambda s: returned), lambda observation: 0, state=1, **_SHORT)


def _observed_by_table(returned: Any) -> Any:
    return jmdp.compare(walk(observe=lambda s: returned), [0, 1, 0, 1, 0], state=1, **_SHORT)


def _begun(returned: Any) -> Any:
    simulator = walk(start=lambda rng: returned, next_state=lambda s, a, u: a, reward=lambda s, a, u: float(u) + a)
    return jmdp.compare(simulator, lambda observation: 0, **_SHORT)


def _drawn(returned: Any) -> Any:
    return jmdp.compare(
        walk(luck=lambda rng: returned, reward=lambda s, a, u: a, next_state=lambda s, a, u: s),
        alternate,
        state=1,
        **_SHORT,
    )


def _chosen(returned: Any) -> Any:
    return jmdp.compare(walk(), lambda observation: returned, state=1, **_SHORT)


def _chosen_with_luck(returned: Any) -> Any:
    return jmdp.compare_policies(walk(), {"a": lambda observation, rng: returned, "b": alternate}, **_SHORT)


def _chosen_in_table(returned: Any) -> Any:
    return jmdp.compare(
        table(), lambda observation: returned, state=0, seed=1, max_samples=4, horizon=2, progress=False
    )


class _Returns:
    """A simulation whose step returns a given value."""

    def __init__(self, returned: Any) -> None:
        self.rng, self.returned = np.random.default_rng(0), returned

    def step(self, action: int) -> Any:
        """Observation, reward, and whether this was the last step."""
        u = self.rng.random()
        return 0, self.returned if action else u, False


def _object_rewarded(returned: Any) -> Any:
    simulator = ObjectSimulator(lambda: _Returns(returned), 2)
    return jmdp.compare(simulator, lambda observation: 0, **_SHORT)


def _ran(returned: Any) -> Any:
    return jmdp.compare_runs({"a": plain, "b": lambda luck: returned}, seed=1, max_samples=4, progress=False)


def _measured(returned: Any) -> Any:
    runs = {"a": several, "b": lambda luck: {"cost": returned, "wait": luck.uniform("y")}}
    return jmdp.compare_runs(runs, seed=1, max_samples=4, progress=False)


def _named_measure(returned: Any) -> Any:
    def run(luck: jmdp.Luck) -> Any:
        return {returned: luck.uniform("x"), "wait": luck.uniform("y")}

    return jmdp.compare_runs({"a": run, "b": run}, seed=1, max_samples=4, progress=False)


def _named(name: Any, policy: Any, run: Any) -> Any:
    """Names of policies and runs, and one policy and one run of several."""
    jmdp.compare_policies(walk(), tiny.dictionary((name, alternate), ("other", policy)), **_SHORT)
    return jmdp.compare_runs(tiny.dictionary((name, plain), ("other", run)), seed=1, max_samples=4, progress=False)


def _continuous(first: Any, second: Any) -> Any:
    """Actions of a simulator without a list of actions."""

    class Continuous(jmdp.simulators.Simulator):
        def step(self, state: Any, action: Any, shock: jmdp.Shock) -> Any:
            return jmdp.simulators.Step(shock.uniform() * (1 + (action is first)), state, False)

    return jmdp.compare(Continuous(), lambda observation: 0.5, state=0, actions=[first, second], **_SHORT)


def _study(rng: np.random.Generator) -> Arguments:
    simulator = _SIMULATORS[rng.choice(4)]()
    table = isinstance(simulator["simulator"], jmdp.TabularJMDP)
    return {
        **simulator,
        "policy": ["uniform", alternate, {"old": alternate, "new": other}][rng.integers(3)],
        "states": [0, 1] if table else [[0, 1], {"a": 0, "b": 1}, range(2)][rng.integers(3)],
        "actions": None,
        "seed": 3,
        "indifference": [None, 0.5][rng.integers(2)],
        "max_samples": 32,
        "resume": True,
        "coupling": [None, jmdp.Synchronous(), jmdp.Local(), jmdp.Independent()][rng.integers(4)],
        "confidence": 0.9,
        "horizon": 3,
        "assume": None,
        "tolerance": 0.01,
        "progress": False,
    }


def _studied(**given: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return repr(jmdp.study(path=f"{folder}/study", **given)) and "read"


_WHOLE = [
    Entry(
        call.__name__,
        call,
        valid,
        amounts=frozenset(amounts),
        check=sound,
        answer=numbers,
        then=THEN,
    )
    for call, valid, amounts in (
        (jmdp.compare, _compare, {"samples", "max_samples", "horizon"}),
        (jmdp.compare_policies, _compare_policies, {"samples", "max_samples", "horizon"}),
        (jmdp.compare_runs, _compare_runs, {"samples", "max_samples"}),
    )
]
"""Entries with many arguments, which are called more often than others."""


def _compare_scores(rng: np.random.Generator) -> Arguments:
    trials = int(rng.integers(1, 3))
    scores = {name: {i: list(rng.normal(size=trials) + i) for i in range(12)} for name in ("old", "new")}
    found: Arguments = {
        "scores": scores, "pair": "id", "fixed": ["id"] * int(trials > 1 and rng.random() < 0.3), "statistic": "mean",
        "minimize": bool(rng.integers(2)), "baseline": "old", "margin": [None, 0.5, "50%"][rng.integers(3)],
        "confidence": 0.9, "running": False, "assume": None, "trusted": True,
    }  # fmt: skip
    if not found["fixed"]:
        found |= {"statistic": str(rng.choice(["mean", "iqm"]))} if rng.integers(2) else {"running": True}
    return found


ENTRIES = [
    *_WHOLE * 3,
    Entry("compare_scores", jmdp.compare_scores, _compare_scores, check=sound, answer=numbers, then=THEN),
    Entry("study", _studied, _study, amounts=frozenset({"states", "max_samples", "horizon"})),
    Entry(
        "simulators.visited_states",
        jmdp.simulators.visited_states,
        lambda rng: (
            {"simulator": table(), "policy": alternate, "seed": 3, "count": 3, "every": 1}
            if rng.random() < 0.3
            else {"simulator": walk(), "policy": alternate, "seed": 3, "count": 3, "every": 2}
        ),
        amounts=frozenset({"count", "every"}),
    ),
    Entry(
        "compare_runs and compare_policies with names",
        _named,
        lambda rng: {"name": "mine", "policy": other, "run": shifted},
        check=sound,
        answer=numbers,
        then=THEN,
    ),
    Entry(
        "compare actions of any kind",
        _continuous,
        lambda rng: {"first": 0.25, "second": np.array([1.0, 2.0])},
        check=sound,
        then=THEN,
    ),
    _returned("compare: reward", 0.75, _rewarded),
    _returned("compare_policies: reward", 0.75, _rewarded_episodes),
    _returned("compare: next_state", 3, _moved),
    _returned("compare_policies: next_state under Local", 3, _moved_locally),
    _returned("compare: terminal", True, _ended),
    _returned("compare: observe", 2, _observed),
    _returned("compare: observe for a table", 2, _observed_by_table),
    _returned("compare: start", 1, _begun),
    _returned("compare: luck", 0.5, _drawn),
    _returned("compare: policy", 1, _chosen),
    _returned("compare: policy", np.array([0.25, 0.75]), _chosen),
    _returned("compare: policy in a table", 1, _chosen_in_table),
    _returned("compare_policies: policy", [0.25, 0.75], _chosen_with_luck),
    _returned("compare: object", 0.5, _object_rewarded),
    _returned("compare_runs: result", 0.75, _ran),
    _returned("compare_runs: measure", 0.75, _measured),
    _returned("compare_runs: name of a measure", "cost", _named_measure),
]
