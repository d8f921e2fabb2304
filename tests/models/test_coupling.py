"""Couplings: refused where they make no sense, stored with every result."""

from __future__ import annotations

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import CouplingError, ModelError, PolicyError, SettingsError
from jmdp.models.coupling import Coupling


def two_states(terminal=None):
    return jmdp.TabularJMDP(
        [[0.5, 0.5], [0.3, 0.7]], np.ones((2, 2, 1)), np.zeros((2, 2, 1), int), 0.9, terminal, ["up", "down"]
    )


def test_synchronous_needs_one_row_of_probabilities():
    model = two_states()
    policy = jmdp.TabularPolicy.uniform(model)
    with pytest.raises(CouplingError, match=r"prob of state up and of state down differ by 0\.2\. Use Local\(\)"):
        jmdp.evaluate(model, policy, jmdp.Synchronous())
    with pytest.raises(CouplingError, match="differ by"):
        jmdp.methods.gap_samples(model, policy, 0, 0, 0, seed=0, coupling=jmdp.Synchronous())


def test_terminal_states_do_not_count_for_that():
    model = two_states([False, True])
    assert jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Synchronous()).outcome.successful


def test_policy_luck_is_one_of_two():
    with pytest.raises(CouplingError, match="policy_luck is 'common'"):
        jmdp.Local(policy_luck="common")


def test_couplings_are_values():
    assert jmdp.Local() == jmdp.Local("independent") != jmdp.Local("shared")
    assert jmdp.Local() != jmdp.Independent()
    assert repr(jmdp.Synchronous("shared")) == "Synchronous(policy_luck='shared')"


def test_wrong_arguments_of_the_verb_are_named():
    model = two_states()
    policy = jmdp.TabularPolicy.uniform(model)
    with pytest.raises(ModelError, match="model is a int, not a TabularJMDP"):
        jmdp.evaluate(3, policy, jmdp.Local())
    with pytest.raises(PolicyError, match=r"policy is a int.* one action for each state, probabilities \[S, A\]"):
        jmdp.evaluate(model, 0, jmdp.Local())
    with pytest.raises(CouplingError, match=r"Give an instance, Local\(…\)"):
        jmdp.evaluate(model, policy, jmdp.Local)
    with pytest.raises(SettingsError, match=r"Give an instance, JIPE\(…\)"):
        jmdp.evaluate(model, policy, jmdp.Local(), method=jmdp.JIPE)
    with pytest.raises(CouplingError, match="The argument order is evaluate"):
        jmdp.evaluate(model, policy, jmdp.JIPE())
    with pytest.raises(CouplingError, match=r"Use Local\(\), Synchronous\(\) or Independent\(\)"):
        jmdp.evaluate(model, policy, "local")
    with pytest.raises(ModelError, match=r"Did you mean its \.model\?"):
        jmdp.evaluate(jmdp.worlds.anti_correlated_bandit(), policy, jmdp.Local())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: jmdp.ExactPairs(tolerance=-1), "tolerance is -1"),
        (lambda: jmdp.ExactPairs(tolerance=float("nan")), "tolerance is nan"),
        (lambda: jmdp.ExactPairs(max_sweeps=0), "max_sweeps is 0. Give a whole number of at least 1"),
        (lambda: jmdp.JIPE(order=1), "order is 1. Give a whole number from 2 to"),
        (lambda: jmdp.MonteCarlo(seed=-1), "seed is -1"),
        (lambda: jmdp.MonteCarlo(seed=0, samples=1), "samples is 1"),
        (lambda: jmdp.MonteCarlo(seed=0, confidence=95), "confidence is 95"),
        (lambda: jmdp.MonteCarlo(seed=0, horizon=0), "horizon is 0"),
        (lambda: jmdp.MonteCarlo(seed=0, horizon=10**30), "from 1 to 100000000"),
        (lambda: jmdp.MonteCarlo(seed=0, confidence="0.9"), "confidence is '0.9'"),
        (lambda: jmdp.ExactPairs(tolerance=True), "tolerance is True"),
        (lambda: jmdp.worlds.windy_gridworld(gust=1.5), "gust is 1.5. Give a number from 0 to 1"),
        (lambda: jmdp.worlds.inventory(most_ordered=20), "most_ordered is 20"),
        (lambda: jmdp.worlds.inventory(3.5), "capacity is 3.5. Give a whole number from 1 to 10000"),
        (lambda: jmdp.worlds.windy_gridworld(gust="0.3"), "gust is '0.3'"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(SettingsError, match=message):
        make()


def test_settings_take_numpy_numbers_and_keep_plain_ones():
    method = jmdp.MonteCarlo(seed=np.int64(1), samples=np.int16(100), horizon=np.uint8(200))
    assert method == jmdp.MonteCarlo(seed=1, samples=100, horizon=200)
    assert type(method.horizon) is int
    assert type(jmdp.ExactPairs(tolerance=np.float32(0.5)).tolerance) is float


def test_raw_samples_are_asked_for_with_the_same_care():
    model = two_states()
    with pytest.raises(PolicyError, match="3 actions for 2 states"):
        jmdp.methods.gap_samples(model, [0, 0, 0], 0, 0, 0, coupling=jmdp.Local(), seed=0)
    with pytest.raises(CouplingError, match="Give an instance"):
        jmdp.methods.gap_samples(model, jmdp.TabularPolicy.uniform(model), 0, 0, 0, seed=0, coupling=jmdp.Local)


@pytest.mark.parametrize("base", [jmdp.Local, jmdp.Synchronous, jmdp.Independent, Coupling])
def test_couplings_are_a_closed_set(base):
    """A subclass that overrides how luck is shared was ignored by methods on tables, which still said certified."""
    with pytest.raises(CouplingError, match=r"Mine is a subclass of .* cannot be extended.* Use Local\(\)"):

        class Mine(base):
            def environment_shock(self, root, step, state, branch):
                return root


def test_the_base_of_couplings_is_no_coupling():
    with pytest.raises(CouplingError, match=r"Coupling\(\) is abstract"):
        Coupling()


def test_nothing_else_passes_for_a_coupling():
    model = two_states([False, True])
    policy = jmdp.TabularPolicy.uniform(model)

    class Looks:
        policy_luck = "independent"
        shared_in_a_state = shared_between_states = True

    for wrong in (Looks(), "local"):
        with pytest.raises(CouplingError, match=r"Use Local\(\), Synchronous\(\) or Independent\(\)"):
            jmdp.evaluate(model, policy, wrong)
        with pytest.raises(CouplingError, match=r"Use Local\(\), Synchronous\(\) or Independent\(\)"):
            jmdp.compare(model, policy, state=0, seed=0, coupling=wrong)
    with pytest.raises(CouplingError, match=r"coupling is missing: evaluate\(model, policy, coupling\)"):
        jmdp.evaluate(model, policy, None)


@pytest.mark.parametrize("luck", ["independent", "shared"])
@pytest.mark.parametrize(
    ("coupling", "one_state"),
    [(jmdp.Local, True), (jmdp.Synchronous, True), (jmdp.Independent, False)],
)
def test_which_branches_have_equal_shocks(coupling, one_state, luck):
    """Two branches in one state, and one branch in two states. The policy's depend on coordinates, or on the step."""
    given, root = coupling(luck), Shock.of_sample(0, 0)
    for shock, shared in ((given.environment_shock, coupling is jmdp.Synchronous), (given.policy_shock, False)):
        always = shared or (shock == given.policy_shock and luck == "shared")
        assert (shock(root, 1, b"x", 0) == shock(root, 1, b"x", 1)) == (one_state or always)
        in_two_states = always or coupling is jmdp.Independent
        assert (shock(root, 1, b"x", 0) == shock(root, 1, b"y", 0)) == in_two_states
        assert (shock(root, 1, b"x", 0) == shock(root, 1, b"y", 1)) == always
        assert shock(root, 1, b"x", 0) != shock(root, 2, b"x", 0)
