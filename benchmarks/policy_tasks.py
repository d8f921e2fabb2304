"""Twelve tasks with two policies each, and plain loops that run their episodes without jmdp.

A plain loop seeds the generator once per episode. Policies are PPO agents halfway and at the end of a short training in
four tasks, and heuristics in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jmdp
from benchmarks.checkpoints import trained
from jmdp.base.arrays import Floats
from jmdp.worlds import InventorySimulator, QueueSimulator
from jmdp.worlds.queue_admission import AdmitBelow

Policy = Any
"""Any argument of `jmdp.as_policy`."""


@dataclass(frozen=True, eq=False)
class Task:
    """A simulator, an old and a new policy, and a plain loop over episodes."""

    name: str
    kind: str  # "control", "games" or "operations"
    source: Any  # first argument of `compare_policies`
    policies: Mapping[str, Policy]  # old, new
    plain: Callable[[str, Sequence[int]], Floats]  # returns of a policy, given its name, one episode per seed
    discount: float | None = 1.0  # None: that of the world
    horizon: int | None = None  # None: the time limit of the environment
    episodes: int = 1000  # per policy and seed; fewer for slow tasks


def tasks(quick: bool) -> list[Task]:
    """Return all tasks in the order of the report; without slow ones if `quick`."""
    return [
        *(_gymnasium(name, "games", env, policies) for name, env, policies in _games()),
        *(_gymnasium(name, "control", env, policies) for name, env, policies in ([] if quick else _control())),
        _breakout(),
        _inventory("inventory", jmdp.worlds.inventory()),
        _inventory("inventory with lead time", jmdp.worlds.inventory_with_lead_time()),
        _queue(),
    ]


def _games() -> list[tuple[str, Any, dict[str, Policy]]]:
    import gymnasium
    import minigrid  # noqa: F401 (registers its environments)

    dry, rainy = gymnasium.make("Taxi-v4"), gymnasium.make("Taxi-v4", is_rainy=True)
    obstacles = gymnasium.make("MiniGrid-Dynamic-Obstacles-6x6-v0")
    return [
        ("FrozenLake", gymnasium.make("FrozenLake-v1"), dict(trained("FrozenLake"))),
        ("Taxi in the rain", rainy, {"plan for dry roads": _plan(dry), "plan for rain": _plan(rainy)}),
        ("Blackjack", gymnasium.make("Blackjack-v1"), {"stick at 17": _stick_at_17, "mind the dealer": _mind_dealer}),
        ("MiniGrid obstacles", obstacles, {"straight on": _straight_on, "evade": _evade}),
    ]


def _control() -> list[tuple[str, Any, dict[str, Policy]]]:
    import gymnasium

    car = {"push along": _push_along, "parabolas": _parabolas}
    return [
        ("CartPole", gymnasium.make("CartPole-v1"), dict(trained("CartPole"))),
        ("Acrobot", gymnasium.make("Acrobot-v1"), dict(trained("Acrobot"))),
        ("MountainCar", gymnasium.make("MountainCar-v0"), car),
        ("LunarLander", gymnasium.make("LunarLander-v3"), dict(trained("LunarLander"))),
    ]


def _gymnasium(name: str, kind: str, env: Any, policies: dict[str, Policy]) -> Task:
    def plain(policy: str, seeds: Sequence[int]) -> Floats:
        act = policies[policy]
        returns = np.zeros(len(seeds))
        for i, seed in enumerate(seeds):
            observation, _ = env.reset(seed=int(seed))
            over = False
            while not over:
                observation, reward, terminated, truncated, _ = env.step(act(observation))
                returns[i] += reward
                over = terminated or truncated
        return returns

    horizon = 50 if name == "Blackjack" else None  # Blackjack has no time limit; no hand lasts that long
    episodes = {"LunarLander": 60, "CartPole": 100, "Acrobot": 100, "MountainCar": 300, "Taxi in the rain": 300,
                "MiniGrid obstacles": 300}.get(name, 1000)  # fmt: skip
    return Task(name, kind, env, policies, plain, horizon=horizon, episodes=episodes)


def _plan(env: Any) -> Callable[[Any], int]:
    """Return the optimal policy by value iteration on the table of a toy-text environment, γ = 0.99."""
    table = env.unwrapped.P
    most = max(len(outcomes) for actions in table.values() for outcomes in actions.values())
    rows = [
        [[*outcomes, *[(0.0, 0, 0.0, True)] * (most - len(outcomes))] for outcomes in actions.values()]
        for actions in table.values()
    ]
    p, after, reward, ends = np.moveaxis(np.array(rows, float), -1, 0)  # [S, A, K] each
    value = np.zeros(len(table))
    for _ in range(2000):
        worth = (p * (reward + 0.99 * value[after.astype(int)] * (1 - ends))).sum(axis=2)
        value = worth.max(axis=1)
    best = worth.argmax(axis=1).tolist()
    return lambda observation: int(best[int(observation)])


def _stick_at_17(hand: Any) -> int:
    return int(hand[0] < 17)


def _mind_dealer(hand: Any) -> int:
    """Stick at 12 if the dealer shows 4 to 6, at 13 for 2 or 3, else at 17; with an ace as 11, at 18."""
    total, shown, soft = hand
    if soft:
        return int(total < 18)
    return int(total < (12 if 4 <= shown <= 6 else 13 if 2 <= shown <= 3 else 17))


_WALL, _BALL = 2, 6
"""Object codes of MiniGrid."""


def _straight_on(observation: Any) -> int:
    """Go east or south to the goal in the south-east corner; turn only at walls."""
    east, ahead = observation["direction"] == 0, observation["image"][3, 5, 0]
    if observation["direction"] > 1 or (ahead == _WALL and east):
        return 1  # turn right
    return 0 if ahead == _WALL else 2


def _evade(observation: Any) -> int:
    """Act like `_straight_on`, but turn if an obstacle is ahead."""
    if observation["image"][3, 5, 0] == _BALL and observation["direction"] < 2:
        return 1 if observation["direction"] == 0 else 0
    return _straight_on(observation)


def _push_along(observation: Any) -> int:
    """Push in the direction of motion."""
    return 2 if observation[1] >= 0 else 0


def _parabolas(observation: Any) -> int:
    """Rule of the environment's leaderboard: push right if the speed is between two curves of the position."""
    x, speed = observation
    low = min(-0.09 * (x + 0.25) ** 2 + 0.03, 0.3 * (x + 0.9) ** 4 - 0.008)
    high = -0.07 * (x + 0.38) ** 2 + 0.07
    return 2 if low < speed < high else 0


def _breakout() -> Task:
    """Follow the ball, with a random action in 1 of 5 or 1 of 10 steps. Most randomness is that of the policy."""
    import gymnax
    import jax
    import jax.numpy as jnp

    env, params = gymnax.make("Breakout-MinAtar")
    steps = 500

    def following(careless: float) -> Callable[[Any], Any]:
        def act(observation: Any) -> Any:
            paddle = observation[9, :, 0].argmax()
            ball = observation[:, :, 1].sum(axis=0).argmax()
            towards = jnp.where(ball < paddle, 1, jnp.where(ball > paddle, 2, 0))
            return (1 - careless) * jax.nn.one_hot(towards, 3) + careless / 3

        return act

    policies = {"one in five": following(0.2), "one in ten": following(0.1)}

    def episode(policy: Callable[[Any], Any], seed: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            key, state, over, total = carry
            key, choice, luck = jax.random.split(key, 3)
            action = jax.random.categorical(choice, jnp.log(policy(env.get_obs(state))))
            _, state, reward, ended, _ = env.step_env(luck, state, action, params)
            return (key, state, over | ended, total + jnp.where(over, 0.0, reward)), None

        key, begin = jax.random.split(jax.random.key(seed))
        _, state = env.reset_env(begin, params)
        return jax.lax.scan(body, (key, state, False, 0.0), None, steps)[0][3]

    runs = {name: jax.jit(jax.vmap(lambda seed, act=act: episode(act, seed))) for name, act in policies.items()}

    def plain(policy: str, seeds: Sequence[int]) -> Floats:
        return np.asarray(runs[policy](jnp.asarray(seeds)), np.float64)

    return Task("gymnax Breakout", "games", env, policies, plain, horizon=steps)


def _inventory(name: str, world: jmdp.worlds.World) -> Task:
    """Straightforward implementation: the stock, then the demand of each day, from one generator."""
    simulator = world.simulator
    assert isinstance(simulator, InventorySimulator)
    most, mean, steps = simulator.weights.size - 1, 3.0, 300

    def plain(policy: str, seeds: Sequence[int]) -> Floats:
        generators = [np.random.default_rng(seed) for seed in seeds]
        stock = np.array([rng.integers(simulator.capacity + 1) for rng in generators])
        demand = np.minimum([rng.poisson(mean, steps) for rng in generators], most)  # [n, steps]
        states = np.zeros((len(seeds), 1 + simulator.lead_time), int)
        states[:, 0] = stock
        returns, weight = np.zeros(len(seeds)), 1.0
        for t in range(steps):
            rewards, states = simulator.outcomes(states, simulator.policies[policy](states), demand[:, t])
            returns += weight * rewards
            weight *= simulator.discount or 0.0
        return returns

    policies = {name: world.policies[name] for name in ("reorder", "base_stock")}
    return Task(name, "operations", world, policies, plain, None, steps)


def _queue() -> Task:
    """Straightforward implementation: a service if a server is busy, then the next arrival, from one generator."""
    world, steps = jmdp.worlds.queue_admission(), 1000
    simulator = world.simulator
    assert isinstance(simulator, QueueSimulator)
    service, arrivals, servers = 0.15, (0.25, 0.35), simulator.servers

    def plain(policy: str, seeds: Sequence[int]) -> Floats:
        rule = simulator.policies[policy]
        assert isinstance(rule, AdmitBelow)
        limits = rule.limits
        return np.array([episode((0, *limits), np.random.default_rng(seed).random(2 * steps)) for seed in seeds])

    def episode(limits: tuple[int, ...], uniforms: Floats) -> float:
        numbers = iter(uniforms.tolist())
        inside, at_door, total, weight = 0, 0, 0.0, 1.0
        for _ in range(steps):
            if inside < limits[at_door]:
                total += weight * simulator.fees[at_door]
                inside += 1
            total -= weight * simulator.holding_cost * max(inside - servers, 0)
            busy = min(inside, servers)
            if busy and next(numbers) < busy * service:
                inside -= 1
            u = next(numbers)
            at_door = 1 if u < arrivals[0] else 2 if u < sum(arrivals) else 0
            weight *= 0.99
        return total

    policies = {name: world.policies[name] for name in ("half_full", "threshold")}
    return Task("queue admission", "operations", world, policies, plain, None, steps)
