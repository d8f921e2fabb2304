"""`compare_policies`: right answers through every kind of simulator, shared luck, memory, and what it refuses.

Sampled moments are compared with exact ones at five standard errors: a false alarm in about 1 of 1.7 million checks.
"""

from __future__ import annotations

import math
import pickle

import gymnasium
import numpy as np
import pytest

import jmdp
from jmdp import Independent, Local, Synchronous
from jmdp.base.luck import Shock
from jmdp.comparisons.compare_policies import policy_question
from jmdp.comparisons.question import ComparisonSettings
from jmdp.comparisons.sampling import comparison_of
from jmdp.errors import LabelError, PolicyError, SettingsError, SimulatorError, UnavailableError
from jmdp.simulators import FunctionSimulator, Simulator, Step, TabularSimulator, action_labels
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import LockstepBranches, paired_draws
from jmdp.statistics.drawn_evaluation import DrawnSamples, SamplingState
from reference.episodes import gap_moments

SHARED = Synchronous(policy_luck="shared")
COUPLINGS = [
    SHARED,
    Synchronous(),
    Local(policy_luck="shared"),
    Local(),
    Independent(policy_luck="shared"),
    Independent(),
]
STARTS = {0: 0.5, 1: 0.3, 2: 0.2}


def table(seed=0, S=5, K=3, A=2, discount=0.8):
    rng = np.random.default_rng(seed)
    prob = np.tile(rng.dirichlet(np.ones(K)), (S, 1))
    reward = rng.normal(size=(S, K, A)) + rng.normal(size=(1, K, 1))
    terminal = np.arange(S) == S - 1
    return jmdp.TabularJMDP(prob, reward, rng.integers(S, size=(S, K, A)), discount, terminal=terminal)


def policies(model, seed=1):
    rng = np.random.default_rng(seed)
    S, _, A = model.shape
    return {name: rng.dirichlet(np.ones(A), size=S) for name in ("old", "new")}


class Stepped(TabularSimulator):
    """A table that is not compiled."""


class TableEnv(gymnasium.Env):
    """A table behind Gymnasium's interface; all draws are from np_random."""

    def __init__(self, model, starts):
        self.table, self.starts = model, starts
        self.action_space = gymnasium.spaces.Discrete(model.shape[2])
        self.observation_space = gymnasium.spaces.Discrete(model.shape[0])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.s = int(self.np_random.choice(list(self.starts), p=list(self.starts.values())))
        return self.s, {}

    def step(self, action):
        k = int(np.searchsorted(np.cumsum(self.table.prob[self.s]), self.np_random.random(), side="right"))
        reward = self.table.reward[self.s, k, action]
        self.s = int(self.table.next_state[self.s, k, action])
        return self.s, reward, bool(self.table.terminal[self.s]), False, {}


def function_simulator(model, starts):
    def scenario(u):
        return int(np.searchsorted(np.cumsum(model.prob[0]), u, side="right"))

    return FunctionSimulator(
        lambda s, a, u: model.reward[s, scenario(u), a],
        lambda s, a, u: int(model.next_state[s, scenario(u), a]),
        model.shape[2],
        terminal=lambda s: bool(model.terminal[s]),
        start=lambda rng: int(rng.choice(list(starts), p=list(starts.values()))),
    )


def jax_simulator(model, starts):
    jax = pytest.importorskip("jax")
    from jmdp.simulators import JaxSimulator

    jnp = jax.numpy
    cumulative, reward = jnp.asarray(np.cumsum(model.prob[0])[:-1]), jnp.asarray(model.reward, jnp.float32)
    after, terminal = jnp.asarray(model.next_state), jnp.asarray(model.terminal)
    states, chances = jnp.asarray(list(starts)), jnp.asarray(list(starts.values()))

    def step(key, s, a):
        k = (jax.random.uniform(key) >= cumulative).sum()
        return reward[s, k, a], after[s, k, a], terminal[after[s, k, a]]

    return JaxSimulator(step, model.shape[2], start=lambda key: jax.random.choice(key, states, p=chances))


def check_moments(found, exact, n=5.0):
    mean, variance = exact
    gaps = found.summary.samples.returns[:, 1] - found.summary.samples.returns[:, 0]
    centred = gaps - gaps.mean()
    assert abs(gaps.mean() - mean) <= n * gaps.std() / math.sqrt(len(gaps)) + 1e-4
    assert abs(gaps.var() - variance) <= n * np.std(centred**2) / math.sqrt(len(gaps)) + 1e-4


def exact(model, pair, coupling):
    return gap_moments(model, pair["new"], pair["old"], coupling, STARTS)


def drawn(source, pair, samples, **settings):
    """All samples, however soon the question is decided, and none of them independent unless asked for."""
    given = {"seed": 3, "discount": None, "starts": None, "baseline": None, "coupling": SHARED} | settings
    common = ComparisonSettings(horizon=given.get("horizon"), seed=given["seed"], coupling=given["coupling"])
    question = policy_question(source, pair, given["starts"], given["discount"], given["baseline"], common)
    all_of_them = tuple(range(len(pair)))
    block = paired_draws(question.simulator, question.plan, 0, samples)
    return comparison_of(question, SamplingState(DrawnSamples(len(pair)).with_block(all_of_them, block), all_of_them))


# ------------------------------------------------------------------------------------------------- right answers


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_table_has_the_moments_of_the_pair_chain(coupling):
    model = table()
    found = drawn(model, policies(model), 20_000, starts=STARTS, coupling=coupling)
    check_moments(found, exact(model, policies(model), coupling))


@pytest.mark.parametrize("coupling", [SHARED, Local(), Independent()], ids=repr)
def test_with_a_discount_of_one_a_table_has_sums_over_the_horizon(coupling):
    """Policies and first actions against `evaluate` over the same steps; nothing is left after them."""
    model, steps = table(), {"horizon": 6, "discount": 1.0}
    pair = policies(model)
    truth = jmdp.evaluate(model, pair, coupling, starts=[0], **steps).gap("start", "new", "old")
    check_moments(drawn(model, pair, 20_000, starts=[0], coupling=coupling, **steps), (truth.mean, truth.variance))
    given = {"coupling": coupling, "seed": 3, "progress": False}
    rolled = jmdp.compare(model, pair["old"], state=1, samples=20_000, **steps, **given)
    truth = jmdp.evaluate(model, pair["old"], coupling, **steps).gap(1, 1, 0)
    check_moments(rolled, (truth.mean, truth.variance))
    with pytest.raises(SettingsError, match=r"the problem's own is 0\.8\. Omit discount\."):
        jmdp.compare_policies(model, pair, discount=1.0, starts=STARTS, **given)
    with pytest.raises(SettingsError, match="or give discount=1"):
        jmdp.compare_policies(model, pair, discount=0.9, horizon=6, starts=STARTS, **given)


def test_a_review_with_a_discount_of_one_is_over_the_horizon():
    model = table()
    pair, asked = policies(model), {"horizon": 6, "discount": 1.0, "starts": {0: 1.0}}
    found = jmdp.review(model, pair["new"], reference=pair["old"], seed=0, progress=False, **asked)
    truth = jmdp.evaluate(model, pair["old"], jmdp.Synchronous(), horizon=6, discount=1.0)
    table_of_old = jmdp.TabularPolicy.of(pair["old"], model).probs
    assert found.expectation.low <= float(table_of_old[0] @ truth.mean[0]) <= found.expectation.high
    assert found.earned == pytest.approx(float(found.trajectory.rewards.sum()))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
@pytest.mark.parametrize("kind", ["stepped", pytest.param("functions", marks=pytest.mark.long), "gymnasium"])
def test_simulators_have_the_moments_of_the_pair_chain(kind, coupling):
    model = table()
    pair = policies(model)
    source = {
        "stepped": lambda: Stepped(model),
        "functions": lambda: function_simulator(model, STARTS),
        "gymnasium": lambda: TableEnv(model, STARTS),
    }[kind]()
    own = {"starts": STARTS} if kind == "stepped" else {"discount": model.discount}
    samples = 400 if kind == "gymnasium" else 1000  # whose steps are slow
    check_moments(drawn(source, pair, samples, coupling=coupling, **own), exact(model, pair, coupling))


@pytest.fixture(scope="module")
def compiled():
    """A table, its policies, and its simulator, whose functions are compiled once."""
    model = table()
    return model, policies(model), jax_simulator(model, STARTS)


@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_a_jax_simulator_has_the_moments_of_the_pair_chain(coupling, compiled):
    model, pair, simulator = compiled
    found = drawn(simulator, pair, 4000, coupling=coupling, discount=model.discount)
    check_moments(found, exact(model, pair, coupling))
    assert simulator._episode_programs[0][0].coupling == coupling  # compiled


SOME = [SHARED, jmdp.Independent(policy_luck="independent")]  # starts are shared, and are not


@pytest.mark.parametrize(
    "coupling", [*SOME, *(pytest.param(c, marks=pytest.mark.long) for c in COUPLINGS if c not in SOME)], ids=repr
)
def test_a_jax_simulator_with_given_starts_has_the_moments_of_the_pair_chain(coupling, compiled):
    model, pair, simulator = compiled
    given = drawn(simulator, pair, 4000, coupling=coupling, discount=model.discount, starts=STARTS)
    check_moments(given, exact(model, pair, coupling))
    assert np.bincount(given.summary.samples.complete.starts[:, 0]) / 4000 == pytest.approx(
        [0.5, 0.3, 0.2], abs=5 / math.sqrt(4 * 4000)
    )


def test_a_policy_that_jax_cannot_trace_steps_one_by_one():
    model = table()
    simulator, p = jax_simulator(model, STARTS), policies(model)["old"]
    found = drawn(simulator, {"old": p, "again": lambda s: p[int(s)]}, 8, discount=model.discount)
    assert not simulator._episode_programs
    assert (found.summary.samples.returns[:, 0] == found.summary.samples.returns[:, 1]).all()


@pytest.mark.parametrize("kind", ["table", "stepped", "gymnasium", "jax"])
@pytest.mark.parametrize("coupling", [SHARED, Local(policy_luck="shared")], ids=repr)
def test_equal_policies_have_gap_zero(kind, coupling):
    model = table()
    source = {
        "table": lambda: model,
        "stepped": lambda: Stepped(model),
        "gymnasium": lambda: TableEnv(model, STARTS),
        "jax": lambda: jax_simulator(model, STARTS),
    }
    own = {"discount": model.discount} if kind in ("gymnasium", "jax") else {"starts": STARTS}
    p = policies(model)["old"]
    found = drawn(source[kind](), {"old": p, "new": p.copy()}, 100, coupling=coupling, **own)
    assert (found.summary.samples.returns[:, 0] == found.summary.samples.returns[:, 1]).all()
    assert found.superiority("old", "new") == 0
    assert found.pairing.gain == math.inf


def test_independent_returns_are_uncorrelated_also_for_equal_policies():
    """A correlation of 10,000 independent pairs is within 5/√n but once in 1.7 million."""
    model = table()
    p = policies(model)["old"]
    returns = drawn(model, {"old": p, "new": p}, 10_000, starts=STARTS, coupling=Independent()).summary.samples.returns
    assert abs(np.corrcoef(returns.T)[0, 1]) < 5 / math.sqrt(len(returns))
    assert (returns[:, 0] != returns[:, 1]).mean() > 0.9


@pytest.mark.parametrize("what", ["policy luck", "start"])
def test_a_planted_loss_of_sharing_is_seen(what, monkeypatch):
    """If policies' draws or starts were not shared, the variance of the gap would be another."""
    model = table()
    pair = policies(model)
    truth = exact(model, pair, SHARED)
    if what == "policy luck":
        shocks = LockstepBranches._shocks
        monkeypatch.setattr(
            LockstepBranches,
            "_shocks",
            lambda *given, shared, part=None: shocks(*given, shared=shared and given[1] != b"policy", part=part),
        )
    else:
        monkeypatch.setattr(BranchPlan, "start_shock", lambda plan, root, branch: root.derived(b"start", branch))
    found = drawn(Stepped(model), pair, 4000, starts=STARTS)
    with pytest.raises(AssertionError):
        check_moments(found, truth)


def test_a_sample_depends_on_the_seed_and_its_number_alone():
    model = table()
    for source in (model, Stepped(model)):
        one = drawn(source, policies(model), 100, starts=STARTS)
        plan = BranchPlan(
            starts=one.starts,
            actors=[jmdp.as_policy(p, model.actions) for p in policies(model).values()],
            coupling=SHARED,
            discount=model.discount,
            horizon=one.summary.horizon,
            seed=3,
        )
        simulator = TabularSimulator(model) if source is model else source
        if source is model:
            from jmdp.methods.monte_carlo.samples import compiled

            simulator = compiled(simulator)
        some = paired_draws(simulator, plan, 70, 5)
        assert (some.returns == one.summary.samples.returns[70:75]).all()
        assert (some.starts == one.summary.samples.complete.starts[70:75]).all()


def random_rule(observation, rng):
    return int(rng.integers(2))


@pytest.mark.parametrize("coupling", [SHARED, Synchronous(), Independent()])
def test_episodes_one_after_another_are_those_side_by_side(coupling):
    """Policies that gain nothing from batches need one environment; the samples are the same."""
    rules = {"even": lambda s: int(s) % 2, "drawn": random_rule}
    found = []
    for batched in (True, False):
        source = jmdp.simulators.GymnasiumSimulator(TableEnv(table(), STARTS), snapshot="replay")
        common = ComparisonSettings(horizon=9, seed=3, coupling=coupling)
        question = policy_question(source, rules, None, 0.8, None, common)
        for actor in question.plan.actors:
            assert not actor.batched
            actor.batched = batched
        found.append(paired_draws(question.simulator, question.plan, 5, 30))
        assert (sum(map(len, source._live()._free.values())) == 1) is not batched
    for name in ("returns", "ends", "gains", "starts"):
        assert (getattr(found[0], name) == getattr(found[1], name)).all()
    assert (found[0].steps, found[0].drew) == (found[1].steps, found[1].drew)
    by_hand = [[played_by_hand(question, sample, branch) for branch in range(2)] for sample in range(5, 35)]
    assert found[0].returns.tolist() == by_hand


def played_by_hand(question, sample, branch):
    """Return of an episode, with the keys that the plan defines."""
    plan, root = question.plan, Shock.of_sample(3, sample)
    episode = question.simulator.episode(plan.start_shock(root, branch))
    total, weight = 0.0, 1.0
    for t in range(plan.horizon):
        (action,) = plan.actors[branch].act([episode.observation], [plan.policy_shock(root, t, branch)])
        reward, over = episode.step(action, plan.step_shock(root, t, b"", branch))
        total, weight = total + weight * reward, weight * plan.discount
        if over:
            break
    return total


def test_a_function_that_jax_compiles_is_called_in_batches():
    jax = pytest.importorskip("jax")
    calls = []

    def even(s):
        calls.append(1)
        return jax.numpy.asarray(s) % 2

    common = ComparisonSettings(horizon=9, seed=3, coupling=SHARED)
    rules = {"even": even, "zero": lambda s: 0}
    question = policy_question(TableEnv(table(), STARTS), rules, None, 0.8, None, common)
    found = paired_draws(question.simulator, question.plan, 0, 40)
    assert question.plan.actors[0].batched
    assert len(calls) < 20  # while it is traced
    plain = policy_question(TableEnv(table(), STARTS), {**rules, "even": lambda s: s % 2}, None, 0.8, None, common)
    assert (found.returns == paired_draws(plain.simulator, plain.plan, 0, 40).returns).all()


def test_the_answer_names_the_better_policy():
    model = table()
    v = {name: gap_moments(model, p, p, SHARED, STARTS) for name, p in policies(model).items()}
    assert v["old"][0] == 0
    mean, _ = exact(model, policies(model), SHARED)
    found = jmdp.compare_policies(model, policies(model), starts=STARTS, seed=0, max_samples=20_000)
    assert found.outcome is jmdp.results.Outcome.BEST_FOUND
    assert found.best == ("new" if mean > 0 else "old")
    assert found.answer.startswith(f"{found.best} is better on what was seen: {found.best} earns ")
    assert mean in found.gap("new", "old").mean_interval
    assert isinstance(found, jmdp.comparisons.Comparison)
    assert " ".join(repr(found).split()).startswith(found.answer)
    assert list(found.to_dataframe().index) == ["old", "new"]
    assert pickle.loads(pickle.dumps(found)).best == found.best


# ------------------------------------------------------------------------------------------------- baseline and starts


def test_a_baseline_is_decided_against_each_other_policy():
    model = table()
    many = {**policies(model), "third": policies(model, 5)["old"]}
    found = jmdp.compare_policies(model, many, starts=STARTS, seed=0, baseline="old", max_samples=50_000)
    assert found.outcome in (jmdp.results.Outcome.BASELINE_COMPARED, jmdp.results.Outcome.BEST_FOUND)
    for name in ("new", "third"):
        gap = found.gap(name, "old").mean_interval
        assert gap.low > 0 or gap.high < 0
    assert found.reference == "old"
    assert found.rows()[0]["advantage over old"] == 0


def test_means_by_start_add_up():
    model = table()
    found = drawn(model, policies(model), 4000, starts=STARTS)
    rows = found.by_start().rows()
    assert [row["start"] for row in rows] == ["0", "1", "2"]
    assert sum(row["samples"] for row in rows) == 4000
    total = sum(row["samples"] * row["mean return of new"] for row in rows) / 4000
    assert total == pytest.approx(float(found.mean_of("new")))
    for row in rows:
        alone = gap_moments(model, policies(model)["new"], policies(model)["old"], SHARED, {int(row["start"]): 1.0})
        reference = found.reference
        sign, other = (1, "new") if reference == "old" else (-1, "old")
        gap = row[f"advantage of {other}"]
        assert abs(gap - sign * alone[0]) <= 2.5 * gap.error  # an error of 95% has two standard errors
    other = "new" if found.reference == "old" else "old"
    split = found.by_start().gap_variance(other)
    alone = [gap_moments(model, policies(model)["new"], policies(model)["old"], SHARED, {s: 1.0}) for s in STARTS]
    p = np.array(list(STARTS.values()))
    means, variances = np.array(alone).T
    assert split.within == pytest.approx(p @ variances, rel=0.2)
    assert split.between == pytest.approx(p @ (means - p @ means) ** 2, abs=0.2 * (p @ variances))
    assert "within starts" in repr(found.by_start())


def test_starts_of_a_table_as_an_array_a_list_and_a_world():
    model = table()
    pair = policies(model)
    array = np.array([0.5, 0.3, 0.2, 0.0, 0.0])
    same = [drawn(model, pair, 50, starts=starts).summary.samples.returns for starts in (array, STARTS)]
    assert (same[0] == same[1]).all()
    listed = drawn(model, pair, 50, starts=[2]).summary.samples.complete.starts
    assert (listed == 0).all()

    class World:
        start = array

    World.model = model
    assert (drawn(World(), pair, 50).summary.samples.returns == same[0]).all()
    with pytest.raises(SettingsError, match="A table has no start state"):
        drawn(model, pair, 50)
    with pytest.raises(UnavailableError, match="Pass them: starts="):
        drawn(TableEnv(model, STARTS), pair, 64, discount=0.5).by_start()


@pytest.mark.parametrize(
    ("starts", "said"),
    [([], "empty"), ({0: 0.5}, "sum to 1"), ("0", "Give a list"), ([0.5, 0.5], "array"), ([0, 0], "twice")],
)
def test_bad_starts_are_refused(starts, said):
    model = table()
    with pytest.raises(SettingsError, match=said):
        jmdp.compare_policies(model, policies(model), starts=starts, seed=0)


# ------------------------------------------------------------------------------------------------- pairing


def bandit(rewards, start=0.0):
    """One step: rewards[a](u, start luck); the start is a uniform number times `start`."""
    return FunctionSimulator(
        lambda s, a, u: rewards[a](u) + s,
        lambda s, a, u: -1.0,
        len(rewards),
        terminal=lambda s: s == -1.0,
        start=lambda rng: start * float(rng.random()),
    )


def two(simulator, **settings):
    given = settings or {"samples": 320}
    return jmdp.compare_policies(simulator, {"zero": lambda s: 0, "one": lambda s: 1}, seed=0, discount=0.9, **given)


def test_what_pairing_gains():
    """Z = u and u + v/10 with v = u² − 1/3: the gain is (Var Z_0 + Var Z_1)/Var v/100."""
    found = two(bandit([lambda u: u, lambda u: u + 0.1 * (u * u)]))
    u = (np.arange(100_000) + 0.5) / 100_000
    truth = (u.var() + (u + 0.1 * u * u).var()) / (0.1 * u * u).var()
    assert found.pairing.gain.low < truth < found.pairing.gain.high
    assert found.pairing.shares.steps > 0.5
    assert "independent sampling would need" in str(found.pairing)
    assert found.pairing.independent == 0


def test_where_the_luck_is():
    in_start = two(bandit([lambda u: 0.01 * u, lambda u: 0.01 * u + 0.1], start=1.0)).pairing.shares
    assert in_start.start > 0.95
    draws = jmdp.compare_policies(
        FunctionSimulator(lambda s, a, u: float(a), lambda s, a, u: 1, 2, terminal=lambda s: s == 1, start=0),
        {"fair": lambda s: [0.5, 0.5], "biased": lambda s: [0.4, 0.6]},
        seed=0,
        discount=1.0,
        horizon=5,
        samples=200,
    )
    assert draws.pairing.shares.policies > 0.5


def test_pairing_that_costs_is_given_up():
    """Z = u and 1 − u + a little: correlation −1, so independent samples tell twice as much."""
    found = two(bandit([lambda u: u, lambda u: 1.05 - u]), max_samples=5000)
    assert found.paired_samples == 32
    assert found.samples > 64
    assert found.best == "one"
    assert found.pairing.gain == pytest.approx(0.5, abs=0.05)
    assert "use the first 32" in str(found.pairing)
    assert found.gap("one", "zero").correlation == pytest.approx(-1)  # of the paired samples alone
    assert found.superiority("one", "zero").low > 0.2
    rest = found.summary.samples.returns[32:]
    assert abs(np.corrcoef(rest.T)[0, 1]) < 5 / math.sqrt(len(rest))
    gap = found.gap("one", "zero").mean_interval
    assert 0.05 in gap


# ------------------------------------------------------------------------------------------------- environments


def angle(observation):
    return int(observation[2] > 0)


def angle_and_speed(observation):
    return int(observation[2] + 0.5 * observation[3] > 0)


def test_episodes_of_cart_pole_are_its_own():
    """Without noise in the steps, a return is that of a plain loop from the same reset."""
    found = jmdp.compare_policies(
        gymnasium.make("CartPole-v1"), {"angle": angle, "both": angle_and_speed}, seed=0, discount=1.0, max_samples=64
    )
    assert found.summary.horizon == 500
    assert found.best == "both"
    env = gymnasium.make("CartPole-v1")
    root = jmdp.Shock.of_sample(0, 5).derived(b"start")
    observation, _ = env.reset(seed=int.from_bytes(root.words[:4], "little"))
    total, over = 0.0, False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(angle(observation))
        total, over = total + reward, terminated or truncated
    assert found.summary.samples.returns[5, 0] == total


def test_an_environment_that_cannot_be_copied_is_fine_and_repeats():
    pytest.importorskip("Box2D")
    env = gymnasium.make("LunarLander-v3", enable_wind=True)

    def falls(observation):
        return 0

    def brakes(observation):
        return 2 if observation[3] < -0.5 else 0

    runs = [
        jmdp.compare_policies(env, {"falls": falls, "brakes": brakes}, seed=1, discount=1.0, max_samples=8, horizon=150)
        for _ in range(2)
    ]
    assert (runs[0].summary.samples.returns == runs[1].summary.samples.returns).all()
    same = drawn(env, {"falls": falls, "again": lambda o: 0}, 4, discount=1.0)
    assert (same.summary.samples.returns[:, 0] == same.summary.samples.returns[:, 1]).all()


def test_mini_grid():
    pytest.importorskip("minigrid")
    env = gymnasium.make("MiniGrid-Dynamic-Obstacles-5x5-v0")
    policies = {"forward": lambda o: 2, "turns": lambda o: 2 * (o["direction"] % 2)}
    found = jmdp.compare_policies(env, policies, seed=0, discount=1.0, max_samples=300)
    assert found.summary.horizon == env.unwrapped.max_steps
    assert found.outcome is jmdp.results.Outcome.ONE_FUTURE  # an obstacle ends every episode, for −1
    assert not drawn(env, policies, 64, discount=0.9).summary.samples.complete.one_future


def test_gymnax_and_ale_run():
    pytest.importorskip("gymnax")
    pytest.importorskip("ale_py")
    from jmdp.simulators import ALESimulator, GymnaxSimulator

    jax = pytest.importorskip("jax")
    cart = GymnaxSimulator("CartPole-v1")
    pair = {"angle": lambda o: jax.numpy.int32(o[2] > 0), "left": lambda o: jax.numpy.int32(0)}
    found = jmdp.compare_policies(cart, pair, seed=0, discount=1.0, max_samples=64)
    assert found.best == "angle"
    assert found.summary.horizon == 500
    pong = jmdp.compare_policies(
        ALESimulator("pong"),
        {"up": lambda ram: 2, "same": lambda ram: 2},
        seed=0,
        discount=1.0,
        horizon=60,
        max_samples=4,
    )
    assert (pong.summary.samples.returns[:, 0] == pong.summary.samples.returns[:, 1]).all()


def test_an_uncontrolled_generator_is_refused():
    class Hidden(TableEnv):
        hidden = np.random.default_rng(0)

        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, reward + Hidden.hidden.random(), *rest

    model = table()
    with pytest.raises(SimulatorError, match=r"is not reproducible: policy 0 .*np_random"):
        jmdp.compare_policies(Hidden(model, STARTS), policies(model), seed=0, discount=0.8)


def test_the_users_environment_is_left_where_it_is():
    model = table()
    env = TableEnv(model, STARTS)
    env.reset(seed=5)
    before = env.s, env.np_random.bit_generator.state
    jmdp.compare_policies(env, policies(model), seed=0, discount=0.8, max_samples=64)
    assert (env.s, env.np_random.bit_generator.state) == before


# ------------------------------------------------------------------------------------------------- policies with memory


class Alternates:
    """Takes 0, 1, 0, 1, … in each episode; `resets` counts calls of the original's own."""

    def __init__(self):
        self.t, self.seen = 0, []

    def reset(self):
        self.t, self.seen = 0, []

    def __call__(self, observation):
        self.seen.append(observation)
        self.t += 1
        return (self.t - 1) % 2


class Counts(Simulator):
    """Pays the action of each of six steps, with weights 1, 2, 4, …"""

    actions = action_labels(2)

    def step(self, state, action, shock):
        return Step(float(action) * 2.0**state, state + 1, state == 5)

    def start(self, shock):
        return 0


def test_memories_do_not_leak():
    policy = Alternates()
    found = drawn(Counts(), {"alternates": policy, "again": policy, "one": lambda s: 1}, 20, discount=1.0, horizon=9)
    assert (found.summary.samples.returns == [2 + 8 + 32, 2 + 8 + 32, 63]).all()
    assert policy.t == 0
    assert policy.seen == []


def test_a_memory_without_reset_is_seen():
    calls = []

    def remembers(state):
        calls.append(state)
        return int(len(calls) % 7 < 3)

    with pytest.raises((PolicyError, SimulatorError), match=r"memory|remember"):
        jmdp.compare_policies(Counts(), {"a": remembers, "b": lambda s: 1}, seed=0, discount=1.0, horizon=6)


def test_a_recurrent_model_has_a_state_for_each_episode():
    class Recurrent:
        class policy:  # noqa: N801 (as sb3-contrib calls it)
            lstm_actor = True

        action_space, observation_space = gymnasium.spaces.Discrete(2), None

        def predict(self, observation, state=None, episode_start=None, deterministic=False):
            assert deterministic
            state = 0 if episode_start[0] else state
            return np.array(state % 2), state + 1

    found = drawn(Counts(), {"recurrent": Recurrent(), "one": lambda s: 1}, 5, discount=1.0, horizon=9)
    assert (found.summary.samples.returns[:, 0] == 2 + 8 + 32).all()


# ------------------------------------------------------------------------------------------------- refusals


def test_what_is_refused():
    model = table()
    pair = policies(model)
    with pytest.raises(SettingsError, match="two or more"):
        jmdp.compare_policies(model, {"old": pair["old"]}, starts=[0], seed=0)
    with pytest.raises(SettingsError, match="dictionary from names to policies"):
        jmdp.compare_policies(model, list(pair.values()), starts=[0], seed=0)
    with pytest.raises(LabelError, match=r"baseline is 'older'. Give the name of one of the policies: old, new"):
        jmdp.compare_policies(model, pair, starts=[0], seed=0, baseline="older")
    with pytest.raises(PolicyError, match="Policy 'new'"):
        jmdp.compare_policies(model, {**pair, "new": None}, starts=[0], seed=0)
    with pytest.raises(SettingsError, match="horizon="):
        jmdp.compare_policies(TableEnv(model, STARTS), pair, seed=0, discount=1.0)


def test_compare_names_compare_policies():
    with pytest.raises(SettingsError, match=r"jmdp\.compare_policies"):
        jmdp.compare(Counts(), {"old": None}, seed=0, discount=0.9)
    with pytest.raises(SettingsError, match=r"jmdp\.compare_policies"):
        jmdp.compare(table(), policies(table()), state=0, seed=0)


def test_going_on_draws_nothing_twice():
    model = table()
    settings = {"starts": STARTS, "seed": 4, "precision": 1e-9}
    short = jmdp.compare_policies(model, policies(model), max_samples=100, **settings)
    whole = jmdp.compare_policies(model, policies(model), max_samples=400, **settings)
    went_on = short.continued(400)
    assert (went_on.summary.samples.returns == whole.summary.samples.returns).all()


class _KeepsGenerator:
    def __init__(self):
        self.parts = {"noise": np.random.default_rng(0)}

    def reset(self):
        pass

    def __call__(self, observation):
        return 0


class _ResetAsks:
    def reset(self, seed):
        pass

    def __call__(self, observation):
        return 0


@pytest.mark.parametrize(
    ("policy", "said"),
    [(_KeepsGenerator(), "'new' .*contains a random generator, parts.noise"), (_ResetAsks(), "required arguments")],
)
def test_memories_that_would_repeat_themselves_are_refused(policy, said):
    world = jmdp.worlds.inventory(4)
    with pytest.raises(PolicyError, match=said):
        jmdp.compare_policies(world, {"old": lambda s: 0, "new": policy}, seed=0)


def test_the_answer_follows_the_interval():
    """A pair whose interval excludes 0 is decided, whatever was asked for besides; ties are told apart."""
    world = jmdp.worlds.inventory(6)
    policies = {"never": world.policies["never"], "base": world.policies["base_stock"]}
    found = jmdp.compare_policies(world, policies, seed=0, baseline="never", samples=200)
    assert (found.outcome, found.best) == (jmdp.results.Outcome.SAMPLED, "base")
    assert found.answer.startswith("base earns ")
    few = jmdp.compare_policies(world, policies, seed=0, max_samples=10)
    assert few.answer.startswith("too few episodes to decide")
    same = {"one": world.policies["never"], "other": world.policies["never"]}
    equal = jmdp.compare_policies(world, same, seed=0, max_samples=100)
    assert equal.outcome is jmdp.results.Outcome.EQUAL_BEST
    assert equal.answer == "one and other have equal means: they are the same policy"


def test_messages_for_common_mistakes():
    gym = pytest.importorskip("gymnasium")
    env = gym.make("Blackjack-v1")
    pair = {"old": lambda hand: 0, "new": lambda hand: int(hand[0] < 17)}
    with pytest.raises(SettingsError, match="has no time limit, and discount is 1"):
        jmdp.compare_policies(env, pair, seed=0, discount=1.0)
    with pytest.raises(LabelError, match="Did you mean 'old'"):
        jmdp.compare_policies(env, pair, seed=0, discount=1.0, horizon=20, baseline="odl")
    with pytest.raises(SettingsError, match=r"starts contains a .*Give snapshots"):
        jmdp.compare_policies(env, pair, seed=0, discount=1.0, horizon=20, starts=[0, 1])
    with pytest.raises(SettingsError, match="compare_policies"):
        jmdp.compare(env, policy=pair, seed=0, discount=1.0, horizon=20)
    found = jmdp.compare_policies(env, pair, seed=0, discount=1.0, horizon=20, max_samples=200)
    assert ", the same in " in found.answer


@pytest.mark.parametrize("settings", [{"samples": 100}, {"max_samples": 100, "precision": 1e-9}], ids=repr)
def test_the_interval_of_a_gap_is_that_of_the_rule(settings):
    model = table()
    found = jmdp.compare_policies(model, policies(model), seed=0, starts=STARTS, **settings)
    first, second = found.alternatives
    gaps = found.summary.samples.returns[:, [0]] - found.summary.samples.returns[:, [1]]
    below, above = found.summary.sampling.mean_errors(gaps, 0.05)
    interval = found.gap(first, second).mean_interval
    assert gaps.mean() - interval.low == pytest.approx(below[0], rel=1e-4)  # and a cut tail
    assert interval.high - gaps.mean() == pytest.approx(above[0], rel=1e-4)
