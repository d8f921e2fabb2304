"""Overhead of the adapters: coupled steps and rollouts compared with bare loops over the same simulators."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import interleave
from benchmarks.report import Goal, Report, Row
from jmdp.base.luck import Shock
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.coupling import Coupling
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws

_DISCOUNT = 0.99
_SHARES = {"ALE": 0.8, "JAX": 0.8, "Gymnasium": 0.5}
"""Goals: fraction of the bare throughput."""

_PLAIN_LANES = 4096
"""Lanes per block of the bare loop, which may be faster in blocks; the goal refers to the faster variant."""


def compare(quick: bool) -> Report:
    """Time Pong in the emulator, CartPole and Breakout in JAX, FrozenLake in Gymnasium."""
    report = Report("simulators", quick, seeds="0, then one for each call")
    _emulator(report, 5 if quick else 100)
    for name, horizon in (("CartPole-v1", 64), ("Breakout-MinAtar", 64)):
        _jax(report, name, 1 if quick else 15, 8 if quick else horizon)
    _gymnasium(report, 20 if quick else 200)
    report.notes.append(
        "Ratios are throughputs, ours / bare. Steps are those of the bare loop; ours are as many, except for merged "
        "branches (FrozenLake), where simulated steps are counted."
    )
    return report


def _emulator(report: Report, queries: int) -> None:
    """Time all actions of Pong from one state with one shock; the first action gives the next state."""
    from jmdp.simulators import ALESimulator

    simulator = ALESimulator("pong")
    begin = simulator.start(Shock.of_sample(0, 0))
    actions = range(simulator.actions.size)
    numbers = itertools.count()

    def coupled() -> None:
        state = begin
        for _ in range(queries):
            shock = Shock.of_sample(1, next(numbers))
            after = [simulator.step(state, a, shock).state for a in actions]
            for one in after:
                one.saved()  # the bare loop saves every state as well
            state = begin if after[0].over else after[0]

    baseline = _plain_emulator(simulator, begin.saved(), queries)
    steps = queries * len(actions)
    _timed(report, "ALE", "Pong: six actions, four frames", steps, {"ours": coupled, "bare": baseline})


def _plain_emulator(simulator: Any, begin: Any, queries: int) -> Callable[[], None]:
    """Return a plain loop that restores, acts, clones and reads the RAM, with sticky actions drawn by NumPy."""
    from ale_py import ALEInterface, roms

    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    rom = roms.get_rom_path("pong")
    assert rom is not None
    ale.loadROM(rom)
    moves = [int(move.value) for move in ale.getMinimalActionSet()]
    rng = np.random.default_rng(0)

    def baseline() -> None:
        state, previous = begin, 0
        for _ in range(queries):
            coins = (rng.random(simulator.frame_skip) >= simulator.sticky).tolist()
            after = []
            for move in moves:
                ale.restoreState(state)
                played = previous
                for coin in coins:
                    played = move if coin else played
                    ale.act(played)
                after.append((ale.cloneState(), ale.getRAM(), ale.game_over(with_truncation=False), played))
            over = after[0][2]
            state, previous = (begin, 0) if over else (after[0][0], after[0][3])

    return baseline


def _jax(report: Report, name: str, blocks: int, horizon: int) -> None:
    """Time `compare` of all actions with the uniform policy, and a compiled scan of as many steps.

    The bare loop draws its random numbers as well: one key per step and branch, and an action of the policy. `compare`
    never stops early, because its precision cannot be reached.
    """
    import jax
    import jax.numpy as jnp

    from jmdp.simulators import GymnaxSimulator

    simulator = GymnaxSimulator(name)
    env, params, A = simulator.environment, simulator.params, simulator.actions.size
    state = simulator.start(Shock.of_sample(0, 0))
    at_once = simulator.samples_at_once(state, A)
    block = at_once * max(1, round(_PLAIN_LANES / A / at_once))
    count = blocks * block

    def uniform(observation: Any) -> Any:
        return jnp.full(A, 1 / A)

    def one(key: Any, at: Any, action: Any) -> Any:
        def body(carry: Any, _: None) -> tuple[Any, None]:
            key, at, action, over, total, weight = carry
            key, luck, choice = jax.random.split(key, 3)
            _, at, reward, ended, _ = env.step_env(luck, at, action, params)
            total += weight * jnp.where(over, 0.0, reward)
            action = jax.random.randint(choice, (), 0, A)
            return (key, at, action, over | ended, total, weight * _DISCOUNT), None

        carry, _ = jax.lax.scan(body, (key, at, action, False, 0.0, 1.0), None, horizon)
        return carry[4]

    rollouts = jax.jit(jax.vmap(one))
    numbers = itertools.count()

    def baseline(samples: int) -> Callable[[], None]:
        start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (samples * A, *leaf.shape)), state)
        first = jnp.tile(jnp.arange(A), samples)

        def run() -> None:
            for _ in range(count // samples):
                np.asarray(rollouts(jax.random.split(jax.random.key(next(numbers)), samples * A), start, first))

        return run

    def ours(coupling: Coupling) -> Callable[[], None]:
        def run() -> None:
            jmdp.compare(
                simulator,
                uniform,
                state=state,
                coupling=coupling,
                discount=_DISCOUNT,
                horizon=horizon,
                seed=next(numbers),
                samples=count,
                progress=False,
            )

        return run

    contenders = {"bare": baseline(count), "bare, in blocks": baseline(block)}
    contenders |= {f"ours, {type(c).__name__}": ours(c) for c in (jmdp.Synchronous(), jmdp.Local())}
    _timed(report, "JAX", f"{name}: {count} samples × {A} actions × {horizon}", count * A * horizon, contenders)


def _gymnasium(report: Report, samples: int) -> None:
    """Time rollouts of all actions and single steps in FrozenLake, and copying and stepping the environment."""
    import gymnasium

    from jmdp.simulators import GymnasiumSimulator

    env = gymnasium.make("FrozenLake-v1")
    env.reset(seed=0)
    simulator = GymnasiumSimulator(env)
    state = simulator.current(0)
    assert simulator.actions is not None
    actor = as_policy("uniform", simulator.actions)
    numbers = itertools.count()
    walked = 0

    def rollouts() -> None:
        nonlocal walked
        plan = BranchPlan.of_actions(
            actor,
            state=state,
            actions=range(4),
            coupling=jmdp.Local(),
            discount=_DISCOUNT,
            horizon=100,
            seed=next(numbers),
        )
        drawn = paired_draws(simulator, plan, 0, samples)
        walked = drawn.steps

    def queries() -> None:
        for _ in range(samples):
            shock = Shock.of_sample(2, next(numbers))
            for a in range(4):
                simulator.step(state, a, shock)

    def baseline() -> None:
        for _ in range(samples):
            for a in range(4):
                copy.deepcopy(env).step(a)

    rollouts()
    before = walked
    timings = interleave({"bare": baseline, "queries": queries, "rollouts": rollouts})
    least = min(before, walked)  # numbers of steps differ slightly between seeds
    steps = {"bare": 4 * samples, "queries": 4 * samples, "rollouts": least}
    for name in ("rollouts", "queries"):
        ratio = timings.ratio("bare", name).times(steps[name] / steps["bare"])
        row = _row(f"FrozenLake: {name}, 4 actions", f"ours, {name}", steps[name], timings.best(name))
        report.rows.append({**row, "throughput / bare": ratio.best, "range over rounds": ratio.spread()})
        report.goals.append(Goal.at_least(f"FrozenLake, {name}: throughput / bare", ratio.best, _SHARES["Gymnasium"]))
    report.rows.append(_row("FrozenLake: copy and step", "bare", steps["bare"], timings.best("bare")))


def _timed(report: Report, kind: str, what: str, steps: int, contenders: dict[str, Callable[[], None]]) -> None:
    timings = interleave(contenders)
    baseline = min((name for name in contenders if name.startswith("bare")), key=timings.best)
    for name in contenders:
        row = _row(what, name, steps, timings.best(name))
        if not name.startswith("bare"):
            ratio = timings.ratio(baseline, name)
            row |= {"throughput / bare": ratio.best, "range over rounds": ratio.spread()}
            goal = f"{what.split(':')[0]}, {name}: throughput / bare"
            report.goals.append(Goal.at_least(goal, ratio.best, _SHARES[kind]))
        report.rows.append(row)


def _row(what: str, contender: str, steps: int, seconds: float) -> Row:
    return {"task": what, "contender": contender, "steps": steps, "thousand steps per second": steps / seconds / 1e3}
