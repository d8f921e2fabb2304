"""Hostile values on the side of simulators and comparisons: one test for each case that once came out raw."""

from __future__ import annotations

import decimal
import fractions
import math
from typing import Any

import numpy as np
import pytest

import jmdp
from hostile import entries_answers, entries_comparisons, entries_samples
from hostile.entries_comparisons import numbers, other, plain, shifted, sound
from hostile.entries_samples import alternate, table, walk
from jmdp.errors import JMDPError, LabelError, MemoryBudgetError, SettingsError, SimulatorError
from jmdp.simulators import FunctionSimulator, ObjectSimulator
from jmdp.testing import check_simulator

LONG = 10**5000
SHORT: dict[str, Any] = {"seed": 1, "max_samples": 8, "discount": 0.5, "horizon": 2, "progress": False}


def kind(value: Any) -> str:
    """Name of a case, the same in every process."""
    return type(value).__name__


def compare(**settings: Any) -> jmdp.comparisons.Comparison:
    return jmdp.compare(walk(), alternate, state=1, **SHORT | settings)


def compare_policies(**settings: Any) -> jmdp.comparisons.PolicyComparison:
    policies = {"old": alternate, "new": other}
    return jmdp.compare_policies(walk(), policies, **SHORT | {"baseline": "old"} | settings)


def compare_runs(**settings: Any) -> Any:
    return jmdp.compare_runs({"a": plain, "b": shifted}, **{"seed": 1, "max_samples": 8, "progress": False} | settings)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entries", [entries_samples, entries_comparisons, entries_answers])
def test_valid_arguments_are_accepted(entries: Any) -> None:
    """Otherwise the fuzz would test nothing."""
    for entry in entries.ENTRIES:
        if not entry.name.startswith(("simulators.ALE", "simulators.Gymnax")):
            result = entry.call(**entry.valid(np.random.default_rng(0)))
            assert entry.check(result, {}) is None, entry.name


WRONG: dict[str, list[Any]] = {
    "seed": [-1, 1.5, "1", None, True, 10**400, LONG, [1], object()],
    "confidence": [0.0, 1.0, math.nan, "0.9", 10**400, [0.9], True],
    "precision": [0.0, -1.0, math.inf, math.nan, "1", True, 10**400, LONG, [1.0]],
    "indifference": [0.0, -1.0, math.inf, "1", True, 10**400, LONG, {1.0}],
    "samples": [1, 2.5, "8", 10**400, LONG],
    "max_samples": [1, 2.5, "8", 10**400, LONG],
    "max_seconds": [0.0, "1", math.nan, LONG],
    "looks": ["often", 1, None, LONG],
    "assume": [0.5, (0.0, 1.0), {"return_range": (0.0, 1.0)}, jmdp.Assumptions],
    "pool": [0, -1, 1.5, "2", True, LONG, object(), jmdp.distribute.ProcessPool],
    "progress": [1, "yes", None, np.array([True, False])],
}

WRONG_ASSUMPTIONS: dict[str, list[Any]] = {
    "return_range": [
        (1.0, 0.0),
        (0.0,),
        (0.0, 1.0, 2.0),
        (0.0, math.inf),
        (0.0, 10**400),
        "01",
        {0.0, 1.0},
        3,
        [LONG, 1],
    ],
    "reward_bound": [0.0, -1.0, math.inf, "1", LONG],
    "largest_loss": [0.0, -1.0, math.inf, "1", LONG],
    "rarest": [0.0, 1.0, math.nan, "0.1", LONG],
    "tie_tolerance": [-1.0, math.nan, "0", LONG],
}


@pytest.mark.parametrize("setting", WRONG)
@pytest.mark.parametrize("verb", [compare, compare_policies, compare_runs])
def test_wrong_settings(verb: Any, setting: str) -> None:
    for value in WRONG[setting]:
        with pytest.raises(SettingsError, match=setting) as caught:
            verb(**{setting: value})
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", WRONG_ASSUMPTIONS)
def test_wrong_assumptions(name: str) -> None:
    for value in WRONG_ASSUMPTIONS[name]:
        for given in (value, {"cost": value}):
            with pytest.raises(SettingsError, match=f"{name} is") as caught:
                jmdp.Assumptions(**{name: given})
            assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "margin",
    [-1, math.nan, "x" * 9999, "-2%", "200%", 10**400, LONG, True, [1], None, ""],
    ids=kind,
)
def test_wrong_margins(margin: Any) -> None:
    with pytest.raises(SettingsError, match="margin is") as caught:
        compare_policies().not_worse(margin)
    assert len(str(caught.value)) < 500
    if margin is not None:
        with pytest.raises(SettingsError, match="margin is"):
            compare_policies(margin=margin)


@pytest.mark.parametrize(
    "kind", [np.float32, np.float64, np.float16, fractions.Fraction, decimal.Decimal, np.array, np.longdouble]
)
def test_numbers_of_all_kinds_mean_the_same(kind: Any) -> None:
    """All values are exact in every kind, so the answers are equal bit for bit, and stored as plain floats."""

    def settings(kind: Any) -> dict[str, Any]:
        assume = jmdp.Assumptions(tie_tolerance=kind(0.125), return_range=(kind(-8.0), kind(8.0)))
        return {"confidence": kind(0.875), "indifference": kind(0.25), "assume": assume}

    for verb in (compare, compare_policies, compare_runs):
        one, same = verb(**settings(float)), verb(**settings(kind))
        assert numbers(one) == numbers(same)
        assert sound(same, {}) is None
        assert type(same.indifference) is type(same.summary.assume.tie_tolerance) is type(same.confidence) is float
        assert type(same.seed) is type(same.samples) is int
    assert compare(discount=kind(0.5)).mean.tolist() == compare().mean.tolist()
    assert jmdp.Margin(kind(0.5)) == jmdp.Margin(0.5)
    luck = jmdp.Luck(jmdp.Shock.of_sample(0, 0))
    drawn = luck.exponential("x", mean=kind(2.0))
    assert drawn == luck.exponential("x", mean=2.0)
    assert type(drawn) is float


@pytest.mark.parametrize("value", [10**400, LONG, -1, 1.5, "64", None], ids=kind)
def test_continued(value: Any) -> None:
    for found in (compare(), compare_policies(), compare_runs()):
        with pytest.raises(SettingsError, match="samples is"):
            found.continued(value)


@pytest.mark.parametrize(
    "value",
    [10**400, LONG, math.nan, "0.5", None, [0.5, 0.5], object(), 1e308, {}],
    ids=kind,
)
def test_rewards_that_are_no_finite_numbers(value: Any) -> None:
    simulator = walk(reward=lambda s, a, u: value)
    for verb in (
        lambda: jmdp.compare(simulator, alternate, state=1, **SHORT),
        lambda: jmdp.compare_policies(simulator, {"a": alternate, "b": other}, **SHORT),
    ):
        with pytest.raises(SimulatorError, match=r"reward|too large") as caught:
            verb()
        assert len(str(caught.value)) < 500


def test_what_a_user_function_raises_comes_out_unchanged() -> None:
    error = KeyError("mine")

    def raises(*_: Any) -> Any:
        raise error

    for part in ("reward", "next_state", "luck", "terminal", "start"):
        with pytest.raises(KeyError) as caught:
            jmdp.compare(walk(**{part: raises}), alternate, **SHORT)
        assert caught.value is error
    with pytest.raises(KeyError) as caught:
        jmdp.compare(walk(), raises, state=1, **SHORT)
    assert caught.value is error
    with pytest.raises(KeyError) as caught:
        jmdp.compare_runs({"a": plain, "b": raises}, seed=0, progress=False)
    assert caught.value is error
    assert "jmdp.Shock.of_sample(0, 0)" in caught.value.__notes__[-1]


def test_tensors_that_require_a_gradient() -> None:
    torch = pytest.importorskip("torch")
    chances = torch.tensor([0.25, 0.75], requires_grad=True)

    def of(make: Any, obs: Any = None, rewarded: Any = float) -> Any:
        simulator = walk(reward=lambda s, a, u: rewarded(u + a), observe=make)
        return jmdp.compare(simulator, lambda observation: obs if obs is not None else 0, state=1, **SHORT)

    valid = of(lambda s: s)
    assert numbers(of(lambda s: torch.tensor(float(s), requires_grad=True))) == numbers(valid)
    assert numbers(of(lambda s: s, chances)) == numbers(of(lambda s: s, np.array([0.25, 0.75])))
    doubles = of(lambda s: s, rewarded=lambda x: torch.tensor(x, dtype=torch.float64, requires_grad=True))
    assert numbers(doubles) == numbers(valid)
    ran = jmdp.compare_runs(
        {"a": lambda luck: torch.tensor(plain(luck), dtype=torch.float64), "b": shifted},
        seed=1,
        max_samples=8,
        progress=False,
    )
    assert numbers(ran) == numbers(compare_runs())


def test_as_many_actions_as_one_likes() -> None:
    """Nothing is allocated for each of 2⁴⁰ actions."""
    simulator = FunctionSimulator(lambda s, a, u: u + a % 2, lambda s, a, u: s, 2**40, start=0)
    found = jmdp.compare(simulator, lambda observation: 2**40 - 1, state=0, actions=[0, 2**40 - 1], **SHORT)
    assert found.alternatives == ["0", str(2**40 - 1)]
    with pytest.raises(SettingsError, match=r"1,099,511,627,776 actions\. Choose at most"):
        jmdp.compare(simulator, lambda observation: 0, state=0, **SHORT)
    with pytest.raises(SettingsError, match="Choose at most"):
        check_simulator(simulator)
    with pytest.raises(MemoryBudgetError, match="uniform policy"):
        jmdp.compare(simulator, "uniform", state=0, actions=[0, 1], **SHORT)
    for actions in (10**400, LONG, 0, -1, 2.0, True, None, "ab", [["a"], ["b"]], ["a", "a"], ["\ud800", "b"], [1, 2]):
        with pytest.raises(JMDPError, match="action"):
            FunctionSimulator(lambda s, a, u: 0.0, lambda s, a, u: s, actions)  # type: ignore[arg-type]
    with pytest.raises(JMDPError, match="action"):
        ObjectSimulator(entries_samples.Walk, 2**70)
    assert ObjectSimulator(entries_samples.Walk, 2**40).actions.size == 2**40  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "label",
    [10**400, LONG, 2, -1, 0.0, True, None, [0], {}, "x" * 9999, math.nan],
    ids=kind,
)
def test_labels_of_results(label: Any) -> None:
    for found in (compare(), compare_policies(), compare_runs()):
        for method, others in (("mean_of", ()), ("regret", ()), ("gap", (0,)), ("superiority", (0,))):
            with pytest.raises(LabelError) as caught:
                getattr(found, method)(label, *others)
            assert len(str(caught.value)) < 500


@pytest.mark.parametrize("p", [0.0, 1.0, -1, math.nan, 5e-324, "0.5", None, 10**400, LONG, [0.5]], ids=kind)
def test_chances_of_regret(p: Any) -> None:
    for method in (compare().regret(0).quantile, compare(assume=jmdp.Assumptions(return_range=(-9, 9))).regret(0).cvar):
        with pytest.raises(SettingsError, match="p is"):
            method(p)


KEYS = [1.5, math.nan, True, None, [1], {}, object(), LONG, ("a", 0.5), ("a", ("b", [])), np.float32(1), b"x", slice(3)]


@pytest.mark.parametrize("key", KEYS, ids=lambda key: type(key).__name__)
def test_keys_of_luck(key: Any) -> None:
    luck = jmdp.Luck(jmdp.Shock.of_sample(0, 0))
    for draw in (luck.uniform, luck.seed, luck.__getitem__):
        with pytest.raises(SettingsError, match="key") as caught:
            draw(key)
        assert len(str(caught.value)) < 500


def test_keys_that_are_accepted() -> None:
    luck = jmdp.Luck(jmdp.Shock.of_sample(0, 0))
    keys = ["a", "\ud800", "a\0", 10**400, -(10**400), ("a", 1), ("a", ("b", 2)), (("a",), "b", 2), 0, "0", ""]
    assert len({luck.uniform(key) for key in keys}) == len(keys)
    assert luck.uniform(np.int8(5)) == luck.uniform(5)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, "1", None, True, 10**400, LONG, [1.0], object(), 1 + 0j],
    ids=kind,
)
def test_parameters_of_luck(value: Any) -> None:
    luck = jmdp.Luck(jmdp.Shock.of_sample(0, 0))
    for draw in (
        lambda: luck.uniform("x", low=value, high=3.0),
        lambda: luck.exponential("x", mean=value),
        lambda: luck.normal("x", mean=value, std=1.0),
        lambda: luck.normal("x", mean=0.0, std=value),
        lambda: luck.poisson("x", mean=value),
        lambda: luck.choice("x", options=["a", "b"], probabilities=[value, 0.5]),
    ):
        with pytest.raises(SettingsError):
            draw()
    assert math.isfinite(luck.normal("x", mean=1e300, std=1e300))
    for options in ({"a": 1}, {1, 2}, [], None, 3, (i for i in range(3))):
        with pytest.raises(SettingsError, match="options"):
            luck.choice("x", options=options)  # type: ignore[arg-type]


def test_shocks() -> None:
    for words in (b"", bytes(15), bytearray(16), "x" * 16, 3, None):
        with pytest.raises(SettingsError, match="words is"):
            jmdp.Shock(words)  # type: ignore[arg-type]
    for seed in (0.9, "1", None, LONG, True):
        with pytest.raises(SettingsError, match="seed is"):
            jmdp.Shock.of_sample(seed, 0)  # type: ignore[arg-type]
    shock = jmdp.Shock.of_sample(np.int64(3), np.uint8(4))
    assert shock == jmdp.Shock.of_sample(3, 4)
    for arguments in (("text",), (b"x", 0.5), (b"x", 10**30), (b"x", 0, "here")):
        with pytest.raises(SettingsError, match="cannot be derived"):
            shock.derived(*arguments).uniform()
    with pytest.raises(SettingsError, match="count is"):
        shock.uniforms(-1)
    with pytest.raises(MemoryBudgetError):
        shock.uniforms(2**62)


def test_an_integer_that_python_does_not_print_is_a_state_like_any_other() -> None:
    found = jmdp.compare(walk(next_state=lambda s, a, u: LONG + a), lambda observation: 0, state=1, **SHORT)
    assert sound(found, {}) is None


@pytest.mark.parametrize("chances", [[0.5, 0.6], [10**400, 1], ["a", "b"], [math.nan, 1.0]])
def test_starts(chances: list[Any]) -> None:
    with pytest.raises(SettingsError, match="Probabilities of starts"):
        compare_policies(starts=dict(enumerate(chances)))
    for starts in (3, "ab", [], object(), {}):
        with pytest.raises(SettingsError, match="starts is"):
            compare_policies(starts=starts)


def test_names_are_cut_in_messages() -> None:
    long = {"x" * 100_000: alternate, "y" * 100_000: alternate}
    for baseline in ("z" * 100_000, LONG, [[]] * 10_000):
        with pytest.raises(JMDPError) as caught:
            jmdp.compare_policies(walk(), long, baseline=baseline, **SHORT)  # type: ignore[arg-type]
        assert len(str(caught.value)) < 1200
    with pytest.raises(SettingsError, match="Give a string"):
        jmdp.compare_policies(walk(), {LONG: alternate, "b": other}, **SHORT)  # type: ignore[dict-item]
    by_number: dict[Any, Any] = {5: alternate, 6: other}
    given: dict[str, Any] = {"starts": [0], "baseline": 5, "seed": 0, "max_samples": 8, "horizon": 2, "progress": False}
    found = jmdp.compare_policies(table(), by_number, **given)
    assert found.baseline == found.reference == "5"
