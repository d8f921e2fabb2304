"""Entries of models, policies and couplings of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry


def table(rng: np.random.Generator) -> Arguments:
    """Arguments of a small table."""
    S, K, A = (int(n) for n in rng.integers(1, (5, 4, 4)))
    two = {"prob": np.tile([[0.1, 0.3, 0.15, 0.45]], (S, 1)), "sources": {"u": 2, "w": 2}}
    one: Arguments = {"prob": rng.dirichlet(np.ones(K), S), "sources": {"u": K} if rng.random() < 0.5 else None}
    found = two if (K := 4 if rng.random() < 0.5 else K) == 4 else one
    return {
        **found,
        "reward": rng.normal(size=(S, K, A)),
        "next_state": rng.integers(0, S, (S, K, A)),
        "discount": float(rng.choice([0.0, 0.5, 0.9])),
        "terminal": rng.random(S) < 0.2,
        "state_names": [f"s{i}" for i in range(S)],
        "action_names": [f"a{i}" for i in range(A)],
    }


def _finite_and_frozen(model: jmdp.TabularJMDP, given: object) -> str | None:
    for name in ("prob", "reward", "next_state", "terminal"):
        array = getattr(model, name)
        if type(array) is not np.ndarray or array.flags.writeable or not np.isfinite(array).all():
            return f"{name} is {array!r:.60}"
    return None


def _rows(policy: jmdp.TabularPolicy, given: object) -> str | None:
    sums = policy.probs.sum(axis=1)
    return None if np.allclose(sums, 1) and (policy.probs >= 0).all() else f"rows sum to {sums!r:.60}"


def lazy_table(rng: np.random.Generator) -> Arguments:
    """Parts of the table of one state of a `LazyJMDP`, and its other arguments."""
    return {
        "prob": [0.5, 0.5],
        "reward": [[1.0, 0.0], [0.0, 2.0]],
        "next_state": [["a", "b"], ["b", "c"]],
        "choice": [0.5, 0.5],
        "discount": 0.5,
        "reward_bound": 2.0,
        "action_names": ["stay", "go"],
    }


def lazily(
    prob: Any, reward: Any, next_state: Any, choice: Any, discount: Any, reward_bound: Any, action_names: Any
) -> jmdp.results.Evaluation:
    """Evaluate a lazy model in which every state but "c" has this table and the policy these probabilities."""
    model = jmdp.LazyJMDP(
        lambda s: None if s == "c" else (prob, reward, next_state), discount, reward_bound, action_names
    )
    repr(model)
    return jmdp.evaluate(
        model, lambda s: choice, tiny.COUPLING, jmdp.ReachablePairs("a", max_states=50), progress=False
    )


def _of_functions(scenarios: Any, returned: Any, policy: Any, chosen: Any, state: Any) -> jmdp.results.Evaluation:
    """Evaluate a lazy model; hostile functions, hostile returns or a hostile state."""

    def own(s: Any) -> Any:
        return returned if s == "a" else None

    model = jmdp.LazyJMDP(own if scenarios is None else scenarios, 0.5, 2.0)
    method = jmdp.ReachablePairs(state, max_states=50)
    return jmdp.evaluate(model, (lambda s: chosen) if policy is None else policy, tiny.COUPLING, method, progress=False)


def _finite_evaluation(evaluation: jmdp.results.Evaluation, given: Mapping[str, Any]) -> str | None:
    wide = [evaluation.mean_interval(0, a) for a in range(evaluation.actions.size)]
    if not np.isfinite(evaluation.mean).all() or any(w is None or not w.low <= w.high for w in wide):
        return f"mean {evaluation.mean!r:.60} within {wide!r:.60}"
    return None


def _drawn(outcomes: Any, given: Mapping[str, Any]) -> str | None:
    rewards = set(tiny.model().reward.ravel().tolist())
    return None if set(outcomes.reward.ravel().tolist()) <= rewards else f"rewards {outcomes.reward!r:.60}"


ENTRIES = [
    Entry(
        "TabularJMDP",
        jmdp.TabularJMDP,
        table,
        check=_finite_and_frozen,
        answer=lambda model: (model.prob.tobytes(), model.reward.tobytes(), model.next_state.tobytes(), model.discount),
        then={
            "repr": repr,
            "marginal_mdp": lambda model: model.marginal_mdp(),
            "is_coupled": lambda model: model.is_coupled,
            "sample": lambda model: model.sample(0, rng=np.random.default_rng(0)),
            "check_model": lambda model: jmdp.testing.check_model(model) if model.shape[2] < 100 else None,
        },
    ),
    Entry(
        "TabularJMDP.sample",
        lambda **given: tiny.model().sample(**given),
        lambda rng: {
            "state": tiny.state(rng),
            "actions": [tiny.action(rng), tiny.action(rng)],
            "rng": np.random.default_rng(0),
            "size": int(rng.integers(4)),
        },
        check=_drawn,
        answer=lambda drawn: (drawn.reward.tolist(), drawn.next_state.tolist()),
    ),
    Entry(
        "TabularJMDP.outcome_distribution",
        lambda **given: tiny.model().outcome_distribution(**given),
        lambda rng: {"state": tiny.state(rng), "actions": [0, 1, 1]},
        check=lambda found, given: None if np.isclose(found.prob.sum(), 1) else "the probabilities do not sum to 1",
        answer=lambda found: (found.prob.tolist(), found.reward.tolist(), found.next_state.tolist()),
    ),
    Entry("LazyJMDP: tables", lazily, lazy_table, check=_finite_evaluation, answer=tiny.numbers, then=tiny.USES),
    Entry(
        "LazyJMDP: functions",
        _of_functions,
        lambda rng: {
            "scenarios": None,
            "returned": ([1.0], [[1.0, 2.0]], [["a", "b"]]),
            "policy": None,
            "chosen": [0.5, 0.5],
            "state": "a",
        },
        check=_finite_evaluation,
        then=tiny.USES,
    ),
    Entry("LazyJMDP.of", jmdp.LazyJMDP.of, lambda rng: {"model": tiny.model()}),
    Entry(
        "LazyJMDP.index",
        lambda state: jmdp.LazyJMDP.of(tiny.model()).index(state),
        lambda rng: {"state": 1},
    ),
    Entry(
        "TabularPolicy",
        jmdp.TabularPolicy,
        lambda rng: {"probs": rng.dirichlet(np.ones(3), int(rng.integers(1, 5)))},
        check=_rows,
        answer=lambda policy: policy.probs.tobytes(),
    ),
    Entry("TabularPolicy.uniform", jmdp.TabularPolicy.uniform, lambda rng: {"model": tiny.model()}, check=_rows),
    Entry(
        "TabularPolicy.deterministic",
        jmdp.TabularPolicy.deterministic,
        lambda rng: {"model": tiny.model(), "actions": [0, 1, 0] if rng.random() < 0.5 else ["stay", "go", "go"]},
        check=_rows,
        answer=lambda policy: policy.probs.tobytes(),
    ),
    Entry(
        "TabularPolicy.of",
        jmdp.TabularPolicy.of,
        lambda rng: {"given": [0, 1, 0] if rng.random() < 0.5 else ["stay", "go", "go"], "model": tiny.model()},
        check=_rows,
        answer=lambda policy: policy.probs.tobytes(),
    ),
    Entry(
        "TabularPolicy.deterministic: dict",
        lambda state, action: jmdp.TabularPolicy.deterministic(
            tiny.model(), tiny.dictionary((0, 0), (state, action), ("end", "go"))
        ),
        lambda rng: {"state": "right", "action": tiny.action(rng)},
        check=_rows,
        answer=lambda policy: policy.probs.tobytes(),
    ),
    Entry(
        "TabularPolicy.mixed",
        lambda **given: tiny.policy().mixed(**given),
        lambda rng: {"other": jmdp.TabularPolicy.uniform(tiny.model()), "weight": float(rng.random())},
        check=_rows,
        answer=lambda policy: policy.probs.tobytes(),
    ),
    Entry(
        "TabularPolicy.check_fits",
        lambda **given: tiny.policy().check_fits(**given),
        lambda rng: {"model": tiny.model()},
    ),
    *(
        Entry(
            kind.__name__,
            kind,
            lambda rng: {"policy_luck": "shared"},
            check=lambda found, given: None if found.policy_luck in ("independent", "shared") else repr(found),
            then={"repr": repr, "use": lambda found: jmdp.evaluate(tiny.alike(), tiny.policy(), found)},
        )
        for kind in (jmdp.Local, jmdp.Synchronous, jmdp.Independent)
    ),
    *(
        Entry(f"{kind.__name__}.check_fits", kind().check_fits, lambda rng: {"model": tiny.alike()})
        for kind in (jmdp.Local, jmdp.Synchronous, jmdp.Independent)
    ),
]
