"""The certified mean compared with a bare sparse solve, and with QuantEcon and Storm on the same chain."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
from scipy.sparse import csr_array, eye_array
from scipy.sparse.linalg import spsolve

import jmdp
from benchmarks.interleave import interleave
from benchmarks.problems import policy_chain
from benchmarks.report import Goal, Report, agree
from jmdp.base.arrays import Floats
from jmdp.methods.shared.shaping import shape_rewards

Solver = Callable[[], Floats]

_DIRECT = 1e-10
"""Allowed error of direct linear solvers, relative to the largest value."""

_STORM = 1e-5
"""Allowed error of Storm with default settings, which stops at a relative 1e-6."""


def compare(quick: bool) -> Report:
    """Compare on 10⁴ states; alternatives that are not installed are left out."""
    report = Report("mean", quick, seeds="models 0 to 2")
    side = 15 if quick else 100
    world = jmdp.worlds.windy_gridworld(side, side, discount=0.99)
    for peer in ("quantecon", "stormpy"):
        if find_spec(peer) is None:
            report.notes.append(f"{peer} is not installed and was left out: pip install {peer}")
    for name in ("goal_directed", "careless"):
        _compare(report, f"windy {side}×{side}, {name}", world.model, world.policies[name])
    report.notes.append(
        "The others receive the chain in their own data structures, and only solving is timed. Ours starts from the "
        "scenario table: it builds the chain, solves, refines in double-double precision, certifies, and also computes "
        "the TD errors."
    )
    return report


def _compare(report: Report, problem: str, model: jmdp.TabularJMDP, policy: jmdp.TabularPolicy) -> None:
    P, reward = policy_chain(model, policy)
    system = (eye_array(model.shape[0], format="csr") - model.discount * P).tocsc()
    shaped = shape_rewards(model, policy)
    value = shaped.scale.restore(shaped.value.high)
    peers: dict[str, tuple[Solver, float]] = {"spsolve": (lambda: np.asarray(spsolve(system, reward)), _DIRECT)}
    if find_spec("quantecon") is not None:
        peers["QuantEcon"] = (quantecon_solver(model, P, reward), _DIRECT)
    if find_spec("stormpy") is not None:
        peers["Storm, default settings"] = (storm_solver(model, P, reward, direct=False), _STORM)
        peers["Storm, sparse LU"] = (storm_solver(model, P, reward, direct=True), _DIRECT)
    size = float(np.abs(value).max())
    errors = {}
    for name, (solve, allowed) in peers.items():
        errors[name] = agree(f"{problem}, {name}", float(np.abs(solve() - value).max()), allowed * size)
    timings = interleave(
        {
            "shape, certified": partial(shape_rewards, model, policy),
            **{name: solve for name, (solve, _) in peers.items()},
        }
    )
    for row in timings.rows("spsolve"):
        ours = shaped.scale.restore(shaped.mean_error)
        row["error (ours: certified)"] = errors.get(str(row["contender"]), ours)
        report.rows.append({"problem": problem, **row})
    ratio = timings.ratio("shape, certified", "spsolve").best
    report.goals.append(Goal.at_most(f"{problem}: certified mean / spsolve", ratio, 1.3))


def quantecon_solver(model: jmdp.TabularJMDP, P: csr_array[np.float64], reward: Floats) -> Solver:
    """Return a solver by QuantEcon's DiscreteDP in sparse state-action form, with the policy as the only action.

    Its policies are deterministic, so the mixture is one action; terminal states are absorbing with reward 0.
    """
    from quantecon.markov import DiscreteDP
    from scipy.sparse import csr_matrix, diags_array

    S = model.shape[0]
    stays = P + diags_array(model.terminal.astype(np.float64))
    only = np.zeros(S, np.int64)
    process = DiscreteDP(reward, csr_matrix(stays), model.discount, np.arange(S), only)
    return lambda: np.asarray(process.evaluate_policy(only))


def storm_solver(model: jmdp.TabularJMDP, P: csr_array[np.float64], reward: Floats, *, direct: bool) -> Solver:
    """Return a solver by Storm: expected reward until a sink, reached with probability 1 − γ per step.

    `direct` selects Eigen's solver with sound results, which is a sparse LU; otherwise Storm uses its default.
    """
    import stormpy

    S = model.shape[0]
    P = P.sorted_indices()  # Storm needs the entries of a row in order
    rows = stormpy.datastructures.SparseMatrixBuilder[float](rows=S + 1, columns=S + 1)
    for s in range(S):
        inside = slice(P.indptr[s], P.indptr[s + 1])
        weights = model.discount * P.data[inside]
        for t, weight in zip(P.indices[inside].tolist(), weights.tolist(), strict=True):
            rows.add_next_value(s, t, weight)
        rows.add_next_value(s, S, 1 - float(weights.sum()))
    rows.add_next_value(S, S, 1.0)
    labels = stormpy.models.StateLabeling(S + 1)
    labels.add_label("sink")
    labels.add_label_to_state("sink", S)
    rewards = stormpy.models.SparseRewardModel[float](optional_state_reward_vector=[*reward.tolist(), 0.0])
    components = stormpy.models.SparseModelComponents[float](
        transition_matrix=rows.build(), state_labeling=labels, reward_models={"": rewards}
    )
    chain = stormpy.models.SparseDtmc[float](components)
    query = stormpy.parse_property('R=? [F "sink"]')
    environment = stormpy.environments.sound()
    if direct:
        environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.EIGEN)
    return lambda: np.array(stormpy.model_checking(chain, query, environment=environment).get_value_vector()[:S])
