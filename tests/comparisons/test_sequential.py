"""Sequential sampling: schedule, elimination, budgets, pools, interrupts, and problems without randomness."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import jmdp
from jmdp.base import progress
from jmdp.comparisons.answer import chosen
from jmdp.errors import SettingsError
from jmdp.simulators import FunctionSimulator, Simulator, Step, action_labels
from jmdp.statistics.means import looks

MEANS = (0.0, -0.12, -3.0, -3.0)


def earn(s, a, u):
    return MEANS[a] + u[0] + 0.5 * u[a + 1]


def over(s, a, u):
    return 1


def normal(rng):
    return rng.standard_normal(5)


def first(s):
    return 0


def is_over(s):
    return s == 1


def game():
    """Four actions: one close to the best, two far behind. Everything can be pickled."""
    return FunctionSimulator(earn, over, 4, luck=normal, terminal=is_over, start=0)


def compared(simulator, **settings):
    return jmdp.compare(simulator, **{"policy": first, "discount": 0.9, "seed": 3, "progress": False} | settings)


def test_the_bad_are_eliminated_and_everything_says_so():
    found = compared(game())
    assert (found.best, chosen(found), found.survivors) == ("0", "0", ("0",))
    assert found.counts["2"] == found.counts["3"] == 64
    assert found.counts["0"] == found.counts["1"] == found.samples > 200
    assert set(found.worse_than) == {"2", "3"}
    assert min(found.counts["0"], found.counts["2"]) == 64
    total = sum(found.counts.values())
    assert f"64 to {found.samples:,} rollouts of each action, {total:,} in total" in repr(found)
    table = found.to_dataframe()
    assert table["samples"].tolist() == list(found.counts.values())
    assert found.gap("0", "2").mean == pytest.approx(3, abs=1)
    assert found.summary.samples.steps == total
    assert "64 to" in " ".join(text.get_text() for text in found.plot().findobj(lambda x: hasattr(x, "get_text")))


def test_looks_do_not_depend_on_the_budget_or_on_going_on():
    """Interrupted between two looks at which the second and third action are eliminated, and elsewhere."""

    def graded(s, a, u):
        return (0.0, -0.12, -0.35, -0.6)[a] + u[0] + 0.5 * u[a + 1]

    game = FunctionSimulator(graded, over, 4, luck=normal, terminal=is_over, start=0)
    whole = compared(game)
    assert whole.samples in set(itertools_until(looks(), 20_000))
    eliminated = sorted(set(whole.counts.values()))
    assert len(eliminated) > 1
    for budget in (*(n - 1 for n in eliminated[:-1]), 90, 150):
        part = compared(game, max_samples=budget).continued(budget + 2).continued(20_000)
        assert part.counts == whole.counts
        assert part.summary.samples.returns.tobytes() == whole.summary.samples.returns.tobytes()


def itertools_until(numbers, most):
    for number in numbers:
        if number > most:
            return
        yield number


def test_an_elimination_needs_a_scheduled_look():
    """At 110 samples, between two looks, the result is reported and nothing is eliminated for later samples."""
    near = FunctionSimulator(lambda s, a, u: 0.05 * a + u[a], over, ["a", "b"], luck=normal, terminal=is_over, start=0)
    found = compared(near, max_samples=110)
    assert found.samples == 110
    assert found.continued(125).counts == {"a": 125, "b": 125}


def test_a_decided_comparison_goes_on_with_those_simulated_last():
    found = compared(game())
    more = found.continued(found.samples + 100)
    assert more.counts["0"] == more.counts["1"] == found.samples + 100
    assert more.counts["2"] == 64
    assert more.gap("0", "1").mean_interval.width < found.gap("0", "1").mean_interval.width


def test_a_comparison_goes_on_to_a_precision():
    """Of the actions that were simulated last; samples are those of a longer comparison."""
    found = compared(game())
    more = found.continued(50_000, precision=0.03)
    assert more.outcome is jmdp.results.Outcome.PRECISE
    assert found.samples < more.samples < 50_000
    assert more.gap("0", "1").mean_interval.width <= 0.06
    assert (more.summary.samples.returns[: found.samples, :2] == found.summary.samples.returns[:, :2]).all()
    assert more.counts["2"] == 64
    last = "decided: every mean gap of the actions that were simulated to the end is known to the requested precision"
    assert last in " ".join(repr(more).split())
    assert more.continued(50_000, precision=0.03).samples == more.samples  # nothing to do
    assert more.continued(more.samples + 10, precision=0.001).outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
    enough = compared(game(), indifference=1.0).continued(5000, precision=0.2)
    assert (enough.outcome, enough.indifference) == (jmdp.results.Outcome.PRECISE, None)
    with pytest.raises(SettingsError, match="precision is -1"):
        found.continued(5000, precision=-1)


def test_after_more_samples_than_decided_it_the_text_does_not_say_that_the_decision_stopped_it():
    found = compared(game())
    more = found.continued(found.samples + 500)
    assert "stopped" not in repr(more)
    assert "decided: one alternative is better on average than every other" in repr(more)
    assert "stopped: the budget is used up" in repr(compared(game(), max_samples=8))


def test_good_enough():
    found = compared(game(), indifference=1.0)
    assert found.outcome is jmdp.results.Outcome.GOOD_ENOUGH
    assert (found.best, chosen(found), found.survivors) == (None, "0", ("0", "1"))
    assert found.samples <= 64
    assert found.answer.startswith("0 is within 1 of the best of 4 actions on average")
    with pytest.raises(SettingsError, match="both given"):
        compared(game(), indifference=1.0, precision=0.1)


def test_a_surviving_set_is_reported():
    found = compared(FunctionSimulator(lambda s, a, u: (0, 0, 0, -3)[a] + 0.5 * u[a + 1], over, 4, luck=normal,
                                       terminal=is_over, start=0), max_samples=200)  # fmt: skip
    assert found.survivors == ("0", "1", "2")
    assert found.answer.startswith("undecided: 3 of 4 actions may be the best")


def test_equal_actions_of_a_table_are_not_sampled_for_ever():
    """Actions 0 and 1 have the same rows in the first state; action 2 earns less."""
    reward = np.array([[[1.0, 1.0, 0.0], [2.0, 2.0, 0.5]], [[0.0] * 3] * 2])
    model = jmdp.TabularJMDP(np.full((2, 2), 0.5), reward, np.ones((2, 2, 3), int), 0.9)
    found = jmdp.compare(model, "uniform", state=0, seed=0)
    assert found.outcome is jmdp.results.Outcome.EQUAL_BEST
    assert found.survivors == ("0", "1")
    assert found.answer.startswith("0 and 1 have equal means, and are the best of 3 actions")
    assert found.samples == 64


def wins(a, b):
    """Two designs that win 1 with these chances, in the same runs as far as possible."""
    return {"a": lambda luck: float(luck.uniform("x") < a), "b": lambda luck: float(luck.uniform("x") < b)}


@pytest.mark.parametrize("seed", range(12))
def test_equal_runs_within_a_range_decide_nothing(seed):
    """Two equal runs are likely: with a range, only its intervals end a comparison."""
    found = jmdp.compare_runs(
        wins(0.5, 0.6), seed=seed, max_samples=300, progress=False, assume=jmdp.Assumptions(return_range=(0, 1))
    )
    assert found.samples > 16
    assert found.outcome in (jmdp.results.Outcome.BEST_FOUND, jmdp.results.Outcome.BUDGET_EXHAUSTED)


def test_equal_episodes_within_a_range_decide_nothing():
    """Most episodes on the ice earn 0."""
    gymnasium = pytest.importorskip("gymnasium")
    best = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
    policies = {"best": best, "second": [0, 3, 0, *best[3:]]}
    for seed in range(8):
        found = jmdp.compare_policies(
            gymnasium.make("FrozenLake-v1"),
            policies,
            seed=seed,
            discount=1.0,
            max_samples=20,
            progress=False,
            assume=jmdp.Assumptions(return_range=(0, 1)),
        )
        assert (found.samples, found.outcome) == (20, jmdp.results.Outcome.BUDGET_EXHAUSTED)


@pytest.mark.parametrize("seed", range(12))
def test_rare_wins_are_not_taken_for_one_future(seed):
    """Wins of 1% and 3%: no win in 300 runs has a chance of 1e-4."""
    found = jmdp.compare_runs(wins(0.01, 0.03), seed=seed, max_samples=400, progress=False)
    assert found.samples == 400
    assert found.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED


def constant(*returns):
    """Designs that draw, and whose returns do not depend on it."""
    return {f"d{i}": lambda luck, x=x: x + 0 * luck.uniform("x") for i, x in enumerate(returns)}


def test_one_future_takes_many_samples():
    """Of three designs, none is eliminated by equal runs."""
    found = jmdp.compare_runs(constant(0.0, 1.0, 2.0), seed=0, progress=False)
    assert found.outcome is jmdp.results.Outcome.ONE_FUTURE
    assert set(found.counts.values()) == {303}  # the first look at 300 or more
    assert found.answer == (
        "All 303 runs of each design gave the same return, so no confidence can be stated; d2 has the largest."
    )
    precise = jmdp.compare_runs(constant(0.0, 1.0), seed=0, precision=0.1, progress=False)
    assert (precise.outcome, precise.samples) == (jmdp.results.Outcome.ONE_FUTURE, 303)


@pytest.mark.parametrize("samples", [8, 100])
def test_equal_samples_of_a_small_budget_state_no_confidence(samples):
    found = jmdp.compare_runs(constant(1.0, 0.0, 1.0), seed=0, max_samples=samples, progress=False)
    assert (found.outcome, found.best, found.survivors) == (
        jmdp.results.Outcome.BUDGET_EXHAUSTED, None, ("d0", "d1", "d2"))  # fmt: skip
    assert found.answer == (
        f"All {samples} runs of each design gave the same return, so no confidence can be stated; d0 and d2 have the "
        "largest."
    )


def test_a_range_decides_between_constant_returns():
    found = jmdp.compare_runs(constant(0.0, 1.0), seed=0, progress=False, assume=jmdp.Assumptions(return_range=(0, 1)))
    assert (found.outcome, found.best) == (jmdp.results.Outcome.BEST_FOUND, "d1")
    assert found.samples <= 32
    precise = jmdp.compare_runs(
        constant(0.0, 0.0), seed=0, precision=0.01, progress=False, assume=jmdp.Assumptions(return_range=(0, 1))
    )
    assert precise.outcome is jmdp.results.Outcome.PRECISE
    assert precise.gap("d0", "d1").mean_interval.width <= 0.02


class Still(Simulator):
    """Nothing is random."""

    actions = action_labels(["stay", "go"])

    def step(self, state, action, shock):
        return Step(float(self.actions.index(action)), state + 1, state >= 3)

    def start(self, shock):
        return 0


def test_a_deterministic_question_takes_one_rollout():
    found = compared(Still(), policy=lambda s: 1)
    assert found.outcome is jmdp.results.Outcome.DETERMINISTIC
    assert (found.best, found.leader, found.samples, found.summary.samples.steps) == (None, "go", 1, 5)
    assert found.answer.startswith("No random numbers were used, so one rollout of each action is exact for this state")
    assert "shuffled deck" in repr(found)  # randomness of start or reset is not seen
    assert found.gap("go", "stay").mean == 1
    assert found.gap("go", "stay").mean_interval.width < 1e-9
    assert found.superiority("go", "stay") == found.superiority("go", "stay").low == 1
    assert found.regret("stay").quantile(0.95).high == pytest.approx(1)
    assert found.continued(50).samples == 1
    assert repr(found)
    assert found.to_dataframe()["samples"].tolist() == [1, 1]
    assert found.plot()


class Slow(Simulator):
    """A step takes a millisecond."""

    actions = action_labels(2)

    def step(self, state, action, shock):
        until = time.perf_counter() + 1e-3
        u = shock.uniform()
        while time.perf_counter() < until:
            pass
        return Step(u * (1 + self.actions.index(action)), 1, True)

    def start(self, shock):
        return 0


def test_a_time_limit_stops_at_a_look_and_running_again_gives_the_same():
    found = compared(Slow(), max_seconds=1.0, precision=1e-9)
    assert found.outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
    assert 2 <= found.samples < 10_000
    assert found.samples in set(itertools_until(looks(), 10_000))
    again = compared(Slow(), samples=found.samples)
    assert again.summary.samples.returns.tobytes() == found.summary.samples.returns.tobytes()


def test_progress_is_a_line_every_minute_without_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_EVERY", 0.0)
    compared(game(), progress=True)
    lines = capsys.readouterr().err.splitlines()
    said = ("0 leads", "over 1", "2 of 4 remain", "a decision would need about")
    assert any(all(words in line for words in said) for line in lines)
    assert not any("left" in line for line in lines)  # it ends before the budget, nobody knows when


def test_an_interrupt_keeps_all_samples(monkeypatch):
    calls = 0

    def interrupted(s, a, u):
        nonlocal calls
        calls += 1
        if calls == 1500:
            raise KeyboardInterrupt
        return 0.001 * a + u[a]

    found = compared(FunctionSimulator(interrupted, over, 2, luck=normal, terminal=is_over, start=0))
    assert found.outcome is jmdp.results.Outcome.INTERRUPTED
    assert 500 < found.samples < 750
    monkeypatch.undo()
    rest = found.continued(1000)
    assert rest.samples == 1000
    assert (rest.summary.samples.returns[: found.samples] == found.summary.samples.returns).all()


class Killed(FunctionSimulator):
    """Each worker dies in its 40th step, once; the parent does not."""

    def __init__(self, parent):
        super().__init__(earn, over, 4, luck=normal, terminal=is_over, start=0)
        self.parent, self.steps = parent, 0

    def step(self, state, action, shock):
        self.steps += 1
        marker = f"{self.parent}/died"
        if self.steps == 40 and os.getpid() != os.getppid() and "jmdp worker" in _name() and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(state, action, shock)


def _name():
    import multiprocessing

    return multiprocessing.current_process().name


def digest(found):
    return found.summary.samples.returns.tobytes(), found.counts, found.best, found.summary.samples.steps, repr(found)


def test_the_number_of_workers_does_not_matter(tmp_path, two_workers):
    """Early stop, elimination, blocks in flight, and a worker killed while it simulates."""
    alone = digest(compared(game()))
    assert digest(compared(game(), pool=two_workers)) == alone
    assert digest(compared(game(), pool=two_workers)) == alone  # with the same workers again
    killed = compared(Killed(str(tmp_path)), pool=two_workers)
    assert (tmp_path / "died").exists()
    assert digest(killed)[:4] == alone[:4]


def constant_one(s):
    return 1


def test_policies_on_two_workers(two_workers):
    kwargs = {"discount": 1.0, "horizon": 1, "seed": 2, "progress": False}
    pair = {"zero": first, "one": constant_one}
    alone = jmdp.compare_policies(game(), pair, **kwargs)
    both = jmdp.compare_policies(game(), pair, pool=two_workers, **kwargs)
    assert digest(both) == digest(alone)


def test_a_policy_that_cannot_be_sent_says_what_to_do():
    with pytest.raises(jmdp.errors.JMDPError, match=r"pool|module"):
        compared(game(), policy=lambda s: 0, pool=2)
