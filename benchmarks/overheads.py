"""Costs of `jmdp` that a new user meets first: CPU time and memory over those of the least that does the same work.

Both sides alternate in one run, or in new processes if the first call is measured. Rows can be chosen by name.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import Cost, cpu, cpu_rounds, rounds_of
from benchmarks.overheads_loops import (
    compared,
    compared_policies,
    continuous_functions,
    environment_actions,
    environment_policies,
    gymnax_breakout,
    inventory_functions,
    object_actions,
    object_policies,
    rounds,
)
from benchmarks.problems import policy_chain
from benchmarks.report import Goal, Report, Row, agree
from benchmarks.sweep import ROUNDING, difference_between_states
from benchmarks.whole_solve import status
from jmdp.methods.exact_pairs.pair_sweep import PairSweep
from jmdp.methods.shared.pair_operator import PairOperator
from jmdp.methods.shared.shaping import shape_rewards


def compare(quick: bool, rows: Sequence[str] = ()) -> Report:
    """Measure these rows (default: all), each with its goal."""
    report = Report("overheads", quick, seeds="0")
    for name in rows or ROWS:
        row = ROWS[name]
        cost = row.measure(quick)
        measured: Row = {
            "row": name,
            "limit": "" if cost.limit is None else cost.limit,
            "ours": cost.ours,
            "unit": row.unit,
            "measured": cost.best,
            "range over rounds": cost.spread(),
            "rounds": cost.rounds,
        }
        print(*measured.values(), flush=True)
        report.rows.append(measured)
        report.goals.append(Goal.at_most(f"{name}: {row.what}", cost.best, row.goal))
    report.notes.append(
        "Limit and ours: smallest cost of all rounds. Ratios, costs per step and exponents derive from them."
    )
    return report


# New processes


def first_evaluate(quick: bool) -> Cost:
    """Evaluate 400 states in a new process, with an empty cache of compiled code and with a full one."""
    return _first_call("evaluate", quick)


def first_compare(quick: bool) -> Cost:
    """Compare the actions of a state of a table in a new process, with both caches."""
    return _first_call("compare", quick)


def _first_call(call: str, quick: bool) -> Cost:
    with TemporaryDirectory() as kept:

        def cold() -> float:
            with TemporaryDirectory() as empty:
                return _in_process(call, cache=empty)

        warm = partial(_in_process, call, cache=kept)
        warm()
        return Cost.absolute(*rounds_of(1 if quick else 3, cold, warm))


def _in_process(*arguments: str, cache: str | None = None) -> float:
    """Return what a part of this module (`_PARTS`) measures in a new process."""
    changed = {} if cache is None else {"NUMBA_CACHE_DIR": cache}
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.overheads", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | changed,
    )
    return float(json.loads(answer.stdout))


def _evaluate_400() -> float:
    world = jmdp.worlds.windy_gridworld(20, 20)
    return cpu(lambda: jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), progress=False))


def _compare_table() -> float:
    world = jmdp.worlds.windy_gridworld(20, 20)
    return cpu(lambda: jmdp.compare(world.model, world.policies["careless"], state="10,10", seed=0, progress=False))


def import_time(quick: bool) -> Cost:
    """Import jmdp and NumPy in new processes; both times include the start of Python."""
    return Cost.ratio(rounds_of(2 if quick else 15, partial(_import, "jmdp"), partial(_import, "numpy")))


def _import(package: str) -> float:
    def seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = seconds()
    subprocess.run([sys.executable, "-c", f"import {package}"], check=True)
    return seconds() - before


def rollout_memory(quick: bool) -> Cost:
    """Memory by which 80,000 rollouts of two actions raise the peak of a new process, over that of their returns."""
    samples = 2000 if quick else 80_000
    returns = [2 * 8 * samples / 1e6] * rounds(quick)
    grown = [_in_process("memory", str(samples)) / 1e6 for _ in returns]
    return Cost.ratio([grown, returns])


def _memory(samples: str) -> float:
    simulator = jmdp.simulators.FunctionSimulator(_luck_times_action, _stay, 2, start=0)
    compared(simulator, _first_action, 100, state=0, horizon=1)
    before = status("VmHWM")
    compared(simulator, _first_action, int(samples), state=0, horizon=1)
    return status("VmHWM") - before


def _luck_times_action(state: Any, action: int, u: float) -> float:
    return action * u


def _stay(state: Any, action: int, u: float) -> Any:
    return state


def _move(state: float, action: int, u: float) -> float:
    return (state + action + u) % 5.0


def _first_action(state: Any) -> int:
    return 0


_PARTS: dict[str, Callable[..., float]] = {"evaluate": _evaluate_400, "compare": _compare_table, "memory": _memory}


# Random numbers, sweeps, studies


def keyed_uniform(quick: bool) -> Cost:
    """Draw numbers of consecutive customers by name, and from a generator."""
    count = 200 if quick else 50_000
    luck, draw = jmdp.Luck(jmdp.Shock.of_sample(0, 0)), np.random.default_rng(0).random

    def keyed() -> None:
        uniform = luck.uniform
        for i in range(count):
            uniform("customer", i)

    def plain() -> None:
        for _ in range(count):
            draw()

    return Cost.ratio(cpu_rounds(3 * rounds(quick), keyed, plain))


def sweep(policy: str, quick: bool) -> Cost:
    """Sweep a table of 10⁸ pairs, and copy it."""
    world = jmdp.worlds.windy_gridworld(*((20, 20) if quick else (100, 100)), discount=0.99)
    model, rules = world.model, world.policies[policy]
    S = model.shape[0]
    operator = PairOperator(model, rules, jmdp.Local(), shape_rewards(model, rules))
    point, out = operator.start(), operator.start()
    table, copy = point.reshape(S, S), np.empty((S, S))
    u = np.random.default_rng(0).random(S)
    np.multiply.outer(u, u, out=table)
    with PairSweep(operator) as swept:
        times = cpu_rounds(rounds(quick), partial(swept, point, out), partial(np.copyto, copy, table))
        swept.whole(out)
    P, _ = policy_chain(model, rules)
    np.copyto(copy, np.asarray(P @ (P @ table).T))
    agree(f"sweep, {policy}", difference_between_states(out, copy, model.discount), ROUNDING)
    return Cost.ratio(times)


def applications(policy: str, quick: bool) -> Cost:
    """Count the applications of the operator in an evaluation to 1e-8; the count does not depend on the machine."""
    world = jmdp.worlds.windy_gridworld(*((20, 20) if quick else (100, 100)), discount=0.99)
    applied, measured, called = [0], PairSweep.measured, PairSweep.__call__

    def counting(method: Any) -> Any:
        def apply(self: PairSweep, *arguments: Any) -> Any:
            applied[0] += 1
            return method(self, *arguments)

        return apply

    kind: Any = PairSweep
    kind.measured, kind.__call__ = counting(measured), counting(called)
    try:
        method = jmdp.ExactPairs(tolerance=1e-8)
        result = jmdp.evaluate(world.model, world.policies[policy], jmdp.Local(), method, progress=False)
    finally:
        kind.measured, kind.__call__ = measured, called
    assert applied[0] >= result.residuals.size
    return Cost.absolute([float(applied[0])])


_SHORT: dict[str, Any] = {"discount": 1.0, "horizon": 5, "seed": 0}


def study_calls(quick: bool) -> Cost:
    """Study 80 states, and call `compare` for each."""
    states = [float(i) for i in range(4 if quick else 80)]
    simulator = jmdp.simulators.FunctionSimulator(_luck_times_action, _move, 2, start=0.0)

    def calls() -> None:
        for state in states:
            jmdp.compare(simulator, _first_action, state=state, max_samples=64, progress=False, **_SHORT)

    return Cost.ratio(cpu_rounds(rounds(quick), partial(_study, simulator, states), calls))


def _study(simulator: Any, states: list[float]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "study")
        jmdp.study(simulator, _first_action, states, max_samples=64, path=path, progress=False, **_SHORT)


# Smallest calls, and growth


def smallest(call: Callable[[int], object], quick: bool) -> Cost:
    """Milliseconds of a call with two samples of one step, after a warm-up."""
    call(0)
    return Cost.absolute([1e3 * cpu(partial(call, seed)) for seed in range(1, 3 if quick else 16)])


_SMALLEST: dict[str, Any] = {"discount": 0.99, "horizon": 1, "samples": 2, "progress": False}


def _smallest_actions(quick: bool) -> Cost:
    simulator = jmdp.simulators.FunctionSimulator(_luck_times_action, _stay, 2, start=0)
    return smallest(lambda seed: jmdp.compare(simulator, _first_action, state=0, seed=seed, **_SMALLEST), quick)


def _smallest_environment_actions(quick: bool) -> Cost:
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    env.reset(seed=0)
    return smallest(lambda seed: jmdp.compare(env, _first_action, seed=seed, **_SMALLEST), quick)


def _smallest_environment_policies(quick: bool) -> Cost:
    import gymnasium

    env, rules = gymnasium.make("CartPole-v1"), {"left": lambda o: 0, "right": lambda o: 1}
    return smallest(lambda seed: jmdp.compare_policies(env, rules, seed=seed, **_SMALLEST), quick)


def _smallest_runs(quick: bool) -> Cost:
    runs = {"a": lambda luck: luck.uniform("x"), "b": lambda luck: luck.uniform("x") + 1}
    return smallest(lambda seed: jmdp.compare_runs(runs, seed=seed, samples=2, progress=False), quick)


def growth(sizes: list[int], call: Callable[[int], object], quick: bool) -> Cost:
    """Exponent of CPU time in the size, over calls of all sizes that alternate."""
    sizes = sizes[:2] if quick else sizes
    return Cost.exponent(sizes, cpu_rounds(rounds(quick), *(partial(call, size) for size in sizes)))


def _wandering(actions: int) -> Any:
    return jmdp.simulators.FunctionSimulator(_luck_times_action, _move, actions, start=0.0)


def _growth_rollouts(quick: bool) -> Cost:
    simulator = _wandering(2)
    return growth([2000, 8000, 32000], lambda n: compared(simulator, _first_action, n, state=0.0, horizon=5), quick)


def _growth_actions(quick: bool) -> Cost:
    return growth([4, 8, 16, 32], lambda A: compared(_wandering(A), _first_action, 300, state=0.0, horizon=10), quick)


def _growth_policies(quick: bool) -> Cost:
    simulator = _wandering(80)

    def call(count: int) -> None:
        rules = {f"{j}": partial(_always, j) for j in range(count)}
        compared_policies(simulator, rules, 100, horizon=10)

    return growth([10, 20, 40, 80], call, quick)


def _always(action: int, state: Any) -> int:
    return action


def _growth_states(quick: bool) -> Cost:
    simulator = _wandering(2)
    return growth([20, 40, 80, 160], lambda n: _study(simulator, [float(i) for i in range(n)]), quick)


def _growth_runs(quick: bool) -> Cost:
    def total(luck: jmdp.Luck) -> float:
        return sum(luck.exponential("service", i, mean=1.0) for i in range(20))

    runs = {"a": total, "b": lambda luck: 1.01 * total(luck)}
    settings: dict[str, Any] = {"seed": 0, "precision": 1e-12, "progress": False}
    return growth([500, 1000, 2000, 4000], lambda n: jmdp.compare_runs(runs, max_samples=n, **settings), quick)


@dataclass(frozen=True)
class Measure:
    """A row: how it is measured, in which unit, and the goal."""

    measure: Callable[[bool], Cost]
    what: str
    goal: float
    unit: str = "CPU s"


_CALL, _GROWTH = "CPU ms of the smallest call", "exponent of CPU time"

ROWS = {
    "first_evaluate": Measure(first_evaluate, "CPU s of the first `evaluate`, 400 states, cold cache", 4),
    "first_compare": Measure(first_compare, "CPU s of the first `compare` on a table, cold cache", 2.5),
    "import": Measure(import_time, "import of jmdp / of NumPy", 1.6),
    "continuous": Measure(continuous_functions, "`compare` of functions, continuous states / loop", 2.5),
    "inventory": Measure(inventory_functions, "`compare` of functions, inventory / loop", 1.2),
    "object": Measure(object_actions, "`compare` of a class / loop", 2.5),
    "object_policies": Measure(object_policies, "`compare_policies` of 50 rules, 32 episodes of a class / loop", 3),
    "policies_taxi": Measure(partial(environment_policies, "Taxi"), "`compare_policies` / bare step", 2),
    "policies_frozenlake": Measure(partial(environment_policies, "FrozenLake"), "`compare_policies` / bare step", 2),
    "policies_cartpole": Measure(partial(environment_policies, "CartPole"), "`compare_policies` / bare step", 1.6),
    "policies_mountaincar": Measure(
        partial(environment_policies, "MountainCar"), "`compare_policies` / bare step", 1.6
    ),
    "actions_frozenlake": Measure(partial(environment_actions, "FrozenLake"), "`compare` / bare step", 1.8),
    "actions_taxi": Measure(partial(environment_actions, "Taxi"), "`compare` / bare step", 1.8),
    "actions_lunarlander": Measure(partial(environment_actions, "LunarLander"), "`compare` / bare step", 1.8),
    "gymnax_breakout": Measure(gymnax_breakout, "`compare` / jitted scan", 1.25),
    "keyed_luck": Measure(keyed_uniform, "`luck.uniform` / `Generator.random`", 2),
    "sweep_goal_directed": Measure(partial(sweep, "goal_directed"), "sweep / copy, 2 successors", 2.5),
    "sweep_careless": Measure(partial(sweep, "careless"), "sweep / copy, 8 successors", 3.5),
    "applications_goal_directed": Measure(
        partial(applications, "goal_directed"), "operator applications, windy 100×100, 1e-8", 99, "count"
    ),
    "applications_careless": Measure(
        partial(applications, "careless"), "operator applications, windy 100×100, 1e-8", 115, "count"
    ),
    "rollout_memory": Measure(rollout_memory, "memory of 80,000 rollouts / returns", 3, "MB"),
    "study": Measure(study_calls, "`study` of 80 states / `compare` calls", 1.1),
    "smallest_compare": Measure(_smallest_actions, f"{_CALL}: `compare` of functions", 25, "CPU ms"),
    "smallest_compare_cartpole": Measure(_smallest_environment_actions, f"{_CALL}: `compare`, CartPole", 25, "CPU ms"),
    "smallest_compare_policies": Measure(
        _smallest_environment_policies, f"{_CALL}: `compare_policies`, CartPole", 25, "CPU ms"
    ),
    "smallest_compare_runs": Measure(_smallest_runs, f"{_CALL}: `compare_runs`", 25, "CPU ms"),
    "growth_rollouts": Measure(_growth_rollouts, f"{_GROWTH} of `compare` in rollouts", 1.05),
    "growth_actions": Measure(_growth_actions, f"{_GROWTH} of `compare` in actions", 1.05),
    "growth_policies": Measure(_growth_policies, f"{_GROWTH} of `compare_policies` in policies", 1.05),
    "growth_states": Measure(_growth_states, f"{_GROWTH} of `study` in states", 1.05),
    "growth_runs": Measure(_growth_runs, f"{_GROWTH} of `compare_runs` in runs", 1.05),
}
"""All rows, in the order in which they are measured."""


if __name__ == "__main__":
    print(json.dumps(_PARTS[sys.argv[1]](*sys.argv[2:])))
