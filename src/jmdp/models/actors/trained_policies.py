"""Trained policies of stable-baselines3, torch and scikit-learn, detected by their attributes without imports.

An action must be a function of observation and shock only. The output of a network also depends on the batch size, in
the last bits, because it changes the order of summation. So networks are evaluated for distinct observations in padded
batches of one size; in our measurements, outputs are then bitwise reproducible. Rounding the probabilities would not
help: a uniform number falls between two probabilities that differ by δ with probability δ, and on average the same is
true of the rounded ones.

ONNX networks as policies: inputs are matched by name and shape, outputs are read by name and type.

A session is recognised by its methods. onnxruntime is imported only to make a session, by `onnx_session`: for files
given on the command line, and in worker processes, because sessions cannot be pickled.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jmdp.base import optional
from jmdp.base.arrays import refuse_large
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import JMDPError, PolicyError
from jmdp.models.actors.actor import Actor, ReadActor, Reading, numpy_of, required_parameters, takes_argument


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


_TYPES = {
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(bool)": np.bool_,
    **{f"tensor({name})": getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16")},
}
"""NumPy types of the tensors that a policy may take or return."""

_NAMES = ("logits", "probabilities", "action")
"""Names of outputs that have a meaning, in the order of preference."""


def is_session(policy: Any) -> bool:
    """True if the object has the methods of an ``onnxruntime.InferenceSession``."""
    return hasattr(policy, "run") and hasattr(policy, "get_inputs") and hasattr(policy, "get_outputs")


def onnx_session(model: bytes | str, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Any:
    """Return a session for a model, or for the path of its file, that computes on one thread."""
    onnxruntime = optional("onnxruntime", 'ONNX networks need onnxruntime: pip install "jmdp[onnx]"')
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # comparisons use cores by their pool
    options.use_deterministic_compute = True
    options.log_severity_level = 4  # what it logs as an error it also raises
    return onnxruntime.InferenceSession(model, options, providers=list(providers))


def onnx_network(session: Any, reading: Reading, logits: bool | None) -> Actor:
    """Policy by an ONNX network; `logits` is None if the caller did not state what the output is."""
    try:
        inputs = tuple(_Input.of(declared, reading) for declared in session.get_inputs())
        name, dtype = _output(session, reading)
    except UnicodeDecodeError as error:
        raise reading.error(f"has a damaged name of an input or output ({error}). Export it again.") from None
    discrete, numbered = reading.actions is not None, dtype.kind in "iu"
    said = logits is not None or name == "probabilities"
    reading = replace(reading, logits=name != "probabilities" if logits is None else logits)
    sizes = {part.shape[0] for part in inputs} - {None}
    if len(sizes) > 1:
        raise reading.error(f"has inputs for different numbers of observations: {', '.join(map(str, inputs))}.")
    network = _Network(session, reading, inputs, name, numbered, said)
    return Batched(network, reading, discrete and not numbered, next(iter(sizes), None))


@dataclass(frozen=True)
class _Input:
    """Declared input of a network."""

    name: str
    shape: tuple[int | None, ...]  # the first entry is the number of observations; None stands for any number
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, declared: Any, reading: Reading) -> _Input:
        shape = tuple(size if isinstance(size, int) and size > 0 else None for size in declared.shape)
        if declared.type not in _TYPES or not shape:
            what = f"{declared.type} of shape {list(declared.shape)}"
            raise reading.error(
                f"has the input {declared.name!r}, a {what}. Export it with tensors [batch, …] as inputs."
            )
        return cls(declared.name, shape, np.dtype(_TYPES[declared.type]))

    def __str__(self) -> str:
        sizes = ", ".join(["batch" if self.shape[0] is None else str(self.shape[0]), *map(str, self.shape[1:])])
        return f"{self.name} [{sizes.replace('None', '…')}] ({self.dtype})"

    def fit(self, batch: Any, reading: Reading) -> np.ndarray[Any, Any]:
        """Observations in the shape and the type of this input."""
        if not isinstance(batch, np.ndarray):
            raise reading.error(f"takes the input {self}, but the observation has a {type(batch).__name__} there.")
        wanted, given = self.shape[1:], batch.shape[1:]
        fits = len(wanted) == len(given) and all(a in (None, b) for a, b in zip(wanted, given, strict=True))
        if not fits and (len(wanted) != 1 or wanted[0] not in (None, int(np.prod(given)))):
            raise reading.error(f"takes the input {self}, but an observation has the shape {list(given)}.")
        cast = np.ascontiguousarray(batch if fits else batch.reshape(len(batch), -1), dtype=self.dtype)
        if self.dtype.kind in "iub" and not np.array_equal(cast.ravel(), batch.ravel()):
            raise reading.error(f"takes the input {self}, but received {batch.dtype} values that {self.dtype} lacks.")
        return cast


def _output(session: Any, reading: Reading) -> tuple[str, np.dtype[Any]]:
    """Name and type of the output to read: the only one, or the one whose name has a meaning."""
    outputs = {output.name: output for output in session.get_outputs()}
    meant = [name for name in (_NAMES if reading.actions is not None else _NAMES[2:]) if name in outputs]
    if len(outputs) > 1 and not meant:
        fix = "'logits', 'probabilities' or 'action'" if reading.actions is not None else "'action'"
        raise reading.error(f"has the outputs {', '.join(outputs)}. Name the one to use {fix}.")
    found = next(iter(outputs.values())) if len(outputs) == 1 else outputs[meant[0]]
    if found.type not in _TYPES:
        raise reading.error(f"has the output {found.name!r} of type {found.type}. Export it with a tensor of numbers.")
    return found.name, np.dtype(_TYPES[found.type])


@dataclass
class _Network:
    """Function from a batch of observations to one row of the output for each."""

    session: Any
    reading: Reading
    inputs: tuple[_Input, ...]
    output: str
    numbered: bool
    said: bool
    """Whether the meaning of numbers for each action is stated, by the caller or by the output's name."""
    repeatable: bool = False

    def __call__(self, batch: Any) -> Any:
        given = self._inputs(batch)
        rows, n = self._run(given), len(next(iter(given.values())))
        if not self.repeatable:
            if any(self._run(given).tobytes() != rows.tobytes() for _ in range(3)):
                raise self.reading.error(
                    "draws random numbers: it returned different values for the same observations. Export the logits."
                )
            self.repeatable = True
        if self.reading.actions is None:
            return rows
        A = self.reading.actions.size
        if rows.shape not in ([(n,), (n, 1)] if self.numbered else [(n, A)]):
            raise self.reading.error(
                f"returned {rows.dtype} numbers of shape {rows.shape} as {self.output!r} for {n} observations. Return "
                f"[batch, {A}] logits or probabilities, or [batch] integers, the actions."
            )
        if self.numbered:
            return rows.reshape(n)
        if not self.said:
            refuse_probabilities(rows, self.reading, "name the output 'probabilities' or use logits=False")
        return rows.astype(np.promote_types(rows.dtype, np.float32))

    def _inputs(self, batch: Any) -> dict[str, np.ndarray[Any, Any]]:
        if not isinstance(batch, dict):
            if len(self.inputs) != 1:
                names = ", ".join(map(str, self.inputs))
                raise self.reading.error(f"takes the inputs {names}, but the observation is one array, not a dict.")
            return {self.inputs[0].name: self.inputs[0].fit(batch, self.reading)}
        missing = [part.name for part in self.inputs if part.name not in batch]
        if missing:
            known = ", ".join(map(str, batch))
            raise self.reading.error(
                f"takes the input {missing[0]!r}, but the observation has {known}. Name the inputs as its entries."
            )
        return {part.name: part.fit(batch[part.name], self.reading) for part in self.inputs}

    def _run(self, given: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        try:
            return np.asarray(self.session.run([self.output], given)[0])
        except Exception as error:  # the exceptions of onnxruntime have no common base class
            raise self.reading.error(f"failed in onnxruntime: {error}") from error

    def __getstate__(self) -> dict[str, Any]:
        model = getattr(self.session, "_model_bytes", None)
        path = getattr(self.session, "_model_path", None)
        if model is None and not path:
            raise PolicyError("The session does not know its model. Make it from a file, or use pool=None.")
        source = str(Path(path).resolve()) if path else model
        return vars(self) | {"session": (source, tuple(self.session.get_providers()))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"session": onnx_session(*state["session"])})
