"""Entries of simulators, randomness, pools and margins."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry
from jmdp import simulators, training
from jmdp.base.interval import Estimate
from jmdp.distribute.process_pool import check_pool
from jmdp.testing import check_simulator


def reward(state: Any, action: int, u: Any) -> float:
    """Reward of the walk: better to the right."""
    return float(u) + 0.5 * action


def next_state(state: Any, action: int, u: Any) -> int:
    """A walk on 0 … 4."""
    return min(4, max(0, int(state) + (1 if u < 0.5 else -1) * action))


def is_last(state: Any) -> bool:
    """The walk ends at 4."""
    return bool(state == 4)


def seen(state: Any) -> Any:
    """The state itself."""
    return state


def one_uniform(rng: np.random.Generator) -> float:
    """Randomness of a step."""
    return float(rng.random())


def alternate(observation: Any) -> int:
    """A policy."""
    return int(observation) % 2


def walk(**settings: Any) -> simulators.FunctionSimulator:
    """A small walk with two actions; `settings` replace its parts."""
    parts: dict[str, Any] = {"reward": reward, "next_state": next_state, "actions": 2, "start": 1} | settings
    return simulators.FunctionSimulator(**parts)


class Walk:
    """The walk as an ordinary object."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.at = 1

    def reset(self) -> int:
        """Begin in state 1."""
        self.at = 1
        return self.at

    def step(self, action: int) -> tuple[int, float, bool]:
        """Move and earn."""
        u = self.rng.random()
        self.at = next_state(self.at, action, u)
        return self.at, reward(self.at, action, u), self.at == 4


def table(**settings: Any) -> jmdp.TabularJMDP:
    """A table of two states, two scenarios and two actions."""
    parts: dict[str, Any] = {
        "prob": [[0.5, 0.5]] * 2,
        "reward": [[[0.0, 1.0], [1.0, 0.5]], [[0.0, 0.5], [0.5, 0.0]]],
        "next_state": [[[0, 1], [1, 0]], [[0, 0], [1, 1]]],
        "discount": 0.5,
        "action_names": ["left", "right"],
    }
    return jmdp.TabularJMDP(**parts | settings)


def frozen_lake() -> Any:
    """A Gymnasium environment."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1")
    env.reset(seed=0)
    return env


def _function_simulator(rng: np.random.Generator) -> Arguments:
    return {
        "reward": reward,
        "next_state": next_state,
        "actions": [2, ["stay", "go"]][rng.integers(2)],
        "luck": one_uniform,
        "terminal": is_last,
        "start": 1,
        "observe": seen,
    }


def _walked(**given: Any) -> list[Any]:
    """Steps of a new simulator."""
    simulator = simulators.FunctionSimulator(**given)
    state = simulator.start(jmdp.Shock.of_sample(0, 0))
    found = []
    for t in range(3):
        step = simulator.step(state, t % 2, jmdp.Shock.of_sample(0, t))
        found.append((step.reward, step.terminated, simulator.observe(step.state), repr(simulator)))
        state = step.state
    return found


def _finite_steps(steps: list[Any], given: object) -> str | None:
    wrong = [step for step in steps if not (type(step[0]) is float and np.isfinite(step[0]) and type(step[1]) is bool)]
    return f"a step is {wrong[0]!r:.80}" if wrong else None


def _object_step(simulator: simulators.ObjectSimulator) -> Any:
    state = simulator.start(jmdp.Shock.of_sample(0, 0))
    return simulator.step(state, 0 if simulator.actions is None else simulator.actions.name(0), jmdp.Shock(bytes(16)))


def _jax_step(key: Any, state: Any, action: Any) -> Any:
    import jax

    return jax.random.uniform(key) + action, state + 1, state > 3


def _jax_start(key: Any) -> Any:
    import jax.numpy as jnp

    return jnp.zeros((), int)


@cache
def _cart_pole() -> Any:
    import gymnax

    return gymnax.make("CartPole-v1")[0]


def _luck(**given: Any) -> Any:
    method, key = given.pop("method"), given.pop("key")
    return getattr(jmdp.Luck(jmdp.Shock.of_sample(0, 0)), method)(key, **given)


def _keys(rng: np.random.Generator) -> Any:
    return ["arrivals", 17, ("a", "b")][rng.integers(3)]


def _of_luck(method: str, **settings: Any) -> Entry:
    name = f"Luck.{method}"
    return Entry(
        name,
        _luck,
        lambda rng: {"method": method, "key": _keys(rng), **settings},
        fixed=frozenset({"method"}),
        check=_finite_number if method != "choice" else lambda found, given: None,
        answer=str,
    )


def _finite_number(found: Any, given: object) -> str | None:
    return None if type(found) in (float, int) and np.isfinite(found) else f"the number is {found!r:.80}"


def _generator(key: Any) -> Any:
    return jmdp.Luck(jmdp.Shock.of_sample(0, 0))[key].random()


def _history(rng: np.random.Generator) -> Any:
    return {"day": list(range(12)), "demand": rng.integers(9, size=12).tolist(), "out": [0, 1] * 6}


def _of_history(**given: Any) -> Any:
    method = given.pop("method")
    history = jmdp.RecordedLuck({"day": list(range(12)), "demand": [3] * 12})
    if method == "recorded":
        return jmdp.Luck(history.given_to(jmdp.Shock.of_sample(0, 0))).recorded(given["purpose"], given["period"])
    return getattr(history, method)(**given)


def _shock(seed: Any, sample: Any, purpose: Any, step: Any, where: Any) -> float:
    return jmdp.Shock.of_sample(seed, sample).derived(purpose, step, where).uniform()


def _callback(**given: Any) -> training.PairedEvalCallback:
    return training.PairedEvalCallback(walk(), **given)


def _collected(plan: Any, **given: Any) -> simulators.PairWalks:
    made = simulators.PairedRollouts(walk(), jmdp.as_policy("uniform", walk().actions), jmdp.Local())
    return made.collect(plan, **given)


_NOT_WORSE = jmdp.comparisons.NotWorse(
    new="b",
    old="a",
    margin=jmdp.Margin(1.0),
    excess=Estimate(-0.5, -0.7, 0.1),
    gap=Estimate(-0.5, -1.1, -0.3),
    change=None,
    old_mean=Estimate(1.0, 0.9, 1.1),
    std=1.0,
    samples=100,
    confidence=0.95,
    effort="95% confidence",
)


def _assumptions(rng: np.random.Generator) -> Arguments:
    given = {"return_range": (0.0, 2.0), "reward_bound": 1.0, "largest_loss": 3.0, "rarest": 0.1, "tie_tolerance": 0.5}
    return {name: value for name, value in given.items() if rng.random() < 0.7}


ENTRIES = [
    Entry(
        "simulators.FunctionSimulator",
        _walked,
        _function_simulator,
        check=_finite_steps,
        answer=repr,
        then={},
    ),
    Entry("simulators.TabularSimulator", simulators.TabularSimulator, lambda rng: {"model": table()}),
    Entry(
        "simulators.ObjectSimulator",
        simulators.ObjectSimulator,
        lambda rng: {
            "factory": Walk,
            "actions": [2, ["stay", "go"], {"stay": 0, "go": 1}][rng.integers(3)],
            "step": Walk.step,
            "observe": None,
            "save": None,
            "restore": None,
            "snapshot": [None, "pickle", "deepcopy", "replay"][rng.integers(4)],
            "shared": [],
            "digest": None,
        },
        then={"repr": repr, "step": _object_step},
    ),
    Entry(
        "simulators.GymnasiumSimulator",
        simulators.GymnasiumSimulator,
        lambda rng: {
            "env": frozen_lake(),
            "snapshot": None,
            "save": None,
            "restore": None,
            "digest": None,
            "action_names": ["left", "down", "right", "up"],
            "truncated_ends": False,
            "global_generators": False,
            "check": True,
        },
        then={"repr": repr, "start": lambda simulator: simulator.digest(simulator.start(jmdp.Shock(bytes(16))))},
    ),
    Entry(
        "simulators.JaxSimulator",
        simulators.JaxSimulator,
        lambda rng: {
            "step": _jax_step,
            "actions": 2,
            "start": _jax_start,
            "observe": seen,
            "ignore": ["key"],
            "lanes": 16,
        },
    ),
    Entry(
        "simulators.GymnaxSimulator",
        simulators.GymnaxSimulator,
        lambda rng: {"environment": _cart_pole(), "truncated_ends": False, "ignore": ["time"], "lanes": 16},
    ),
    Entry(
        "simulators.ALESimulator",
        simulators.ALESimulator,
        lambda rng: {
            "game": "pong",
            "frame_skip": 4,
            "sticky": 0.25,
            "observation": "ram",
            "full_action_space": False,
            "mode": None,
            "difficulty": None,
            "clip_rewards": False,
            "shared_noise": 0.0,
            "action_noise": 0.0,
            "max_emulators": 2,
        },
    ),
    Entry("simulators.as_simulator", simulators.as_simulator, lambda rng: {"source": table()}),
    Entry(
        "simulators.action_labels", simulators.action_labels, lambda rng: {"actions": [2, ["a", "b"]][rng.integers(2)]}
    ),
    Entry(
        "simulators.WalkPlan",
        simulators.WalkPlan,
        lambda rng: {"visits": 1, "spacing": 1, "repeats": 2, "length": 2},
        answer=repr,
    ),
    Entry(
        "simulators.PairedRollouts",
        simulators.PairedRollouts,
        lambda rng: {
            "simulator": walk(),
            "policy": jmdp.as_policy("uniform", walk().actions),
            "coupling": jmdp.Local(),
        },
    ),
    Entry(
        "simulators.PairedRollouts.collect",
        _collected,
        lambda rng: {
            "plan": simulators.WalkPlan(visits=1, spacing=1, repeats=2, length=2),
            "seed": 3,
            "blocks": 1,
            "first": 0,
            "progress": False,
        },
        amounts=frozenset({"blocks"}),
        answer=lambda walks: walks.reward.tobytes(),
    ),
    Entry(
        "testing.check_simulator",
        check_simulator,
        lambda rng: {
            "simulator": walk(),
            "state": [None, 1][rng.integers(2)],
            "actions": [None, [0, 1]][rng.integers(2)],
            "seed": 0,
            "steps": 2,
        },
        amounts=frozenset({"steps"}),
        answer=repr,
    ),
    Entry(
        "as_policy",
        jmdp.as_policy,
        lambda rng: {
            "policy": ["uniform", [0, 1], [[0.5, 0.5], [1.0, 0.0]], alternate][rng.integers(4)],
            "actions": walk().actions,
            "logits": None,
            "greedy": False,
            "memory": False,
            "name": "new",
        },
        then={"repr": repr, "act": lambda actor: actor.act([0, 1], [jmdp.Shock(bytes(16))] * 2)},
    ),
    Entry("Luck", jmdp.Luck, lambda rng: {"shock": jmdp.Shock(bytes(16))}),
    Entry(
        "RecordedLuck",
        jmdp.RecordedLuck,
        lambda rng: {"frame": _history(rng), "period": "day", "season": 3, "censored": {"demand": "out"}},
        then={"repr": repr},
    ),
    *(
        Entry(name, _of_history, lambda rng, of=of: dict(of), fixed=frozenset({"method"}), answer=str)
        for name, of in (
            ("RecordedLuck.part", {"method": "part", "first": 2, "last": 7}),
            ("RecordedLuck.resampled", {"method": "resampled", "block": 3}),
            ("Luck.recorded", {"method": "recorded", "purpose": "demand", "period": 0}),
        )
    ),
    Entry("Luck.__getitem__", _generator, lambda rng: {"key": _keys(rng)}, answer=repr),
    _of_luck("seed"),
    _of_luck("uniform", low=-1.0, high=2.0),
    _of_luck("exponential", mean=3.0),
    _of_luck("normal", mean=1.0, std=2.0),
    _of_luck("poisson", mean=3.0),
    _of_luck("choice", options=["a", "b"], probabilities=[0.25, 0.75]),
    Entry("Shock", jmdp.Shock, lambda rng: {"words": bytes(16)}, then={"repr": repr, "uniform": jmdp.Shock.uniform}),
    Entry(
        "Shock.derived",
        _shock,
        lambda rng: {"seed": 3, "sample": 4, "purpose": b"step", "step": 2, "where": b"here"},
        answer=repr,
    ),
    Entry(
        "Shock.uniforms",
        lambda count: jmdp.Shock(bytes(16)).uniforms(count),
        lambda rng: {"count": 3},
        check=lambda found, given: None if np.isfinite(found).all() else "not finite",
        answer=repr,
        amounts=frozenset({"count"}),
    ),
    Entry("ProcessPool", jmdp.distribute.ProcessPool, lambda rng: {"workers": 2}, answer=repr),
    Entry(
        "RayPool",
        jmdp.distribute.RayPool,
        lambda rng: {"address": None, "workers": 2, "cpus_a_task": 1.0, "seconds_a_task": 1.0, "time_limit": 60.0},
        answer=repr,
    ),
    Entry("Recipe", jmdp.Recipe, lambda rng: {"factory": jmdp.worlds.inventory}, answer=repr),
    Entry(
        "SerialPool",
        check_pool,
        lambda rng: {"pool": [2, None, jmdp.distribute.SerialPool()][rng.integers(3)]},
        answer=repr,
    ),
    Entry("Assumptions", jmdp.Assumptions, _assumptions, answer=repr),
    Entry("Margin", jmdp.Margin, lambda rng: {"size": 0.5, "relative": bool(rng.integers(2))}, answer=repr),
    Entry("Margin.of", jmdp.Margin.of, lambda rng: {"given": [0.5, "0.5", "2%"][rng.integers(3)]}, answer=repr),
    Entry(
        "NotWorse.smallest_loss",
        _NOT_WORSE.smallest_loss,
        lambda rng: {"samples": 200},
        check=_finite_number,
        answer=repr,
    ),
    Entry(
        "training.PairedEvalCallback",
        _callback,
        lambda rng: {
            "eval_freq": 10,
            "episodes": 4,
            "best_model_save_path": None,
            "deterministic": True,
            "tolerance": 0.0,
            "confidence": 0.95,
            "seed": 0,
            "discount": 1.0,
            "horizon": None,
            "verbose": 0,
        },
        answer=lambda made: (made.eval_freq, made.episodes, made.tolerance, made.confidence, made.seed, made.discount),
    ),
]

if find_spec("stable_baselines3") is None:
    ENTRIES = [entry for entry in ENTRIES if entry.name != "training.PairedEvalCallback"]
