"""Entries of the results on tables: queries of evaluations, gaps, distributions, intervals and records."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import jmdp
from hostile import tiny
from hostile.entries import Arguments, Entry
from jmdp.base.settings import real_number
from jmdp.errors import JMDPError
from jmdp.statistics.means import FIXED

Valid = Callable[[np.random.Generator], Arguments]


def query(kind: str, name: str, prepared: Callable[[], Any], valid: Valid, **more: Any) -> Entry:
    """Entry of a method of a prepared result."""
    return Entry(
        f"{kind}.{name}",
        lambda **given: getattr(prepared(), name)(**given),
        valid,
        **{"check": tiny.finite, "answer": lambda found: repr(found), **more},
    )


def pair(rng: np.random.Generator) -> Arguments:
    """A state and two actions."""
    return {"s": tiny.state(rng), "a": tiny.action(rng), "b": tiny.action(rng)}


def two_pairs(rng: np.random.Generator) -> Arguments:
    """Two coordinates."""
    return {"s": tiny.state(rng), "a": tiny.action(rng), "t": tiny.state(rng), "b": tiny.action(rng)}


def one(rng: np.random.Generator) -> Arguments:
    """A state and an action."""
    return {"s": tiny.state(rng), "a": tiny.action(rng)}


def gap() -> jmdp.results.Gap:
    """Gap with moments up to order 4."""
    return tiny.certified().gap(0, 0, 1)


def gap_distribution() -> jmdp.results.GapDistribution:
    """Distribution of a gap."""
    return tiny.distributed().gap(0, 0, 1).distribution()


def return_distribution() -> jmdp.results.Distribution:
    """Distribution of a return."""
    return tiny.distributed().return_distribution(0, 0)


def regret() -> jmdp.comparisons.Regret:
    """Regret of some samples."""
    values = np.linspace(0, 1, 50)
    return jmdp.comparisons.Regret(values, np.zeros(50), 0.0, 1.0, 0.05, FIXED, "a")


def number(name: str, low: float, high: float) -> Valid:
    """One number between two bounds."""
    return lambda rng: {name: float(rng.uniform(low, high))}


def same_as_float(method: Callable[[float], Any], name: str) -> Callable[[Any, Mapping[str, Any]], str | None]:
    """Check that an accepted value of any type gives the answer of the float with that value."""

    def check(found: Any, given: Mapping[str, Any]) -> str | None:
        try:
            expected = method(real_number(given[name]))
        except JMDPError as reason:
            return f"{given[name]!r:.60} is accepted, but as a float {reason!r:.60}"
        if repr(found) != repr(expected):
            return f"{found!r:.60} for {given[name]!r:.40}, but {expected!r:.60} for it as a float"
        return None if isinstance(found, jmdp.results.Verdict) else tiny.finite(found, given)

    return check


def numeric(kind: str, name: str, prepared: Callable[[], Any], argument: str, low: float, high: float) -> Entry:
    """Entry of a method of one number."""
    return query(
        kind,
        name,
        prepared,
        number(argument, low, high),
        check=same_as_float(lambda x: getattr(prepared(), name)(**{argument: x}), argument),
    )


def ordered(found: jmdp.results.Interval, given: Mapping[str, Any]) -> str | None:
    """Check of an accepted interval."""
    kinds = {type(found.low), type(found.high)}
    return None if kinds == {float} and found.low <= found.high else f"{found!r:.80}"


def plain(found: jmdp.results.Estimate, given: Mapping[str, Any]) -> str | None:
    """Check of an accepted estimate."""
    bad = {type(found.low), type(found.high)} != {float} or math.isnan(found.low) or math.isnan(found.high)
    return f"{found.low!r:.40}, {found.high!r:.40}" if bad else None


def record(rng: np.random.Generator) -> Arguments:
    """Arguments of a calibration."""
    M, n = 3, 6
    return {
        "state": np.arange(M),
        "first": np.zeros(M, int),
        "second": np.ones(M, int),
        "mean": rng.normal(size=M),
        "variance": rng.random(M),
        "independent": rng.random(M),
        "returns": rng.normal(size=(M, n, 2)),
        "seed": 3,
        "closed_form": rng.random(M),
    }


def calibration() -> jmdp.results.Calibration:
    """A record of simulated gaps."""
    return jmdp.results.Calibration(**record(np.random.default_rng(0)))


def certificate(rng: np.random.Generator) -> Arguments:
    """Arguments of a certificate."""
    errors = dict.fromkeys(("mean_error", "covariance_error", "gap_mean_error", "gap_variance_error"), 0.5)
    return {"kind": "certified", **errors, "discount": 0.5, "reward_bound": 1.0, "confidence": 0.9}


_EVALUATIONS = [
    query("Evaluation", "cross_covariance", tiny.certified, two_pairs),
    query("Evaluation", "second_moment", tiny.certified, two_pairs),
    query("Evaluation", "cross_covariance_interval", tiny.certified, two_pairs),
    query("Evaluation", "mean_interval", tiny.certified, one),
    query("Evaluation", "mean_of", tiny.certified, one),
    query("Evaluation", "covariance_interval", tiny.certified, pair),
    query("Evaluation", "return_distribution", tiny.distributed, one, check=lambda found, given: None),
    query(
        "Evaluation",
        "gap",
        tiny.certified,
        pair,
        check=lambda found, given: tiny.finite(found.mean, given),
        then={"str": str},
    ),
    query(
        "Evaluation",
        "variance_split",
        tiny.of_policies,
        lambda rng: {"a": tiny.label(rng, "old", "new"), "b": "new"},
        check=lambda found, given: None,
    ),
    query(
        "Evaluation",
        "plot",
        tiny.certified,
        lambda rng: {"state": tiny.state(rng)},
        check=lambda found, given: None,
        answer=lambda found: None,
    ),
    Entry(
        "Evaluation.moment",
        lambda **given: tiny.certified().moment(*given.values()),
        lambda rng: {"x": (tiny.state(rng), tiny.action(rng)), "y": (0, 1), "z": (0, 1)},
        check=tiny.finite,
        answer=repr,
    ),
    Entry(
        "Evaluation.moment: labels",
        lambda s, a: tiny.certified().moment((s, a), (0, 1)),
        one,
        check=tiny.finite,
        answer=repr,
    ),
]

_GAPS = [
    query("Gap", "moment", gap, lambda rng: {"n": int(rng.integers(5))}),
    query("Gap", "central_moment", gap, lambda rng: {"n": int(rng.integers(5))}),
    query(
        "Gap",
        "distribution",
        lambda: tiny.distributed().gap(0, 0, 1),
        number("tolerance", 0.1, 0.5),
        check=lambda found, given: None,
    ),
    query("GapDistribution", "mean_size", gap_distribution, lambda rng: {"above": bool(rng.integers(2))}),
    numeric("Gap", "cdf_bounds", gap, "x", -2, 2),
    numeric("Gap", "cvar_bounds", gap, "p", 0.01, 1),
    *(
        numeric(kind.__name__, name, prepared, argument, low, high)
        for kind, prepared in (
            (jmdp.results.Distribution, return_distribution),
            (jmdp.results.GapDistribution, gap_distribution),
        )
        for name, argument, low, high in (
            ("cdf", "x", -2, 2),
            ("below", "x", -2, 2),
            ("quantile", "p", 0.01, 1),
            ("cvar", "p", 0.01, 1),
        )
    ),
    numeric("Regret", "quantile", regret, "p", 0.01, 0.99),
    numeric("Regret", "cvar", regret, "p", 0.01, 0.99),
]

_INTERVALS = [
    Entry("Interval", jmdp.results.Interval, lambda rng: {"low": -1.0, "high": 2.0}, check=ordered, answer=repr),
    Entry(
        "Interval.around",
        jmdp.results.Interval.around,
        lambda rng: {"value": 1.0, "error": 0.5},
        check=ordered,
        answer=repr,
    ),
    Entry(
        "Interval.hull",
        jmdp.results.Interval.hull,
        lambda rng: {"parts": [jmdp.results.Interval(0.0, 1.0), jmdp.results.Interval(2.0, 3.0)]},
        check=ordered,
    ),
    Entry(
        "Interval.exceeds",
        jmdp.results.Interval(0.0, 1.0).exceeds,
        number("threshold", -1, 2),
        check=same_as_float(jmdp.results.Interval(0.0, 1.0).exceeds, "threshold"),
        answer=repr,
    ),
    Entry(
        "Interval.contains",
        lambda value: value in jmdp.results.Interval(0.0, 1.0),
        number("value", -1, 2),
        check=same_as_float(lambda value: value in jmdp.results.Interval(0.0, 1.0), "value"),
    ),
    Entry(
        "Interval.sum",
        lambda other: jmdp.results.Interval(0.0, 1.0) + other,
        lambda rng: {"other": jmdp.results.Interval(2.0, 3.0)},
    ),
    Entry(
        "Interval.product",
        lambda other: jmdp.results.Interval(0.0, 1.0) * other,
        lambda rng: {"other": jmdp.results.Interval(2.0, 3.0)},
    ),
    Entry(
        "Interval.power",
        jmdp.results.Interval(-1.0, 1.0).power,
        lambda rng: {"n": int(rng.integers(5))},
        amounts=frozenset({"n"}),
        check=ordered,
        answer=repr,
    ),
    Entry(
        "Estimate", jmdp.results.Estimate, lambda rng: {"value": 1.0, "low": 0.5, "high": 2.0}, check=plain, answer=repr
    ),
    Entry(
        "Estimate.around",
        jmdp.results.Estimate.around,
        lambda rng: {"value": 1.0, "error": 0.5},
        check=plain,
        answer=repr,
    ),
    Entry(
        "Estimate.within",
        jmdp.results.Estimate.within,
        lambda rng: {"value": 1.0, "interval": jmdp.results.Interval(0.5, 2.0)},
        check=plain,
        answer=repr,
    ),
    Entry(
        "Estimate.to_digits", jmdp.results.Estimate(1.25, 1.0, 1.5).to_digits, lambda rng: {"digits": 3}, answer=repr
    ),
]

_RECORDS = [
    Entry("Certificate", jmdp.results.Certificate, certificate, answer=repr),
    Entry(
        "Certificate: arrays",
        jmdp.results.Certificate,
        lambda rng: {
            **certificate(rng),
            "mean_error": np.full((3, 2), 0.5),
            "correlation_error": np.full((3, 2, 2), 0.5),
            "large_sample": True,
            "assumption": "rewards",
        },
    ),
    Entry(
        "Certificate.certified",
        jmdp.results.Certificate.certified,
        lambda rng: {"mean_error": 0.5, "covariance_error": 0.5, "discount": 0.5, "reward_bound": 1.0},
        answer=repr,
    ),
    Entry("Calibration", jmdp.results.Calibration, record, then={"repr": repr, "dict": lambda found: found.to_dict()}),
    Entry("Calibration.joined", jmdp.results.Calibration.joined, lambda rng: {"parts": [calibration(), calibration()]}),
    query("Calibration", "over_rollouts", calibration, lambda rng: {"ratio": 0.5}),
]

ENTRIES = [*_EVALUATIONS, *_GAPS, *_INTERVALS, *_RECORDS]
