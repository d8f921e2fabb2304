"""NeuralGram from end to end: what a learned evaluation answers, on tables and environments; and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import jmdp
from jmdp.errors import CouplingError, LabelError, ModelError, SettingsError, UnavailableError
from jmdp.methods.learned.learned_result import judged
from jmdp.methods.neural_gram.encoders import MLP, OneHot
from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation, Lookahead
from jmdp.methods.neural_gram.neural_gram import NeuralGram
from jmdp.results.bootstrap import Judgement
from jmdp.results.certificate import Outcome
from jmdp.simulators import TabularSimulator
from jmdp.simulators.simulator import Simulator, Step

WORLD = jmdp.worlds.windy_gridworld(2, 2, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=0.7)
MODEL, POLICY = WORLD.model, WORLD.policies["uniform"]
GOING, ACTIONS = np.flatnonzero(~MODEL.terminal).tolist(), MODEL.actions.size
METHOD = NeuralGram(
    seed=1, visits=40, spacing=2, length=4, updates=100, batch=32, rank=4, encoder=OneHot(4), held_out=6
)


@pytest.fixture(scope="module")
def learned() -> LearnedEvaluation:
    return jmdp.evaluate(TabularSimulator(MODEL), POLICY, jmdp.Local(), method=METHOD, progress=False)


@pytest.fixture(scope="module")
def truth():
    return jmdp.evaluate(MODEL, POLICY, jmdp.Local(), progress=False)


def check_answers(found: LearnedEvaluation, state) -> None:
    """Shapes, symmetry, and that all ways to ask agree."""
    A = found.actions.size
    for lookahead in (None, Lookahead(steps=2, repeats=3)):
        here = found.at(state, lookahead)
        mean, covariance, correlation = here.mean[0], here.covariance[0], here.correlation[0]
        assert mean.shape == (A,)
        assert covariance.shape == correlation.shape == (A, A)
        assert np.allclose(covariance, covariance.T, rtol=1e-12)
        assert np.linalg.eigvalsh(covariance)[0] >= -1e-12 * np.trace(covariance)
        assert np.allclose(np.diag(correlation), 1)
        for a in range(A):
            for b in range(A):
                gap = here.gap(0, a, b)
                scale = covariance[a, a] + covariance[b, b]
                assert gap.mean == mean[a] - mean[b]
                assert gap.variance == pytest.approx(scale - 2 * covariance[a, b], abs=1e-12 * scale)
                if lookahead is None:
                    across = found.cross_covariance(state, a, state, b)
                    assert across == pytest.approx(covariance[a, b], abs=1e-5 * scale)
                assert a != b or gap.mean == gap.variance == 0
        assert here.outcome is found.outcome
        assert here.certificate is found.certificate is None
        assert here.gap("here", 0, 1).state == "here"
        assert dict(here.to_xarray().sizes) == {"state": 1, "action": A, "action_2": A}
        with pytest.raises(UnavailableError, match="no certificate"):
            here.gap(0, 0, 1).inferiority_bound()
    assert found.outcome is judged(found.calibration)
    assert found.outcome.successful


def test_what_a_table_is_learned_as(learned):
    for state in GOING:
        check_answers(learned, state)
    one, other = GOING[:2]
    across = learned.cross_covariance(one, "U", other, "R")
    assert across == pytest.approx(learned.cross_covariance(other, 1, one, 0), rel=1e-4, abs=1e-7)
    assert abs(across) <= np.sqrt(learned.at(one).covariance[0, 0, 0] * learned.at(other).covariance[0, 1, 1]) * (
        1 + 1e-5
    )
    assert "40" not in repr(learned).splitlines()[0]
    assert "certificate  none" in repr(learned)
    assert "Calibration" in repr(learned)


def test_actions_have_names_and_numbers(learned):
    here = learned.at(0)
    assert here.gap("here", "U", "R") == here.gap(0, 0, 1)
    assert here.gap(0, "U", "R").first == "U"
    with pytest.raises(LabelError):
        here.gap(0, "U", "north")
    with pytest.raises(LabelError):
        learned.cross_covariance(0, 9, 0, 0)


def test_the_same_seed_gives_the_same_numbers(learned):
    again = jmdp.evaluate(TabularSimulator(MODEL), POLICY, jmdp.Local(), method=METHOD, progress=False)
    assert np.array_equal(again.at(0).covariance, learned.at(0).covariance)
    assert np.array_equal(again.at(0).mean, learned.at(0).mean)
    assert np.array_equal(again.calibration.returns, learned.calibration.returns)


def test_held_out_states_and_fresh_ones_are_other_luck(learned):
    """The record has as many states as asked, 16 rollouts each; a fresh one has another seed and other returns."""
    record = learned.calibration
    assert record.states == record.gaps == 6
    assert record.rollouts == 16
    assert record.seeds == (METHOD.seed,)
    fresh = learned.calibrate(seed=77, states=10, rollouts=5)
    assert fresh.states == 10
    assert fresh.rollouts == 5
    assert fresh.seeds == (77,)
    assert np.isfinite(float(fresh.ratio))
    assert 0.5 <= learned.equivalent_rollouts <= 64


def test_a_short_lookahead_comes_nearer_to_the_exact_answer(learned, truth):
    """Mean gaps of all 18 pairs: rms errors. What is left of the network's error is γ⁶ = 0.12 of it, beside noise.

    Noise: a standard deviation of at most 0.1 over √18 gaps. That it hides a halving of an error above 0.2 is four
    standard errors off: a false alarm in 10⁴ at most, and the seed is fixed.
    """
    pairs = [(s, a, b) for s in GOING for a in range(ACTIONS) for b in range(a)]
    exact = np.array([truth.mean[s, a] - truth.mean[s, b] for s, a, b in pairs])
    ahead = Lookahead(steps=6, repeats=48, seed=4)
    states = {how: {s: learned.at(s, how) for s in GOING} for how in (None, ahead)}
    plain, looked = (np.array([found[s].gap(0, a, b).mean for s, a, b in pairs]) for found in states.values())
    before, after = (np.sqrt(((found - exact) ** 2).mean()) for found in (plain, looked))
    assert before > 0.15
    assert after < before / 2
    assert all(states[ahead][s].gap(0, a, b).variance > 0 for s, a, b in pairs)


def test_a_state_has_a_gap_of_zero_variance_only_with_itself(learned):
    gaps = [learned.at(s).gap(0, a, b) for s in GOING for a in range(ACTIONS) for b in range(ACTIONS)]
    assert all((gap.variance > 0) == (gap.first != gap.second) for gap in gaps)


SHORT = NeuralGram(seed=2, visits=6, spacing=3, length=3, updates=50, batch=8, rank=2, encoder=MLP(8, 1), held_out=4)


def test_an_environment_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1")
    found = jmdp.evaluate(
        env, lambda seen, rng: int(rng.integers(2)), jmdp.Local(), SHORT, discount=0.6, progress=False
    )
    state = found.simulator.reset(0)
    check_answers(found, state)


def test_an_environment_of_gymnax():
    gymnax = pytest.importorskip("gymnax")
    env, _ = gymnax.make("CartPole-v1")
    found = jmdp.evaluate(
        env, lambda seen, rng: int(rng.integers(2)), jmdp.Local(), SHORT, discount=0.6, progress=False
    )
    check_answers(found, found.simulator.start(jmdp.Shock.of_sample(0, 0)))


def test_without_held_out_states_there_is_no_record():
    found = jmdp.evaluate(
        TabularSimulator(MODEL), POLICY, jmdp.Local(), method=replace(METHOD, held_out=None, updates=50), progress=False
    )
    assert found.calibration is None
    assert found.equivalent_rollouts == 4
    assert "Calibration" not in repr(found)
    assert found.outcome is Outcome.NOT_JUDGED
    assert "NOT_JUDGED: trained; no states were held out" in repr(found).splitlines()[0]


@pytest.mark.parametrize("kind", ["as learned", "inverted"])
def test_the_outcome_is_the_verdict_of_the_held_out_record(learned, kind):
    """The record as learned, and with variances that say the opposite of what was simulated."""
    record = learned.calibration
    if kind == "inverted":
        record = replace(record, variance=1 / (record.simulated_variance + 1e-3))
        assert judged(record) is Outcome.NOT_BETTER
    better = record.verdict is Judgement.USEFUL
    assert (judged(record) is Outcome.TRAINED) == better
    words = "variances of gaps are better than a constant" if better else "no better than a constant"
    for outcome in (judged(record), Outcome.INTERRUPTED):
        shown = replace(learned, calibration=record, outcome=outcome)
        assert words in repr(shown).splitlines()[0]


def test_where_nothing_varies_all_answers_are_numbers():
    """No wind and a policy that knows its way: variances of 0, in walks of one step, whose branches are never apart."""
    still = jmdp.worlds.windy_gridworld(2, 2, gust=0.0, step_reward=-0.1, discount=0.7)
    method = replace(METHOD, length=1, steps=1, updates=50)
    found = jmdp.evaluate(
        TabularSimulator(still.model), still.policies["goal_directed"], jmdp.Local(), method=method, progress=False
    )  # fmt: skip
    assert found.equivalent_rollouts == 0.5
    assert found.outcome is Outcome.NOTHING_VARIED
    assert "no gap varied on the held-out states" in repr(found).splitlines()[0]
    gap = found.at(0, Lookahead(steps=2, repeats=2)).gap(0, "U", "R")
    assert np.isfinite([gap.mean, gap.variance]).all()
    assert np.isnan(found.learning.rms[:, found.learning.blocks.index("cross")]).all()


# ------------------------------------------------------------------------------------------------ what is refused


class Nameless(Simulator):
    """Actions without numbers."""

    def step(self, state, action, shock):
        return Step(0.0, state, False)


def run(simulator=None, coupling=None, **settings):
    simulator = TabularSimulator(MODEL) if simulator is None else simulator
    return jmdp.evaluate(simulator, POLICY, coupling or jmdp.Local(), replace(METHOD, **settings), progress=False)


def test_independent_luck_has_nothing_joint():
    with pytest.raises(CouplingError, match=r"NeuralGram does not cover Independent\(\)"):
        run(coupling=jmdp.Independent())


def test_a_table_is_no_simulator():
    with pytest.raises(ModelError, match="TabularSimulator"):
        run(MODEL)


def test_a_discount_is_needed_below_one():
    class Undiscounted(TabularSimulator):
        def __init__(self):
            super().__init__(MODEL)
            self.discount = None

    with pytest.raises(SettingsError, match="discount"):
        run(Undiscounted())
    with pytest.raises(SettingsError, match="discount"):
        jmdp.evaluate(Undiscounted(), POLICY, jmdp.Local(), METHOD, discount=1.0, progress=False)


def test_actions_are_numbered():
    with pytest.raises(SettingsError, match="no finite list of actions"):
        jmdp.evaluate(
            Nameless(), lambda seen, rng: 0, jmdp.Local(), METHOD, discount=0.5, progress=False
        )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch": 30}, "multiple of 4"),
        ({"batch": 0}, "batch"),
        ({"steps": 9, "length": 4}, "larger length"),
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": -0.1}, "dropout"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"kernel": "rbf"}, "'sum' or 'gram'"),
        ({"rank": 0}, "rank"),
        ({"seed": -1}, "seed"),
        ({"held_out": 0}, "held_out"),
        ({"patience": 0}, "patience"),
        ({"target_averaging": 1.5}, "target_averaging"),
        ({"path": 5}, "path of a folder"),
        ({"pool": 0}, "pool is 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        replace(METHOD, **settings)


@pytest.mark.parametrize("settings", [{"steps": 0}, {"repeats": 1}, {"seed": -1}])
def test_a_lookahead_out_of_range_is_refused(settings):
    with pytest.raises(SettingsError):
        Lookahead(**settings)


def test_an_encoder_that_does_not_fit_is_refused():
    with pytest.raises(SettingsError, match="OneHot"):
        run(encoder=OneHot(2))


@pytest.mark.parametrize("package", ["equinox", "optax", "jax"])
def test_the_door_says_what_to_install(package):
    """In another process, where the package cannot be imported."""
    code = f"""
import sys
sys.modules[{package!r}] = None
import jmdp
world = jmdp.worlds.windy_gridworld(2, 2)
try:
    method = jmdp.NeuralGram(seed=1)
    jmdp.evaluate(jmdp.simulators.TabularSimulator(world.model), world.policies["uniform"], jmdp.Local(), method)
except jmdp.errors.MissingExtraError as error:
    print(error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert 'pip install "jmdp[nn]"' in told.stdout, told.stderr[-1000:]
    assert package in told.stdout
