"""Evidence: with the taken action, a replay is the episode bit for bit, in the environments of the gallery."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import jmdp

Case = tuple[Any, Any, dict[str, Any]]
"""Simulator, policy, and settings of a review."""

EXAMPLES = Path(__file__).parents[2] / "examples"


def _gymnasium(name: str, **settings: Any) -> Any:
    import gymnasium

    return gymnasium.make(name, **settings)


def _shop() -> Case:
    """The shop of `own_simulator`, without the lines that print."""
    names: dict[str, Any] = {}
    code = (EXAMPLES / "own_simulator.py").read_text(encoding="utf-8").split("\nprint(")[0]
    exec(code, names)
    return names["Bakery"](), names["policy"], {"discount": 0.95}


def _lake(cell: int) -> int:
    return [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0][cell]


def _below_17(hand: Any) -> int:
    return int(hand[0] < 17)


def _torques(seen: Any) -> Any:
    return np.clip(np.asarray(seen[:6]), -1, 1).astype(np.float32)


def _noise(seen: Any, rng: Any) -> Any:
    return rng.uniform(-1, 1, 6).astype(np.float32)


def _swing(seen: Any) -> Any:
    return np.clip(np.asarray(seen[2:3]), -2, 2).astype(np.float32)


def _traffic(seen: Any, rng: Any) -> int:
    return int(rng.integers(5))


def _cheetah(policy: Callable[..., Any]) -> Case:
    torques = {"push": np.full(6, 0.5, np.float32), "pull": np.full(6, -0.5, np.float32)}
    return _gymnasium("HalfCheetah-v5"), policy, {"discount": 0.9, "actions": torques}


def _highway() -> Case:
    import highway_env  # noqa: F401 (registers its environments)

    return _gymnasium("highway-fast-v0", config={"vehicles_count": 5}), _traffic, {"discount": 0.7}


def _obstacles() -> Case:
    import minigrid  # noqa: F401 (registers its environments)

    return _gymnasium("MiniGrid-Dynamic-Obstacles-6x6-v0"), "uniform", {"discount": 0.95}


def _lander() -> Case:
    env = _gymnasium("LunarLander-v3", enable_wind=True)
    return jmdp.simulators.GymnasiumSimulator(env, snapshot="replay"), "uniform", {"discount": 0.9}


def _atari(game: str) -> Case:
    return jmdp.simulators.ALESimulator(game, sticky=0.25), "uniform", {"discount": 0.9}


def _gymnax(name: str) -> Case:
    import gymnax

    return gymnax.make(name)[0], "uniform", {"discount": 0.99}


def _trained() -> Case:
    from stable_baselines3 import PPO

    env = _gymnasium("CartPole-v1")
    return env, PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=256).learn(256), {"discount": 0.95}


CASES: dict[str, Callable[[], Case]] = {
    "own_simulator": _shop,
    "frozen_lake": lambda: (_gymnasium("FrozenLake-v1"), _lake, {"discount": 0.99}),
    "taxi": lambda: (_gymnasium("Taxi-v4", is_rainy=True), "uniform", {"discount": 0.9}),
    "blackjack": lambda: (_gymnasium("Blackjack-v1"), _below_17, {"discount": 1.0, "horizon": 20}),
    "cart_pole": lambda: (_gymnasium("CartPole-v1"), "uniform", {"discount": 0.95}),
    "trained_policy": _trained,
    "lunar_lander": _lander,
    "highway": _highway,
    "minigrid_obstacles": _obstacles,
    "half_cheetah": lambda: _cheetah(_torques),
    "half_cheetah, random": lambda: _cheetah(_noise),
    "pong": lambda: _atari("pong"),
    "boxing": lambda: _atari("boxing"),
    "gymnax_cart_pole": lambda: _gymnax("CartPole-v1"),
    "gymnax_breakout": lambda: _gymnax("Breakout-MinAtar"),
    "learned_gymnasium": lambda: (_gymnasium("Pendulum-v1"), _swing, {"discount": 0.9, "actions": [[-1.0], [1.0]]}),
}
"""The entries of the gallery; `learned_gymnax` and `learned_policies` have the environments of others."""


def replayed(name: str, steps: int = 30, horizon: int = 30, seed: int = 7) -> tuple[int, int, int]:
    """Review episodes with this many steps in all, five at most, and replay each step with the taken action.

    Returns the numbers of reviewed steps, of replays that differ, and of states that were compared.
    """
    simulator, policy, settings = CASES[name]()
    shared: dict[str, Any] = {
        "horizon": horizon,
        "method": jmdp.reviews.RolloutValues(2),
        "progress": False,
        **settings,
    }
    total = np.zeros(3, int)
    for episode in range(5):
        review: Any = jmdp.review(simulator, policy, seed=seed, episode=episode, steps=range(steps), **shared)
        total += len(review), *_differences(review)
        if total[0] >= steps:
            break
    reviewed, wrong, compared = total.tolist()
    return reviewed, wrong, compared


def _differences(review: Any) -> tuple[int, int]:
    """Numbers of replays of a review that differ from it, and of states that were compared."""
    found, wrong, compared = review.trajectory, 0, 0
    digest = review.replay.player.simulator.digest
    digests = [digest(state) for state in found.states]
    for t in range(len(review)):
        again = review.what_if(t, review.actions[review.taken[t]])
        n = len(review) - t
        same = again.rewards[:n].tobytes() == found.rewards[t:].tobytes()
        same &= list(map(digest, again.states[: n + 1])) == digests[t:]
        same &= (len(again) == n and again.terminated) if found.terminated else len(again) >= n
        same &= review.hindsight[t, review.taken[t]] == again.total(review.discount)
        wrong += not same
        compared += n + 1
    return wrong, compared
