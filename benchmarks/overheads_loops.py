"""Comparisons with hand-written loops over the same functions, classes and environments.

Each loop simulates what the comparison simulates and nothing else: it keeps returns, and no digests, looks or keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import Cost, cpu_rounds
from jmdp.base.luck import Shock

HORIZON = 20
_ROUNDS = 5
_SETTINGS = {"discount": 1.0, "horizon": HORIZON, "seed": 0, "precision": 1e-12, "progress": False}
"""No comparison reaches this precision, so all of its samples are drawn."""

Rule = Callable[[Any], int]


def rounds(quick: bool) -> int:
    """Return the number of rounds of a row."""
    return 1 if quick else _ROUNDS


def inventory_reward(stock: int, order: int, u: float) -> float:
    """Return the profit of one day: sales at 4, orders at 1 and 2 for each delivery, storage at 0.1."""
    full = min(stock + order, 10)
    return 4.0 * min(full, int(u * 7)) - 1.0 * order - (2.0 if order else 0) - 0.1 * full


def inventory_next(stock: int, order: int, u: float) -> int:
    """Return the stock at the end of the day."""
    full = min(stock + order, 10)
    return full - min(full, int(u * 7))


def inventory_rule(stock: int) -> int:
    """Order five when three or fewer are left."""
    return 5 if stock <= 3 else 0


Point = tuple[float, float]


def cart_reward(state: Point, action: int, u: float) -> float:
    """Return minus the cost of a cart away from the origin."""
    x, v = state
    return -(x * x + 0.1 * v * v) - 0.01 * abs(action - 1)


def cart_next(state: Point, action: int, u: float) -> Point:
    """Return the next position and speed: states are continuous and never coincide."""
    x, v = state
    v = 0.95 * v + 0.1 * (action - 1) + 0.05 * (u - 0.5)
    return x + 0.1 * v, v


def cart_rule(state: Point) -> int:
    """Push towards the origin."""
    return 0 if state[0] + state[1] > 0 else 2


class Shop:
    """The inventory as an ordinary class with a generator of its own."""

    def __init__(self) -> None:
        self.reset(0)

    def reset(self, seed: int | None = None) -> int:
        """Start with three items."""
        self.rng, self.stock = np.random.default_rng(seed), 3
        return self.stock

    def step(self, order: int) -> tuple[int, float, bool, dict[str, Any]]:
        """Simulate one day."""
        full = min(self.stock + order, 10)
        sold = min(full, int(self.rng.random() * 7))
        self.stock = full - sold
        return self.stock, 4.0 * sold - 1.0 * order - (2.0 if order else 0) - 0.1 * full, False, {}


def functions(reward: Any, after: Any, actions: int, state: Any, rule: Rule, quick: bool) -> Cost:
    """Compare all actions of two functions, and in the loop with Python's generator."""
    simulator, samples = jmdp.simulators.FunctionSimulator(reward, after, actions, start=state), 10 if quick else 3000
    ours = partial(compared, simulator, rule, samples, state=state)
    return Cost.ratio(
        cpu_rounds(rounds(quick), ours, partial(function_returns, reward, after, actions, state, rule, samples))
    )


def function_returns(
    reward: Any, after: Any, actions: int, state: Any, rule: Rule, samples: int
) -> list[list[float]]:  # [n, A]
    """Return the returns of all first actions, each sample with the same numbers for all."""
    uniform = random.Random(0).random
    returns = []
    for _ in range(samples):
        numbers = [uniform() for _ in range(HORIZON)]
        row = []
        for first in range(actions):
            at, action, total = state, first, 0.0
            for u in numbers:
                total += reward(at, action, u)
                at = after(at, action, u)
                action = rule(at)
            row.append(total)
        returns.append(row)
    return returns


def inventory_functions(quick: bool) -> Cost:
    """Compare six orders of an inventory, whose branches often meet in the same stock."""
    return functions(inventory_reward, inventory_next, 6, 3, inventory_rule, quick)


def continuous_functions(quick: bool) -> Cost:
    """Compare three pushes of a cart."""
    return functions(cart_reward, cart_next, 3, (1.0, 0.0), cart_rule, quick)


def compared(simulator: Any, rule: Any, samples: int, **options: Any) -> None:
    """Compare actions until this number of samples, with looks on the way."""
    settings: dict[str, Any] = _SETTINGS | options
    result = jmdp.compare(simulator, rule, max_samples=samples, **settings)
    assert result.samples == samples


def compared_policies(simulator: Any, rules: Any, samples: int, **options: Any) -> None:
    """Compare policies until this number of samples, with looks on the way."""
    settings: dict[str, Any] = _SETTINGS | options
    result = jmdp.compare_policies(simulator, rules, max_samples=samples, **settings)
    assert result.samples == samples


def object_actions(quick: bool) -> Cost:
    """Compare six orders of an ordinary class."""
    simulator, samples = jmdp.simulators.ObjectSimulator(Shop, actions=6), 5 if quick else 500
    ours = partial(compared, simulator, inventory_rule, samples)
    plans = [(first, inventory_rule) for first in range(6)]
    return Cost.ratio(cpu_rounds(rounds(quick), ours, partial(object_returns, plans, samples)))


def object_policies(quick: bool) -> Cost:
    """Compare 50 rules of an ordinary class in 32 episodes each."""
    simulator, samples = jmdp.simulators.ObjectSimulator(Shop, actions=6), 2 if quick else 32
    rules = {f"{q} below {s}": partial(_order, s, q) for s in range(10) for q in range(1, 6)}
    ours = partial(compared_policies, simulator, rules, samples)
    plans = [(rule(3), rule) for rule in rules.values()]
    return Cost.ratio(cpu_rounds(rounds(quick), ours, partial(object_returns, plans, samples)))


def object_returns(plans: Sequence[tuple[int, Rule]], samples: int) -> list[list[float]]:  # [n, plans]
    """Return the returns of each plan, a first order and a rule, each sample with the same seed for all."""
    returns = []
    for seed in range(samples):
        row = []
        for order, rule in plans:
            shop = Shop.__new__(Shop)
            shop.stock, shop.rng = 3, np.random.default_rng(seed)
            total = 0.0
            for _ in range(HORIZON):
                stock, reward, _, _ = shop.step(order)
                total += reward
                order = rule(stock)
            row.append(total)
        returns.append(row)
    return returns


def _order(level: int, quantity: int, stock: int) -> int:
    return quantity if stock <= level else 0


_EPISODE = 50
"""Steps of an episode of an environment, at most."""

_ENVIRONMENTS: dict[str, tuple[str, int, Rule, Rule]] = {
    "CartPole": ("CartPole-v1", 64, lambda o: int(o[2] + o[3] > 0), lambda o: int(o[2] > 0)),
    "FrozenLake": ("FrozenLake-v1", 300, lambda o: int(o) * 7 % 4, lambda o: (int(o) * 5 + 1) % 4),
    "LunarLander": ("LunarLander-v3", 32, lambda o: 2 if o[3] < -0.1 else 0, lambda o: 2 if o[3] < -0.3 else 0),
    "MountainCar": ("MountainCar-v0", 64, lambda o: 2 if o[1] > 0 else 0, lambda o: 2 if o[1] > 0.001 else 0),
    "Taxi": ("Taxi-v4", 64, lambda o: int(o) % 4, lambda o: int(o) * 3 % 4),
}
"""Gymnasium's name, number of samples, and two rules."""


def environment_policies(name: str, quick: bool) -> Cost:
    """Compare two rules in an environment: cost of a simulated step over that of a bare one."""
    import gymnasium

    identifier, samples, old, new = _ENVIRONMENTS[name]
    samples = 4 if quick else samples
    env = gymnasium.make(identifier)
    ours = partial(compared_policies, env, {"old": old, "new": new}, samples, horizon=_EPISODE)
    return _per_step(env, ours, partial(_bare, gymnasium.make(identifier), old, 2 * samples), quick)


def environment_actions(name: str, quick: bool) -> Cost:
    """Compare all actions in an environment: cost of a simulated step over that of a bare one."""
    import gymnasium

    identifier, samples, rule, _ = _ENVIRONMENTS[name]
    samples = 4 if quick else samples
    env = gymnasium.make(identifier)
    env.reset(seed=0)
    # The worlds of Box2D cannot be copied.
    simulator = jmdp.simulators.GymnasiumSimulator(env, snapshot="replay") if name == "LunarLander" else env
    ours = partial(compared, simulator, rule, samples, horizon=_EPISODE)
    return _per_step(env, ours, partial(_bare, gymnasium.make(identifier), rule, 2 * samples), quick)


def _bare(env: Any, rule: Rule, episodes: int) -> None:
    for seed in range(episodes):
        observation, _ = env.reset(seed=seed)
        for _ in range(_EPISODE):
            observation, _, terminated, truncated, _ = env.step(rule(observation))
            if terminated or truncated:
                break


def _per_step(env: Any, ours: Callable[[], object], bare: Callable[[], object], quick: bool) -> Cost:
    with counted_steps(env) as ours_steps:
        ours()
    with counted_steps(env) as bare_steps:
        bare()
    return Cost.ratio(cpu_rounds(rounds(quick), ours, bare), factor=bare_steps[0] / ours_steps[0])


@contextmanager
def counted_steps(env: Any) -> Iterator[list[int]]:
    """Count the steps of all environments of this class."""
    kind: Any = type(env.unwrapped)
    step, count = kind.step, [0]

    def counting(self: Any, *arguments: Any) -> Any:
        count[0] += 1
        return step(self, *arguments)

    kind.step = counting
    try:
        yield count
    finally:
        kind.step = step


def gymnax_breakout(quick: bool) -> Cost:
    """Compare all actions of Breakout in gymnax with a jitted scan that draws as many random numbers."""
    import jax
    import jax.numpy as jnp

    horizon, samples, discount = (4, 64, 0.99) if quick else (64, 1024, 0.99)
    simulator = jmdp.simulators.GymnaxSimulator("Breakout-MinAtar")
    env, params, A = simulator.environment, simulator.params, simulator.actions.size
    state = simulator.start(Shock.of_sample(0, 0))

    def uniform(observation: Any) -> Any:
        return jnp.full(A, 1 / A)

    def one(key: Any, at: Any, action: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            key, at, action, over, total, weight = carry
            key, luck, choice = jax.random.split(key, 3)
            _, at, reward, ended, _ = env.step_env(luck, at, action, params)
            total += weight * jnp.where(over, 0.0, reward)
            action = jax.random.randint(choice, (), 0, A)
            return (key, at, action, over | ended, total, weight * discount), None

        return jax.lax.scan(body, (key, at, action, False, 0.0, 1.0), None, horizon)[0][4]

    rollouts = jax.jit(jax.vmap(one))
    begin = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (samples * A, *leaf.shape)), state)
    first = jnp.tile(jnp.arange(A), samples)

    def bare() -> None:
        np.asarray(rollouts(jax.random.split(jax.random.key(0), samples * A), begin, first))

    ours = partial(compared, simulator, uniform, samples, state=state, discount=discount, horizon=horizon)
    return Cost.ratio(cpu_rounds(rounds(quick), ours, bare))
