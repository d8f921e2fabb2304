"""Every adapter: a comparison has an answer, and states continue alike in another process."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.simulators import as_simulator
from registry.adapters import ADAPTERS

pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_comparison(name):
    adapter = ADAPTERS[name]
    simulator = adapter.make()
    state, discount = simulator.start(Shock.of_sample(0, 0)), simulator.discount or 0.9
    settings = {"actions": adapter.actions, "discount": discount, "max_samples": 4, "horizon": 3, "progress": False}
    found = jmdp.compare(simulator, adapter.policy, state=state, seed=0, **settings)
    assert np.isfinite(found.summary.samples.returns).all()
    assert found.summary.samples.returns.shape == (4, len(found.alternatives))


@pytest.mark.parametrize("name", ADAPTERS)
def test_packed_states_are_small_and_continue_as_the_original(name):
    adapter = ADAPTERS[name]
    here = adapter.make()
    if not adapter.picklable:
        with pytest.raises(TypeError, match="cannot pickle"):
            pickle.dumps(here)
        here = as_simulator(jmdp.Recipe(adapter.make))
    there = pickle.loads(pickle.dumps(here))
    action = 0 if adapter.actions is None else adapter.actions[1]
    shocks = [Shock.of_sample(0, i) for i in range(12)]
    state = here.step(here.start(shocks[0]), action, shocks[1]).state
    packed = pickle.dumps(here.pack(state))
    assert len(packed) < adapter.packed
    other = there.unpack(pickle.loads(packed))
    assert there.digest(other) == here.digest(state)
    for shock in shocks[2:]:
        one, two = here.step(state, action, shock), there.step(other, action, shock)
        assert (one.reward, one.terminated) == (two.reward, two.terminated)
        assert here.digest(one.state) == there.digest(two.state)
        np.testing.assert_array_equal(here.observe(one.state), there.observe(two.state))
        if one.terminated:
            break
        state, other = one.state, two.state
