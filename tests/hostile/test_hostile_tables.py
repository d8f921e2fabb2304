"""Named cases of hostile input to tables, policies, methods, results and figures."""

from __future__ import annotations

import math
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest

import jmdp
from hostile import tiny
from jmdp import plots, testing, worlds
from jmdp.base import arrays
from jmdp.errors import JMDPError, LabelError, MemoryBudgetError, ModelError, PolicyError, SettingsError

HUGE = {"10^400": 10**400, "minus 10^400": -(10**400), "5,001 digits": 10**5000}


@pytest.mark.parametrize("huge", HUGE.values(), ids=HUGE)
def test_integers_beyond_floats_are_refused(huge):
    model, policy = tiny.model(), tiny.policy()
    table = model.prob, model.reward, model.next_state
    for call in (
        lambda: jmdp.TabularJMDP(*table, huge),
        lambda: jmdp.ExactPairs(tolerance=huge),
        lambda: jmdp.MonteCarlo(seed=0, samples=huge),
        lambda: tiny.certified().gap(huge, 0, 1),
        lambda: jmdp.TabularPolicy.deterministic(model, [huge, 0, 0]),
        lambda: jmdp.LazyJMDP(lambda s: None, 0.5, huge),
        lambda: jmdp.evaluate(model, policy, jmdp.Local(), horizon=huge),
        lambda: jmdp.evaluate(model, policy, jmdp.Local(), horizon=2, discount=huge),
        lambda: policy.mixed(policy, huge),
        lambda: tiny.certified().gap(0, 0, 1).moment(huge),
        lambda: jmdp.TabularJMDP(model.prob, np.full(model.shape, huge, object), model.next_state, 0.5),
        lambda: worlds.inventory(price=huge),
        lambda: worlds.coupled_reward_chain(huge),
    ):
        with pytest.raises(JMDPError) as refused:
            call()
        assert len(str(refused.value)) < 400


def test_tensors_that_require_gradients_are_refused_with_the_fix():
    torch = pytest.importorskip("torch")
    model, policy = tiny.model(), tiny.policy()
    prob, reward, probs = (torch.tensor(x, requires_grad=True) for x in (model.prob, model.reward, policy.probs))
    with pytest.raises(ModelError, match=r"prob .* Use tensor\.detach\(\)"):
        jmdp.TabularJMDP(prob, reward, model.next_state, 0.5)
    with pytest.raises(PolicyError, match=r"probs .* Use tensor\.detach\(\)"):
        jmdp.TabularPolicy(probs)
    same = jmdp.TabularJMDP(prob.detach(), reward.detach(), model.next_state, 0.5, model.terminal)
    found = jmdp.evaluate(same, jmdp.TabularPolicy(probs.detach()), jmdp.Local())
    np.testing.assert_array_equal(found.covariance, jmdp.evaluate(model, policy, jmdp.Local()).covariance)


def test_unhashable_names_and_labels():
    model = tiny.model()
    with pytest.raises(ModelError, match="state_names must be strings"):
        jmdp.TabularJMDP(model.prob, model.reward, model.next_state, 0.5, state_names=[["a"], ["b"], ["c"]])
    with pytest.raises(LabelError, match="There is no state"):
        tiny.certified().gap(["left"], 0, 1)
    with pytest.raises(ModelError, match=r"State \['a'\] is not hashable"):
        jmdp.LazyJMDP(lambda s: None, 0.5, 1.0).index(["a"])


@pytest.mark.parametrize("name", [name for name in plots.__all__ if name != "style"])
@pytest.mark.parametrize("wrong", [None, "text", 3, [object()], np.eye(2)], ids=lambda wrong: type(wrong).__name__)
def test_figures_refuse_other_objects(name, wrong):
    more = {
        "beaten_grid": (tiny.policy(), (1, 3)),
        "correlation_grid": ((1, 3),),
        "gap_chart": (0,),
        "superiority_matrix": (0,),
    }
    with pytest.raises(SettingsError, match=r"not a|Give an evaluation"):
        getattr(plots, name)(wrong, *more.get(name, ()))


def test_titles_are_text():
    for title in (3, b"x", ["a"], "\ud800"):
        with pytest.raises(SettingsError, match="title is"):
            plots.gap_chart(tiny.certified(), 0, title=title)


def test_checks_refuse_other_objects():
    with pytest.raises(ModelError, match="model is a int, not a TabularJMDP"):
        testing.check_model(3)
    with pytest.raises(ModelError, match="model is a str"):
        testing.check_certificate("model", tiny.policy(), tiny.certified())
    with pytest.raises(PolicyError, match="The policy has no action for 2 of 3 states"):
        testing.check_certificate(tiny.model(), {}, tiny.certified())
    testing.check_certificate(tiny.model(), tiny.policy().probs, tiny.certified())
    with pytest.raises(SettingsError, match="evaluation is a NoneType"):
        testing.check_certificate(tiny.model(), tiny.policy(), None)
    other = jmdp.TabularJMDP([[1.0]], [[[2.0]]], [[[0]]], 0.5)
    with pytest.raises(JMDPError, match="shape"):
        testing.check_certificate(other, jmdp.TabularPolicy.uniform(other), tiny.certified())


@pytest.mark.parametrize("name", ["cdf", "below", "quantile", "cvar"])
@pytest.mark.parametrize("wrong", ["0.5", None, True, math.nan, [0.5], np.array([0.5]), 0.5j], ids=repr)
def test_distributions_refuse_what_is_no_number(name, wrong):
    distribution = tiny.distributed().return_distribution(0, 0)
    with pytest.raises(SettingsError, match=r"[xp] is"):
        getattr(distribution, name)(wrong)


def test_intervals_are_ordered_numbers():
    assert jmdp.results.Interval(1, np.float32(2)) == jmdp.results.Interval(1.0, 2.0)
    assert type(jmdp.results.Interval(1, 2).low) is float
    for low, high in ((2.0, 1.0), ("a", 1.0), (0.0, math.nan), (True, 2.0), (None, None)):
        with pytest.raises(SettingsError, match=r"low|high"):
            jmdp.results.Interval(low, high)
    inside = jmdp.results.Interval(0.0, 1.0)
    for call in (
        lambda: inside.exceeds("0"),
        lambda: inside.exceeds(math.nan),
        lambda: None in inside,
        lambda: inside + 1.0,
        lambda: inside * None,
        lambda: inside.power(-1),
        lambda: inside.power(0.5),
        lambda: jmdp.results.Interval.around(0.0, -1.0),
        lambda: jmdp.results.Interval.hull([]),
        lambda: jmdp.results.Interval.hull([1.0]),
        lambda: jmdp.results.Estimate("1", 0.0, 2.0),
        lambda: jmdp.results.Estimate(1.0, math.nan, 2.0),
        lambda: jmdp.results.Estimate.within(1.0, (0.0, 2.0)),
        lambda: jmdp.results.Estimate(1.0, 0.0, 2.0).to_digits(0),
    ):
        with pytest.raises(SettingsError):
            call()


def test_a_number_of_another_type_gives_the_answer_of_its_float():
    gap = tiny.certified().gap(0, 0, 1)
    p = np.float32(0.05)
    assert gap.cvar_bounds(p) == gap.cvar_bounds(float(p))
    assert gap.cdf_bounds(p) == gap.cdf_bounds(float(p))
    distribution = tiny.distributed().gap(0, 0, 1).distribution()
    assert repr(distribution.cvar(p)) == repr(distribution.cvar(float(p)))
    assert type(distribution.cvar(p).low) is float


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rewards_of_probability_0_must_be_finite_and_are_0(bad):
    def lazy(reward):
        return jmdp.LazyJMDP(lambda s: ([1.0, 0.0], [[1.0], [reward]], [["a"], ["a"]]), 0.5, 1.0)

    def found(model):
        return jmdp.evaluate(model, lambda s: [1.0], jmdp.Local(), jmdp.ReachablePairs("a"))

    def table(reward):
        return jmdp.TabularJMDP([[1.0, 0.0]], [[[1.0], [reward]]], [[[0], [0]]], 0.5)

    with pytest.raises(ModelError, match="finite"):
        table(bad)
    with pytest.raises(ModelError, match="finite"):
        found(lazy(bad))
    assert table(1e300).reward[0, 1, 0] == 0
    assert table(1e300).reward_bound == 1
    assert float(found(lazy(1e300)).mean[0, 0]) == pytest.approx(2)


def test_long_values_are_cut_in_messages():
    long, many = "x" * 10_000, list(range(10**4))
    model = tiny.model()
    for call in (
        lambda: tiny.certified().gap(long, 0, 1),
        lambda: jmdp.TabularJMDP(model.prob, model.reward, model.next_state, 0.5, state_names=[long] * 3),
        lambda: jmdp.TabularJMDP(model.prob, model.reward, model.next_state, many),
        lambda: jmdp.ExactPairs(tolerance=many),
        lambda: jmdp.ExactPairs(precision=long),
        lambda: jmdp.Local(policy_luck=long),
        lambda: worlds.windy_gridworld(many),
        lambda: worlds.queue_admission(arrivals=[0.9] * 100_000),
        lambda: plots.gap_chart(tiny.certified(), 0, title=many),
        lambda: tiny.certified().gap(0, 0, 1).cvar_bounds(many),
        lambda: jmdp.LazyJMDP(lambda s: many, 0.5, 1.0).expand(0),
        lambda: jmdp.Incremental(seed=0, steps=many),
    ):
        with pytest.raises((JMDPError, IndexError)) as refused:
            call()
        assert len(str(refused.value)) < 700


def test_exceptions_of_functions_of_the_caller_come_out_with_a_note():
    def fails(*_):
        raise ZeroDivisionError("own")

    good = jmdp.LazyJMDP(lambda s: ([1.0], [[1.0]], [["a"]]), 0.5, 1.0)
    from_a = jmdp.Local(), jmdp.ReachablePairs("a")
    for note, call in {
        "Raised by scenarios for state 'a'.": lambda: jmdp.evaluate(
            jmdp.LazyJMDP(fails, 0.5, 1.0), lambda s: [1.0], *from_a
        ),
        "Raised by the policy in state 'a'.": lambda: jmdp.evaluate(good, fails, *from_a),
        "Raised by steps.": lambda: jmdp.evaluate(**tiny.problem(), method=jmdp.Incremental(seed=0, steps=fails)),
        "Raised by features at state left, action stay.": lambda: jmdp.evaluate(
            **tiny.problem(), method=jmdp.LinearProjected(fails)
        ),
    }.items():
        with pytest.raises(ZeroDivisionError, match="own") as raised:
            call()
        assert raised.value.__notes__[0].startswith(note)


def test_a_table_is_planned_as_a_whole(monkeypatch):
    S, K, A = 50, 40, 40
    parts = np.full((S, K), 1 / K), np.broadcast_to(1.0, (S, K, A)), np.broadcast_to(0, (S, K, A))
    allowed = 1.2 * 8 * S * K * A  # enough for each array, and not for two
    monkeypatch.setattr(arrays, "budget", lambda asked: allowed)
    monkeypatch.setattr(arrays, "_SMALL", 0)
    with pytest.raises(MemoryBudgetError, match="The table of"):
        jmdp.TabularJMDP(*parts, 0.5)


@pytest.mark.parametrize("what", ["table", "policy"])
def test_peak_memory_is_at_most_what_is_planned(monkeypatch, what):
    planned = []
    refuse = arrays.refuse_large
    monkeypatch.setattr(arrays, "refuse_large", lambda name, size: (planned.append(size), refuse(name, size)))
    S, K, A = 60, 50, 60
    parts = np.full((S, K), 1 / K), np.broadcast_to(1.0, (S, K, A)), np.broadcast_to(0, (S, K, A))
    probs = np.broadcast_to(1 / 1000, (1000, 1000))
    tracemalloc.start()
    try:
        kept = jmdp.TabularJMDP(*parts, 0.5) if what == "table" else jmdp.TabularPolicy(probs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept is not None
    assert peak <= max(planned) + 100_000


SCRIPT = """
    import resource

    import numpy as np

    import jmdp
    from jmdp import worlds
    from jmdp.errors import MemoryBudgetError, SettingsError

    side = 10**6
    wide = np.broadcast_to(0.5, (side, side))
    table = np.broadcast_to(0.5, (side, 2, side)), np.broadcast_to(0, (side, 2, side))
    small = jmdp.worlds.windy_gridworld(2, 2)
    jmdp.evaluate(small.model, small.policies["uniform"], jmdp.Local())
    calls = [
        lambda: jmdp.TabularJMDP(np.broadcast_to(0.5, (side, 2)), *table, 0.5),
        lambda: jmdp.TabularJMDP(wide, *table, 0.5),
        lambda: jmdp.TabularPolicy(wide),
        lambda: worlds.windy_gridworld(side, side),
        lambda: worlds.coupled_reward_chain(10**9),
        lambda: worlds.inventory(capacity=10**9),
        lambda: worlds.inventory(capacity=10_000, most_ordered=10_000, mean_demand=500),
        lambda: worlds.queue_admission(10**9),
        lambda: small.model.sample(0, rng=np.random.default_rng(0), size=10**12),
        lambda: jmdp.methods.gap_samples(
            small.model, small.policies["uniform"], 0, 0, 1, seed=0, coupling=jmdp.Local(), samples=10**13
        ),
        lambda: jmdp.evaluate(
            small.model, small.policies["uniform"], jmdp.Local(), jmdp.MonteCarlo(seed=0, samples=10**13)
        ),
    ]
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
    for i, call in enumerate(calls):
        try:
            call()
        except (MemoryBudgetError, SettingsError) as refused:
            print(i, type(refused).__name__, refused)
        else:
            raise AssertionError(f"call {i} was accepted")
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used
    assert more < 200_000, f"{more} KiB were used"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space")
def test_what_does_not_fit_is_refused_before_anything_is_allocated():
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
