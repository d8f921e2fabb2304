"""Policies that others trained: stable-baselines3, torch and scikit-learn, told by their attributes, none imported.

What a policy does must follow from observation and shock alone. Networks break that in the last bits, for the order of
a sum depends on the size of the batch. So they are asked for distinct observations in batches of one size, filled up:
as measured, the bits are then the same in any company. Rounding probabilities would not help: a uniform number falls
between two that are δ apart with probability δ, and between both rounded too, on average.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.models.actors.actor import Actor, ReadActor, Reading, numpy_of


class Batched(ReadActor):
    """A policy that is asked for many observations in one call, always for equally many."""

    def __init__(self, evaluate: Callable[[Any], Any], reading: Reading, needs_luck: bool = True) -> None:
        super().__init__(reading, needs_luck and not reading.greedy)
        self._evaluate = evaluate  # a batch to as many rows

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Ask once for each distinct observation."""
        places: dict[Hashable, int] = {}
        at = [places.setdefault(fingerprint(observation), len(places)) for observation in observations]
        distinct = list(dict(zip(at, observations, strict=True)).values())
        size = 64 if np.size(distinct[:1]) < 4096 else 16  # images are dear
        found: list[Any] = []
        for i in range(0, len(distinct), size):
            part = distinct[i : i + size]
            found.append(self._evaluate(stacked(part + part[-1:] * (size - len(part)))))
            if np.shape(found[-1])[:1] != (size,):
                raise self._reading.error(f"gave shape {np.shape(found[-1])} for {size} observations: a row for each?")
        rows: Any = np.concatenate(found)[at] if found else []
        return self._reading.choose(rows, shocks if self.needs_luck else [None] * len(at))


def stable_baselines(model: Any, reading: Reading) -> Actor:
    """Its distribution where actions are numbered and it has one, else what it predicts deterministically."""
    network, numbered = getattr(model, "policy", model), type(model.action_space).__name__ == "Discrete"
    if hasattr(network, "lstm_actor"):
        raise reading.error("remembers what it saw. Give a policy of the observation alone.")
    if reading.actions is not None and not numbered:
        raise reading.error(f"chooses from {model.action_space}, the simulator has {reading.actions.size} actions.")
    reading = reading.among(int(model.action_space.n)) if numbered else reading
    has_distribution = numbered and hasattr(network, "get_distribution")
    normaliser = model.get_vec_normalize_env() if hasattr(model, "get_vec_normalize_env") else None

    def evaluate(batch: Any) -> Any:
        try:
            with _evaluating(network):
                batch = normaliser.normalize_obs(batch) if normaliser else batch
                if not has_distribution:
                    return model.predict(batch, deterministic=True)[0]
                return network.get_distribution(network.obs_to_tensor(batch)[0]).distribution.logits.cpu().numpy()
        except ValueError as error:
            raise reading.error(f"cannot read the simulator's observations. {error}") from None

    name = reading.name if has_distribution and not reading.greedy else f"{reading.name}, deterministic"
    return Batched(evaluate, replace(reading, name=name, logits=True), has_distribution)


def torch_module(module: Any, reading: Reading, unsaid: bool) -> Actor:
    """A module called on a batch; `unsaid` whether its numbers are logits."""
    torch, A = sys.modules["torch"], reading.actions and reading.actions.size

    def evaluate(batch: Any) -> Any:
        first = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(0))
        is_index = batch.ndim == 1 and batch.dtype.kind in "iu"  # indices, as for an embedding
        with _evaluating(module):
            output = module(torch.as_tensor(batch).to(first.device, None if is_index else first.dtype))
        shape = tuple(getattr(output, "shape", ()))
        if not isinstance(output, torch.Tensor) or (A and shape != (len(batch), A)):
            what = f"{type(output).__name__} of shape {shape} for {len(batch)} observations"
            raise reading.error(f"returned a {what}. It should give [batch, {A or '…'}]; else wrap it in a function.")
        rows = output.to(torch.promote_types(output.dtype, torch.float32)).cpu().numpy()
        if unsaid and A and A > 1 and rows.min() >= 0 and np.abs(rows.sum(axis=1) - 1).max() < 1e-5:
            raise reading.error("gave numbers ≥ 0 that sum to 1. If they are probabilities, say logits=False.")
        return rows

    return Batched(evaluate, reading, A is not None)


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Without gradients, in evaluation mode; afterwards every part is in the mode it was in."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with sys.modules["torch"].no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def scikit_learn(estimator: Any, reading: Reading) -> Actor:
    """``predict_proba`` with its columns put in their places, else ``predict``."""
    classes = np.asarray(getattr(estimator, "classes_", []))
    if not hasattr(estimator, "predict_proba"):
        return Batched(lambda batch: estimator.predict(batch.reshape(len(batch), -1)), reading, not classes.size)
    actions = reading.actions or Labels("action", classes.size)
    places = np.eye(actions.size)[[actions.index(label) for label in classes.tolist()]]  # [classes, A]
    reading = replace(reading, actions=actions, logits=False)
    return Batched(lambda batch: estimator.predict_proba(batch.reshape(len(batch), -1)) @ places, reading)


def stacked(observations: Sequence[Any]) -> Any:
    """Observations as a batch, entry by entry where they are dictionaries."""
    if isinstance(observations[0], dict):
        return {key: stacked([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack([numpy_of(observation) for observation in observations])


def fingerprint(value: Any) -> Hashable:
    """What tells two observations apart."""
    if isinstance(value, dict):
        return tuple((key, fingerprint(part)) for key, part in value.items())
    array = numpy_of(value)
    return array.dtype.str, array.shape, array.tobytes()
