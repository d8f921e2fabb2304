"""One contract for every method of tables: a new one joins by being registered in `registry.methods`."""

from __future__ import annotations

import copy as copies
import dataclasses
import importlib
import pickle
from functools import cache

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, ModelError, UnavailableError
from jmdp.results.result import Quantity, Result, gives, who_gives
from registry.methods import METHODS

WORLD = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
ON_TABLES = {name: method for name, method in METHODS.items() if method.contract is not None}
COUPLED = [(name, coupling) for name, method in ON_TABLES.items() for coupling in method.couplings]


@cache
def evaluated(name, coupling=jmdp.Local()):  # noqa: B008, couplings are frozen
    return evaluate(name, coupling)


def evaluate(name, coupling):
    return jmdp.evaluate(WORLD.model, WORLD.policies["uniform"], coupling, METHODS[name].contract)


every_method = pytest.mark.parametrize("name", ON_TABLES)
every_coupling = pytest.mark.parametrize(("name", "coupling"), COUPLED, ids=lambda part: str(part))


@every_method
def test_settings_are_frozen_and_print_themselves(name):
    method = METHODS[name].contract
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.anything = 1
    names = vars(importlib.import_module(f"jmdp.methods.{jmdp.methods.METHODS[name]}"))
    assert eval(repr(method), dict(names)) == method


@every_coupling
def test_what_comes_back(name, coupling):
    result = evaluated(name, coupling)
    S, _, A = WORLD.model.shape
    if METHODS[name].one_state:
        S = 1
    assert result.outcome.successful
    assert result.coupling == coupling
    assert result.method == METHODS[name].contract
    assert result.mean.shape == (S, A)
    assert result.covariance.shape == result.correlation.shape == (S, A, A)
    np.testing.assert_array_equal(result.covariance, result.covariance.transpose(0, 2, 1))
    for array in (result.mean, result.covariance, result.correlation, result.residuals):
        assert not array.flags.writeable
    assert np.isfinite(result.mean).all()
    certificate = result.certificate
    assert certificate.kind in ("exact", "certified", "statistical")
    assert (certificate.confidence is None) == (certificate.kind != "statistical")
    assert (certificate.discount, certificate.reward_bound) == (WORLD.model.discount, WORLD.model.reward_bound)
    for error in (certificate.mean_error, certificate.covariance_error):
        assert (np.asarray(error) >= 0).all()
    gap = result.gap("2", "order 0", "order 1")
    assert gap.mean in gap.mean_interval
    assert gap.variance in gap.variance_interval
    assert gap.correlation in gap.correlation_interval
    assert 0 <= gap.inferiority_bound() <= 1
    assert name in repr(result)
    assert result.mean[result.states.index("2"), 0] in result.mean_interval("2", "order 0")


@every_method
def test_copies_are_whole_and_frozen(name):
    model, policy, result = WORLD.model, WORLD.policies["uniform"], evaluated(name)
    for copy in (copies.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        again = copy(result)
        np.testing.assert_array_equal(again.covariance, result.covariance)
        assert again.gap("2", 0, 1) == result.gap("2", 0, 1)
        arrays = [again.mean, again.covariance, copy(model).prob, copy(policy).probs]
        arrays += [x for x in vars(again.certificate).values() if isinstance(x, np.ndarray)]
        assert not any(array.flags.writeable for array in arrays)


@every_coupling
def test_the_same_again_bit_for_bit(name, coupling, capsys):
    """And silent, without a terminal."""
    one, other = evaluated(name, coupling), evaluate(name, coupling)
    assert capsys.readouterr() == ("", "")
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.covariance, other.covariance)


@every_coupling
def test_between_states_or_the_message_that_says_who_can(name, coupling):
    result = evaluated(name, coupling)
    assert result.cross_covariance("2", 0, "2", 2) == result.covariance[result.states.index("2"), 0, 2]
    if METHODS[name].one_state:
        with pytest.raises(LabelError, match=r"There is no state 1: states are 2\."):
            result.cross_covariance(2, 0, 1, 1)
        return
    if Quantity.CROSS_COVARIANCES not in gives(name):
        with pytest.raises(UnavailableError, match=r"does not provide covariances between states. ExactPairs\(\), "):
            result.cross_covariance(0, 0, 1, 1)
        return
    there, back = result.cross_covariance(0, 0, 1, 1), result.cross_covariance(1, 1, 0, 0)
    assert there == back
    assert result.second_moment(0, 0, 1, 1) == there + result.mean[0, 0] * result.mean[1, 1]


@pytest.mark.parametrize("quantity", Quantity, ids=lambda quantity: quantity.name)
@every_method
def test_each_method_gives_what_is_declared_and_nothing_else(name, quantity):
    """Messages that name methods follow from these declarations."""
    model, policy, method, result = WORLD.model, WORLD.policies["uniform"], METHODS[name].contract, evaluated(name)

    def on(**settings):
        changed = dataclasses.replace(method, **settings)
        return jmdp.evaluate(model, policy, jmdp.Local(), changed, discount=model.discount)

    def asked():
        match quantity:
            case Quantity.CROSS_COVARIANCES:
                return result.cross is None
            case Quantity.HIGHER_MOMENTS:
                with_order = on(order=3) if hasattr(method, "order") else result
                return with_order.moment(("2", 0), ("2", 0), ("2", 1)) is None
            case Quantity.DISTRIBUTIONS:
                return result.return_distribution("2", 0) is None
            case Quantity.VARIANCE_INTERVALS:
                return result.gap("2", 0, 1).variance_interval is None
            case Quantity.SWEEPS:
                return jmdp.plots.residual_curve({"this": result}) is None
            case Quantity.CHECKED_TABLES:
                return jmdp.testing.check_certificate(model, policy, result) is not None

    said = who_gives(quantity)
    try:
        missing = asked()
    except (UnavailableError, ModelError) as error:
        missing, said = True, str(error)
    assert missing == (quantity not in gives(name))
    assert who_gives(quantity).partition("(")[0] in said


@every_method
def test_one_protocol_of_results(name):
    result = evaluated(name)
    assert isinstance(result, Result)
    frame = result.to_dataframe()
    assert list(frame.columns) == ["mean return", "mean return low", "mean return high", "std", "std low", "std high"]
    assert frame.loc[("2", "order 1"), "mean return"] == result.mean[result.states.index("2"), 1]
    assert (frame["mean return low"] <= frame["mean return"]).all()
    assert "<td>order 1</td>" in result._repr_html_()
    assert result.plot("2").axes


@every_method
def test_labelled_results(name, tmp_path):
    result = evaluated(name)
    data = result.to_xarray()
    assert float(data["mean"].sel(state="2", action="order 1")) == result.mean[result.states.index("2"), 1]
    assert data["covariance"].dims == ("state", "action", "action_2")
    assert data.attrs["outcome"] == result.outcome.name
    data.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    import xarray

    with xarray.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as read:
        assert read.identical(data)
