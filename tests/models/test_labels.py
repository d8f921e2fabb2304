"""Labels of tables: an integer is a label or an error, and tables that were read take policies by label."""

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jmdp
from jmdp.base.labels import Labels
from jmdp.errors import JMDPError, LabelError, PolicyError
from jmdp.methods.monte_carlo.monte_carlo import gap_samples

LEVELS = range(1, 10)
ACTIONS = {"wait": 0, "order": 3}


def rows(states: dict[int, Any], actions: dict[str, Any], seed: int | None = None) -> list[dict[str, Any]]:
    """Rows of a stock of 1 to 9, in natural order or shuffled; demand is 0 or 2, and ordering costs."""
    found = [
        {
            "state": states[level],
            "scenario": demand,
            "probability": chance,
            "action": actions[action],
            "reward": 5.0 * min(level, demand) - 4.0 * (action == "order") - 0.5 * level,
            "next": states[min(9, max(1, level - demand + ACTIONS[action]))],
        }
        for level, (demand, chance), action in itertools.product(LEVELS, ((0, 0.4), (2, 0.6)), ACTIONS)
    ]
    if seed is not None:
        random.Random(seed).shuffle(found)
    return found


INTEGERS = {level: level for level in LEVELS}
TEXTS = {level: f"stock {level}" for level in LEVELS}
NAMES = {action: action for action in ACTIONS}


def model(states: dict[int, Any] = INTEGERS, actions: dict[str, Any] = NAMES, seed: int | None = 0) -> jmdp.TabularJMDP:
    """The table, read from a frame."""
    return jmdp.read_model(pd.DataFrame(rows(states, actions, seed)), discount=0.9)


def array_model() -> jmdp.TabularJMDP:
    """The same table, made from arrays, with positions 0 to 8."""
    read = model(seed=None)
    return jmdp.TabularJMDP(read.prob, read.reward, read.next_state, 0.9)


def order_below(limit: int, states: dict[int, Any] = INTEGERS, actions: dict[str, Any] = NAMES) -> dict[Any, Any]:
    """A base-stock policy by label."""
    return {states[level]: actions["order" if level < limit else "wait"] for level in LEVELS}


TRUTH = jmdp.evaluate(array_model(), [1] * 3 + [0] * 6, jmdp.Local()).gap(4, 1, 0)


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize("states", [INTEGERS, TEXTS], ids=["integers", "texts"])
def test_the_order_of_rows_in_a_file_does_not_change_a_result(states: dict[int, Any], seed: int | None) -> None:
    table = model(states, seed=seed)
    result = jmdp.evaluate(table, order_below(4, states), jmdp.Local())
    gap = result.gap(states[5], "order", "wait")
    assert gap.mean == pytest.approx(TRUTH.mean, abs=1e-12)
    assert gap.variance == pytest.approx(TRUTH.variance, abs=1e-12)


@pytest.mark.parametrize("given", [[1] * 3 + [0] * 6, np.eye(2)[[1] * 3 + [0] * 6], ("order",) * 3 + ("wait",) * 6])
@pytest.mark.parametrize("kind", ["evaluate", "horizon", "compare", "compare_policies", "review", "deterministic"])
def test_lists_are_refused_for_tables_that_were_read_with_labels(given: Any, kind: str) -> None:
    table = model(TEXTS)
    calls = {
        "evaluate": lambda: jmdp.evaluate(table, given, jmdp.Local()),
        "horizon": lambda: jmdp.evaluate(table, given, jmdp.Local(), horizon=3),
        "compare": lambda: jmdp.compare(table, state="stock 5", policy=given, seed=0),
        "compare_policies": lambda: jmdp.compare_policies(
            table, {"old": given, "new": "uniform"}, starts=["stock 5"], seed=0
        ),
        "review": lambda: jmdp.review(table, given, starts=["stock 5"], seed=0),
        "deterministic": lambda: jmdp.TabularPolicy.deterministic(table, given),
    }
    first, action = (next(iter(labels)) for labels in (table.states, table.actions))
    with pytest.raises(PolicyError, match=rf"Give the action of each state by label, \{{{first!r}: {action!r}, "):
        calls[kind]()


def test_positions_stay_positions_for_arrays_and_tabular_policies() -> None:
    table = array_model()
    expected = jmdp.evaluate(table, order_below(4, {level: level - 1 for level in LEVELS}, {"wait": 0, "order": 1}),
                             jmdp.Local())  # fmt: skip
    named = jmdp.TabularJMDP(table.prob, table.reward, table.next_state, 0.9, None, list("abcdefghi"), ["w", "o"])
    read = model(seed=None)
    chosen = [1] * 3 + [0] * 6
    for one, policy in ((table, chosen), (named, chosen), (named, ["o"] * 3 + ["w"] * 6),
                        (read, jmdp.TabularPolicy(np.eye(2)[chosen]))):  # fmt: skip
        assert np.array_equal(jmdp.evaluate(one, policy, jmdp.Local()).mean, expected.mean)


def test_an_integer_is_a_label_or_an_error_if_labels_are_integers() -> None:
    table = model()
    result = jmdp.evaluate(table, order_below(4), jmdp.Local())
    assert result.gap(5, "order", "wait").state == "5"
    assert result.mean_of(5, 1) == result.mean_of("5", "order")  # actions have text labels: 1 is a position
    assert result.mean_of(5, 0) == result.mean[4, 0]
    for wrong in (0, 10, -1):
        with pytest.raises(
            LabelError, match=rf"There is no state {wrong}: states are 1, 2, 3, 4, 5, 6, 7, 8, … \(9 in"
        ):
            result.gap(wrong, "order", "wait")
    assert table.outcome_distribution(9, "order").reward.tolist() == table.outcome_distribution("9", 1).reward.tolist()


def test_integers_are_sorted_on_reading_and_other_names_follow() -> None:
    frame = pd.DataFrame(
        {"state": [12, 3, -4], "scenario": 0, "probability": 1.0, "action": "go", "reward": 1.0, "next": ["end", 12, 3]}
    )
    table = jmdp.read_model(frame, discount=0.5)
    assert table.states.names == ("-4", "3", "12", "end")
    assert jmdp.evaluate(table, "uniform", jmdp.Local()).mean[:, 0].tolist() == [1.75, 1.5, 1.0, 0.0]
    with pytest.raises(LabelError, match="There is no state 1: states are -4, 3, 12, 'end'"):
        table.states.index(1)


def test_integer_actions_are_labels_everywhere() -> None:
    quantities = {"wait": 20, "order": 1}
    table, policy = model(actions=quantities), order_below(4, actions=quantities)
    result = jmdp.evaluate(table, policy, jmdp.Local())
    assert result.gap(5, 1, 20).mean == pytest.approx(TRUTH.mean, abs=1e-12)
    with pytest.raises(LabelError, match="There is no action 0: actions are 1, 20"):
        result.gap(5, 0, 1)
    found = jmdp.compare(table, state=5, policy=policy, actions=[20, 1], seed=0, max_samples=2000, progress=False)
    gap = found.gap(1, 20)
    assert gap.mean_interval is not None
    assert gap.mean_interval.low <= TRUTH.mean <= gap.mean_interval.high
    assert float(found.mean_of(20)) == float(found.mean_of("20"))
    with pytest.raises(LabelError, match="Action 0 was not compared"):
        found.mean_of(0)
    drawn = jmdp.evaluate(jmdp.simulators.TabularSimulator(table), policy, jmdp.Local(),
                          jmdp.MonteCarlo(seed=0, samples=500, states=[5]))  # fmt: skip
    assert drawn.mean_of(5, 20) == drawn.mean_of("5", "20")
    reviewed = jmdp.review(table, policy, starts=[5], seed=0, horizon=20)
    assert set(reviewed.actions) == {"1", "20"}


def test_names_given_with_arrays_follow_the_same_rule() -> None:
    base = array_model()
    names = [str(level) for level in LEVELS]
    table = jmdp.TabularJMDP(base.prob, base.reward, base.next_state, 0.9, state_names=names)
    assert table.states.index(5) == 4
    with pytest.raises(LabelError):
        table.states.index(0)
    text = jmdp.TabularJMDP(base.prob, base.reward, base.next_state, 0.9, state_names=[f"0{name}" for name in names])
    assert text.states.index(5) == 5  # "05" is a text


STOCHASTIC = {level: {"order": 0.25, "wait": 0.75} for level in LEVELS}


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        (order_below(4), [[0.0, 1.0]] * 3 + [[1.0, 0.0]] * 6),
        (lambda level: "order" if level < 4 else "wait", [[0.0, 1.0]] * 3 + [[1.0, 0.0]] * 6),
        (STOCHASTIC, [[0.75, 0.25]] * 9),
        (lambda level: {"order": level / 10, "wait": 1 - level / 10}, [[1 - k / 10, k / 10] for k in LEVELS]),
    ],
    ids=["action by state", "function", "probabilities by state", "function with probabilities"],
)
def test_policies_by_label_are_taken_wherever_a_policy_of_a_table_is(given: Any, rows: list[list[float]]) -> None:
    table = model()
    right = [[row[0 if table.actions.names[0] == "wait" else 1], row[1 if table.actions.names[0] == "wait" else 0]]
             for row in rows]  # fmt: skip
    policy = jmdp.TabularPolicy.of(given, table)
    assert policy.probs == pytest.approx(np.array(right))
    expected = jmdp.evaluate(table, policy, jmdp.Local())
    assert np.array_equal(jmdp.evaluate(table, given, jmdp.Local()).mean, expected.mean)
    both = jmdp.evaluate(table, {"old": given, "new": "uniform"}, jmdp.Local())
    assert both.mean[:, 0] == pytest.approx((policy.probs * expected.mean).sum(axis=1))
    short = jmdp.evaluate(table, given, jmdp.Local(), horizon=2)
    assert np.array_equal(jmdp.evaluate(table, [given] * 2, jmdp.Local(), horizon=2).mean, short.mean)
    assert np.array_equal(jmdp.evaluate(table, policy, jmdp.Local(), horizon=2).mean, short.mean)
    settings = {"seed": 3, "samples": 200, "progress": False}
    by_table, by_label = (jmdp.compare(table, state=5, policy=one, **settings) for one in (policy, given))
    assert np.array_equal(by_table.summary.samples.returns, by_label.summary.samples.returns)
    several = [
        jmdp.compare_policies(table, {"old": one, "new": "uniform"}, starts=[5], **settings) for one in (policy, given)
    ]
    assert np.array_equal(several[0].summary.samples.returns, several[1].summary.samples.returns)
    reviews = [jmdp.review(table, one, starts=[5], seed=1, horizon=10) for one in (policy, given)]
    assert reviews[0].trajectory.names == reviews[1].trajectory.names
    states = jmdp.simulators.visited_states(table, given, seed=0, count=3)
    assert set(states) <= set(LEVELS)


@pytest.mark.parametrize("form", ["csv", "parquet", "npz"])
def test_integer_labels_are_the_same_in_every_format(tmp_path: Path, form: str) -> None:
    frame, path = pd.DataFrame(rows(INTEGERS, NAMES, 5)), tmp_path / f"model.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    elif form == "parquet":
        frame.to_parquet(path, index=False)
    else:
        read = model()
        np.savez(path, prob=read.prob, reward=read.reward, next_state=read.next_state,
                 state_names=np.array(read.states.names), action_names=np.array(read.actions.names))  # fmt: skip
    table = jmdp.read_model(path, discount=0.9)
    assert table.states.names == tuple(str(level) for level in LEVELS)
    assert [table.states.label(s) for s in range(9)] == list(LEVELS)
    gap = jmdp.evaluate(table, order_below(4), jmdp.Local()).gap(5, "order", "wait")
    assert gap.mean == pytest.approx(TRUTH.mean, abs=1e-12)
    with pytest.raises(PolicyError, match="by label"):
        jmdp.evaluate(table, [0] * 9, jmdp.Local())


def test_saved_models_and_results_keep_integer_labels(tmp_path: Path) -> None:
    table = model(actions={"wait": 20, "order": 1})
    policy = order_below(4, actions={"wait": 20, "order": 1})
    result = jmdp.evaluate(table, policy, jmdp.Local())
    found = jmdp.compare(table, state=5, policy=policy, seed=0, max_samples=100, progress=False)
    for name, one in {"model": table, "result": result, "found": found}.items():
        one.save(tmp_path / name)
    again, loaded, compared = (jmdp.load(tmp_path / name) for name in ("model", "result", "found"))
    assert again.states == table.states
    assert again.actions == table.actions
    assert loaded.gap(5, 1, 20).mean == result.gap(5, 1, 20).mean
    assert float(compared.mean_of(20)) == float(found.mean_of(20))
    with pytest.raises(LabelError):
        loaded.gap(0, 1, 20)
    with pytest.raises(PolicyError, match="by label"):
        jmdp.evaluate(again, [0] * 9, jmdp.Local())


TERMINAL = pd.DataFrame(
    {
        "state": ["a", "a", "b", "b"],
        "scenario": 0,
        "probability": 1.0,
        "action": ["x", "y", "x", "y"],
        "reward": [1.0, 2.0, 3.0, 4.0],
        "next": ["b", "end", "end", "a"],
    }
)


def test_terminal_states_need_no_action_and_missing_ones_are_listed() -> None:
    table = jmdp.read_model(TERMINAL, discount=0.5)
    assert jmdp.evaluate(table, {"a": "x", "b": "x"}, jmdp.Local()).mean[0].tolist() == [2.5, 2.0]
    assert jmdp.evaluate(table, {"a": "x", "b": "x", "end": "y"}, jmdp.Local()).mean[0].tolist() == [2.5, 2.0]
    with pytest.raises(PolicyError, match="The policy has no action for 1 of 3 states: 'b'"):
        jmdp.evaluate(table, {"a": "x"}, jmdp.Local())
    with pytest.raises(PolicyError, match=r"no action for 7 of 9 states: 3, 4, 5, 6, 7, …"):
        jmdp.evaluate(model(), {1: "wait", 2: "wait"}, jmdp.Local())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": "x", "c": "x"}, "There is no state 'c'"),
        ({"a": "x", "b": "z"}, "The policy has the action 'z' in state 'b'. There is no action 'z'"),
        ({"a": "x", 0: "x", "b": "x"}, "The policy has state a twice"),
        ({"a": {"x": 0.5, "y": 0.4}, "b": "x"}, r"in state 'a'. Give \{action: probability\}, with a sum of 1"),
        ({"a": {"x": 1.5, "y": -0.5}, "b": "x"}, "with a sum of 1"),
        ({"a": {"x": 1.0, 0: 0.0}, "b": "x"}, "with a sum of 1"),
        ({"a": [1.0, 0.0], "b": "x"}, r"\{state: \{action: probability\}\}"),
        (lambda state: [1.0, 0.0], "the actions were read with labels. Give"),
        (lambda state: None, "The policy has the action None in state"),
        ({}, "Give several policies as a dictionary"),
    ],
)
def test_wrong_policies_by_label_say_what_is_wrong(given: Any, message: str) -> None:
    with pytest.raises(JMDPError, match=message):
        jmdp.evaluate(jmdp.read_model(TERMINAL, discount=0.5), given, jmdp.Local())


def test_a_function_with_random_numbers_or_memory_is_refused() -> None:
    seen: list[str] = []

    def alternates(state: str) -> str:
        seen.append(state)
        return "x" if len(seen) % 2 else "y"

    with pytest.raises(PolicyError, match="may not use random numbers or memory"):
        jmdp.evaluate(jmdp.read_model(TERMINAL, discount=0.5), alternates, jmdp.Local())


def test_an_exception_of_a_function_has_a_note_with_the_state() -> None:
    def fails(state: str) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        jmdp.evaluate(jmdp.read_model(TERMINAL, discount=0.5), fails, jmdp.Local())
    assert caught.value.__notes__ == ["Raised by the policy for the state 'a'."]


def names_clash(states: list[str], actions: list[str]) -> jmdp.TabularJMDP:
    """A table with these names."""
    S, A = len(states), len(actions)
    return jmdp.TabularJMDP(np.ones((S, 1)), np.ones((S, 1, A)), np.zeros((S, 1, A), int), 0.5, None, states, actions)


def test_one_policy_and_several_policies_are_told_apart() -> None:
    table = names_clash(["old", "new"], ["x", "y"])
    policy = jmdp.TabularPolicy.uniform(table)
    evaluate = jmdp.evaluate
    assert evaluate(table, {"old": "x", "new": "y"}, jmdp.Local()).actions.kind == "action"
    assert evaluate(table, {"old": {"x": 1}, "new": {"y": 1.0}}, jmdp.Local()).actions.kind == "action"
    for several in (
        {"old": policy, "new": "uniform"},
        {"old": [0, 1], "new": lambda state: "x"},
        {"old": {"old": "x", "new": "y"}, "new": {"old": {"x": 1.0}, "new": "y"}},
        {"first": {"old": "x", "new": "y"}, "new": policy},
    ):
        assert evaluate(table, several, jmdp.Local()).actions.kind == "policy"


@pytest.mark.parametrize(
    ("table", "given"),
    [
        (names_clash(["old", "new"], ["uniform", "y"]), {"old": "uniform", "new": "uniform"}),
        (names_clash(["a", "b"], ["a", "b"]), {"a": {"a": 0, "b": 1}, "b": {"a": 0, "b": 1}}),
    ],
    ids=["an action named uniform", "actions named as states"],
)
def test_a_dictionary_that_can_be_one_policy_or_several_is_refused(table: jmdp.TabularJMDP, given: Any) -> None:
    with pytest.raises(PolicyError, match=r"can be one policy, \{state: action\}, or several policies by name"):
        jmdp.evaluate(table, given, jmdp.Local())
    one = jmdp.TabularPolicy.of(given, table)
    assert jmdp.evaluate(table, one, jmdp.Local()).actions.kind == "action"


def test_read_labels_are_kept_by_couple(tmp_path: Path) -> None:
    read = model(seed=None)
    base = jmdp.Marginals(np.ones((2, 2), int), np.ones(4), np.zeros(4), np.zeros(4, int), 0.5, None, ["7", "9"])
    assert jmdp.couple(base, jmdp.models.Product()).states.index(9) == 1
    assert read.states.read
    assert not base.states.read


def test_labels_of_simulators_keep_integers_as_indices() -> None:
    labels = Labels.of("action", 3, ["0", "20", "40"])
    assert labels.index(1) == 1
    assert Labels.of_table("action", 3, ["0", "20", "40"]).index(20) == 1
    assert Labels.of_table("action", 3, ["0", "20", "40"]).position(1) == 1


QUANTITIES = {"wait": 20, "order": 1}
"""Integer labels of actions, whose order is not that of the positions 0 and 1 of `array_model`."""


def both() -> list[tuple[jmdp.TabularJMDP, Any, int, tuple[Any, Any]]]:
    """The table with positions and with integer labels; its policy, a state, and the actions order and wait."""
    positions = {level: level - 1 for level in LEVELS}
    labelled = model(actions=QUANTITIES), order_below(4, actions=QUANTITIES), 5, (1, 20)
    base = array_model()
    plain = jmdp.TabularJMDP(base.prob, base.reward[:, :, ::-1], base.next_state[:, :, ::-1], 0.9)
    return [(plain, order_below(4, positions, {"wait": 1, "order": 0}), 4, (0, 1)), labelled]


def test_all_numbers_of_an_evaluation_are_those_of_the_positions() -> None:
    found = []
    for table, policy, s, (a, b) in both():
        e = jmdp.evaluate(table, policy, jmdp.Local(), jmdp.ExactPairs(order=3))
        t = s + 2
        gap = e.gap(s, a, b)
        found.append(
            [
                *(e.mean_of(s, a), e.covariance_interval(s, a, b), e.cross_covariance(s, a, t, b)),
                *(e.cross_covariance_interval(s, a, t, b), e.second_moment(s, a, t, b), e.moment((s, a), (t, b))),
                *(e.moment((s, a), (s, a), (s, b)), gap.mean_interval, gap.correlation_interval, gap.central_moment(3)),
                *(row["mean return"] for row in e.rows()),
                *(row["std"] for row in e.rows()),
            ]
        )
        jmdp.testing.check_certificate(table, policy, jmdp.evaluate(table, policy, jmdp.Local()))
    assert found[0] == found[1]


def test_distributions_starts_reachable_pairs_and_samples_are_those_of_the_positions() -> None:
    found = []
    for table, policy, s, (a, b) in both():
        known = jmdp.evaluate(table, policy, jmdp.Local(), jmdp.ExactDistribution())
        several = jmdp.evaluate(table, {"p": policy, "uniform": "uniform"}, jmdp.Local(), starts={s: 0.25, s + 1: 0.75})
        near = jmdp.evaluate(table, policy, jmdp.Local(), jmdp.ReachablePairs(s, tolerance=1e-4))
        drawn = jmdp.evaluate(table, policy, jmdp.Local(), jmdp.MonteCarlo(seed=1, samples=50))
        paired = jmdp.compare(table, state=s, policy=policy, seed=2, max_samples=64, progress=False)
        found.append(
            [
                known.gap(s, a, b).distribution().cdf(0.0),
                *(several.gap("start", "p", "uniform").mean, several.variance_split("p", "uniform").within),
                *(near.gap(near.states.label(0), a, b).mean, drawn.gap(s, a, b).mean, drawn.mean_of(s, b)),
                *(float(paired.mean_of(a)), paired.gap(a, b).mean),
                *gap_samples(table, policy, s, a, b, seed=0, coupling=jmdp.Local(), samples=9),
            ]
        )
    assert found[0] == found[1]


def test_figures_and_pages_of_integer_labels(tmp_path: Path) -> None:
    table, policy, s, _ = both()[1]
    result = jmdp.evaluate(table, policy, jmdp.Local(), jmdp.ExactDistribution())
    for figure in (result.plot(), result.plot(s), jmdp.plots.superiority_matrix(result, s)):
        assert figure.axes
    chosen = jmdp.TabularPolicy.of(policy, table)
    assert jmdp.plots.beaten_grid(result, chosen, grid=(3, 3)).axes
    result.report(tmp_path / "page.html", state=s)
    page = (tmp_path / "page.html").read_text()
    assert "state 5" in page
    assert result.to_xarray().sizes == {"state": 9, "action": 2, "action_2": 2}


def test_a_study_of_a_table_that_was_read(tmp_path: Path) -> None:
    table, policy, s, _ = both()[1]
    study = jmdp.study(table, policy, [s, 9], seed=0, path=tmp_path / "study", max_samples=64, progress=False)
    assert set(study.to_dataframe()["state"]) == {"5", "9"}
    several = {"p": policy, "uniform": "uniform"}
    found = jmdp.study(table, several, [s, 9], seed=0, path=tmp_path / "both", max_samples=64, progress=False)
    assert set(found.to_dataframe()["policy"]) == {"p", "uniform"}
    with pytest.raises(PolicyError, match="by label"):
        jmdp.study(table, [1] * 9, [s], seed=0, path=tmp_path / "other", progress=False)
