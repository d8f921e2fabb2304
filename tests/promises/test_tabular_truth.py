"""Every door tells the truth: a table brought in as a simulator has the exact answers of the table.

Answers of `compare` and `MonteCarlo` lie within 5 standard errors of `ExactPairs`; a normal estimate is further off
once in 1.7 million times (a rough number where samples are as few as 100), and with the 22 numbers of each of some 30
comparisons all of them together raise a false alarm with probability 4e-4. One-step outcomes have the table's joint
distribution by G-tests, all together at 1e-6 (P6). Seeds are fixed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ncx2

import jmdp
from jmdp.base.arrays import cumulative_rows
from jmdp.base.luck import Shock
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.models.coupling import Coupling
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators import FunctionSimulator, TabularSimulator
from jmdp.simulators.simulator import Simulator
from sample_models import COUPLINGS

WORLD = jmdp.worlds.windy_gridworld(3, 3, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=0.7)
MODEL, POLICY = WORLD.model, WORLD.policies["uniform"]
START, HORIZON = 4, 30  # what is cut off is less than 1e-4
CUT = 1e-4
FALSE_ALARM, POWER = 1e-6, 0.99


# --------------------------------------------------------------------------------------------------- the doors


def table_env(model: TabularJMDP) -> Any:
    gym = pytest.importorskip("gymnasium")

    class Table(gym.Env):
        """A scenario table as people write environments: a scenario is drawn from np_random, then the action acts."""

        def __init__(self) -> None:
            self.observation_space = gym.spaces.Discrete(model.shape[0])
            self.action_space = gym.spaces.Discrete(model.shape[2])
            self.s = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.s = int((options or {}).get("state", 0))
            return self.s, {}

        def step(self, action):
            k = int(self.np_random.choice(model.shape[1], p=model.prob[self.s]))
            reward, self.s = float(model.reward[self.s, k, action]), int(model.next_state[self.s, k, action])
            return self.s, reward, bool(model.terminal[self.s]), False, {}

    return Table()


def through_gymnasium(model: TabularJMDP, state: int) -> tuple[Simulator, Any]:
    from jmdp.simulators import GymnasiumSimulator

    simulator = GymnasiumSimulator(table_env(model), check=False)
    return simulator, simulator.reset(0, {"state": state})


def through_replay(model: TabularJMDP, state: int) -> tuple[Simulator, Any]:
    from jmdp.simulators import GymnasiumSimulator

    simulator = GymnasiumSimulator(table_env(model), snapshot="replay", digest=lambda env: env.unwrapped.s, check=False)
    return simulator, simulator.reset(0, {"state": state})


def through_functions(model: TabularJMDP, state: int) -> tuple[Simulator, Any]:
    rows = cumulative_rows(model.prob)

    def scenario(s: int, u: float) -> int:
        return int(np.searchsorted(rows[s], u, side="right"))

    return FunctionSimulator(
        lambda s, a, u: float(model.reward[s, scenario(s, u), a]),
        lambda s, a, u: int(model.next_state[s, scenario(s, u), a]),
        model.shape[2],
        luck=lambda rng: rng.random(),
        terminal=lambda s: bool(model.terminal[s]),
    ), state


def through_table(model: TabularJMDP, state: int) -> tuple[Simulator, Any]:
    return TabularSimulator(model), state


@cache
def _jax(model: TabularJMDP) -> Simulator:
    try:
        from jmdp.simulators import JaxSimulator
    except (ImportError, AttributeError, MissingExtraError) as missing:
        pytest.skip(str(missing))
    import jax
    import jax.numpy as jnp

    rows, reward, following = (jnp.asarray(x) for x in (cumulative_rows(model.prob), model.reward, model.next_state))
    terminal = jnp.asarray(model.terminal)

    def step(key, s, a):
        k = jnp.searchsorted(rows[s], jax.random.uniform(key), side="right")
        after = following[s, k, a]
        return reward[s, k, a], after, terminal[after]

    return JaxSimulator(step, model.shape[2])


def through_jax(model: TabularJMDP, state: int) -> tuple[Simulator, Any]:
    return _jax(model), np.int32(state)


DOORS = {
    "table": (through_table, 800),
    "functions": (through_functions, 300),
    "gymnasium": (through_gymnasium, 100),
    "jax": (through_jax, 2000),
}


# --------------------------------------------------------------------------------------------------- the answers


def off_by(returns: Any, exact: jmdp.results.Evaluation, state: int) -> dict[str, float]:
    """How many standard errors each mean, gap mean, gap variance and correlation is off."""
    n, A = returns.shape
    found: dict[str, float] = {}

    def compare(name: str, value: float, truth: float, influence: Any, cut: float) -> None:
        error = influence.std() / np.sqrt(n)
        found[name] = max(0.0, abs(value - truth) - cut - 1e-9) / max(error, 1e-12)

    centred = returns - returns.mean(axis=0)
    for a in range(A):
        compare(f"mean {a}", returns[:, a].mean(), exact.mean[state, a], centred[:, a], CUT)
    for a, b in combinations(range(A), 2):
        gap, truth = centred[:, a] - centred[:, b], exact.gap(state, a, b)
        mean = returns[:, a].mean() - returns[:, b].mean()
        compare(f"gap mean {a} {b}", mean, truth.mean, gap, 2 * CUT)
        variance = float((gap**2).mean())
        compare(f"gap variance {a} {b}", variance, truth.std**2, gap**2 - variance, 10 * CUT)
        x, y = (centred[:, i] / centred[:, i].std() for i in (a, b))
        rho = float((x * y).mean())
        compare(f"correlation {a} {b}", rho, truth.correlation, x * y - rho * (x * x + y * y) / 2, 10 * CUT)
    return found


@pytest.fixture(scope="module")
def exact():
    known = {repr(coupling): jmdp.evaluate(MODEL, POLICY, coupling, jmdp.ExactPairs()) for coupling in COUPLINGS}
    return lambda coupling: known[repr(coupling)]


def draw(simulator: Simulator, state: Any, coupling: Coupling, samples: int, seed: int) -> jmdp.comparisons.Comparison:
    return jmdp.compare(
        simulator,
        POLICY,
        state=state,
        seed=seed,
        discount=MODEL.discount,
        coupling=coupling,
        samples=samples,
        horizon=HORIZON,
        progress=False,
    )


CASES = [
    pytest.param(
        door,
        coupling,
        id=f"{door}-{coupling}",
        # Copies of environments and compilations take longer.
        marks=() if door in ("table", "functions") or i in (0, 3, 4) else pytest.mark.long,
    )
    for door in DOORS
    for i, coupling in enumerate(COUPLINGS)
]


@cache
def _drawn(door: str, coupling: Coupling) -> jmdp.comparisons.Comparison:
    make, samples = DOORS[door]
    return draw(*make(MODEL, START), coupling, samples, seed=31)


@pytest.mark.parametrize(("door", "coupling"), CASES)
def test_compare_agrees_with_exact_pairs(door, coupling, exact):
    found = _drawn(door, coupling)
    assert found.samples == DOORS[door][1]
    far = off_by(found.summary.samples.returns, exact(coupling), START)
    assert len(far) == 22
    assert max(far.values()) < 5, far


def test_couplings_can_be_told_apart(exact):
    """Else the test above would be empty: answers of one coupling are more than 3 errors from those of another."""
    for i, coupling in enumerate(COUPLINGS):
        found = _drawn("table", coupling)
        for j, other in enumerate(COUPLINGS):
            far = max(off_by(found.summary.samples.returns, exact(other), START).values())
            assert far < 5 if i == j else far > 3, (coupling, other, far)


def test_a_replayed_environment_that_says_what_its_state_is_tells_the_truth(exact):
    """Under Local, states met on two ways are one: only the digest can tell."""
    found = draw(*through_replay(MODEL, START), jmdp.Local(), 96, seed=33)
    assert max(off_by(found.summary.samples.returns, exact(jmdp.Local()), START).values()) < 5
    assert found.summary.samples.shared_steps > 0


def test_an_environment_is_taken_as_it_stands(exact):
    env = table_env(MODEL)
    env.reset(seed=0, options={"state": START})
    found = jmdp.compare(
        env,
        policy=POLICY,
        seed=34,
        discount=MODEL.discount,
        coupling=jmdp.Synchronous(),
        samples=150,
        horizon=HORIZON,
        progress=False,
    )
    assert max(off_by(found.summary.samples.returns, exact(jmdp.Synchronous()), START).values()) < 5
    assert env.s == START


# ----------------------------------------------------------------------------------------------------------- P6


@cache
def rich_model() -> TabularJMDP:
    """Three states, four scenarios of different chances in each, three actions; rewards and arrivals that overlap."""
    rng = np.random.default_rng(57)  # with which independent luck differs by 0.6 in total variation, everywhere
    prob, reward = rng.dirichlet(np.full(4, 3.0), size=3), rng.integers(0, 2, (3, 4, 3)).astype(float)
    return TabularJMDP(prob, reward, rng.integers(0, 3, (3, 4, 3)), 0.9)


def joint_distribution(model: TabularJMDP, s: int, a: int, b: int, *, shared: bool) -> dict[Any, float]:
    """Of (R, S', R̃, S̃')."""
    distribution: dict[Any, float] = defaultdict(float)
    K = model.shape[1]
    for k in range(K):
        for m in [k] if shared else range(K):
            p = model.prob[s, k] * (1.0 if shared else model.prob[s, m])
            one, other = ((float(model.reward[s, j, c]), int(model.next_state[s, j, c])) for j, c in ((k, a), (m, b)))
            distribution[one + other] += p
    return distribution


def g_test(seen: Counter[Any], distribution: dict[Any, float], n: int) -> tuple[float, int]:
    """G and its degrees of freedom; infinite if something was drawn that cannot happen."""
    if any(distribution.get(cell, 0.0) <= 0 for cell in seen):
        return np.inf, max(1, len(distribution) - 1)
    large = [cell for cell, p in distribution.items() if p * n >= 10]
    cells = [(seen[cell], distribution[cell] * n) for cell in large]
    rest = n - sum(e for _, e in cells)
    if rest >= 10:
        cells.append((n - sum(o for o, _ in cells), rest))
    return max(0.0, 2 * sum(o * np.log(o / e) for o, e in cells if o)), len(cells) - 1


STEPS = {"table": 4000, "functions": 4000, "gymnasium": 1000, "jax": 3000}


def outcomes(door: str, coupling: Coupling) -> dict[tuple[int, int, int], Counter[Any]]:
    """Counts of (R, S', R̃, S̃') for each state and pair of actions, each branch meeting what the coupling says."""
    model, n = rich_model(), STEPS[door]
    S, _, A = model.shape
    found: dict[tuple[int, int, int], Counter[Any]] = defaultdict(Counter)
    for s in range(S):
        simulator, state = DOORS[door][0](model, s)
        digest = simulator.digest(state)
        luck = [[coupling.environment_shock(Shock.of_sample(s, i), 0, digest, a) for i in range(n)] for a in range(A)]
        if hasattr(simulator, "outcomes"):  # the same as single steps, compiled
            tables = [simulator.outcomes(state, _keys(shocks), [a]) for a, shocks in enumerate(luck)]
            ends = [[(float(r), int(t)) for r, t in zip(x.reward[:, 0], x.state[:, 0], strict=True)] for x in tables]
        else:
            steps = [[simulator.step(state, a, shock) for shock in shocks] for a, shocks in enumerate(luck)]
            ends = [[(step.reward, int(simulator.observe(step.state))) for step in of_action] for of_action in steps]
        for a, b in combinations(range(A), 2):
            found[s, a, b].update(one + other for one, other in zip(ends[a], ends[b], strict=True))
    return found


def _keys(luck: list[Shock]) -> Any:
    """As `Shock.key` makes them, all at once."""
    import jax

    words = np.stack([np.frombuffer(shock.words, np.uint32, 2) for shock in luck])
    assert jax.random.wrap_key_data(words[0]) == luck[0].key()
    return jax.random.wrap_key_data(words)


@pytest.mark.parametrize("door", DOORS)
def test_p6_one_step_has_the_joint_distribution_of_the_table(door, capsys):
    model, n = rich_model(), STEPS[door]
    tests = 2 * 9 * len(DOORS)
    least, missed = [], []
    for coupling, shared in ((jmdp.Local(), True), (jmdp.Independent(), False)):
        for (s, a, b), seen in outcomes(door, coupling).items():
            distribution = joint_distribution(model, s, a, b, shared=shared)
            g, freedom = g_test(seen, distribution, n)
            threshold = chi2.isf(FALSE_ALARM / tests, max(freedom, 1))
            assert g <= threshold, f"{door}, {coupling}, state {s}, actions {a} and {b}: {g:.1f} over {threshold:.1f}"
            distances = np.geomspace(1e-3, 2, 400)
            power = ncx2.sf(threshold, max(freedom, 1), n * distances**2)
            least.append(distances[np.argmax(power >= POWER)])
            # Planted: the other kind of luck.
            wrong, freedom = g_test(seen, joint_distribution(model, s, a, b, shared=not shared), n)
            missed.append(wrong <= chi2.isf(FALSE_ALARM / tests, max(freedom, 1)))
    with capsys.disabled():
        print(
            f"\nP6, {door}: 18 G-tests of {n} draws, false alarm {FALSE_ALARM:g} over all doors; χ² distance "
            f"{np.median(least):.3f} (largest {max(least):.3f}) is seen with probability {POWER}; wrong luck was "
            f"rejected in {18 - sum(missed)} of 18"
        )
    assert max(least) < 0.35
    assert sum(missed) == 0


# ---------------------------------------------------------------------------------------- MonteCarlo on simulators


@pytest.mark.parametrize("coupling", COUPLINGS[::2], ids=repr)
def test_monte_carlo_on_a_simulator_is_monte_carlo_on_the_table(coupling, exact):
    states = [START, 7]
    method = jmdp.MonteCarlo(seed=4, samples=100, states=states, horizon=HORIZON)
    simulator, _ = through_functions(MODEL, START)
    found = jmdp.evaluate(simulator, POLICY, coupling, method, discount=MODEL.discount, progress=False)
    table = jmdp.evaluate(MODEL, POLICY, coupling, jmdp.MonteCarlo(seed=5, samples=1500), progress=False)
    assert found.mean.shape == (2, 4)
    assert found.covariance.shape == (2, 4, 4)
    one, other = found.certificate, table.certificate
    for error, value, also, truth in (
        ("mean_error", found.mean, table.mean[states], exact(coupling).mean[states]),
        ("covariance_error", found.covariance, table.covariance[states], exact(coupling).covariance[states]),
    ):
        mine, theirs = np.asarray(getattr(one, error)) / 1.96, np.asarray(getattr(other, error))[states] / 1.96
        assert (np.abs(value - truth) <= 5 * mine + 1e-9).all()
        assert (np.abs(value - also) <= 5 * np.hypot(mine, theirs) + 1e-9).all()
    gap, truth = found.gap(0, 1, 3), exact(coupling).gap(START, 1, 3)
    assert abs(gap.mean - truth.mean) <= 5 / 1.96 * float(np.asarray(one.gap_mean_error)[0, 1, 3])


def test_more_states_change_no_numbers_of_those_before():
    simulator, _ = through_functions(MODEL, START)
    several, alone = (
        jmdp.evaluate(
            simulator, POLICY, jmdp.Local(),
            jmdp.MonteCarlo(seed=4, samples=50, states=states, horizon=9), discount=0.7, progress=False,
        )
        for states in ([START, 0, START], [START])
    )  # fmt: skip
    assert np.array_equal(several.mean[0], alone.mean[0])
    assert np.array_equal(several.covariance[0], alone.covariance[0])
    assert not np.array_equal(several.mean[0], several.mean[2])  # each its own luck


def test_intervals_cover_at_their_confidence(exact):
    """Of 30 runs, each with its 95 % intervals. Chance that fewer than 70 % of one kind cover: 1e-5."""
    simulator, _ = through_table(MODEL, START)
    truth, hits = exact(jmdp.Local()), np.zeros(4)
    runs = 30
    for seed in range(runs):
        method = jmdp.MonteCarlo(seed=seed, samples=60, states=[START], horizon=14)
        found = jmdp.evaluate(simulator, POLICY, jmdp.Local(), method, progress=False)
        gap, true_gap = found.gap(0, 0, 3), truth.gap(START, 0, 3)
        mean_error = np.asarray(found.certificate.mean_error)
        hits += [
            abs(found.mean[0, 1] - truth.mean[START, 1]) <= mean_error[0, 1],
            gap.mean_interval.low <= true_gap.mean <= gap.mean_interval.high,
            gap.std_interval.low <= true_gap.std <= gap.std_interval.high,
            gap.correlation_interval.low <= true_gap.correlation <= gap.correlation_interval.high,
        ]
    assert (hits / runs >= 0.7).all(), hits / runs
    assert hits.min() < runs  # and are not so wide that they say nothing


def test_a_horizon_is_in_the_intervals(exact):
    """Cut after two steps, all that is lost is inside."""
    simulator, _ = through_functions(MODEL, START)
    method = jmdp.MonteCarlo(seed=1, samples=400, states=[START], horizon=2)
    found = jmdp.evaluate(simulator, POLICY, jmdp.Local(), method, discount=0.7, progress=False)
    error, truth = np.asarray(found.certificate.mean_error)[0], exact(jmdp.Local())
    assert (np.abs(found.mean[0] - truth.mean[START]) <= error).all()
    assert (error > 0.3).any()


def test_with_discount_1_the_horizon_is_the_question():
    counter = FunctionSimulator(lambda s, a, u: a + 1e-3 * (u < 0.5), lambda s, a, u: s, 2, start=0)
    method = jmdp.MonteCarlo(seed=0, samples=100, horizon=7)
    found = jmdp.evaluate(counter, lambda s: 1, jmdp.Local(), method, discount=1.0, progress=False)
    assert found.mean[0].tolist() == pytest.approx([6.0, 7.0], abs=7e-3)
    assert np.max(found.certificate.mean_error) < 1e-3


def test_what_is_missing_is_said():
    simulator, _ = through_functions(MODEL, START)

    def run(source: Any = simulator, discount: float | None = None, **settings: Any) -> None:
        method = jmdp.MonteCarlo(seed=0, samples=4, **settings)
        jmdp.evaluate(source, POLICY, jmdp.Local(), method, discount=discount, progress=False)

    with pytest.raises(SettingsError, match="has no discount"):
        run(states=[0])
    with pytest.raises(SettingsError, match=r"discount is 1\.5"):
        run(states=[0], discount=1.5)
    with pytest.raises(SettingsError, match="horizon="):
        run(states=[0], discount=1.0)
    with pytest.raises(jmdp.errors.UnavailableError, match="has no start state"):
        run(discount=0.9)
    with pytest.raises(SettingsError, match="Give a list of states"):
        run(states=3, discount=0.9)
    with pytest.raises(SettingsError, match=r"discount is 0\.9, but the problem's own is 0\.7. Omit discount"):
        run(MODEL, discount=0.9)
    with pytest.raises(SettingsError, match="states is given for a table"):
        run(MODEL, states=[0])
    with pytest.raises(jmdp.errors.JMDPError, match="MonteCarlo"):
        jmdp.evaluate(simulator, POLICY, jmdp.Local(), jmdp.ExactPairs())
    pendulum = pytest.importorskip("gymnasium").make("Pendulum-v1")
    with pytest.raises(SettingsError, match=r"jmdp\.compare\(…, actions="):
        jmdp.evaluate(
            jmdp.simulators.GymnasiumSimulator(pendulum), lambda seen: np.zeros(1), jmdp.Local(),
            jmdp.MonteCarlo(seed=0), discount=0.9,
        )  # fmt: skip
