"""Encoders: networks that turn an observation into features.

Each class is a setting; `build` makes the Equinox module. An Equinox module, or any function of one observation that
JAX can differentiate, can be used directly, and a Flax module through `Flax`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jmdp.base.settings import whole
from jmdp.errors import MissingExtraError, SettingsError

try:
    import equinox as eqx
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtraError(f'Encoders need networks ({error.name}): pip install "jmdp[nn]"') from None


class Encoder(ABC):
    """Settings of an encoder network."""

    @abstractmethod
    def build(self, observations: npt.NDArray[Any], key: jax.Array) -> Any:
        """Return a module that maps one observation to features ``[F]``; `observations` ``[n, ...]`` are examples."""


@dataclass(frozen=True)
class MLP(Encoder):
    """Multilayer perceptron, for vectors such as the RAM of an Atari game.

    Inputs are standardised and clipped at ±2, so that a score or a clock that keeps growing does not take the network
    outside the range of its training data.

    Parameters
    ----------
    width, depth
        Units per layer, and number of layers.
    """

    width: int = 128
    depth: int = 2

    def __post_init__(self) -> None:
        whole(self, "width", 1)
        whole(self, "depth", 1)

    def build(self, observations: npt.NDArray[Any], key: jax.Array) -> Any:
        """Return the network, with inputs standardised by these observations."""
        flat = observations.reshape(len(observations), -1).astype(np.float64)
        spread = flat.std(axis=0)
        least = np.maximum(spread, 1e-3 * spread.max(initial=0.0))
        scale = np.divide(1.0, least, out=np.zeros_like(spread), where=spread > 0)
        return _Layers(flat.mean(axis=0), scale, [self.width] * self.depth, key)


@dataclass(frozen=True)
class OneHot(Encoder):
    """One feature per state, for simulators with `size` numbered states: the network is then a table."""

    size: int

    def __post_init__(self) -> None:
        whole(self, "size", 1)

    def build(self, observations: npt.NDArray[Any], key: jax.Array) -> Any:
        """Return a module without parameters."""
        numbers = observations.dtype.kind in "iu" and observations[0].size == 1
        if not numbers or observations.min() < 0 or observations.max() >= self.size:
            raise SettingsError(
                f"OneHot({self.size}) needs integer observations, at least 0 and below {self.size}. Give "
                "a larger size, or another encoder."
            )
        return _OneHot(self.size)


@dataclass(frozen=True)
class Convolution(Encoder):
    """Convolutional network for images, uint8 ``[H, W]`` or ``[H, W, C]``.

    Parameters
    ----------
    style
        "nature": three layers with strides 4, 2, 1 (Mnih et al., 2015). "impala": residual blocks (Espeholt et al.,
        2018).
    width
        Number of output features.
    shrink
        Images are first averaged over squares with this side length: 2 reduces 210 × 160 pixels to 105 × 80.
    """

    style: str = "nature"
    width: int = 256
    shrink: int = 2

    def __post_init__(self) -> None:
        if self.style not in ("nature", "impala"):
            raise SettingsError(f"style is {self.style!r}. Give 'nature' or 'impala'.")
        whole(self, "width", 1)
        whole(self, "shrink", 1)

    def build(self, observations: npt.NDArray[Any], key: jax.Array) -> Any:
        """Return the convolutional layers, followed by one linear layer."""
        if observations.ndim not in (3, 4):
            shape = observations.shape[1:]
            raise SettingsError(f"Convolution needs images [H, W] or [H, W, C], but observations have shape {shape}.")
        keys = iter(jax.random.split(key, 32))
        channels = 1 if observations.ndim == 3 else observations.shape[3]
        layers: list[Any]
        if self.style == "nature":
            layers = [
                eqx.nn.Conv2d(a, b, size, stride, key=next(keys))
                for a, b, size, stride in ((channels, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1))
            ]
        else:
            layers = [_ImpalaStack(a, b, keys) for a, b in ((channels, 16), (16, 32), (32, 32))]
        example = _shrunk(jnp.asarray(observations[0]), self.shrink)
        try:
            size = jax.eval_shape(lambda x: _convolved(layers, x), example).size
        except (TypeError, ValueError):
            size = 0
        if size == 0:
            raise SettingsError(
                f"Images of shape {observations.shape[1:]} are too small for {self}. Give a smaller shrink, or MLP()."
            )
        return _Screen(layers, eqx.nn.Linear(size, self.width, key=next(keys)), self.shrink)


@dataclass(frozen=True)
class Flax(Encoder):
    """A Flax (linen) module, called as ``module.apply(variables, observation)``."""

    module: Any

    def build(self, observations: npt.NDArray[Any], key: jax.Array) -> Any:
        """Return the module with its initial variables."""
        return _FlaxModule(self.module.init(key, jnp.asarray(observations[0])), self.module)


def default_encoder(observations: npt.NDArray[Any]) -> Encoder:
    """Return `Convolution` for images and `MLP` for all other observations."""
    return Convolution() if observations.ndim > 2 and observations.dtype == np.uint8 else MLP()


def built(encoder: Any, observations: npt.NDArray[Any], key: jax.Array) -> Any:
    """Return the module of an `Encoder`, or the given module, after checking its output."""
    if encoder is None:
        encoder = default_encoder(observations)
    module = encoder.build(observations, key) if isinstance(encoder, Encoder) else encoder
    if isinstance(module, type) or not callable(module):
        raise SettingsError(f"encoder is {encoder!r}. Give an Encoder or a callable module.")
    found = jax.eval_shape(module, jnp.asarray(observations[0]))
    if getattr(found, "ndim", None) != 1:
        raise SettingsError(f"The encoder returns {found} for one observation. Return one vector of features, [F].")
    return module


class _Layers(eqx.Module):
    layers: list[eqx.nn.Linear]
    mean: tuple[float, ...] = eqx.field(static=True)  # not trained
    scale: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, mean: Any, scale: Any, widths: list[int], key: jax.Array) -> None:
        self.mean, self.scale = tuple(mean.tolist()), tuple(scale.tolist())
        sizes = [len(mean), *widths]
        keys = jax.random.split(key, len(widths))
        self.layers = [eqx.nn.Linear(a, b, key=k) for a, b, k in zip(sizes[:-1], sizes[1:], keys, strict=True)]

    def __call__(self, observation: jax.Array) -> jax.Array:
        x = jnp.clip((jnp.ravel(observation).astype(jnp.float32) - jnp.array(self.mean)) * jnp.array(self.scale), -2, 2)
        for layer in self.layers:
            x = jax.nn.silu(layer(x))
        return x


class _OneHot(eqx.Module):
    size: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        return jax.nn.one_hot(jnp.ravel(observation)[0], self.size)


class _Screen(eqx.Module):
    layers: list[Any]
    last: eqx.nn.Linear
    shrink: int = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        return jax.nn.silu(self.last(jnp.ravel(_convolved(self.layers, _shrunk(observation, self.shrink)))))


class _ImpalaStack(eqx.Module):
    first: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    residual: list[eqx.nn.Conv2d]

    def __init__(self, a: int, b: int, keys: Iterator[jax.Array]) -> None:
        self.first = eqx.nn.Conv2d(a, b, 3, padding=1, key=next(keys))
        self.pool = eqx.nn.MaxPool2d(3, 2, padding=1)
        self.residual = [eqx.nn.Conv2d(b, b, 3, padding=1, key=next(keys)) for _ in range(4)]

    def __call__(self, x: jax.Array) -> jax.Array:
        x = self.pool(self.first(x))
        for one, other in zip(self.residual[::2], self.residual[1::2], strict=True):
            x = x + other(jax.nn.silu(one(jax.nn.silu(x))))
        return x


class _FlaxModule(eqx.Module):
    variables: Any
    module: Any = eqx.field(static=True)

    def __call__(self, observation: jax.Array) -> jax.Array:
        found: jax.Array = self.module.apply(self.variables, observation)
        return found


def _shrunk(screen: jax.Array, by: int) -> jax.Array:
    """Image ``[C, H/by, W/by]`` in [0, 1], averaged over squares."""
    x = screen.astype(jnp.float32) / 255
    x = x[..., None] if x.ndim == 2 else x
    H, W, C = (x.shape[0] // by, x.shape[1] // by, x.shape[2])
    return x[: H * by, : W * by].reshape(H, by, W, by, C).mean(axis=(1, 3)).transpose(2, 0, 1)


def _convolved(layers: list[Any], x: jax.Array) -> jax.Array:
    for layer in layers:
        x = jax.nn.silu(layer(x))
    return x
