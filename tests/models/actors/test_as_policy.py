"""Policies of any kind: read right, drawn right, the same in any company, and refused with a mend."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import LabelError, PolicyError
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.policy import TabularPolicy

TWO = Labels("action", 2)
THREE = Labels("action", 3, ("left", "stay", "right"))
FALSE_ALARM = 1e-6  # of each test of frequencies; the seeds are fixed


class Lucky(Shock):
    """A shock with a number of one's own."""

    __slots__ = ("number",)

    def __init__(self, number):
        super().__init__(bytes(16))
        self.number = number

    def uniform(self):
        return self.number


def shocks(n, seed=0):
    return [Shock.of_sample(seed, i) for i in range(n)]


def one(policy, observation, actions=THREE, shock=None, **options):
    return as_policy(policy, actions, **options).act([observation], [shock or Shock.of_sample(0, 0)])[0]


def assert_drawn_as(actor, observation, probs, n=4000):
    """G-test, wrong with probability FALSE_ALARM; what has no probability is never drawn."""
    probs = np.asarray(probs, float)
    counts = np.bincount(actor.act([observation] * n, shocks(n)), minlength=len(probs))
    assert (counts[probs == 0] == 0).all()
    seen = counts > 0
    g = 2 * (counts[seen] * np.log(counts[seen] / (n * probs[seen] / probs.sum()))).sum()
    assert g <= chi2.isf(FALSE_ALARM, max(1, (probs > 0).sum() - 1)), (counts, n * probs)


def assert_pure(actor, observations):
    """Alone, in any order and beside copies of itself, an observation gets the same action under the same shock."""
    luck = shocks(len(observations))
    together = actor.act(observations, luck)
    assert len(together) == len(observations)
    for i in range(0, len(observations), 7):
        alone = actor.act([observations[i]], [luck[i]])
        np.testing.assert_array_equal(alone[0], together[i])
    order = np.random.default_rng(1).permutation(len(observations))[: 2 * len(observations) // 3]
    again = actor.act([observations[i] for i in order], [luck[i] for i in order])
    for i, action in zip(order, again, strict=True):
        np.testing.assert_array_equal(action, together[i])


def softmax(x):
    e = np.exp(np.asarray(x, float) - np.max(x))
    return e / e.sum()


# ---------------------------------------------------------------- drawing


@given(st.lists(st.integers(0, 5), min_size=1, max_size=7).filter(any), st.integers(0, 2**53 - 1))
def test_the_first_action_whose_cumulative_probability_exceeds_u(weights, number):
    probs, u = np.array(weights) / sum(weights), number * 2.0**-53
    actor = as_policy(lambda obs: probs, Labels("action", len(probs)))
    (chosen,) = actor.act([0], [Lucky(u)])
    assert probs[chosen] > 0
    assert probs[:chosen].sum() <= u + 1e-12
    assert chosen == len(probs) - 1 or u <= probs[: chosen + 1].sum() + 1e-12


def test_no_action_of_probability_0_at_the_edges():
    for probs in ([0, 0.5, 0.5, 0], [0, 0.1, 0.2, 0.7], [1, 0, 0, 0], [0, 0, 0, 1]):
        for u in (0.0, 1 - 2.0**-53):
            assert probs[one(lambda obs, p=probs: p, 0, Labels("action", 4), Lucky(u))] > 0


def test_single_precision_probabilities_are_taken():
    probs = softmax(np.arange(300) / 50).astype(np.float32)
    assert one(lambda obs: probs, 0, Labels("action", 300), Lucky(1 - 2.0**-53)) == 299


# ---------------------------------------------------------------- tables


def test_table_of_probabilities():
    table = np.array([[0.2, 0.0, 0.8], [1 / 3, 1 / 3, 1 / 3]])
    for policy in (table, table.tolist(), TabularPolicy(table)):
        actor = as_policy(policy, THREE)
        assert repr(actor) == "table of 2 states"
        assert actor.needs_luck
        assert_drawn_as(actor, 0, table[0])
        assert_drawn_as(actor, np.array(1), table[1])
    assert one(table, 0, greedy=True) == 2
    assert not as_policy(table, THREE, greedy=True).needs_luck


def test_table_of_actions_needs_no_luck():
    for policy in ([2, 0], np.array([2, 0]), ["right", "left"], [[0, 0, 1], [1, 0, 0]]):
        actor = as_policy(policy, THREE)
        assert not actor.needs_luck
        assert actor.act([0, np.int64(1), np.array(0)], []) == [2, 0, 2]
    assert as_policy([2, 0], None).act([0, 1], []) == [2, 0]


def test_table_refusals():
    with pytest.raises(PolicyError, match=r"observation 2. Valid states are 0 to 1"):
        one([0, 1], 2)
    with pytest.raises(PolicyError, match="observation -1"):
        one([0, 1], -1)
    with pytest.raises(PolicyError, match=r"not the index of a state. Give a function of observations"):
        one([0, 1], np.array([0.1, 0.2]))
    with pytest.raises(
        PolicyError, match=r"shape \(3,\) and dtype float64. Give one action for each state.*or probabilities \[S, A\]"
    ):
        as_policy([0.2, 0.3, 0.5], THREE)
    with pytest.raises(PolicyError, match="chooses among 2 actions, but the simulator has 3"):
        as_policy(np.eye(2), THREE)
    with pytest.raises(LabelError, match="no action 3"):
        as_policy([0, 3], THREE)
    with pytest.raises(PolicyError, match=r"sums to 0.9"):
        as_policy([[0.4, 0.5]], TWO)


def test_uniform():
    actor = as_policy("uniform", THREE)
    assert_drawn_as(actor, "anything", np.full(3, 1 / 3))
    with pytest.raises(PolicyError, match="requires discrete actions"):
        as_policy("uniform", None)
    with pytest.raises(PolicyError, match="The policy is 'unifrom'"):
        as_policy("unifrom", THREE)
    with pytest.raises(PolicyError, match=r"not an instance. Use TabularPolicy\("):
        as_policy(TabularPolicy, THREE)


# ---------------------------------------------------------------- functions


@pytest.mark.parametrize("value", [2, "right", np.int64(2), np.array(2), np.array([2]), np.uint8(2), [0, 0, 1]])
def test_function_that_returns_an_action(value):
    def act(obs):
        return value

    assert one(act, 0) == 2
    assert type(one(act, 0)) is int
    assert repr(as_policy(act, THREE)) == "function act"


def test_function_that_returns_probabilities_or_logits():
    assert_drawn_as(as_policy(lambda obs: obs, THREE), np.array([0.5, 0.1, 0.4]), [0.5, 0.1, 0.4])
    logits = [0.3, -np.inf, 2.0]
    assert_drawn_as(as_policy(lambda obs: logits, THREE, logits=True), 0, softmax(logits))
    assert one(lambda obs: logits, 0, logits=True, greedy=True) == 2
    assert one(lambda obs: [1.0], 0, Labels("action", 1)) == 0
    assert one(lambda obs: 0, 0, Labels("action", 1)) == 0


def test_function_with_rng_gets_the_luck_of_its_shock():
    def act(obs, rng):
        return int(rng.integers(3))

    luck = shocks(50)
    expected = [int(shock.generator().integers(3)) for shock in luck]
    assert as_policy(act, THREE).act([0] * 50, luck) == expected
    assert as_policy(functools.partial(act), THREE).act([0] * 50, luck) == expected
    assert as_policy(lambda obs, rng=None: act(obs, rng), THREE).act([0] * 50, luck) == expected


def test_whatever_a_function_returns_is_the_action_where_actions_are_not_numbered():
    assert one(lambda obs: {"steer": 0.5}, 0, None) == {"steer": 0.5}
    assert one(lambda obs: ([1, 2], None), 0, None) == ([1, 2], None)
    np.testing.assert_array_equal(one(lambda obs: obs * 2, np.ones(2), None), [2, 2])


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        ([0.5, 1.0, 0.2], PolicyError, r"3 numbers that sum to 1.7. .*If they are logits: .*logits=True"),
        ([2.0, -1.5, 0.5], PolicyError, r"as low as -1.5. .*If they are logits"),
        (["left", "stay"], PolicyError, r"shape \(2,\), not an action"),
        ([0.5, 0.5], PolicyError, "2 numbers for 3 actions"),
        ([np.nan, 0.5, 0.5], PolicyError, "not probabilities. Did its training diverge"),
        ([np.inf, 0.5, 0.5], PolicyError, "not probabilities. Did its training diverge"),
        (0.7, PolicyError, r"returned 0.7, not an action. Return the index of an action"),
        (np.zeros((2, 3)), PolicyError, r"shape \(2, 3\)"),
        ((1, None), PolicyError, "return only the first entry"),
        (None, PolicyError, "returned None for the observation 0. Is a return statement missing"),
        (3, LabelError, "function <lambda>, returned an invalid action"),
        (-1, LabelError, "indices run from 0 to 2"),
        (True, LabelError, "no action True"),
        ("up", LabelError, "names are 'left', 'stay', 'right'"),
    ],
)
def test_what_a_function_must_not_return(value, error, match):
    with pytest.raises(error, match=match):
        one(lambda obs: value, 0)


def test_hidden_luck_and_memory_are_noticed():
    rng = np.random.default_rng(0)
    with pytest.raises(PolicyError, match="Take all randomness from rng"):
        one(lambda obs: rng.random(), 0, None)
    seen = []
    with pytest.raises(PolicyError, match="Take all randomness from rng"):
        one(lambda obs: seen.append(0) or len(seen) % 2, 0, TWO)


def test_what_is_no_policy():
    with pytest.raises(PolicyError, match=r"No policy is given.*'uniform'"):
        as_policy(None, TWO)
    with pytest.raises(
        PolicyError, match=r"An object of type dict cannot be used as a policy. Give {state: action}, probabilities"
    ):
        as_policy({0: 1}, TWO)
    with pytest.raises(PolicyError, match=r"takes 3 arguments. Give f\(obs\) or f\(obs, rng\)"):
        as_policy(lambda a, b, c: 0, TWO)
    with pytest.raises(PolicyError, match=r"takes 0 arguments. Give f\(obs\) or f\(obs, rng\)"):
        as_policy(lambda: 0, TWO)
    as_policy(lambda *several: 0, TWO)


def test_an_actor_is_taken_as_it_is():
    class Mine(Actor):
        def act(self, observations, shocks):
            return [0] * len(observations)

    mine = Mine()
    assert as_policy(mine, TWO) is mine
    assert mine.traceable(0) is None


def test_nothing_is_imported():
    code = (
        "import sys\nfrom jmdp.models.actors.as_policy import as_policy\nfrom jmdp.base.labels import Labels\n"
        "from jmdp.base.luck import Shock\nactor = as_policy(lambda obs: 0, Labels('action', 2))\n"
        "actor.act([0], [Shock(bytes(16))])\nassert actor.traceable(0) is None\n"
        "assert not {'torch', 'jax', 'sklearn', 'stable_baselines3'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- torch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def network(torch, *more, inputs=4, outputs=3):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs), *more)


def test_torch_module(torch):
    net = network(torch, torch.nn.Dropout(0.9))
    net[1].eval()  # flags that differ come back as they were
    flags = [part.training for part in net.modules()]
    observations = list(np.random.default_rng(0).normal(size=(150, 4)))
    actor = as_policy(net, THREE)
    assert repr(actor) == "Sequential (torch)"
    assert_pure(actor, observations)
    assert [part.training for part in net.modules()] == flags
    with torch.no_grad():
        expected = softmax(net.eval()(torch.as_tensor(observations[3], dtype=torch.float32)).numpy())
    assert_drawn_as(actor, observations[3], expected)
    assert one(net, observations[3], greedy=True) == expected.argmax()
    assert_drawn_as(as_policy(net.double(), THREE), observations[3], expected)


def test_torch_module_with_softmax_is_not_taken_for_logits(torch):
    net = network(torch, torch.nn.Softmax(dim=-1))
    with pytest.raises(PolicyError, match="use logits=False"):
        one(net, np.zeros(4))
    with torch.no_grad():
        expected = net(torch.zeros(4)).numpy()
    assert_drawn_as(as_policy(net, THREE, logits=False), np.zeros(4), expected)


def test_torch_module_of_other_shapes(torch):
    with pytest.raises(PolicyError, match=r"Tensor of shape \(64, 5\).* \[batch, 3\]"):
        one(network(torch, outputs=5), np.zeros(4))
    table = torch.nn.Embedding(6, 3)
    with torch.no_grad():
        assert one(table, 4, greedy=True) == int(table.weight[4].argmax())
    np.testing.assert_array_equal(one(torch.nn.Identity(), np.ones(2, np.float32), None), np.ones(2))
    assert not as_policy(network(torch), None).needs_luck


# ---------------------------------------------------------------- JAX


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def test_jax_function_is_compiled_and_pure(jax):
    jnp, weights = jax.numpy, np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    calls = []

    def act(obs):
        calls.append(0)
        return jax.nn.softmax(jnp.tanh(obs) @ weights)

    observations = list(np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32))
    actor = as_policy(act, THREE)
    assert_pure(actor, observations)
    assert len(calls) <= 8
    assert_drawn_as(actor, observations[0], softmax(np.tanh(observations[0]) @ weights))
    traced = actor.traceable(observations[0])
    np.testing.assert_allclose(jax.jit(traced)(observations[0]), act(observations[0]), rtol=1e-5)


def test_apply_and_params(jax):
    def apply(params, obs):
        return jax.numpy.dot(params["w"], obs["x"])

    params = {"w": np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)}
    obs = {"x": np.arange(5, dtype=np.float32) / 5}
    actor = as_policy((apply, params), THREE, logits=True)
    assert repr(actor) == "function apply"
    assert_drawn_as(actor, obs, softmax(params["w"] @ obs["x"]))
    np.testing.assert_allclose(actor.traceable(obs)(obs), softmax(params["w"] @ obs["x"]), rtol=1e-5)
    greedy = as_policy((apply, params), THREE, logits=True, greedy=True)
    assert int(greedy.traceable(obs)(obs)) == greedy.act([obs], shocks(1))[0] == (params["w"] @ obs["x"]).argmax()


def test_jax_function_that_cannot_be_traced_is_asked_one_at_a_time(jax):
    def act(obs):
        return jax.numpy.asarray(1 if obs[0] > 0 else 0)

    actor = as_policy(act, TWO)
    assert actor.act([np.ones(2), -np.ones(2), np.ones(2)], shocks(3)) == [1, 0, 1]
    assert actor.traceable(np.ones(2)) is None


def test_what_is_traceable(jax):
    assert int(as_policy(lambda obs: 1, TWO).traceable(0)(0)) == 1
    assert int(as_policy(lambda obs: np.argmax(obs), TWO).traceable(np.eye(2)[1])(np.eye(2)[1])) == 1
    assert as_policy(lambda obs, rng: 1, TWO).traceable(0) is None
    assert as_policy(lambda obs: "left", THREE).traceable(0) is None
    rng = np.random.default_rng(0)
    with pytest.raises(PolicyError, match="one observation and the same random numbers"):
        as_policy(lambda obs: rng.random(), None).traceable(0)
    np.testing.assert_allclose(as_policy("uniform", THREE).traceable(0)(0), np.full(3, 1 / 3), rtol=1e-6)
    traced = as_policy([2, 0], THREE).traceable(0)
    np.testing.assert_array_equal(jax.vmap(traced)(np.array([0, 1])), [[0, 0, 1], [1, 0, 0]])
    assert np.isnan(jax.jit(traced)(2)).all()


# ---------------------------------------------------------------- scikit-learn


def test_scikit_learn():
    tree = pytest.importorskip("sklearn.tree")
    linear = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, size=(300, 2)).astype(float)
    names = np.where(rng.random(300) < 0.3 + 0.2 * x[:, 0], "right", "left")  # classes_ in another order, one missing
    forest = tree.DecisionTreeClassifier(max_depth=2, random_state=0).fit(x, names)
    actor = as_policy(forest, THREE)
    assert repr(actor) == "DecisionTreeClassifier (scikit-learn)"
    left, right = forest.predict_proba(x[:1])[0]
    assert_drawn_as(actor, x[0], [left, 0, right])
    assert_pure(actor, list(x[:100]))
    ridge = linear.RidgeClassifier().fit(x, names)
    actor = as_policy(ridge, THREE)
    assert not actor.needs_luck
    assert [THREE.name(a) for a in actor.act(list(x), [])] == ridge.predict(x).tolist()
    line = as_policy(linear.LinearRegression().fit(x, x.sum(axis=1)), None)
    np.testing.assert_allclose(line.act(list(x), shocks(300)), x.sum(axis=1), atol=1e-9)
    with pytest.raises(LabelError, match="no action 'left'"):
        as_policy(forest, TWO)


# ---------------------------------------------------------------- stable-baselines3


@pytest.fixture(scope="module")
def sb3(torch):
    torch.set_num_threads(1)
    return pytest.importorskip("stable_baselines3")


@pytest.fixture(scope="module")
def ppo(sb3):
    return sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, n_steps=512, device="cpu").learn(2048)


CARTS = list(np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32))


def distribution(torch, model, observation):
    with torch.no_grad():
        distribution = model.policy.get_distribution(model.policy.obs_to_tensor(observation)[0])
    return softmax(distribution.distribution.logits.numpy()[0])


def test_ppo(torch, ppo):
    actor, state = as_policy(ppo, TWO), torch.get_rng_state()
    assert repr(actor) == "PPO (stable-baselines3)"
    assert_pure(actor, CARTS)
    assert_drawn_as(actor, CARTS[0], distribution(torch, ppo, CARTS[0]))
    assert_drawn_as(as_policy(ppo.policy, None), CARTS[1], distribution(torch, ppo, CARTS[1]))
    assert torch.equal(torch.get_rng_state(), state)  # torch's generator was not asked


def test_ppo_greedy(ppo):
    actor = as_policy(ppo, TWO, greedy=True)
    assert not actor.needs_luck
    assert repr(actor) == "PPO (stable-baselines3), deterministic"
    assert actor.act(CARTS, []) == ppo.predict(np.stack(CARTS), deterministic=True)[0].tolist()


def test_ppo_refusals(ppo):
    with pytest.raises(PolicyError, match="chooses among 2 actions, but the simulator has 3"):
        as_policy(ppo, THREE)
    with pytest.raises(PolicyError, match=r"does not accept the simulator's observations.*shape"):
        one(ppo, np.zeros(3), TWO)


def test_batches_of_one_size_give_the_same_bits(torch, ppo):
    """The reason why batches are filled up: alone, the same row has other last bits."""
    x = np.stack(CARTS[:64])
    whole, turned = (as_policy(ppo, TWO)._evaluate(part) for part in (x, np.roll(x, 5, axis=0)))
    np.testing.assert_array_equal(np.roll(whole, 5, axis=0), turned)


def test_dqn(sb3):
    model = sb3.DQN("MlpPolicy", "CartPole-v1", seed=0, device="cpu", buffer_size=100)
    model.policy.set_training_mode(True)
    actor = as_policy(model, TWO)
    assert not actor.needs_luck
    assert_pure(actor, CARTS)
    assert actor.act(CARTS, []) == model.predict(np.stack(CARTS), deterministic=True)[0].tolist()


@pytest.mark.parametrize("kind", ["PPO", "SAC", "TD3"])
def test_continuous_actions(sb3, kind):
    more = {} if kind == "PPO" else {"buffer_size": 100}
    model = getattr(sb3, kind)("MlpPolicy", "Pendulum-v1", seed=0, device="cpu", **more)
    actor = as_policy(model, None)
    observations = [cart[:3] * 5 for cart in CARTS]
    assert not actor.needs_luck
    assert_pure(actor, observations)
    actions = np.stack(actor.act(observations, []))
    np.testing.assert_allclose(actions, model.predict(np.stack(observations), deterministic=True)[0], atol=1e-5)
    assert np.abs(actions).max() <= 2
    with pytest.raises(PolicyError, match="has the action space Box"):
        as_policy(model, TWO)


def test_images_and_dictionaries(torch, sb3):
    gym = pytest.importorskip("gymnasium")
    image = gym.spaces.Box(0, 255, (48, 40, 3), np.uint8)  # channels last, as environments give them
    small = gym.spaces.Box(-1, 1, (2,), np.float32)

    class Fake(gym.Env):
        action_space = gym.spaces.Discrete(3)

        def __init__(self, space):
            self.observation_space = space

        def reset(self, seed=None, options=None):
            return self.observation_space.sample(), {}

    image.seed(0)
    small.seed(0)
    model = sb3.PPO("CnnPolicy", Fake(image), seed=0, n_steps=8, batch_size=8, device="cpu")
    observations = [image.sample() for _ in range(20)]
    actor = as_policy(model, THREE)
    assert_pure(actor, observations)
    assert_drawn_as(actor, observations[0], distribution(torch, model, observations[0]))
    both = gym.spaces.Dict({"image": image, "small": small})
    model = sb3.PPO("MultiInputPolicy", Fake(both), seed=0, n_steps=8, batch_size=8, device="cpu")
    observations = [{"image": image.sample(), "small": small.sample()} for _ in range(8)]
    actor = as_policy(model, THREE)
    assert_pure(actor, observations)
    assert_drawn_as(actor, observations[0], distribution(torch, model, observations[0]))


def test_states_and_normalised_observations(torch, sb3):
    pytest.importorskip("gymnasium")
    lake = sb3.PPO("MlpPolicy", "FrozenLake-v1", seed=0, n_steps=64, device="cpu")
    assert_drawn_as(as_policy(lake, Labels("action", 4)), 5, distribution(torch, lake, 5))
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(make_vec_env("CartPole-v1", seed=0))
    model = sb3.PPO("MlpPolicy", env, seed=0, n_steps=64, device="cpu").learn(64)
    expected = model.predict(env.normalize_obs(np.stack(CARTS)), deterministic=True)[0].tolist()
    assert as_policy(model, TWO, greedy=True).act(CARTS, []) == expected
    env.close()
