"""Learned evaluations as saved objects: the parameters of the network or of the regressions, and how they were judged.

A file contains no simulator and no policy. A loaded evaluation answers for observations; `LearnedResult.connected`
gives it its simulator again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from jmdp.base.arrays import refuse_large
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import JMDPError, MissingExtraError, SettingsError, UnavailableError
from jmdp.files.methods import Methods
from jmdp.files.types import KINDS, Kind, Place, Sink, Type, WrongFieldError, listed
from jmdp.methods.learned import candidates
from jmdp.methods.learned.inputs import Inputs
from jmdp.methods.learned.learned_result import RegressedEvaluation
from jmdp.methods.learned.stack import CovarianceStack, MeanStack
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.results.calibration import Calibration
from jmdp.results.certificate import Outcome
from jmdp.results.result import LearningCurve
from jmdp.simulators.simulator import Simulator, Step

_SIMULATOR = (
    "A file contains no simulator and no policy. Give them: learned.connected(simulator, policy). Without them, "
    "learned.at(observation) takes an observation instead of a state."
)


class SavedSimulator(Simulator):
    """Stands for the simulator of a loaded evaluation: states are observations, and it has no steps."""

    def __init__(self, text: str, actions: Labels) -> None:
        self._text, self.actions = text, actions

    def start(self, shock: Shock) -> Any:
        """Raise: there is no start."""
        raise UnavailableError(_SIMULATOR)

    def step(self, state: Any, action: Any, shock: Shock) -> Step:
        """Raise: there are no steps."""
        raise UnavailableError(_SIMULATOR)

    def __repr__(self) -> str:
        return self._text


class SavedActor(Actor):
    """Stands for the policy of a loaded evaluation."""

    def __init__(self, text: str) -> None:
        self._text = text

    def act(self, observations: Any, shocks: Any) -> Any:
        """Raise: there is no policy."""
        raise UnavailableError(_SIMULATOR)

    def __repr__(self) -> str:
        return self._text


class _Sizes(Type):
    """Settings of an encoder: whole numbers and texts by name."""

    def encode(self, value: Mapping[str, Any], sink: Sink, place: str) -> Any:
        """The settings."""
        return dict(value)

    def decode(self, node: Any, at: Place) -> dict[str, Any]:
        """The settings."""
        if type(node) is not dict or not all(type(value) in (int, str) for value in node.values()):
            raise at.wrong(f"{short(node)} instead of the settings of an encoder")
        return dict(node)


class _Parameters(Type):
    """Arrays of single or double precision, of any shape."""

    def encode(self, value: Any, sink: Sink, place: str) -> Any:
        """Names of the arrays; those without entries by their shape."""
        return [
            sink.add(f"{place}.{i}", [f"{place}.{i}.{j}" for j in range(array.ndim)], array)
            if array.size
            else [array.dtype.str, list(array.shape)]
            for i, array in enumerate(value)
        ]

    def decode(self, node: Any, at: Place) -> tuple[npt.NDArray[Any], ...]:
        """The arrays."""
        return tuple(self._one(one, at.inside(i)) for i, one in enumerate(listed(node, at)))

    @staticmethod
    def _one(node: Any, at: Place) -> npt.NDArray[Any]:
        if type(node) is str:
            array = at.source.array(node, at.name)
            if array.dtype.str not in ("<f4", "<f8") or not np.isfinite(array).all():
                raise at.wrong("an array of another type than floats, or with infinite numbers")
            return array
        dtype, shape = node if type(node) is list and len(node) == 2 else (None, [])
        empty = type(shape) is list and 0 in shape and all(type(n) is int and 0 <= n < 1 << 32 for n in shape)
        if dtype in ("<f4", "<f8") and empty and len(shape) <= 8:
            return np.zeros(shape, dtype)
        raise at.wrong(f"{short(node)} instead of an array")


@dataclass(frozen=True)
class Network:
    """A network as its settings and parameters."""

    encoder: str  # "MLP", "OneHot" or "Convolution"
    settings: Annotated[dict[str, Any], _Sizes()]  # of the encoder
    shape: tuple[int, ...]  # of an observation
    dtype: str
    rank: int
    kernel: str
    actions: int
    numbers: tuple[float, ...]  # mean, std, gap_std, gap_scale
    parameters: Annotated[tuple[npt.NDArray[Any], ...], _Parameters()]
    inputs: tuple[tuple[float, ...], ...]  # standardisation of the inputs of both encoders, if any

    @classmethod
    def of(cls, learned: Any) -> Network:
        """The network of a learned evaluation."""
        import jax

        from jmdp.methods.neural_gram.encoders import Convolution, Encoder, OneHot, default_encoder

        network, encoder = learned.network, learned.encoder
        shape, dtype = learned.observation
        if encoder is None:
            encoder = default_encoder(np.zeros((1, *shape), dtype))
        if type(encoder).__name__ not in _ENCODERS or not isinstance(encoder, Encoder):
            raise SettingsError(
                f"The encoder is {short(encoder)}, whose code a file cannot contain. To save the result, use MLP(), "
                "OneHot(size) or Convolution(); or keep the folder of the training, NeuralGram(path=…)."
            )
        inputs: list[tuple[float, ...]] = []
        if not isinstance(encoder, (OneHot, Convolution)):
            for part in (network.mean_encoder, network.encoder):
                inputs += [part.mean, part.scale]
        rank = network.common.out_features
        assert isinstance(rank, int)
        leaves = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(network)]
        numbers = network.mean, network.std, network.gap_std, network.gap_scale
        settings = {name: getattr(encoder, name) for name in _ENCODERS[type(encoder).__name__]}
        return cls(
            type(encoder).__name__, settings, shape, dtype, rank, network.kernel, network.actions, numbers,
            tuple(leaves), tuple(inputs),
        )  # fmt: skip

    def built(self) -> Any:
        """The network. Its structure is computed without memory for parameters, which must then fit."""
        import equinox as eqx
        import jax

        from jmdp.methods.neural_gram.network import GramNetwork

        self._check()
        mean, std, gap_std, gap_scale = self.numbers
        encoder = self.encoder_settings()
        example = np.zeros((2, *self.shape), self.dtype)

        def make(key: Any) -> Any:
            return GramNetwork(
                encoder, example, self.actions, self.kernel, self.rank, (mean, std, gap_std), key  # type: ignore[arg-type]
            )  # fmt: skip

        try:
            network = eqx.filter_eval_shape(make, jax.random.PRNGKey(0))
        except JMDPError:
            raise
        except Exception as error:  # of any kind: JAX and Equinox raise many
            raise WrongFieldError("network", f"settings that give no network ({short(str(error))})") from error
        leaves, structure = jax.tree_util.tree_flatten(network)
        found = [(leaf.shape, leaf.dtype) for leaf in leaves]
        if found != [(array.shape, array.dtype) for array in self.parameters]:
            raise WrongFieldError("network.parameters", "parameters of other shapes than those of the network")
        network = jax.tree_util.tree_unflatten(structure, list(map(jax.numpy.asarray, self.parameters)))
        object.__setattr__(network, "gap_scale", gap_scale)
        if self.inputs:
            parts = network.mean_encoder, network.encoder
            for part, *standard in zip(parts, self.inputs[::2], self.inputs[1::2], strict=True):
                for name, values in zip(("mean", "scale"), standard, strict=True):
                    if len(values) != len(part.mean):
                        raise WrongFieldError("network.inputs", f"{len(values)} numbers for {len(part.mean)} inputs")
                    object.__setattr__(part, name, values)
        return network

    def encoder_settings(self) -> Any:
        """The encoder, one of `encoders`."""
        from jmdp.methods.neural_gram import encoders

        return getattr(encoders, self.encoder)(**self.settings)

    def _check(self) -> None:
        """Raise if the network cannot be built."""
        if self.encoder not in _ENCODERS or set(self.settings) != set(_ENCODERS[self.encoder]):
            raise WrongFieldError("network.encoder", f"{short(self.encoder)} with settings {short(self.settings)}")
        if self.dtype not in _DTYPES or len(self.shape) > 8 or not all(0 < n <= 1 << 32 for n in self.shape):
            raise WrongFieldError(
                "network.shape", f"observations of shape {short(self.shape)} and type {short(self.dtype)}"
            )
        if self.kernel not in ("sum", "gram") or not 0 < self.rank <= 1 << 20 or not 0 < self.actions <= 1 << 20:
            raise WrongFieldError("network.kernel", "a kernel, rank or number of actions that is impossible")
        if len(self.numbers) != 4 or len(self.inputs) != (4 if self.encoder == "MLP" else 0):
            raise WrongFieldError("network.numbers", "another number of scales than a network has")
        sizes = [value for value in self.settings.values() if isinstance(value, int)]
        if max(sizes, default=0) > 1 << 20 or self.settings.get("depth", 1) > 1000:
            raise WrongFieldError("network.settings", f"sizes that are too large: {short(self.settings)}")
        size = 16.0
        for length in self.shape:
            size *= length
        refuse_large("An observation of the network", size)


_ENCODERS = {"MLP": ("width", "depth"), "OneHot": ("size",), "Convolution": ("style", "width", "shrink")}
_DTYPES = ("|u1", "|i1", "|b1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")


_COMMON: dict[str, Any] = {
    "coupling": Coupling,
    "method": Annotated[Any, Methods()],
    "discount": float,
    "horizon": int,
    "actions": Labels,
    "outcome": Outcome,
    "calibration": Calibration | None,
}
_TEXTS: dict[str, Any] = {"simulator": str, "policy": str}
_TYPES: dict[str, Any] = {"network": Network, **_TEXTS, **_COMMON, "learning": LearningCurve}
_MADE = {
    "simulator": lambda learned: repr(learned.simulator)[:10_000],
    "policy": lambda learned: repr(learned.actor)[:10_000],
}


def kind_of(cls: type) -> Kind:
    """How learned evaluations are saved; their class can be imported only where there is a library of networks."""
    return Kind(
        cls,
        {"actions": "A"},
        names=tuple(_TYPES),
        types=_TYPES,
        made={"network": Network.of, **_MADE},
        build=_built,
    )


def _built(found: dict[str, Any]) -> Any:
    """The learned evaluation of these fields."""
    try:
        from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation
    except ImportError as error:
        raise MissingExtraError(f'A learned result needs networks ({error.name}): pip install "jmdp[nn]"') from None
    network, actions = found["network"], found["actions"]
    if actions.size != network.actions or not 0 <= found["discount"] < 1 or found["horizon"] < 1:
        raise WrongFieldError("actions", f"{actions.size} labels of {network.actions} actions")
    return LearnedEvaluation(
        network=network.built(),
        encoder=network.encoder_settings(),
        simulator=SavedSimulator(found["simulator"], actions),
        actor=SavedActor(found["policy"]),
        observation=(network.shape, network.dtype),
        learning=found["learning"],
        **{name: found[name] for name in _COMMON},
    )


def _regressed(found: dict[str, Any]) -> RegressedEvaluation:
    """The regressions of these fields, once they have answered for one observation."""
    actions, inputs = found["actions"], found["inputs"]
    if not 0 <= found["discount"] < 1 or found["horizon"] < 1 or found["constant"].shape != (actions.size,) * 2:
        raise WrongFieldError("actions", f"{actions.size} labels of actions with other moments")
    if inputs.dtype not in _DTYPES or len(inputs.shape) > 8 or not all(0 < n <= 1 << 32 for n in inputs.shape):
        raise WrongFieldError("inputs.shape", f"observations of shape {short(inputs.shape)} and type {inputs.dtype!r}")
    refuse_large("An observation", 16 * math.prod(map(float, inputs.shape)))
    simulator, policy = found.pop("simulator"), found.pop("policy")
    result = RegressedEvaluation(
        simulator=SavedSimulator(simulator, actions),
        actor=SavedActor(policy),
        observation=(inputs.shape, inputs.dtype),
        **found,
    )
    try:
        mean, covariance = result.moments(np.zeros((1, *inputs.shape), inputs.dtype))
    except (JMDPError, ValueError, IndexError) as error:  # arrays that do not fit each other
        raise WrongFieldError("mean_stack", f"regressions that give no answer ({short(str(error))})") from error
    if (mean.shape, covariance.shape) != ((1, actions.size), (1, actions.size, actions.size)):
        raise WrongFieldError("mean_stack", "regressions with another number of actions")
    return result


_OWN = ("inputs", "mean_stack", "covariance_stack", "constant", "states", "rollouts", "variation")
REGRESSED = Kind(
    RegressedEvaluation,
    {"actions": "A", "constant": "A A"},
    names=(*_TEXTS, *_COMMON, *_OWN),
    types=_TEXTS | _COMMON,
    made=_MADE,
    build=_regressed,
)
KINDS += [
    Kind(Network),
    Kind(Inputs, {"values": "V", "kept": "D"}),
    Kind(MeanStack, {"levels": "J", "weights": "J"}),
    Kind(CovarianceStack, {"weights": "J"}),
    Kind(candidates.Constant, {"average": "M"}),
    Kind(candidates.Table, {"keys": "K D", "averages": "K M", "average": "M"}),
    Kind(candidates.Standard, {"centre": "D", "scale": "D", "components": "D C"}),
    Kind(candidates.Features, {"frequencies": "C W", "phases": "W"}),
    Kind(candidates.Neighbours, {"points": "N D", "values": "N M"}),
    Kind(candidates.Trees, {"roots": "T", "feature": "N", "threshold": "N", "child": "N", "values": "L M"}),
    Kind(candidates.Forest),
    Kind(candidates.Linear, {"coefficients": "F M", "intercept": "M"}),
    Kind(candidates.LinearLogs, {"coefficients": "F K"} | dict.fromkeys(("intercept", "lowest", "highest"), "K")),
    Kind(candidates.BoostedLogs),
    Kind(candidates.Scaled, {"matrix": "B B"}),
]
