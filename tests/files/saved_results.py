"""Results of every kind, to be saved; and the comparison of a result with the one that was loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

import jmdp
from jmdp.base.luck import Shock
from jmdp.methods.linear_projected import features
from jmdp.results.calibration import Calibration
from jmdp.simulators import Simulator, Step, action_labels


def table(rng: np.random.Generator, states: int = 4, scenarios: int = 2, actions: int = 2, **names: Any) -> Any:
    """A random table with a terminal state."""
    prob = rng.dirichlet(np.ones(scenarios), states)
    reward = rng.normal(size=(states, scenarios, actions)) * 10.0 ** rng.integers(-3, 4)
    following = rng.integers(0, states, (states, scenarios, actions))
    terminal = np.arange(states) == states - 1
    return jmdp.TabularJMDP(prob, reward, following, float(rng.choice([0.0, 0.5, 0.9])), terminal, **names)


def policy_of(model: Any, rng: np.random.Generator) -> jmdp.TabularPolicy:
    """A random policy."""
    S, _, A = model.shape
    return jmdp.TabularPolicy(rng.dirichlet(np.ones(A), S))


class Walk(Simulator):
    """A random walk; the second action earns more."""

    actions = action_labels(["up", "down"])
    discount = 0.9

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


class Choices(Walk):
    """A third action is much worse, and is eliminated soon."""

    actions = action_labels(["up", "down", "lose"])

    def step(self, state: tuple[int, int], action: int, shock: Shock) -> Step:
        """One step."""
        found = super().step(state, action, shock)
        return found._replace(reward=found.reward - 5 * (action == 2))


def up(observation: Any) -> int:
    """Always up."""
    return 0


def down(observation: Any) -> int:
    """Always down."""
    return 1


POLICIES = {"up": up, "down": down}


def _service(rate: float) -> Callable[[jmdp.Luck], dict[str, float]]:
    def run(luck: jmdp.Luck) -> dict[str, float]:
        return {"wait": luck.uniform("wait") / rate, "cost": rate * luck.uniform("cost")}

    return run


RUNS = {"slow": _service(1.0), "fast": _service(1.25)}
SINGLE = {name: lambda luck, run=run: run(luck)["wait"] for name, run in RUNS.items()}


def evaluations(seed: int) -> dict[str, Callable[[], jmdp.Evaluation]]:
    """Evaluations of a random table by every method."""
    rng = np.random.default_rng(seed)
    named = seed % 2 == 1
    names = {"state_names": ["a", "b", "c, d", "é\n"], "action_names": ["x", "y"]} if named else {}
    model = table(rng, **names)
    p, q = policy_of(model, rng), policy_of(model, rng)
    coupling = [jmdp.Local(), jmdp.Independent(policy_luck="shared"), jmdp.Local(policy_luck="shared")][seed % 3]
    both, start = {"p": p, "q": q, "p again": p}, np.array([0.5, 0.5, 0.0, 0.0])
    S, _, A = model.shape
    basis = rng.normal(size=(S * A, 3))

    def found(policy: Any, method: Any, under: Any = coupling, **more: Any) -> Callable[[], jmdp.Evaluation]:
        return lambda: jmdp.evaluate(model, policy, under, method, throw=False, **more)

    return {
        "ExactPairs": found(p, jmdp.ExactPairs()),
        "ExactPairs of order 4": found(p, jmdp.ExactPairs(order=4)),
        "ExactPairs over a horizon": found([p, q, p], jmdp.ExactPairs(order=3), horizon=3, discount=1.0),
        "ExactPairs of policies": found(both, jmdp.ExactPairs(order=3), start=start),
        "ExactDistribution": found(p, jmdp.ExactDistribution(tolerance=0.2, cells=64, max_cells=64)),
        "JIPE": found(p, jmdp.JIPE(order=3)),
        "ReachablePairs": found(p, jmdp.ReachablePairs(0)),
        "MonteCarlo": found(p, jmdp.MonteCarlo(seed=seed, samples=20)),
        "MonteCarlo of policies": found(both, jmdp.MonteCarlo(seed=seed, samples=20), start=start),
        "Incremental": found(p, jmdp.Incremental(seed=seed, updates=20_000)),
        "LinearProjected": found(p, jmdp.LinearProjected(basis), jmdp.Local()),
        "LinearProjected, one-hot": found(p, jmdp.LinearProjected(features.OneHot()), jmdp.Local()),
        "MonteCarlo on a simulator": lambda: jmdp.evaluate(
            Walk(), up, jmdp.Local(), jmdp.MonteCarlo(seed=seed, samples=20, states=[(0, 0), (2, 1)])
        ),
    }


def comparisons(seed: int) -> dict[str, Callable[[], Any]]:
    """Comparisons of every kind."""
    common = {"seed": seed, "samples": 60, "progress": False}
    model = table(np.random.default_rng(seed))
    return {
        "compare": lambda: jmdp.compare(Walk(), policy=up, **common),
        "compare three actions": lambda: jmdp.compare(Choices(), policy=up, **common | {"samples": 100}),
        "compare in a table": lambda: jmdp.compare(model, 0, "uniform", coupling=jmdp.Local(), **common),
        "compare with a range": lambda: jmdp.compare(Walk(), (1, 0), up, return_range=(-1e3, 1e3), **common),
        "compare_policies": lambda: jmdp.compare_policies(Walk(), POLICIES, starts=[(0, 0), (1, 1)], **common),
        "compare_policies with a margin": lambda: jmdp.compare_policies(
            Walk(), POLICIES, baseline="up", margin="5%", **common
        ),
        "compare_runs": lambda: jmdp.compare_runs(RUNS, minimize=["wait"], precision={"cost": 0.01}, **common),
        "compare_runs, one number": lambda: jmdp.compare_runs(SINGLE, minimize=True, **common),
    }


def reviews(seed: int) -> dict[str, Callable[[], Any]]:
    """Reviews by name."""
    rng = np.random.default_rng(seed)
    model = table(rng)
    shared: dict[str, Any] = {"seed": seed, "horizon": 5, "progress": False}
    policy = policy_of(model, rng)
    return {
        "review": lambda: jmdp.review(Walk(), up, method=jmdp.RolloutValues(int(rng.integers(2, 40))), **shared),
        "review of a table": lambda: jmdp.review(model, policy, starts=[0], reference=[0] * 4, **shared),
        "reviews": lambda: jmdp.review(Walk(), down, episodes=6, **shared),
    }


def calibration(seed: int) -> Calibration:
    """A calibration of random gaps."""
    rng, gaps = np.random.default_rng(seed), 5
    pairs = [rng.integers(0, 9, gaps) for _ in range(3)]
    moments = [rng.normal(size=gaps), *rng.exponential(size=(2, gaps))]
    formula = rng.exponential(size=gaps) if seed % 2 else None
    return Calibration(*pairs, *moments, rng.normal(size=(gaps, 6, 2)), seed, formula)


def assert_same(found: Any, expected: Any) -> None:
    """Raise unless two results have the same numbers, bit for bit, and the same text."""
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    if isinstance(expected, jmdp.Evaluation):
        _assert_same_evaluation(found, expected)
    elif isinstance(expected, jmdp.RunComparisons):
        assert list(found) == list(expected)
        for measure in expected:
            assert_same(found[measure], expected[measure])
    elif isinstance(expected, jmdp.Comparison):
        _assert_same_comparison(found, expected)
    else:
        for field in fields(expected):
            _assert_equal(getattr(found, field.name), getattr(expected, field.name))


def _assert_same_comparison(found: Any, expected: Any) -> None:
    assert found.to_dataframe().equals(expected.to_dataframe())
    assert found.answer == expected.answer
    for stage, other in zip(found.draws.stages, expected.draws.stages, strict=True):
        assert stage.alternatives == other.alternatives
        for name, value in vars(other.draws).items():
            if isinstance(value, np.ndarray):
                _assert_equal(getattr(stage.draws, name), value)
    _assert_same_evaluation(found.evaluation, expected.evaluation)


def _assert_same_evaluation(found: Any, expected: Any) -> None:
    for name in ("mean", "covariance", "residuals", "correlation"):
        _assert_equal(getattr(found, name), getattr(expected, name))
        assert not getattr(found, name).flags.writeable
    if expected.certificate is not None:
        for field in fields(expected.certificate):
            _assert_equal(getattr(found.certificate, field.name), getattr(expected.certificate, field.name))
    assert found.states == expected.states
    assert found.actions == expected.actions
    assert found.to_xarray().identical(expected.to_xarray())
    for s, a, b in np.ndindex(*expected.covariance.shape):
        one, other = found.gap(s, a, b), expected.gap(s, a, b)
        assert str(one) == str(other)
        assert one.support == other.support
        assert [(x, x.low, x.high) for x in one.central_moments] == [(x, x.low, x.high) for x in other.central_moments]


def _assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected or (found != found and expected != expected)
