"""ONNX networks as policies: inputs are matched by name and shape, outputs are read by name and type.

A session is recognised by its methods. onnxruntime is imported only to make a session, by `onnx_session`: for files
given on the command line, and in worker processes, because sessions cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from jmdp.errors import MissingExtraError, PolicyError
from jmdp.models.actors.actor import Actor, Reading
from jmdp.models.actors.trained_policies import Batched, refuse_probabilities

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
    return all(hasattr(policy, name) for name in ("run", "get_inputs", "get_outputs"))


def onnx_session(model: bytes | str, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Any:
    """Return a session for a model, or for the path of its file, that computes on one thread."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError('ONNX networks need onnxruntime: pip install "jmdp[onnx]"') from None
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
