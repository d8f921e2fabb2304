"""Encoders: from an observation to a row of features, whatever it is made with; and what they refuse."""

from __future__ import annotations

import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jmdp.errors import SettingsError
from jmdp.methods.neural_gram import encoders
from jmdp.methods.neural_gram.encoders import MLP, Convolution, Flax, OneHot, built, default_encoder

KEY = jax.random.key(0)
SCREENS = np.random.default_rng(0).integers(0, 256, (2, 210, 160, 3), np.uint8)


@pytest.mark.parametrize(("style", "screens"), [("nature", SCREENS[..., 0]), ("impala", SCREENS)])
def test_convolutions_of_a_screen(style, screens):
    module = built(Convolution(style, width=32), screens, KEY)
    features = eqx.filter_jit(module)(screens[0])
    assert features.shape == (32,)
    assert np.isfinite(features).all()
    assert not np.allclose(features, eqx.filter_jit(module)(screens[1]))


def test_screens_are_averaged_over_squares():
    found = np.asarray(encoders._shrunk(jnp.asarray(SCREENS[0]), 2))
    assert found.shape == (3, 105, 80)
    assert found[1, 4, 7] == pytest.approx(SCREENS[0, 8:10, 14:16, 1].mean() / 255, rel=1e-5)
    assert encoders._shrunk(jnp.asarray(SCREENS[0, :, :, 0]), 3).shape == (1, 70, 53)


def test_vectors_are_standardised_and_cut_off():
    rng = np.random.default_rng(1)
    seen = rng.normal(size=(500, 4)) * [1, 100, 0, 1e-9] + [5, 0, 3, 0]
    module = built(MLP(8, 2), seen, KEY)
    assert module(seen[0]).shape == (8,)
    far, farther = (seen.mean(axis=0) + np.array([x, 0, 0, 0]) for x in (1e3, 1e6))
    assert np.array_equal(module(far), module(farther))
    assert np.array_equal(module(far), module(far + np.array([0, 0, 7, 0])))  # what never varied says nothing
    assert not np.allclose(module(seen[0]), module(seen[1]))
    assert [layer.weight.shape for layer in module.layers] == [(8, 4), (8, 8)]


def test_the_mean_of_inputs_is_not_trained():
    module = built(MLP(8, 1), np.ones((3, 4)), KEY)
    assert len(jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))) == 2


@pytest.mark.parametrize("states", [np.arange(5), np.arange(5, dtype=np.uint8)[:, None]], ids=["numbers", "rows"])
def test_one_feature_for_each_state(states):
    module = built(OneHot(5), states, KEY)
    assert np.array_equal(np.stack([module(s) for s in states]), np.eye(5))
    assert jax.tree.leaves(eqx.filter(module, eqx.is_array)) == []


def test_screens_have_convolutions_and_all_else_layers():
    assert default_encoder(SCREENS) == Convolution()
    assert default_encoder(SCREENS[..., 0]) == Convolution()
    assert default_encoder(np.zeros((5, 128), np.uint8)) == MLP()
    assert default_encoder(np.zeros((5, 3, 4))) == MLP()
    assert built(None, np.zeros((5, 3, 4)), KEY)(np.ones((3, 4))).shape == (128,)


def test_a_module_of_ones_own():
    module = eqx.nn.Linear(4, 6, key=KEY)
    assert built(module, np.zeros((2, 4), np.float32), KEY) is module
    assert built(lambda o: jnp.ones(3) * o.sum(), np.zeros((2, 4)), KEY)(np.ones(4)).shape == (3,)


def test_a_flax_module():
    linen = pytest.importorskip("flax.linen")
    module = built(Flax(linen.Dense(6)), np.zeros((2, 4), np.float32), KEY)
    assert eqx.filter_jit(module)(np.ones(4, np.float32)).shape == (6,)
    assert len(jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))) == 2  # they are trained


@pytest.mark.parametrize(
    ("encoder", "seen", "message"),
    [
        (OneHot(3), np.arange(4), "below 3. Give a larger size"),
        (OneHot(3), np.array([0, -1]), "at least 0"),
        (OneHot(3), np.array([0.0, 1.0]), "integer observations"),
        (OneHot(3), np.zeros((2, 2), int), "integer observations"),
        (Convolution(), np.zeros((2, 128), np.uint8), r"shape \(128,\)"),
        (Convolution(), np.zeros((2, 8, 8), np.uint8), "too small for Convolution.*smaller shrink"),
        (None, np.zeros((2, 4, 128), np.uint8), "too small"),
        (MLP, np.zeros((2, 4)), "Give an Encoder"),
        ("mlp", np.zeros((2, 4)), "encoder is 'mlp'"),
        (lambda o: o.sum(), np.zeros((2, 4)), "one vector of features"),
        (lambda o: (o, o), np.zeros((2, 4)), "one vector of features"),
    ],
)
def test_what_does_not_fit_is_refused(encoder, seen, message):
    with pytest.raises(SettingsError, match=message):
        built(encoder, seen, KEY)


@pytest.mark.parametrize(
    "make", [lambda: MLP(0), lambda: MLP(8, 0), lambda: OneHot(0), lambda: Convolution("resnet"),
             lambda: Convolution(width=0), lambda: Convolution(shrink=0)],
)  # fmt: skip
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(SettingsError, match=r"Give a whole number|Give 'nature'"):
        make()


def test_the_door_says_what_to_install():
    code = "import sys; sys.modules['equinox'] = None\nimport jmdp\ntry:\n"
    code += "    from jmdp.methods.neural_gram import encoders\n"
    code += "except jmdp.errors.MissingExtraError as error:\n    print(error)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "jmdp[nn]"' in told
    assert "equinox" in told
