"""`compare`: what it decides, what it says of how sure that is, and what it refuses."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import jmdp
from jmdp.errors import LabelError, SettingsError, SimulatorError, UnavailableError
from jmdp.simulators import FunctionSimulator, Simulator, Step, TabularSimulator, action_labels

UNIFORM = "uniform"


def one_step(reward, actions=2, **settings):
    """A game of one step; luck is a uniform number unless said otherwise."""
    return FunctionSimulator(
        lambda s, a, u: reward(a, u), lambda s, a, u: 1, actions, terminal=lambda s: s == 1, start=0, **settings
    )


def compared(simulator, **settings):
    return jmdp.compare(simulator, **{"policy": UNIFORM, "discount": 0.9, "seed": 0} | settings)


# ------------------------------------------------------------------------------------------------- right answers


def test_a_step_with_known_distributions():
    """Z(0) = u, Z(1) = u² + 0.2: means 1/2 and 1/3 + 0.2, and the gap is better for u < u_0. False alarm 1e-5."""
    found = compared(one_step(lambda a, u: u if a == 0 else u * u + 0.2), samples=2000, confidence=1 - 2.5e-6)
    gap = found.gap(1, 0)
    assert gap.mean_interval is not None
    assert 1 / 30 in gap.mean_interval
    assert found.mean_of(0).low <= 1 / 2 <= found.mean_of(0).high
    root = (1 - math.sqrt(0.2)) / 2  # u² − u + 0.2 > 0 below it and above its mirror image
    better = found.superiority(1, 0)
    assert better.low <= 2 * root <= better.high
    assert found.superiority(0, 0) == 0
    regret = np.maximum(0, (lambda u: u * u + 0.2 - u)(np.linspace(0, 1, 100_001)))
    assert found.regret(0).mean == pytest.approx(regret.mean(), abs=0.01)
    assert found.regret(0).quantile(0.9).low <= np.quantile(regret, 0.9) <= found.regret(0).quantile(0.9).high


def test_rewards_minus_one_and_minus_two_are_no_tie():
    """In the second step, where the sum is rounded: Python has one hash for both."""
    found = compared(in_parts(([0.0, -1.0], [0.0, -2.0]), 2), max_samples=200, policy=lambda s: 0)
    assert found.superiority(0, 1) == 1
    assert found.gap(0, 1).distribution().superiority() == 1


def test_actions_keep_their_numbers_in_a_subset():
    found = compared(one_step(lambda a, u: a + 0.01 * u, 3), actions=[1, 0])
    assert found.best == "1"
    assert found.mean_of(1) == pytest.approx(1.005, abs=0.01)
    assert found.gap(1, 0).mean == pytest.approx(1)
    with pytest.raises(LabelError, match=r"Action 2 was not compared\. Compared actions: 1, 0"):
        found.mean_of(2)


@pytest.mark.parametrize(("parts", "size"), [(10, 0.1), (20, 0.05), (30, 0.1)])
def test_a_tie_up_to_rounding_decides_nothing(parts, size):
    """Parts of a size against their sum at once, which float64 rounds otherwise."""
    at_once = FunctionSimulator(
        lambda s, a, u: round(parts * size, 9) if s == 0 and a == 1 else size,
        lambda s, a, u: parts if s == 0 and a == 1 else s + 1,
        2,
        terminal=lambda s: s == parts,
        start=0,
    )
    found = compared(at_once, discount=1.0, horizon=200, max_samples=300, policy=lambda s: 0)
    assert found.best is None
    assert found.superiority(1, 0).low == found.superiority(0, 1).low == 0


def test_a_gap_that_never_varied_has_no_interval_but_a_verdict_that_says_what_would_reverse_it():
    """Also if it varied by rounding alone; and a regret that was never felt may be possible."""
    for cost in (0.25, 0.01):  # exact in a float, and not
        found = compared(one_step(lambda a, u, cost=cost: (u < 0.5) + (0.0 if a == 0 else cost)))
        assert (found.best, found.samples) == ("1", 64)
        assert found.gap(1, 0).mean_interval is None
        assert found.unseen == pytest.approx(1 - 0.01 ** (1 / 64))
        assert found.break_even == pytest.approx(cost * (1 - found.unseen) / found.unseen)
        assert found.regret(1).quantile(0.99).high > 0
        assert "This reverses only if something that happens in fewer than 1 of 14 rollouts, and was" in " ".join(
            repr(found).split()
        )
        assert "the gap to 0 was the same in all samples: no spread was seen, so there is no interval" in " ".join(
            repr(found).split()
        )
        assert f"1 earns {cost} (the same in every rollout) more than 0" in found.answer
        lost = compared(one_step(lambda a, u, cost=cost: (u < 0.5) + cost * a), assume=jmdp.Assumptions(largest_loss=2))
        off = 2 * math.log(2 / 0.05) / lost.samples
        assert lost.gap(1, 0).mean_interval.low == pytest.approx(cost - off, abs=1e-9)
        assert lost.gap(1, 0).mean_interval.high == pytest.approx(cost + off, abs=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8])
def test_rewards_of_small_types_add_up(kind):
    class Steady(Simulator):
        actions = action_labels(2)

        def step(self, state, action, shock):
            return Step(kind(100), state, np.bool_(False))

        def start(self, shock):
            return 0

    found = compared(Steady(), discount=1.0, horizon=2000, max_samples=2)
    assert found.mean_of(0) == 200_000
    assert found.summary.samples.largest_reward == 100


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1.0, 1e150, 1e300])
def test_any_scale(scale):
    """All is as at scale 1, up to a factor."""
    found = compared(one_step(lambda a, u: scale * (a * 0.01 + u * (1 + 0.5 * a))), samples=500)
    base = compared(one_step(lambda a, u: a * 0.01 + u * (1 + 0.5 * a)), samples=500)
    assert found.mean_of(1) / scale == pytest.approx(float(base.mean_of(1)))
    assert found.mean_of(1).high / scale == pytest.approx(base.mean_of(1).high)
    assert found.variance_reduction(0, 1) == pytest.approx(float(base.variance_reduction(0, 1)))
    assert repr(found)


def test_returns_that_overflow_are_refused():
    endless = FunctionSimulator(lambda s, a, u: 1e308, lambda s, a, u: s, 2, start=0)
    with pytest.raises(SimulatorError, match="too large for a float"):
        compared(endless, discount=0.99, max_samples=64)


def test_variance_reduction_where_only_rounding_differs():
    found = compared(one_step(lambda a, u: a + u), max_samples=64, discount=1.0, horizon=1)
    assert found.variance_reduction(0, 1) == math.inf


def test_cut_rollouts_without_any_reward_say_nothing():
    """A reward after the horizon that nobody has met."""
    late = FunctionSimulator(lambda s, a, u: 100.0 * (s == 10), lambda s, a, u: s + 1, 2, start=0)
    apart = jmdp.Independent()
    found = compared(late, horizon=8, max_samples=100, precision=0.1, coupling=apart)
    assert found.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
    assert found.summary.gap_interval(0, 1).high == math.inf
    lost = jmdp.Assumptions(reward_bound=100.0, largest_loss=1.0)
    known = compared(late, horizon=8, max_samples=100, precision=0.1, coupling=apart, assume=lost)
    assert known.gap(0, 1).mean_interval.high >= 2 * 0.9**8 * 1000


def test_no_return_after_the_end():
    found = compared(one_step(lambda a, u: a + u), state=1, max_samples=64)
    assert found.mean_of(0) == found.mean_of(1) == 0


# ------------------------------------------------------------------------------------------------------- ties


def in_parts(parts, last=None):
    """The first action a earns parts[a], a number in each step, and then 0 until the end, if there is one."""

    def reward(state, action, luck):
        step, earns = state[0], parts[action if state[1] is None else state[1]]
        return earns[step] if step < len(earns) else 0.0

    return FunctionSimulator(
        reward,
        lambda s, a, u: (s[0] + 1, a if s[1] is None else s[1]),
        len(parts),
        terminal=lambda s: last is not None and s[0] >= last,
        start=(0, None),
    )


@pytest.mark.parametrize("last", [3, None])
@pytest.mark.parametrize("parts", [([1.0], [0.0, 1.0]), ([1.0], [0.5, 0.25, 0.25]), ([-2.0, 1.0], [1.0, -2.0])])
def test_bit_equal_returns_are_ties_at_discount_1(parts, last):
    """The same sum in other steps or parts, ended or not: no chance of better or worse was seen."""
    found = compared(in_parts(parts, last), discount=1.0, horizon=6, max_samples=200, policy=lambda s: 0)
    for first, second in ((0, 1), (1, 0)):
        assert found.superiority(first, second) == 0
        assert found.superiority(first, second).high < 0.05
    ties = found.gap(0, 1).distribution().ties()
    assert ties == pytest.approx(1)
    assert ties.high == 1
    assert ties.low > 0.4  # twice the band of a distribution from 200 samples


def test_returns_equal_by_rounding_are_not_called_ties():
    """A reward of 2⁻⁵⁴ is lost beside 1."""
    parts = ([1.0, 2.0**-54], [1.0])
    assert sum(parts[0]) == sum(parts[1])
    found = compared(in_parts(parts, 3), discount=1.0, horizon=6, max_samples=200, policy=lambda s: 0)
    assert found.superiority(0, 1).low == found.superiority(1, 0).low == 0
    assert found.superiority(0, 1).high == found.superiority(1, 0).high == 1


def test_ties_of_blackjack_count_as_ties():
    env = pytest.importorskip("gymnasium").make("Blackjack-v1")
    env.reset(seed=3)
    found = compared(env, policy=lambda o: int(o[0] < 17), discount=1.0, horizon=20, samples=400)
    better, worse = found.superiority(0, 1), found.superiority(1, 0)
    assert 1 - better - worse > 0.1
    assert better.high + worse.high < 1
    assert better.high - better.low < 0.2


def test_gaps_within_the_tolerance_are_ties():
    game = one_step(lambda a, u: 0.25 * a + (2.0 if a == 1 and u < 0.1 else 0.0))
    strict, loose = (
        compared(game, max_samples=100),
        compared(game, max_samples=100, assume=jmdp.Assumptions(tie_tolerance=0.25)),
    )
    assert strict.superiority(1, 0) == 1
    assert loose.superiority(1, 0) == pytest.approx(0.1, abs=0.1)
    assert loose.superiority(1, 0).high < 0.5
    assert loose.superiority(0, 1).high < 0.1


# ------------------------------------------------------------------------------------------------ confidence


def test_what_has_no_interval_without_a_range():
    game = one_step(lambda a, u: 0.3 * a + 0.5 * u * (1 + a))
    found, bounded = compared(game), compared(game, assume=jmdp.Assumptions(return_range=(0.0, 1.5)))
    gap, regret = found.gap(1, 0), found.regret(0)
    assert gap.std_interval is gap.variance_interval is gap.correlation_interval is None
    assert gap.large_sample
    assert found.evaluation.covariance_interval(0, 0, 1) is None
    worst = found.advantage_quantiles(1, 0)["worst 5%"]
    for estimate in (regret.mean, regret.cvar(0.05), worst, found.variance_reduction_ceiling(1, 0)):
        assert (estimate.low, estimate.high) == (-math.inf, math.inf)
    assert "those of means are large-sample intervals of what was seen" in " ".join(repr(found).split())
    assert found.to_dataframe()[["std low", "mean regret high", "correlation low"]].loc["0"].isna().all()
    gap, regret = bounded.gap(1, 0), bounded.regret(0)
    assert math.sqrt(1 / 48) in gap.std_interval
    assert 0.55 in gap.mean_interval
    assert regret.mean.low <= 0.55 <= regret.mean.high
    assert regret.cvar(0.05).low <= 0.3 + 0.5 * 0.975 <= regret.cvar(0.05).high <= 1.5
    assert regret.quantile(0.9999).high == 1.5
    assert "large-sample" not in repr(bounded)
    assert not gap.large_sample
    assert not bounded.to_dataframe()[["std low", "mean regret high"]].loc["0"].isna().any()


def test_the_headline_says_what_would_overturn_it():
    """With a chance of p an outcome that was not seen and loses x brings a mean gap of `low` to 0 at low (1 − p)/p."""
    game = one_step(lambda a, u: a * (1 + 0.1 * u) + u)
    found = compared(game)
    p, low = 1 - 0.01 ** (1 / 64), found.gap(1, 0).mean_interval.low
    assert (1 - p) * low - p * found.break_even == pytest.approx(0)
    said = f"fewer than 1 of {int(1 / p)} rollouts, and was not seen, loses more than {math.floor(found.break_even)} on"
    assert said in " ".join(repr(found).split())
    assert found.firm == (found.break_even >= found.summary.samples.returns.max())
    bounded = compared(game, assume=jmdp.Assumptions(return_range=(0.0, 2.5)))
    assert bounded.break_even is None
    assert "reverses" not in repr(bounded)
    assert compared(one_step(lambda a, u: u), max_samples=64).break_even is None


@pytest.mark.parametrize("settings", [{"samples": 64}, {"max_samples": 64}], ids=repr)
def test_gaps_of_one_action_share_the_chance_of_error(settings):
    game = one_step(lambda a, u: float(u[a]), 4, luck=lambda rng: rng.normal(size=4))
    found = compared(game, **settings)
    gaps, sampling = (
        found.summary.samples.returns[:, [0]] - found.summary.samples.returns[:, [1]],
        found.summary.sampling,
    )
    below, above = sampling.mean_errors(gaps, 0.05 / 3)
    assert found.gap(0, 1).mean_interval.width == pytest.approx(below[0] + above[0])
    chance = sampling.chance_interval(int((gaps > 0).sum()), 64, 0.05 / 3)
    assert found.superiority(0, 1).low == pytest.approx(chance.low)
    assert found.superiority(0, 1).high == pytest.approx(chance.high)


def test_rare_losses_are_not_missed_where_returns_are_known_to_be_bounded():
    """E gap = −0.04 by a loss of 10 with chance 1/200: an interval that knows the range never calls it better."""
    game = one_step(lambda a, u: 0.0 if a == 0 else (0.01 if u >= 0.005 else -10.0))
    for seed in range(8):
        found = compared(game, seed=seed, max_samples=1000, assume=jmdp.Assumptions(return_range=(-10.0, 0.01)))
        assert found.best != "1"
    with pytest.raises(SettingsError, match="but a return of -10 was observed"):
        compared(game, seed=1, samples=5000, assume=jmdp.Assumptions(return_range=(-1.0, 1.0)))


@pytest.mark.parametrize("horizon", [1, 2, 40])
def test_a_return_outside_the_range_is_refused_at_any_horizon(horizon):
    """Short rollouts are known only up to later rewards, but their mean is the estimate: it must be in its interval."""
    game = FunctionSimulator(lambda s, a, u: u, lambda s, a, u: s + 1, 2, luck=lambda rng: rng.random(), start=0)
    where = r"but a return of \S+ up to the horizon was observed. Widen return_range"
    with pytest.raises(SettingsError, match=where):
        compared(
            game,
            discount=0.9,
            horizon=horizon,
            max_samples=50,
            assume=jmdp.Assumptions(return_range=(-10.0, -1.0), reward_bound=5.0),
        )
    found = compared(
        game,
        discount=0.9,
        horizon=horizon,
        max_samples=50,
        assume=jmdp.Assumptions(return_range=(0.0, 10.0), reward_bound=5.0),
    )
    assert all(found.mean_of(a).low <= found.mean[a] <= found.mean_of(a).high for a in (0, 1))


def test_bounded_intervals_decide_too():
    found = compared(one_step(lambda a, u: 0.3 * a + 0.5 * u), assume=jmdp.Assumptions(return_range=(0.0, 1.0)))
    assert found.best == "1"
    assert found.outcome is jmdp.results.Outcome.BEST_FOUND


@pytest.mark.parametrize("actions", [2, 5])
def test_a_tie_is_seldom_called(actions):
    """No action is better: at 95%, 30 runs to 500 samples call one at most 9 times (false alarm below 1e-5)."""
    game = one_step(lambda a, u: float(u[a]), actions, luck=lambda rng: rng.normal(size=actions))
    called = sum(compared(game, seed=seed, max_samples=500).best is not None for seed in range(30))
    assert called <= 9


# ------------------------------------------------------------------------------------------ going on, and ending


def test_continued_draws_nothing_twice():
    game = one_step(lambda a, u: 0.001 * a + u[a], luck=lambda rng: rng.random(2))
    first, whole = compared(game, max_samples=100), compared(game, max_samples=300)
    more = first.continued(300)
    assert first.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
    assert np.array_equal(more.summary.samples.returns, whole.summary.samples.returns)
    assert whole.continued(50).samples == 300


def test_continued_sharpens_what_was_decided():
    first = compared(one_step(lambda a, u: a + u))
    assert first.samples == 64
    more = first.continued(1000)
    assert (more.samples, more.outcome) == (1000, jmdp.results.Outcome.BEST_FOUND)
    assert first.continued(10).outcome is jmdp.results.Outcome.BEST_FOUND


def test_the_budget_of_steps_is_checked_at_scheduled_sample_sizes():
    game = one_step(lambda a, u: 0.001 * a + u[a], luck=lambda rng: rng.random(2))
    found = compared(game, max_steps=100)
    assert (found.samples, found.summary.samples.steps) == (64, 128)
    assert compared(game, max_steps=1).samples == 2
    assert found.continued(100).samples == 100


def test_interrupted():
    class Impatient(Simulator):
        actions = action_labels(2)
        steps = 0

        def step(self, state, action, shock):
            self.steps += 1
            if self.steps > 400:
                raise KeyboardInterrupt
            return Step(shock.uniform() * (0.5 - shock.derived(b"a").uniform()) * action, state, True)

        def start(self, shock):
            return 0

    found = compared(Impatient())
    assert found.outcome is jmdp.results.Outcome.INTERRUPTED
    assert 64 <= found.samples <= 200


def test_pickled():
    found = pickle.loads(pickle.dumps(compared(one_step(lambda a, u: a + u))))
    assert found.best == "1"
    assert found.gap("1", "0").distribution().superiority() == 1
    with pytest.raises(UnavailableError, match="pickled comparison has no simulator"):
        found.continued(100)


# --------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("assumed", "says"),
    [
        ({"return_range": (1, 0)}, "return_range is"),
        ({"tie_tolerance": -1.0}, "tie_tolerance is -1.0"),
        ({"tie_tolerance": math.nan}, "tie_tolerance is nan"),
        ({"rarest": 1.0}, "rarest is 1.0"),
        ({"largest_loss": 0}, "largest_loss is 0"),
        ({"reward_bound": -1}, "reward_bound is -1"),
    ],
)
def test_bad_assumptions(assumed, says):
    with pytest.raises(SettingsError, match=says):
        jmdp.Assumptions(**assumed)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"samples": 100.0}, "samples is 100.0"),
        ({"samples": 1}, "samples is 1"),
        ({"max_steps": "10"}, "max_steps is '10'"),
        ({"precision": 0}, "precision is 0"),
        ({"actions": 2}, "actions is 2"),
        ({"actions": {0: "x", 1: "y"}}, "Give a list of actions"),
        ({"actions": [0, 0]}, "at least two different actions"),
        ({"discount": 1.5}, "discount is 1.5. Give a number from 0 to 1"),
        ({"discount": None}, "has no discount"),
        ({"discount": 0.9999999}, "Set the number of steps: horizon="),
        ({"discount": 1.0}, "Set the number of steps: horizon="),
        ({"seed": -1}, "seed is -1"),
        ({"samples": 9, "max_samples": 9}, "samples and max_samples are both given"),
        ({"samples": 9, "precision": 0.1}, "samples and precision are both given"),
        ({"samples": 9, "indifference": 0.1}, "samples and indifference are both given"),
        ({"looks": "planned"}, "needs max_samples"),
        ({"looks": "planned", "samples": 9}, "needs max_samples"),
        ({"looks": "often"}, "looks is 'often'"),
        ({"assume": {"rarest": 0.1}}, "assume is"),
    ],
)
def test_bad_settings(settings, says):
    with pytest.raises(SettingsError, match=says):
        compared(one_step(lambda a, u: u), **settings)


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        ((0, 1.0, False, False, {}), "returned 5 values. Return Step"),
        (Step(None, 0, False), "the reward of step is NoneType"),
        (Step(math.nan, 0, False), "the reward of step is nan"),
        (3.0, "returned a float"),
    ],
)
def test_bad_steps(outcome, says):
    class Odd(Simulator):
        actions = action_labels(2)

        def step(self, state, action, shock):
            return outcome

        def start(self, shock):
            return 0

    with pytest.raises(SimulatorError, match=says):
        compared(Odd())


def test_actions_without_numbers():
    class Throw(Simulator):
        def step(self, state, action, shock):
            return Step(float(np.asarray(action).sum()) + shock.uniform(), state, True)

        def start(self, shock):
            return 0

    with pytest.raises(SettingsError, match="no finite list of actions"):
        compared(Throw(), policy=lambda state: np.zeros(1))
    near = [np.array([1.00001]), np.array([3.000011]), np.array([3.000012])]
    found = compared(Throw(), policy=lambda state: np.zeros(1), actions=near, max_samples=64)
    assert found.alternatives == ["action 0", "action 1", "action 2"]
    named = compared(Throw(), policy=lambda state: np.zeros(1), actions={"far": np.ones(2), "near": np.ones(1)})
    assert named.best == "far"
    with pytest.raises(SettingsError, match="different"):
        compared(Throw(), policy=lambda state: np.zeros(1), actions={"x": 0.5, "y": 0.5})


def test_a_table_has_its_own_discount_and_couplings():
    table = TabularSimulator(
        jmdp.TabularJMDP([[0.5, 0.5], [0.1, 0.9]], np.ones((2, 2, 2)), np.zeros((2, 2, 2), int), 0.9)
    )
    with pytest.raises(SettingsError, match=r"the problem's own is 0\.9"):
        compared(table, discount=0.5, coupling=jmdp.Local())
    with pytest.raises(jmdp.errors.CouplingError, match="differ by"):
        compared(table, discount=None)
    with pytest.raises(jmdp.errors.CouplingError, match="differ by"):
        jmdp.evaluate(table, UNIFORM, jmdp.Synchronous(), jmdp.MonteCarlo(seed=0, samples=10))


# -------------------------------------------------------------------------------------------------- as it comes out


def test_as_text_and_as_a_table():
    pandas = pytest.importorskip("pandas")
    found = compared(one_step(lambda a, u: a + u, ["up", "two\nlines"]))
    assert repr(found).startswith("two lines earns ")
    frame = found.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.index) == ["up", "two\nlines"]
    advantage = "advantage of two\nlines"
    assert frame.loc["up", advantage] == pytest.approx(1)
    assert np.isnan(frame.loc["up", f"{advantage} low"])  # a gap that never varied has no interval


def test_states_have_luck_of_their_own():
    method = jmdp.MonteCarlo(seed=0, states=[0, 0], samples=50)
    found = jmdp.evaluate(one_step(lambda a, u: u), UNIFORM, jmdp.Independent(), method, discount=0.9)
    assert found.mean[0, 0] != found.mean[1, 0]
    with pytest.raises(SettingsError, match="states is empty"):
        jmdp.MonteCarlo(seed=0, states=[])
