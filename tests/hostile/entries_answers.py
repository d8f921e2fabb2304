"""Entries of the results of comparisons: methods with arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments, Entry
from hostile.entries_comparisons import alternate, numbers, other, plain, several, shifted, sound
from hostile.entries_samples import table, walk


@cache
def _actions() -> jmdp.comparisons.Comparison:
    return jmdp.compare(
        walk(actions=["stay", "go"]),
        alternate,
        state=1,
        seed=0,
        discount=0.5,
        horizon=3,
        max_samples=40,
        progress=False,
    )


@cache
def _bounded() -> jmdp.comparisons.Comparison:
    return jmdp.compare(
        table(),
        "uniform",
        state=0,
        seed=0,
        max_samples=8,
        horizon=3,
        assume=jmdp.Assumptions(return_range=(0.0, 2.0)),
        progress=False,
    )


@cache
def _policies() -> jmdp.comparisons.PolicyComparison:
    return jmdp.compare_policies(
        walk(),
        {"old": alternate, "new": other},
        starts=[0, 1],
        seed=0,
        discount=0.5,
        horizon=3,
        max_samples=40,
        baseline="old",
        progress=False,
    )


@cache
def _runs() -> Any:
    return jmdp.compare_runs({"a": plain, "b": shifted}, seed=0, max_samples=40, minimize=True, progress=False)


@cache
def _measures() -> Any:
    return jmdp.compare_runs({"a": several, "b": several}, seed=0, max_samples=4, progress=False)


@cache
def explained() -> jmdp.comparisons.Explanation:
    """Two sources, of which one cancels."""
    found: jmdp.comparisons.Explanation = _runs().explain("b", "a", samples=20)
    return found


_RESULTS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "Comparison": (_actions, [0, 1, "stay", "go"]),
    "Comparison with a range": (_bounded, [0, 1, "left", "right"]),
    "PolicyComparison": (_policies, ["old", "new", 0, 1]),
    "RunComparison": (_runs, ["a", "b", 0, 1]),
}


_OF_TWO = [
    "gap",
    "advantage",
    "superiority",
    "win_rate",
    "advantage_quantiles",
    "variance_reduction",
    "variance_reduction_ceiling",
]


def _ordered(found: Any, given: object) -> str | None:
    """Estimates are in their intervals; other values are not checked."""
    if isinstance(found, jmdp.results.Estimate):
        inside = found.low <= found <= found.high
        return None if inside or math.isnan(found) else f"{found!r} is not in {found.low} … {found.high}"
    return None


def _aim(rng: np.random.Generator, kinds: int) -> Arguments:
    """One of difference, precision and margin."""
    given = [{"difference": 0.5}, {"precision": 0.5}, {"margin": 2.0}]
    return {"difference": None, "precision": None, "margin": None} | given[rng.integers(kinds)]


def _plan(rng: np.random.Generator) -> Arguments:
    pilots = [2.0, np.arange(12.0), _runs()]
    return {"pilot": pilots[rng.integers(3)], **_aim(rng, 2), "power": 0.8, "confidence": 0.9}


def _of(name: str, make: Callable[[], Any], labels: list[Any]) -> list[Entry]:
    def call(method: str, **given: Any) -> Any:
        return getattr(make(), method)(*given.values())

    def two(rng: np.random.Generator) -> Arguments:
        first, second = (labels[i] for i in rng.choice(4, 2, replace=False))
        return {"method": _OF_TWO[rng.integers(len(_OF_TWO))], "first": first, "second": second}

    def one(rng: np.random.Generator) -> Arguments:
        methods = ["mean_of", "beside"]
        return {"method": methods[rng.integers(2)], "label": labels[rng.integers(4)]}

    fixed = frozenset({"method"})
    return [
        Entry(f"{name}: two labels", call, two, fixed, check=_ordered, answer=repr),
        Entry(f"{name}: one label", call, one, fixed, check=_ordered, answer=repr),
        Entry(
            f"{name}.regret",
            lambda action, p: make().regret(action).quantile(p),
            lambda rng: {"action": labels[rng.integers(4)], "p": 0.5},
            check=_ordered,
            answer=repr,
        ),
        Entry(
            f"{name}.not_worse",
            lambda **given: make().not_worse(**given),
            lambda rng: {"margin": [0.5, "2%"][rng.integers(2)], "new": labels[1], "old": labels[0]},
            answer=lambda found: (repr(found.excess), found.verdict),
            then={"str": str},
        ),
        Entry(
            f"{name}.plan",
            lambda **given: make().plan(**given),
            lambda rng: _aim(rng, 3) | {"power": 0.8, "confidence": 0.9},
            answer=lambda found: (found.fixed, found.median_range, found.most),
        ),
        Entry(
            f"{name}.continued",
            lambda samples: make().continued(samples),
            lambda rng: {"samples": 44},
            amounts=frozenset({"samples"}),
            check=sound,
            answer=numbers,
        ),
    ]


ENTRIES = [
    *(entry for name, (make, labels) in _RESULTS.items() for entry in _of(name, make, labels)),
    Entry(
        "Comparison.explain",
        lambda first, second, samples: _runs().explain(first, second, samples=samples),
        lambda rng: {"first": "b", "second": 0, "samples": int(rng.integers(12, 20))},
        amounts=frozenset({"samples"}),
        answer=lambda found: found.numbers.tolist(),
        then={"repr": repr, "table": lambda found: found.to_dataframe(), "html": lambda found: found._repr_html_()},
    ),
    Entry(
        "Comparison.value_of_knowing",
        lambda source, samples: _runs().value_of_knowing(source, samples=samples),
        lambda rng: {"source": ["x", "y"][rng.integers(2)], "samples": 130},
        amounts=frozenset({"samples"}),
        check=_ordered,
        answer=repr,
    ),
    Entry(
        "Explanation.total",
        lambda method, source: getattr(explained(), method)(source),
        lambda rng: {
            "method": ["first_order", "total", "moves"][rng.integers(3)],
            "source": ["x", "y"][rng.integers(2)],
        },
        fixed=frozenset({"method"}),
        answer=repr,
    ),
    Entry("plan", jmdp.plan, _plan, answer=lambda found: (found.fixed, found.median_range, found.most)),
    Entry(
        "Regret.quantile",
        lambda p: _actions().regret(0).quantile(p),
        lambda rng: {"p": 0.5},
        check=_ordered,
        answer=repr,
    ),
    Entry("Regret.cvar", lambda p: _bounded().regret(0).cvar(p), lambda rng: {"p": 0.5}, check=_ordered, answer=repr),
    Entry(
        "PolicyComparison.by_start",
        lambda policy: _policies().by_start().gap_variance(policy),
        lambda rng: {"policy": ["new", 1][rng.integers(2)]},
        answer=repr,
    ),
    Entry(
        "RunComparisons.__getitem__",
        lambda measure: _measures()[measure],
        lambda rng: {"measure": "cost"},
        check=sound,
        answer=numbers,
    ),
    Entry(
        "RunComparisons.continued",
        lambda samples: _measures().continued(samples),
        lambda rng: {"samples": 6},
        amounts=frozenset({"samples"}),
        check=sound,
        answer=numbers,
    ),
]
