"""Functions of JAX: pure steps, compiled rollouts that share luck as the couplings say, gymnax."""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import subprocess
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import PolicyError, SettingsError, SimulatorError
from jmdp.simulators.rollouts.draws import ENDED
from jmdp.simulators.rollouts.plan import BranchPlan

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from jmdp.simulators.adapters.jax.gymnax import GymnaxSimulator  # noqa: E402
from jmdp.simulators.adapters.jax.jax_simulator import JaxSimulator  # noqa: E402
from jmdp.simulators.adapters.jax.lockstep import digest_words, inverted  # noqa: E402
from jmdp.simulators.adapters.jax.rollouts import Request  # noqa: E402

COUPLINGS = [
    coupling(luck)
    for coupling in (jmdp.Local, jmdp.Synchronous, jmdp.Independent)
    for luck in ("independent", "shared")
]


def jax_draws(simulator, state, actions, policy, coupling, *, count, first=0, **settings):
    actions = range(simulator.actions.size) if actions is None else actions
    plan = BranchPlan.of_actions(None, state=state, actions=actions, coupling=coupling, **settings)
    return simulator.paired_draws(plan, policy, first, count)


class Cell(NamedTuple):
    """A state of a table, and a little of everything a state may hold."""

    s: object
    visits: object  # uint8 [3], of the last three states
    flags: object  # bool [5]
    height: object  # float32, may be −0.0
    key: object  # not to be compared


def table_step(model, decorate):
    cumulative = jnp.asarray(np.cumsum(model.prob, 1)[:, :-1], jnp.float32)
    reward = jnp.asarray(model.reward, jnp.float32)
    next_state, terminal = jnp.asarray(model.next_state, jnp.int32), jnp.asarray(model.terminal)

    def step(key, state, action):
        s = state.s if decorate else state
        k = jnp.sum(jax.random.uniform(key) >= cumulative[s])
        n = next_state[s, k, action]
        if decorate:
            flags = jnp.arange(5) == n
            after = Cell(
                n, jnp.full(3, n, jnp.uint8), flags, jnp.where(n == 1, -0.0, 0.0) * 1.0, jax.random.split(key)[0]
            )
        return reward[s, k, action], after if decorate else n, terminal[n]

    return step


def tiny_model():
    """Three states that go on and one that ends, two scenarios, two actions; every reward tells where it was met."""
    reward = np.arange(1, 17, dtype=float).reshape(4, 2, 2)
    next_state = [[[1, 2], [2, 2]], [[0, 2], [1, 3]], [[1, 0], [2, 2]], [[3, 3], [3, 3]]]
    return jmdp.TabularJMDP(np.tile([0.4, 0.6], (4, 1)), reward, next_state, 0.5, [False, False, False, True])


TINY_POLICY = np.array([[0.3, 0.7], [0.6, 0.4], [0.2, 0.8], [0.5, 0.5]], np.float32)


@pytest.fixture(scope="module")
def tiny():
    model = tiny_model()
    simulator = JaxSimulator(table_step(model, True), 2, observe=lambda x: x.s, ignore=["key"], lanes=4096)
    start = Cell(0, jnp.zeros(3, jnp.uint8), jnp.arange(5) == 0, 0.0, jax.random.key(0))

    def policy(s):
        return jnp.asarray(TINY_POLICY)[s]

    def draws(coupling, *, state=start, actions=(0, 1), policy=policy, **changed):
        asked = {"seed": 1, "first": 0, "count": 300, "horizon": 6, "discount": 0.9, **changed}
        return jax_draws(simulator, state, actions, policy, coupling, **asked)

    return model, simulator, start, draws


def test_steps_are_pure_and_outcomes_are_steps(tiny):
    _, simulator, start, _ = tiny
    shocks = [Shock.of_sample(3, i) for i in range(20)]
    table = simulator.outcomes(start, shocks)
    assert table.reward.shape == table.terminated.shape == (20, 2)
    for i, shock in reversed(list(enumerate(shocks))):
        for a in (1, 0):
            one = simulator.step(start, a, shock)
            assert isinstance(one.reward, float)
            assert isinstance(one.terminated, bool)
            assert one.reward == table.reward[i, a]
            row = jax.tree.map(lambda leaf, i=i, a=a: leaf[i, a], table.state)
            assert simulator.digest(row) == simulator.digest(one.state)
    some = simulator.outcomes(start, jax.random.split(jax.random.key(0), 4), [1])
    assert some.reward.shape == (4, 1)


def test_digest_sees_every_leaf_but_those_ignored(tiny):
    _, simulator, start, _ = tiny
    same = [start._replace(key=jax.random.key(9)), start._replace(height=-0.0), start._replace(s=np.int32(0))]
    other = [
        start._replace(s=1),
        start._replace(visits=jnp.array([0, 0, 1], jnp.uint8)),
        start._replace(flags=jnp.zeros(5, bool)),
        start._replace(height=1e-30),
    ]
    counts = (True, True, True, True, False)

    def words(state):
        return tuple(map(int, digest_words(simulator.settled(state), counts)))

    for state in same:
        assert simulator.digest(state) == simulator.digest(start)
        assert words(state) == words(start)
    assert len({simulator.digest(state) for state in [start, *other]}) == 5
    for half in range(2):
        assert len({words(state)[half] for state in [start, *other]}) == 5


@pytest.mark.parametrize("kind", ["int8", "uint16", "bfloat16", "float32", "bool"])
def test_digest_words_tell_arrays_of_all_types_apart(kind):
    rng = np.random.default_rng(0)
    arrays = jnp.asarray(rng.integers(0, 2, (4096, 13)), jnp.dtype(kind))
    distinct = len(np.unique(np.asarray(arrays.astype(jnp.float32)), axis=0))
    first, second = jax.vmap(lambda x: digest_words([x], (True,)))(arrays)
    assert len(np.unique(first)) == len(np.unique(second)) == distinct
    # each bit of each word is 1 half of the time
    for word in (first, second):
        ones = [(np.asarray(np.unique(word)) >> bit & 1).mean() for bit in range(32)]
        assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / np.sqrt(distinct)


def mix(x):
    x = (x ^ x >> 16) * 0x7FEB352D % 2**32
    x = (x ^ x >> 15) * 0x846CA68B % 2**32
    return x ^ x >> 16


def branch_words(number):
    return mix((number + 1) * 0x165667B1 % 2**32), mix((number + 1) * 0xC2B2AE3D % 2**32)


def twin(simulator, start, actions, coupling, seed, sample, horizon, discount, numbers):
    """The same rollouts by the rules alone: one branch after another, whole numbers of Python, one step compiled."""
    step = jax.jit(simulator._function)
    root = jax.random.fold_in(jax.random.key(seed), sample)
    meet = coupling.shared_in_a_state
    at = {number: (start, action) for number, action in zip(numbers, actions, strict=True)}  # of the living
    returns, steps = dict.fromkeys(numbers, 0.0), 0

    def first(number, same):
        """Smallest number of a branch that is in the same place."""
        return min((other for other in at if same(at[other], at[number])), default=number) if meet else number

    def same_state(one, other):
        return int(one[0].s) == int(other[0].s)

    def same_pair(one, other):
        return same_state(one, other) and one[1] == other[1]

    for t in range(horizon):
        w = [int(x) for x in jax.random.key_data(jax.random.fold_in(root, t))]
        after = {}
        for number, (state, a) in at.items():
            place, pair = branch_words(first(number, same_state)), branch_words(first(number, same_pair))
            steps += first(number, same_pair) == number
            x = (0, 0) if isinstance(coupling, jmdp.Synchronous) else place
            key = jax.random.wrap_key_data(jnp.array([w[0] ^ x[0], w[1] ^ x[1]], jnp.uint32))
            reward, state, terminated = step(key, state, a)
            returns[number] += discount**t * float(reward)
            p = (0, 0) if coupling.policy_luck == "shared" else pair
            u = (mix(mix(w[0] ^ p[0] ^ 0x27D4EB2F) ^ (w[1] + p[1]) % 2**32) >> 8) / 2**24
            if not terminated:
                after[number] = state, int(u >= TINY_POLICY[int(state.s), 0])
        at = after
    ends = [first(number, same_pair) if number in at else ENDED for number in numbers]
    return [returns[number] for number in numbers], ends, steps


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_compiled_rollouts_are_their_slow_twin(tiny, coupling):
    _, simulator, start, draws = tiny
    drawn = draws(coupling, seed=5, first=7, count=8)
    steps = 0
    for row in range(8):
        returns, ends, own = twin(simulator, start, (0, 1), coupling, 5, 7 + row, 6, 0.9, (0, 1))
        assert drawn.returns[row].tolist() == pytest.approx(returns, rel=1e-14)
        assert drawn.ends[row].tolist() == ends
        steps += own
    assert drawn.steps == steps


@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous(), jmdp.Independent()], ids=repr)
def test_a_subset_of_branches_keeps_its_numbers_in_the_keys(tiny, coupling):
    """Branches 2 and 5 of a comparison, as after elimination of the others."""
    _, simulator, start, draws = tiny
    draws(coupling)
    program = next(program for key, _, program in simulator._programs if key[3] == coupling)
    request = Request(discount=0.9, horizon=6, seed=5, first=7, count=8)
    drawn = program.draws(simulator.settled(start), None, np.array([1, 0], np.int32), (2, 5), request)
    for row in range(8):
        returns, ends, _ = twin(simulator, start, (1, 0), coupling, 5, 7 + row, 6, 0.9, (2, 5))
        assert drawn.returns[row].tolist() == pytest.approx(returns, rel=1e-14)
        assert drawn.ends[row].tolist() == ends


def test_fewer_actions_are_not_compiled_again():
    traced = []

    def step(key, state, action):
        traced.append(1)
        return jax.random.normal(key) + action, (state + action) % 7, False

    simulator = JaxSimulator(step, 5, lanes=64)

    def draws(actions, count):
        plan = BranchPlan.of_actions(
            None, state=jnp.int32(0), actions=actions, coupling=jmdp.Synchronous(), discount=0.9, horizon=5, seed=0
        )
        return simulator.paired_draws(plan, uniform, 0, count)

    def uniform(state):
        return jnp.full(5, 0.2)

    whole = draws(range(5), 30)
    before = len(traced)
    for actions in ([0, 1, 2, 3], [0, 1, 2], [0, 1], [0]):  # the smallest numbers, so keys are the same
        part = draws(actions, 30)
        assert part.returns.tolist() == whole.returns[:, : len(actions)].tolist()
        assert part.ends.tolist() == whole.ends[:, : len(actions)].tolist()
    assert len(traced) == before
    assert simulator.samples_at_once(0, 5) == 12
    assert simulator.samples_at_once(0, 2) == 32


def paths(model, coupling, policy, start, actions):
    """Probability of each (r₀ + r₁/32 of one branch, of the other) in two steps, from the coupling's own words."""
    distribution = Counter()
    p = model.prob[0]
    meet = coupling.shared_in_a_state

    def two(same, across):  # scenarios of two branches
        if same or across:
            return [((k, k), p[k]) for k in range(2)]
        return [((k, j), p[k] * p[j]) for k in range(2) for j in range(2)]

    def acts(s, t):
        if coupling.policy_luck == "independent":  # their coordinates differ
            return [((a, b), policy[s, a] * policy[t, b]) for a in range(2) for b in range(2)]
        cut = sorted({0.0, policy[s, 0], policy[t, 0], 1.0})
        return [((int(x >= policy[s, 0]), int(x >= policy[t, 0])), y - x) for x, y in itertools.pairwise(cut)]

    for (k, j), p0 in two(meet, coupling.shared_between_states):
        s, t = model.next_state[start, k, actions[0]], model.next_state[start, j, actions[1]]
        first = model.reward[start, k, actions[0]], model.reward[start, j, actions[1]]
        for (a, b), p1 in acts(s, t):
            for (m, n), p2 in two(meet and s == t, coupling.shared_between_states):
                one = first[0] + (0 if model.terminal[s] else model.reward[s, m, a] / 32)
                two_ = first[1] + (0 if model.terminal[t] else model.reward[t, n, b] / 32)
                distribution[one, two_] += p0 * p1 * p2
    return distribution


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_joint_distribution_of_two_steps_is_the_couplings(tiny, coupling, start):
    """G-test on the rewards of both branches in both steps; 12 tests at 5e-8, a false alarm in a million runs."""
    model, _, _, draws = tiny
    state = Cell(start, jnp.full(3, start, jnp.uint8), jnp.arange(5) == start, 0.0, jax.random.key(0))
    drawn = draws(coupling, state=state, seed=11, horizon=2, discount=1 / 32, count=20_480)
    distribution = paths(model, coupling, TINY_POLICY.astype(float), start, (0, 1))
    met = Counter(map(tuple, drawn.returns.tolist()))
    assert set(met) <= {path for path, prob in distribution.items() if prob > 0}
    g = 2 * sum(n * np.log(n / (20_480 * distribution[path])) for path, n in met.items())
    degrees = sum(prob > 0 for prob in distribution.values()) - 1
    assert g < stats.chi2.isf(5e-8, degrees), (g, degrees)


def assert_moments(returns, mean, covariance):
    """At 5 standard errors; and the errors of the covariances."""
    n = len(returns)
    centred = returns - returns.mean(0)
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(0) / np.sqrt(n)
    assert (np.abs(returns.mean(0) - mean) <= 5 * returns.std(0) / np.sqrt(n)).all()
    assert (np.abs(products.mean(0) - covariance) <= 5 * error).all()
    return error


@pytest.fixture(scope="module")
def truths(tiny):
    model = jmdp.TabularJMDP(tiny[0].prob, tiny[0].reward, tiny[0].next_state, 0.8, tiny[0].terminal)
    policy = jmdp.TabularPolicy(TINY_POLICY)
    return {coupling: jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs()) for coupling in COUPLINGS}


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_moments_are_those_of_the_table(tiny, truths, coupling):
    """Against exact pairs; 6 × 5 numbers, a false alarm in 50,000 runs."""
    *_, draws = tiny
    truth = truths[coupling]
    drawn = draws(coupling, seed=2, horizon=64, discount=0.8, count=40_960)
    error = assert_moments(drawn.returns, truth.mean[0], truth.covariance[0])
    for other, answer in truths.items():  # another coupling would be noticed
        if other != coupling:
            assert (np.abs(answer.covariance[0] - truth.covariance[0]) > 6 * error).any(), other


def test_moments_in_the_windy_gridworld():
    """Four named actions, a state that is a number; 14 numbers at 5 standard errors."""
    model = jmdp.worlds.windy_gridworld(3, 3, gust=0.5, blown_reward=1.0, discount=0.85).model
    policy = jmdp.TabularPolicy(np.random.default_rng(0).dirichlet(np.ones(4), 9))
    simulator = JaxSimulator(table_step(model, False), ["U", "R", "D", "L"])
    probs = jnp.asarray(policy.probs, jnp.float32)
    drawn = jax_draws(
        simulator,
        6,
        ["L", "U", "R", "D"],
        lambda s: probs[s],
        jmdp.Local(),
        discount=0.85,
        horizon=64,
        seed=2,
        count=20_480,
    )
    exact, order = jmdp.evaluate(model, policy, jmdp.Local()), [3, 0, 1, 2]
    assert_moments(drawn.returns, exact.mean[6][order], exact.covariance[6][np.ix_(order, order)])


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_coalescence_is_for_ever(tiny, coupling):
    *_, draws = tiny
    early, late = draws(coupling, horizon=3, discount=1.0), draws(coupling, horizon=9, discount=1.0)
    met = (early.ends[:, 0] == early.ends[:, 1]) & (early.ends[:, 0] != ENDED)
    if isinstance(coupling, jmdp.Independent):
        assert not met.any()
        assert early.shared_steps == late.shared_steps == 0
        return
    assert 20 < met.sum() < 280
    after = late.returns - early.returns
    assert (after[met, 0] == after[met, 1]).all()
    assert (late.ends[met, 0] == late.ends[met, 1]).all()
    assert (after[~met, 0] != after[~met, 1]).any()
    assert late.shared_steps > early.shared_steps > 0


def test_gains_are_equal_where_all_rewards_are(tiny):
    *_, draws = tiny
    drawn = draws(jmdp.Local(), horizon=3, discount=1 / 32, count=2000)  # a return then tells all rewards
    codes = {}
    for gain, total in zip(drawn.gains.ravel().tolist(), drawn.returns.ravel().tolist(), strict=True):
        assert codes.setdefault(total, gain) == gain
    assert len(set(codes.values())) == len(codes) > 20
    assert drawn.largest_reward == 12


def test_an_end_and_a_reward_of_nothing_leave_the_same_trace():
    def step(key, state, action):
        return jnp.where(state == 0, 1.0, 0.0), state + 1, action == 1

    simulator = JaxSimulator(step, 2, lanes=64)
    drawn = jax_draws(
        simulator, 0, None, lambda s: jnp.int32(0), jmdp.Local(), discount=0.9, horizon=40, seed=0, count=3
    )
    assert (drawn.gains[:, 0] == drawn.gains[:, 1]).all()
    assert drawn.ends.tolist() == [[0, ENDED]] * 3
    assert drawn.returns.tolist() == [[1, 1]] * 3
    assert (drawn.steps, drawn.shared_steps) == (3 * 41, 0)


def fingerprint(drawn):
    return hashlib.sha256(drawn.returns.tobytes() + drawn.ends.tobytes() + drawn.gains.tobytes()).hexdigest()


def test_samples_do_not_depend_on_how_many_are_drawn(tiny):
    *_, draws = tiny
    whole = draws(jmdp.Local(), count=5000)
    for first, count in ((0, 1), (17, 3), (2040, 20), (4990, 10)):
        part = draws(jmdp.Local(), first=first, count=count)
        assert (part.returns == whole.returns[first : first + count]).all()
        assert (part.ends == whole.ends[first : first + count]).all()
        assert (part.gains == whole.gains[first : first + count]).all()
    parts = [draws(jmdp.Local(), first=first, count=1250) for first in range(0, 5000, 1250)]
    assert sum(part.steps for part in parts) == whole.steps
    assert sum(part.shared_steps for part in parts) == whole.shared_steps
    assert fingerprint(draws(jmdp.Local(), seed=2, count=5000)) != fingerprint(whole)


POLE = """
import jax, jax.numpy as jnp, jmdp
from jmdp.simulators.adapters.jax.jax_simulator import JaxSimulator
from jmdp.simulators.rollouts.plan import BranchPlan
def step(key, state, action):
    angle, speed = state
    speed = speed + 0.3 * jnp.sin(angle) + 0.2 * (action - 0.5) + 0.1 * jax.random.normal(key)
    angle = angle + 0.2 * speed
    return jnp.cos(angle), (angle, speed), abs(angle) > 0.5
simulator = JaxSimulator(step, 2, observe=jnp.stack, lanes=64)
def policy(obs):
    lean = jax.nn.sigmoid(4 * (obs[0] + obs[1]))
    return jnp.stack([lean, 1 - lean])
start = (jnp.float32(0.02), jnp.float32(0))
settings = {"discount": 0.99, "horizon": 40, "seed": 4}
plan = BranchPlan.of_actions(None, state=start, actions=range(2), coupling=jmdp.Local(), **settings)
drawn = simulator.paired_draws(plan, policy, 7, 200)
"""


def test_devices_make_no_difference():
    here = {}
    exec(POLE, here)
    assert 0 < (here["drawn"].ends == ENDED).mean() < 1
    code = POLE + (
        "import hashlib\n"
        "assert jax.device_count() == 4\n"
        "print(hashlib.sha256(drawn.returns.tobytes() + drawn.ends.tobytes() + drawn.gains.tobytes()).hexdigest())\n"
        "print(drawn.steps, drawn.shared_steps)"
    )
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    out = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split()
    assert out == [fingerprint(here["drawn"]), str(here["drawn"].steps), str(here["drawn"].shared_steps)]


@pytest.mark.parametrize("name", ["CartPole-v1", "Breakout-MinAtar"])
def test_gymnax_steps_are_step_env(name):
    gymnax = pytest.importorskip("gymnax")
    environment, params = gymnax.make(name)
    simulator = GymnaxSimulator(name)
    root = Shock.of_sample(1, 1)
    state = simulator.start(root)
    plain = jax.jit(environment.reset_env)(root.key(), params)[1]
    compiled = jax.jit(lambda key, state, a: environment.step_env(key, state, a, params))
    for t in range(30):
        shock = root.derived(b"test", t)
        a = t // 3 % simulator.actions.size
        obs, plain, reward, done, _ = compiled(shock.key(), plain, np.int32(a))
        now = simulator.step(state, a, shock)
        state = now.state
        assert simulator.digest(state) == simulator.digest(plain)
        assert (now.reward, now.terminated) == (float(reward), bool(done))
        np.testing.assert_array_equal(simulator.observe(state), obs)
        if done:
            break


def test_a_time_limit_is_no_end():
    pytest.importorskip("gymnax")
    simulator = GymnaxSimulator("CartPole-v1", lanes=32)

    def balance(obs):
        return (obs[2] + 0.5 * obs[3] + 0.05 * obs[0] + 0.1 * obs[1] > 0).astype(jnp.int32)

    start = simulator.start(Shock.of_sample(0, 0))
    drawn = jax_draws(simulator, start, None, balance, jmdp.Local(), discount=1.0, horizon=700, seed=0, count=4)
    assert (drawn.returns == 700).all()
    assert (drawn.ends >= 0).all()


def test_breakout_rolls_out_and_meets():
    pytest.importorskip("gymnax")
    simulator = GymnaxSimulator("Breakout-MinAtar", lanes=192)
    start = simulator.start(Shock.of_sample(0, 0))
    drawn = jax_draws(
        simulator,
        start,
        None,
        lambda obs: jnp.full(3, 1 / 3),
        jmdp.Local("shared"),
        discount=0.99,
        horizon=60,
        seed=0,
        count=64,
    )
    assert drawn.returns.shape == (64, 3)
    assert drawn.shared_steps > 0
    assert simulator.digest(start) == simulator.digest(simulator.start(Shock.of_sample(0, 0)))


def test_parameters_of_a_policy_are_arguments(tiny):
    *_, draws = tiny
    calls = []

    def function(table, s):
        calls.append(1)
        return table[s]

    one = draws(jmdp.Local(), policy=(function, jnp.asarray(TINY_POLICY)))
    traced = len(calls)
    assert fingerprint(one) == fingerprint(draws(jmdp.Local()))
    other = draws(jmdp.Local(), policy=(function, jnp.asarray(TINY_POLICY[:, ::-1])))
    assert len(calls) == traced
    assert fingerprint(one) != fingerprint(other)


def test_actions_of_probability_0_are_never_drawn():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(6, 0.3), 4000).astype(np.float32)
    probabilities[rng.random(probabilities.shape) < 0.4] = 0
    probabilities[:, 2] += probabilities.sum(1) == 0
    probabilities /= probabilities.sum(1, keepdims=True)
    for word in (0, 1, 2**31, 2**32 - 1, 2**32 - 300):
        words = jnp.full(4000, word, jnp.uint32)
        action, fault = inverted(jnp.asarray(probabilities), words)
        assert not fault.any()
        assert (np.take_along_axis(probabilities, np.asarray(action)[:, None], 1) > 0).all()


BAD_STEPS = {
    r"step returned 2 values\. Return \(reward, state, terminated\)": lambda k, s, a: (1.0, s),
    r"step returned float32 of shape \(2,\) as reward": lambda k, s, a: (jnp.ones(2), s, False),
    r"from shape \(\) to \(3,\)": lambda k, s, a: (1.0, jnp.full(3, s), False),
    "Return a state with the same fields": lambda k, s, a: (1.0, (s, s), False),
}


@pytest.mark.parametrize("message", BAD_STEPS)
def test_bad_steps_are_refused(message):
    simulator = JaxSimulator(BAD_STEPS[message], 2)
    with pytest.raises(SimulatorError, match=message):
        simulator.step(0, 0, Shock.of_sample(0, 0))


BAD_POLICIES = {
    r"returned float32 of shape \(3,\) for one observation.*all 2": lambda s: jnp.ones(3) / 3,
    r"returned float32 of shape \(\)": lambda s: jnp.float32(0),
    r"returned invalid probabilities.*sample 0.*action 0.*jax\.nn\.softmax": lambda s: jnp.ones(2),
    r"invalid probabilities or an invalid action": lambda s: jnp.int32(2),
    r"invalid probabilities or": lambda s: jnp.array([1.5, -0.5]),
    r"returned invalid probabilities or": lambda s: jnp.array([jnp.nan, 0.5]),
}


@pytest.mark.parametrize("message", BAD_POLICIES)
def test_bad_policies_are_refused(message):
    simulator = JaxSimulator(lambda k, s, a: (1.0, s + 1, False), 2, lanes=32)
    with pytest.raises(PolicyError, match=message):
        jax_draws(simulator, 0, None, BAD_POLICIES[message], jmdp.Local(), discount=0.9, horizon=2, seed=0, count=2)


def test_a_step_is_traced_again_only_for_states_of_another_kind():
    """Tracing a step takes longer than simulating a few hundred samples."""
    traced = []

    def step(key, state, action):
        traced.append(state.shape)
        return state.sum() * action + jax.random.normal(key), state, False

    simulator = JaxSimulator(step, 2)

    def traced_by(state):
        before = len(traced)
        jmdp.compare(
            simulator, _first, state=state, horizon=2, discount=1.0, seed=len(traced), samples=16, progress=False
        )
        return len(traced) - before

    assert traced_by(jnp.zeros(2)) > 2
    assert traced_by(jnp.ones(2)) == 0
    assert traced_by(jnp.zeros(3)) > 2
    assert not pickle.loads(pickle.dumps(JaxSimulator(_walk, 2))).checked


def _first(state):
    return jnp.int32(0)


def _walk(key, state, action):
    return state, state + action, False


def test_bad_settings_are_refused():
    simulator = JaxSimulator(lambda k, s, a: (jnp.where(a == 1, jnp.inf, 0.0), s, False), 2, lanes=32)

    def drawn(**changed):
        given = {"discount": 0.9, "horizon": 2, "seed": 0, "count": 2, "actions": None, **changed}
        return jax_draws(simulator, 0, given.pop("actions"), lambda s: jnp.int32(0), jmdp.Local(), **given)

    for changed in ({"discount": 1.1}, {"horizon": 0}, {"seed": -1}, {"count": 0}, {"first": -1}, {"actions": []}):
        with pytest.raises(SettingsError, match=next(iter(changed))):
            drawn(**changed)
    with pytest.raises(SimulatorError, match=r"A reward is not finite in sample 0, in the branch .* action 1"):
        drawn()
    with pytest.raises(SettingsError, match="ignore names 'rng', but the fields of a state are clock"):
        JaxSimulator(lambda k, s, a: (0.0, s, False), 2, ignore=["rng"]).digest({"clock": 0})
    with pytest.raises(SettingsError, match=r"Give a list of names: \['key'\]"):
        JaxSimulator(lambda k, s, a: (0.0, s, False), 2, ignore="key")
    with pytest.raises(jmdp.errors.UnavailableError, match="defines no start state"):
        simulator.start(Shock.of_sample(0, 0))
    pytest.importorskip("gymnax")
    with pytest.raises(SimulatorError, match="no environment"):
        GymnaxSimulator("CartPool-v1")
    with pytest.raises(SimulatorError, match="no discrete actions"):
        GymnaxSimulator("Pendulum-v1")


def test_equal_sums_of_other_steps_are_ties_at_discount_1():
    """The first action earns 1 at once, the second ½ now and ½ a step later; nothing ends."""

    def step(key, state, action):
        t, first = state // 2, jnp.where(state < 2, action, state % 2)
        reward = jnp.where(first == 0, jnp.where(t == 0, 1.0, 0.0), jnp.where(t <= 1, 0.5, 0.0))
        return reward, 2 * (t + 1) + first, jnp.bool_(False)

    simulator = JaxSimulator(step, 2)
    settings = {"policy": lambda state: jnp.array([0.5, 0.5]), "seed": 0, "max_samples": 200, "horizon": 5}
    found = jmdp.compare(simulator, state=jnp.int32(0), discount=1.0, **settings)
    assert np.array_equal(found.summary.samples.returns, np.ones((found.samples, 2)))
    assert found.superiority(0, 1).high < 0.05
    assert found.superiority(1, 0).high < 0.05
