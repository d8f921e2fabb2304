"""Small problems with known answers, and evaluations of them, for the entries on tables."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

import jmdp
from hostile.entries import Arguments
from jmdp.errors import JMDPError

COUPLING = jmdp.Local()


@cache
def model() -> jmdp.TabularJMDP:
    """Three states, the last terminal, two scenarios and two actions, all with names."""
    return jmdp.TabularJMDP(
        [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]],
        [[[1.0, 0.0], [0.0, 2.0]], [[-1.0, 0.5], [1.0, 0.25]], [[0.0, 0.0], [0.0, 0.0]]],
        [[[0, 1], [1, 2]], [[1, 0], [2, 0]], [[2, 2], [2, 2]]],
        0.5,
        [False, False, True],
        ["left", "right", "end"],
        ["stay", "go"],
    )


@cache
def alike() -> jmdp.TabularJMDP:
    """The model with the same probabilities in every state, as `Synchronous` needs."""
    return jmdp.TabularJMDP([[0.5, 0.5]] * 3, model().reward, model().next_state, 0.5, model().terminal)


@cache
def policy() -> jmdp.TabularPolicy:
    """The policy that is evaluated."""
    return jmdp.TabularPolicy([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


@cache
def certified() -> jmdp.results.Evaluation:
    """Moments up to order 4, with certified intervals."""
    return jmdp.evaluate(model(), policy(), COUPLING, jmdp.ExactPairs(order=4))


@cache
def studied() -> jmdp.studies.Study:
    """Study of the cells of a small grid."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    world = jmdp.worlds.windy_gridworld(2, 3)
    return jmdp.study(
        world, next(iter(world.policies.values())), seed=0, path=folder.name, max_samples=32, horizon=5, progress=False
    )


@cache
def distributed() -> jmdp.results.Evaluation:
    """Evaluation with distributions."""
    return jmdp.evaluate(model(), policy(), COUPLING, jmdp.ExactDistribution(cells=64))


@cache
def learned() -> jmdp.results.Evaluation:
    """Evaluation with a learning curve."""
    return jmdp.evaluate(model(), policy(), COUPLING, jmdp.Incremental(seed=0, updates=2000))


@cache
def of_policies() -> jmdp.results.Evaluation:
    """Evaluation of two policies from a random start."""
    both = {"old": policy(), "new": jmdp.TabularPolicy.uniform(model())}
    return jmdp.evaluate(model(), both, COUPLING, starts=[0, 1])


@cache
def compared() -> jmdp.comparisons.Comparison:
    """Comparison of two actions."""
    return jmdp.compare(
        jmdp.simulators.TabularSimulator(model()),
        policy(),
        state=0,
        seed=0,
        coupling=COUPLING,
        max_samples=64,
        progress=False,
    )


def label(rng: np.random.Generator, *names: str) -> int | str:
    """A name or its index."""
    i = int(rng.integers(len(names)))
    return names[i] if rng.random() < 0.5 else i


def dictionary(*items: tuple[Any, Any]) -> dict[Any, Any]:
    """A dictionary. One with keys that Python refuses is no call of ours, so that counts as a refusal."""
    try:
        return dict(items)
    except TypeError as error:
        raise jmdp.errors.SettingsError(f"The keys are refused by Python: {error}") from error


def state(rng: np.random.Generator) -> int | str:
    """A state, by name or index."""
    return label(rng, "left", "right", "end")


def action(rng: np.random.Generator) -> int | str:
    """An action, by name or index."""
    return label(rng, "stay", "go")


def numbers(evaluation: Any) -> bytes:
    """All numbers of an evaluation, to be compared bit for bit."""
    return bytes(evaluation.mean.tobytes() + evaluation.covariance.tobytes())


def finite(result: Any, given: Mapping[str, Any]) -> str | None:
    """Check of a number, interval or array: nothing is nan."""
    ends = [getattr(result, name) for name in ("low", "high") if hasattr(result, name)]
    for value in ends if ends and not isinstance(result, float) else [result, *ends]:
        if value is not None and np.isnan(np.asarray(value, float)).any():
            return f"nan in {result!r:.80}"
    return None


def true(evaluation: jmdp.results.Evaluation, given: Mapping[str, Any]) -> str | None:
    """Check of an evaluation of the policy in the model: finite, and certified intervals contain the truth."""
    for name in ("mean", "covariance"):
        if not np.isfinite(getattr(evaluation, name)).all():
            return f"{name} is {getattr(evaluation, name)!r:.80}"
    certificate = evaluation.certificate
    if certificate is None or certificate.kind == "statistical" or evaluation.actions.kind == "policy":
        return None
    if evaluation.outcome is jmdp.results.Outcome.ALL_STEPS:
        return None
    right = certified()
    at = [right.states.index(evaluation.states.name(s)) for s in range(evaluation.states.size)]
    for name in ("mean", "covariance"):
        own, other = getattr(certificate, f"{name}_error"), getattr(right.certificate, f"{name}_error")
        off = np.abs(getattr(evaluation, name) - getattr(right, name)[at])
        if not (off <= np.asarray(own) + np.broadcast_to(other, getattr(right, name).shape)[at]).all():
            return f"{name} is off by {off.max()}, but the certificate states {own!r:.60}"
    return None


USES = {
    "repr": repr,
    "html": lambda evaluation: evaluation._repr_html_(),
    "gap": lambda evaluation: str(evaluation.gap(0, 0, 1)),
    "dataframe": lambda evaluation: evaluation.to_dataframe(),
    "xarray": lambda evaluation: evaluation.to_xarray(),
}
"""Uses of an accepted evaluation; each must work."""


def must_work(evaluation: jmdp.results.Evaluation, given: Mapping[str, Any]) -> str | None:
    """`true`, and all uses succeed: a typed error would be no answer here."""
    for name, use in USES.items():
        try:
            use(evaluation)
        except JMDPError as refusal:
            return f"{name} raised {refusal!r:.80}"
    return true(evaluation, given)


def problem() -> Arguments:
    """Arguments that `evaluate` always has."""
    return {"model": model(), "policy": policy(), "coupling": COUPLING}
