"""Examples for stable-baselines3, rliable and SimOpt, whose answers are sampled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from math import sqrt
from typing import Any

import numpy as np

import jmdp
from benchmarks.checkpoints import trained
from benchmarks.interleave import interleave
from benchmarks.other_tools_learning import final_scores
from benchmarks.other_tools_rows import SEED, interval, paired, row
from benchmarks.report import Row, agree
from jmdp.base.arrays import Floats

_SLOPES = {"old": 0.0, "new": 0.01}
"""Rules for MountainCar."""

# stable-baselines3


class Predicts:
    """Policy with the method that `evaluate_policy` needs, which takes one observation or a batch."""

    def __init__(self, act: Callable[[Any], Any]) -> None:
        self._act = act

    def predict(self, observation: Any, *_: Any, **__: Any) -> tuple[Any, None]:
        """Return the actions, and no state."""
        return self._act(np.asarray(observation)), None


def _network(layers: tuple[tuple[Floats, Floats], ...], x: Any) -> Any:
    """Most likely actions of a trained actor (`benchmarks.checkpoints`), for one observation or a batch."""
    if np.issubdtype(x.dtype, np.integer):
        x = np.eye(layers[0][0].shape[1])[x]
    for weight, bias in layers[:-1]:
        x = np.tanh(x @ weight.T + bias)
    weight, bias = layers[-1]
    return (x @ weight.T + bias).argmax(axis=-1)


def _push(slope: float, x: Any) -> Any:
    """Rule for MountainCar: push right if the speed is above a line."""
    return np.where(x[..., 1] > slope * (x[..., 0] + 0.5), 2, 0)


def _agents(task: str) -> tuple[str, dict[str, Predicts]]:
    """Return the name of an environment and two policies: checkpoints of PPO, or rules."""
    if task == "MountainCar":
        return "MountainCar-v0", {name: Predicts(partial(_push, slope)) for name, slope in _SLOPES.items()}
    agents = {name: Predicts(partial(_network, network.layers)) for name, network in trained(task).items()}
    return f"{task}-v1", agents


def stable_baselines(quick: bool) -> list[Row]:
    """Two policies each in three environments: `evaluate_policy` and `compare_policies`."""
    rows = []
    for task in ("CartPole", "MountainCar", "FrozenLake"):
        n = 4 if quick else {"CartPole": 100, "MountainCar": 200, "FrozenLake": 1000}[task]
        rows += _evaluated(task, n)
    return [*rows, _episode_times(2 if quick else 8)]


def _evaluated(task: str, n: int) -> list[Row]:
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    name, models = _agents(task)
    apart = [
        evaluate_policy(model, make_vec_env(name, 8, seed=SEED + 100 * i), n_eval_episodes=n)
        for i, model in enumerate(models.values())
    ]
    (old, old_std), (new, new_std) = np.array(apart).tolist()
    alike = [
        evaluate_policy(model, make_vec_env(name, 1, seed=SEED), n_eval_episodes=n, return_episode_rewards=True)[0]
        for model in models.values()
    ]
    found = _policies_compared(name, models, n)
    mean, error = paired(found.summary.samples.returns)
    separate = sqrt((old_std**2 + new_std**2) / n)
    if n >= 64:
        agree(f"{task}, mean gap", abs(new - old - mean), 5 * (separate + error))
    by_hand, by_hand_error = paired(np.array(alike).T)
    return [
        row(
            f"{task}, n = {n}: mean gap ± SE", f"{new - old:.3g} ± {separate:.2g}", f"{mean:.3g} ± {error:.2g}"
        ),
        row("– same seed, paired by hand", f"{by_hand:.3g} ± {by_hand_error:.2g}", ""),
    ]  # fmt: skip


def _policies_compared(name: str, policies: dict[str, Predicts], n: int) -> jmdp.comparisons.PolicyComparison:
    import gymnasium

    return jmdp.compare_policies(
        gymnasium.make(name),
        policies,
        baseline=next(iter(policies)),
        seed=SEED,
        discount=1.0,
        samples=n,
        progress=False,
    )


def _episode_times(n: int) -> Row:
    """Time per episode of CartPole; both include making the environment."""
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    name, models = _agents("CartPole")

    def theirs(envs: int) -> None:
        for model in models.values():
            evaluate_policy(model, make_vec_env(name, envs, seed=SEED), n_eval_episodes=n)

    timings = interleave(
        {
            "one": partial(theirs, 1),
            "eight": partial(theirs, 8),
            "jmdp": partial(_policies_compared, name, models, n),
        }
    )
    one, eight = timings.ratio("one", "jmdp"), timings.ratio("eight", "jmdp")
    return row(
        f"CartPole, n = {n}: time, jmdp = 1",
        f"1 env {one.best:.2g} ({one.spread()}), 8 envs {eight.best:.2g} ({eight.spread()})",
        f"1 = {1e3 * timings.best('jmdp') / (2 * n):.0f} ms per episode",
    )


# rliable


def rliable(quick: bool) -> list[Row]:
    """Trainings of two algorithms on three tasks, and episodes of two policies."""
    runs, reps = (3, 20) if quick else (10, 2000)
    rly, metrics = import_module("rliable.library"), import_module("rliable.metrics")

    def bootstrapped(scores: Any, measure: Callable[..., Any]) -> str:
        np.random.seed(SEED)  # noqa: NPY002 (the bootstrap of rliable draws from the global generator)
        value, limits = rly.get_interval_estimates({"x": scores}, lambda *x: np.array([measure(*x)]), reps=reps)
        return interval(float(value["x"][0]), *np.ravel(limits["x"]).tolist())

    scores = final_scores(runs, 300 if quick else 5000)
    rows = [
        row(f"IQM of {name}, {runs} trainings × 3 tasks", bootstrapped(of, metrics.aggregate_iqm), "–")
        for name, of in scores.items()
    ]
    slow, fast = scores.values()
    better = bootstrapped((fast, slow), metrics.probability_of_improvement)
    rows.append(row("P(a training of fast beats one of slow)", better, "–"))
    n = 4 if quick else 200
    found = _policies_compared(*_agents("MountainCar"), n)
    old, new = (np.array(found.summary.samples.returns[:, [i]]) for i in range(2))
    gap, chance = found.gap("new", "old"), found.superiority("new", "old")
    assert gap.mean_interval is not None
    bounds = (gap.mean_interval.low, gap.mean_interval.high)
    return [
        *rows,
        row(
            f"MountainCar, n = {n} episodes: mean gap",
            bootstrapped((new, old), lambda x, y: x.mean() - y.mean()),
            interval(gap.mean, *bounds),
        ),
        row("– given the differences", bootstrapped(new - old, np.mean), ""),
        row(
            "– P(new earns more)",
            bootstrapped((new, old), metrics.probability_of_improvement),
            interval(float(chance), chance.low, chance.high),
        ),
    ]


# SimOpt


def simopt(quick: bool) -> list[Row]:
    """The (s, S) inventory of SimOpt: its start solution, and the one that Nelder-Mead finds with 1,000 runs."""
    problem = import_module("simopt.models.sscont").SSContMinCost(fixed_factors={"budget": 1000})
    solver = import_module("simopt.solvers.neldmd").NelderMead()
    history, _ = import_module("simopt.experiment.run_solver").run_solver(solver, problem, 1, n_jobs=1)
    designs = {"start": problem.factors["initial_solution"], "found": history["solution"].iloc[-1]}
    n = 8 if quick else 200
    start = _replicated(problem, designs["start"], n, stream=0)
    alike, apart = (_replicated(problem, designs["found"], n, stream) for stream in (0, 1))
    mean, error = paired(np.stack([alike, start], axis=1))
    other, other_error = paired(np.stack([apart, start], axis=1))
    runs = {name: partial(_replication, problem, x) for name, x in designs.items()}
    fixed = jmdp.compare_runs(runs, seed=SEED, minimize=True, samples=n, progress=False)
    stopped = jmdp.compare_runs(runs, seed=SEED, minimize=True, max_samples=10 if quick else 10_000, progress=False)
    assert isinstance(fixed, jmdp.comparisons.RunComparison)
    assert isinstance(stopped, jmdp.comparisons.RunComparison)
    ours, our_error = paired(fixed.summary.samples.returns[:, ::-1])
    if not quick:
        agree("(s, S) inventory, mean saving", abs(mean - ours), 5 * (error + our_error))
    gap, chance = stopped.gap("found", "start"), stopped.superiority("found", "start")
    assert gap.mean_interval is not None
    half = (gap.mean_interval.high - gap.mean_interval.low) / 2
    (s, q), (s0, q0) = designs["found"], designs["start"]
    return [
        row(f"search from ({s0:.0f}, {q0:.0f}), {problem.factors['budget']} runs", f"finds ({s:.0f}, {q:.0f})", "–"),
        row(f"saving ± SE, n = {n}, same streams", f"{mean:.1f} ± {error:.2f}", f"{ours:.1f} ± {our_error:.2f}"),
        row("– other streams", f"{other:.1f} ± {other_error:.2f}", ""),
        row(
            "runs until the sign is known",
            "–",
            f"n = {stopped.samples}: {abs(gap.mean):.0f} [{abs(gap.mean) - half:.0f}, {abs(gap.mean) + half:.0f}]",
        ),
        row("– P(found is cheaper)", "–", interval(float(chance), chance.low, chance.high)),
    ]


def _replicated(problem: Any, x: Any, n: int, stream: int) -> Floats:
    """Costs [n] of a solution. Solutions with the same streams have common random numbers in every replication."""
    solution = _solution(problem, x, stream)
    problem.simulate(solution, n)
    return np.asarray(solution.objectives[:, 0])


def _replication(problem: Any, x: Any, luck: jmdp.Luck) -> float:
    """Cost of one replication of SimOpt's model, with its generators in a stream chosen by the randomness of jmdp."""
    solution = _solution(problem, x, luck.seed("stream") % 2**50)
    problem.simulate(solution, 1)
    return float(solution.objectives[0, 0])


def _solution(problem: Any, x: Any, stream: int) -> Any:
    generator = import_module("mrg32k3a.mrg32k3a").MRG32k3a
    solution = import_module("simopt.base").Solution(x, problem)
    count = problem.model.n_rngs
    solution.attach_rngs([generator(s_ss_sss_index=[stream, i, 0]) for i in range(count)])
    return solution
