"""One contract for every method: a new one joins by being listed."""

from __future__ import annotations

import copy as copies
import dataclasses
import importlib
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, ModelError, UnavailableError
from jmdp.methods.linear_projected import features
from jmdp.methods.method import Method
from jmdp.results.quantities import Quantity, gives, who_gives
from jmdp.results.result import Result
from sample_models import COUPLINGS

METHODS = [
    jmdp.ExactPairs(),
    jmdp.ExactDistribution(),
    jmdp.Incremental(seed=5, updates=400_000),
    jmdp.JIPE(),
    jmdp.LinearProjected(features.OneHot()),
    jmdp.MonteCarlo(seed=5, samples=500),
    jmdp.ReachablePairs("2"),
]


@pytest.fixture(params=METHODS, ids=lambda method: type(method).__name__)
def method(request):
    return request.param


@pytest.fixture(params=COUPLINGS, ids=repr)
def coupling(request, method):
    if isinstance(method, jmdp.LinearProjected) and not request.param.shared_in_a_state:
        pytest.skip("nothing to project: its own test asks for the message")
    return request.param


@pytest.fixture(scope="module")
def world():
    return jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)


def test_every_method_is_listed():
    def leaves(kind):
        ours = [child for child in kind.__subclasses__() if child.__module__.startswith("jmdp.methods")]
        return {leaf for child in ours for leaf in (leaves(child) or {child})}

    learned = jmdp.NeuralGram  # of simulators alone, and not in a table of states: tests/methods/neural_gram
    assert leaves(Method) == {type(method) for method in METHODS} | {learned}


def test_settings_are_frozen_and_print_themselves(method):
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.anything = 1
    names = vars(importlib.import_module(f"jmdp.methods.{jmdp.methods.METHODS[type(method).__name__]}"))
    assert eval(repr(method), dict(names)) == method


def test_what_comes_back(method, coupling, world):
    policy = world.policies["uniform"]
    result = jmdp.evaluate(world.model, policy, coupling, method)
    S, _, A = world.model.shape
    if isinstance(method, jmdp.ReachablePairs):
        S = 1
    assert result.outcome.successful
    assert result.coupling == coupling
    assert result.method == method
    assert result.mean.shape == (S, A)
    assert result.covariance.shape == result.correlation.shape == (S, A, A)
    np.testing.assert_array_equal(result.covariance, result.covariance.transpose(0, 2, 1))
    for array in (result.mean, result.covariance, result.correlation, result.residuals):
        assert not array.flags.writeable
    assert np.isfinite(result.mean).all()
    certificate = result.certificate
    assert certificate.kind in ("exact", "certified", "statistical")
    assert (certificate.confidence is None) == (certificate.kind != "statistical")
    assert (certificate.discount, certificate.reward_bound) == (world.model.discount, world.model.reward_bound)
    for error in (certificate.mean_error, certificate.covariance_error):
        assert (np.asarray(error) >= 0).all()
    gap = result.gap("2", "order 0", "order 1")
    assert gap.mean in gap.mean_interval
    assert gap.variance in gap.variance_interval
    assert gap.correlation in gap.correlation_interval
    assert 0 <= gap.inferiority_bound() <= 1
    assert type(method).__name__ in repr(result)
    assert result.mean[result.states.index("2"), 0] in result.mean_interval("2", "order 0")


def test_copies_are_whole_and_frozen(method, world):
    model, policy = world.model, world.policies["uniform"]
    result = jmdp.evaluate(model, policy, jmdp.Local(), method=method)
    for copy in (copies.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        again = copy(result)
        np.testing.assert_array_equal(again.covariance, result.covariance)
        assert again.gap(0, 0, 1) == result.gap(0, 0, 1)
        arrays = [again.mean, again.covariance, copy(model).prob, copy(policy).probs]
        arrays += [x for x in vars(again.certificate).values() if isinstance(x, np.ndarray)]
        assert not any(array.flags.writeable for array in arrays)


def test_the_same_again_bit_for_bit(method, coupling, world):
    policy = world.policies["uniform"]
    one, other = (jmdp.evaluate(world.model, policy, coupling, method) for _ in range(2))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.covariance, other.covariance)


def test_between_states_or_the_message_that_says_who_can(method, coupling, world):
    result = jmdp.evaluate(world.model, world.policies["uniform"], coupling, method)
    assert result.cross_covariance("2", 0, "2", 2) == result.covariance[result.states.index("2"), 0, 2]
    if isinstance(method, jmdp.ReachablePairs):
        with pytest.raises(LabelError, match=r"There is no state 1: indices run from 0 to 0"):
            result.cross_covariance(0, 0, 1, 1)
        return
    if Quantity.CROSS_COVARIANCES not in gives(type(method).__name__):
        with pytest.raises(UnavailableError, match=r"does not provide covariances between states. ExactPairs\(\), "):
            result.cross_covariance(0, 0, 1, 1)
        return
    there, back = result.cross_covariance(0, 0, 1, 1), result.cross_covariance(1, 1, 0, 0)
    assert there == back
    assert result.second_moment(0, 0, 1, 1) == there + result.mean[0, 0] * result.mean[1, 1]


@pytest.mark.parametrize("quantity", Quantity, ids=lambda quantity: quantity.name)
def test_each_method_gives_what_is_declared_and_nothing_else(method, quantity, world):
    """Messages that name methods follow from these declarations."""
    model, policy = world.model, world.policies["uniform"]
    if quantity is Quantity.HIGHER_MOMENTS and isinstance(method, jmdp.ExactPairs | jmdp.JIPE):
        method = dataclasses.replace(method, order=3)

    def evaluated(source=model, followed=policy):
        return jmdp.evaluate(source, followed, jmdp.Local(), method, discount=model.discount)

    def asked():
        match quantity:
            case Quantity.CROSS_COVARIANCES:
                return evaluated().cross is None
            case Quantity.HIGHER_MOMENTS:
                return evaluated().moment(("2", 0), ("2", 0), ("2", 1)) is None
            case Quantity.DISTRIBUTIONS:
                return evaluated().return_distribution("2", 0) is None
            case Quantity.VARIANCE_INTERVALS:
                return evaluated().gap("2", 0, 1).variance_interval is None
            case Quantity.SWEEPS:
                return jmdp.plots.residual_curve({"this": evaluated()}) is None
            case Quantity.CHECKED_TABLES:
                return jmdp.testing.check_certificate(model, policy, evaluated()) is not None
            case Quantity.FROM_LAZY_MODELS:
                lazy = jmdp.LazyJMDP.of(model)
                method_here = dataclasses.replace(method, state=2) if hasattr(method, "state") else method
                return jmdp.evaluate(lazy, lambda s: policy.probs[s], jmdp.Local(), method_here) is None
            case Quantity.SEVERAL_POLICIES:
                return evaluated(followed={"one": policy, "other": world.policies["never"]}) is None
            case Quantity.FINITE_HORIZONS:
                return jmdp.evaluate(model, policy, jmdp.Local(), method, horizon=2) is None
            case Quantity.FROM_SIMULATORS:
                return evaluated(jmdp.simulators.TabularSimulator(model)) is None

    said = who_gives(quantity)
    try:
        missing = asked()
    except (UnavailableError, ModelError) as error:
        missing, said = True, str(error)
    assert missing == (quantity not in gives(type(method).__name__))
    assert who_gives(quantity).partition("(")[0] in said


def test_one_protocol_of_results(method, world):
    result = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method)
    assert isinstance(result, Result)
    frame = result.to_dataframe()
    assert list(frame.columns) == ["mean return", "mean return low", "mean return high", "std", "std low", "std high"]
    assert frame.loc[("2", "order 1"), "mean return"] == result.mean[result.states.index("2"), 1]
    assert (frame["mean return low"] <= frame["mean return"]).all()
    assert "<td>order 1</td>" in result._repr_html_()
    assert result.plot("2").axes


def test_labelled_results(method, world, tmp_path):
    result = jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=method)
    data = result.to_xarray()
    assert float(data["mean"].sel(state="2", action="order 1")) == result.mean[result.states.index("2"), 1]
    assert data["covariance"].dims == ("state", "action", "action_2")
    assert data.attrs["outcome"] == result.outcome.name
    data.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    import xarray

    with xarray.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        assert read.identical(data)


def test_silent_off_a_terminal(method, world, capsys):
    jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method=method)
    assert capsys.readouterr() == ("", "")
