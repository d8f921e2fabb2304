"""Trained policies of stable-baselines3, torch and scikit-learn, detected by their attributes without imports.

An action must be a function of observation and shock only. The output of a network also depends on the batch size, in
the last bits, because it changes the order of summation. So networks are evaluated for distinct observations in padded
batches of one size; in our measurements, outputs are then bitwise reproducible. Rounding the probabilities would not
help: a uniform number falls between two probabilities that differ by δ with probability δ, and on average the same is
true of the rounded ones.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jmdp.base.arrays import refuse_large
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import JMDPError
from jmdp.models.actors.actor import Actor, ReadActor, Reading, numpy_of
from jmdp.models.actors.remembering import required_parameters, takes_argument


class Batched(ReadActor):
    """Policy evaluated for many observations in one call, in batches of constant size."""

    def __init__(
        self, evaluate: Callable[[Any], Any], reading: Reading, needs_luck: bool = True, size: int | None = None
    ) -> None:
        super().__init__(reading, needs_luck and not reading.greedy)
        self._evaluate = evaluate  # from a batch to one row per observation
        self._size = size  # of a batch, if the network accepts no other

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        """Evaluate the policy once for each distinct observation."""
        places: dict[Hashable, int] = {}
        at = [places.setdefault(fingerprint(observation), len(places)) for observation in observations]
        distinct = list(dict(zip(at, observations, strict=True)).values())
        size = self._size or (64 if np.size(distinct[:1]) < 4096 else 16)  # images are expensive
        found: list[Any] = []
        for i in range(0, len(distinct), size):
            part = distinct[i : i + size]
            try:
                found.append(self._evaluate(stacked(part + part[-1:] * (size - len(part)))))
            except JMDPError:
                raise
            except Exception as error:
                self._reading.add_note(error, part[0])
                raise
            if np.shape(found[-1])[:1] != (size,):
                raise self._reading.error(
                    f"returned shape {np.shape(found[-1])} for {size} observations. Return one row for each."
                )
        rows: Any = np.concatenate(found)[at] if found else []
        return self._reading.choose(rows, shocks if self.needs_luck else [None] * len(at))


def stable_baselines(model: Any, reading: Reading) -> Actor:
    """Distribution of a model over discrete actions if available, otherwise its deterministic prediction."""
    network, numbered = getattr(model, "policy", model), type(model.action_space).__name__ == "Discrete"
    if hasattr(network, "lstm_actor"):
        raise reading.error("has memory. Give a policy that depends only on the current observation.")
    if reading.actions is not None and not numbered:
        raise reading.error(
            f"has the action space {model.action_space}, but the simulator has {reading.actions.size} discrete actions."
        )
    reading = reading.among(int(model.action_space.n)) if numbered else reading
    has_distribution = numbered and hasattr(network, "get_distribution")
    normaliser = model.get_vec_normalize_env() if hasattr(model, "get_vec_normalize_env") else None
    evaluate = _BaselinesNetwork(network, normaliser, has_distribution, reading)
    name = reading.name if has_distribution and not reading.greedy else f"{reading.name}, deterministic"
    return Batched(evaluate, replace(reading, name=name, logits=True), has_distribution)


@dataclass(frozen=True)
class _BaselinesNetwork:
    """Logits or predictions of a network of stable-baselines3; unlike a closure it can be sent to worker processes."""

    network: Any
    normaliser: Any
    has_distribution: bool
    reading: Reading

    def __call__(self, batch: Any) -> Any:
        network = self.network
        try:
            with _evaluating(network):
                batch = self.normaliser.normalize_obs(batch) if self.normaliser else batch
                if not self.has_distribution:
                    return network.predict(batch, deterministic=True)[0]
                return network.get_distribution(network.obs_to_tensor(batch)[0]).distribution.logits.cpu().numpy()
        except ValueError as error:
            raise self.reading.error(f"does not accept the simulator's observations. {error}") from None


def torch_module(module: Any, reading: Reading, unsaid: bool) -> Actor:
    """Torch module called on a batch; `unsaid` if the caller did not state whether it returns logits."""
    return Batched(_TorchNetwork(module, reading, unsaid), reading, reading.actions is not None)


@dataclass(frozen=True)
class _TorchNetwork:
    module: Any
    reading: Reading
    unsaid: bool

    def __call__(self, batch: Any) -> Any:
        torch, A = sys.modules["torch"], self.reading.actions and self.reading.actions.size
        first = next((p for p in self.module.parameters() if p.is_floating_point()), torch.zeros(0))
        is_index = batch.ndim == 1 and batch.dtype.kind in "iu"  # state indices, as for an embedding
        with _evaluating(self.module):
            output = self.module(torch.as_tensor(batch).to(first.device, None if is_index else first.dtype))
        shape = tuple(getattr(output, "shape", ()))
        if not isinstance(output, torch.Tensor) or (A and shape != (len(batch), A)):
            what = f"{type(output).__name__} of shape {shape} for {len(batch)} observations"
            raise self.reading.error(f"returned a {what}. Return [batch, {A or '…'}], or wrap it in a function.")
        rows = output.to(torch.promote_types(output.dtype, torch.float32)).cpu().numpy()
        if self.unsaid and A:
            refuse_probabilities(rows, self.reading, "use logits=False")
        return rows


def refuse_probabilities(rows: np.ndarray[Any, Any], reading: Reading, fix: str) -> None:
    """Raise an error if numbers that would be read as logits look like probabilities."""
    if rows.shape[1] > 1 and rows.min() >= 0 and np.abs(rows.sum(axis=1) - 1).max() < 1e-5:
        raise reading.error(f"returned numbers ≥ 0 that sum to 1. If they are probabilities, {fix}.")


@contextlib.contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Evaluate without gradients and in evaluation mode; restore the mode of all submodules on exit."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with sys.modules["torch"].no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def is_estimator(policy: Any) -> bool:
    """Whether this is an estimator of scikit-learn, or one with its interface, so that `predict` takes a batch."""
    if not callable(getattr(policy, "predict", None)):
        return False
    own = any(kind.__module__.partition(".")[0] == "sklearn" for kind in type(policy).__mro__)
    return own or (hasattr(policy, "fit") and (hasattr(policy, "n_features_in_") or hasattr(policy, "classes_")))


@dataclass(frozen=True)
class Predict:
    """``policy.predict(obs)`` of a class that is no estimator: for one observation."""

    policy: Any

    @classmethod
    def of(cls, policy: Any, reading: Reading) -> Predict:
        """Raise if `predict` needs more than an observation."""
        required = [p.name for p in required_parameters(policy.predict)]
        if len(required) > 1 or not takes_argument(policy.predict):
            raise reading.error(
                f"has predict({', '.join(required)}), but jmdp calls predict(obs). Give a function that returns the "
                "action: lambda obs: policy.predict(…), or f(obs, rng) if it is random."
            )
        return cls(policy)

    def __call__(self, observation: Any) -> Any:
        """The action, also of (action, None)."""
        value = self.policy.predict(observation)
        return value[0] if isinstance(value, tuple) and len(value) == 2 and value[1] is None else value


def scikit_learn(estimator: Any, reading: Reading) -> Actor:
    """Policy by ``predict_proba``, its columns ordered as the actions, or by ``predict``."""
    classes = np.asarray(getattr(estimator, "classes_", []))
    if not hasattr(estimator, "predict_proba"):
        return Batched(lambda batch: estimator.predict(batch.reshape(len(batch), -1)), reading, not classes.size)
    actions = reading.actions or Labels("action", classes.size)
    places = np.eye(actions.size)[[actions.position(label) for label in classes.tolist()]]  # [classes, A]
    reading = replace(reading, actions=actions, logits=False)
    return Batched(lambda batch: estimator.predict_proba(batch.reshape(len(batch), -1)) @ places, reading)


def stacked(observations: Sequence[Any]) -> Any:
    """Stack observations to a batch; dictionaries are stacked entry by entry."""
    if isinstance(observations[0], dict):
        return {key: stacked([observation[key] for observation in observations]) for key in observations[0]}
    return np.stack([numpy_of(observation) for observation in observations])


def fingerprint(value: Any) -> Hashable:
    """Hashable value that is equal for equal observations."""
    if isinstance(value, dict):
        return tuple((key, fingerprint(part)) for key, part in value.items())
    array = numpy_of(value)
    refuse_large(f"An array of shape {array.shape}", float(array.nbytes))
    return array.dtype.str, array.shape, array.tobytes()
