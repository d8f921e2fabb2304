"""MonteCarlo on simulators: the same evaluation for any pool."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from jmdp.simulators import TabularSimulator
from noisy_walk import Drift, policy

METHOD = jmdp.MonteCarlo(seed=5, samples=50, horizon=12, states=[0.0, 0.5, 2.0])


def digest(found: jmdp.results.Evaluation) -> str:
    certificate = found.certificate
    assert certificate is not None
    told = hashlib.sha256()
    for array in (found.mean, found.covariance, certificate.mean_error, certificate.covariance_error):
        told.update(np.asarray(array).tobytes())
    distribution = found.gap(0, 0, 1).distribution()
    told.update(np.asarray([distribution.cdf(x) for x in (-1.0, 0.0, 1.0)], dtype=object).astype(str).tobytes())
    return told.hexdigest()


def test_p17_the_same_for_any_number_of_workers():
    found = [jmdp.evaluate(Drift(), policy, jmdp.Local(), METHOD)]
    for pool in (1, 2):
        found.append(jmdp.evaluate(Drift(), policy, jmdp.Local(), jmdp.MonteCarlo(**{**vars(METHOD), "pool": pool})))
    with jmdp.distribute.ProcessPool(4) as four:
        method = jmdp.MonteCarlo(**{**vars(METHOD), "pool": four})
        found.append(jmdp.evaluate(Drift(), policy, jmdp.Local(), method))
        assert len(four._started) == 4
        again = pickle.loads(pickle.dumps(found[-1].method))
    assert len({digest(one) for one in found}) == 1
    assert all(method == METHOD for method in (*(one.method for one in found), again))
    assert repr(found[0]) == repr(found[-1])


def test_tables_are_simulated_in_this_process():
    world = jmdp.worlds.windy_gridworld(3, 3, discount=0.7)
    with jmdp.distribute.ProcessPool(2) as pool:
        for model in (world.model, TabularSimulator(world.model)):
            method = jmdp.MonteCarlo(seed=0, samples=100, pool=pool)
            found = jmdp.evaluate(model, world.policies["uniform"], jmdp.Local(), method)
            alone = jmdp.evaluate(model, world.policies["uniform"], jmdp.Local(), jmdp.MonteCarlo(seed=0, samples=100))
            np.testing.assert_array_equal(found.covariance, alone.covariance)
        assert not pool._started


def test_wrong_pools_and_policies_that_cannot_be_sent_are_refused():
    with pytest.raises(SettingsError, match="pool is 0"):
        jmdp.MonteCarlo(seed=0, pool=0)
    method = jmdp.MonteCarlo(**{**vars(METHOD), "pool": 2})
    with pytest.raises(SettingsError, match=r"A lambda \(.*\), part of the policy, cannot be sent to worker processes"):
        jmdp.evaluate(Drift(), lambda state: 0, jmdp.Local(), method)
