"""What is saved is what is loaded: numbers bit for bit, names, settings, and the way to go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5netcdf")
import xarray

import jmdp
from jmdp.errors import FileError, SettingsError, SimulatorError, UnavailableError
from jmdp.files import evaluations as saved_evaluations
from jmdp.files import netcdf
from jmdp.files.evaluations import saved_samples
from jmdp.files.methods import upgraded
from jmdp.files.schema import VERSION
from jmdp.files.types import WrongFieldError
from jmdp.methods.learned import RegressedEvaluation
from registry.results import CASE, SAVED, Case, Choices, Walk, kinds, made, saved

UP, DOWN = CASE.policies.values()


def again(result: Any, folder: Path) -> Any:
    """Save and load."""
    result.save(folder / "result.nc")
    return jmdp.load(folder / "result.nc")


def loaded(kind: str, folder: Path) -> Any:
    """The result of this kind from its file."""
    (folder / "result.nc").write_bytes(saved(kind))
    return jmdp.load(folder / "result.nc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.mark.parametrize("kind", SAVED)
def test_what_is_loaded_is_what_was_saved(kind, folder):
    found = loaded(kind, folder)
    assert_same(found, made(kind))
    found.save(folder / "again.nc")
    assert (folder / "again.nc").read_bytes() == saved(kind)


def test_the_error_of_probabilities_is_saved_with_a_table(folder):
    """What is computed again from the file has the same errors."""
    marginals = jmdp.Marginals([[2, 3]], [1 / 3, 2 / 3, 0.1, 0.2, 0.7], [1, 2, 3, 4, 5], [0] * 5, 0.9)
    model = jmdp.couple(marginals, jmdp.models.CommonUniform())
    assert again(model, folder).prob_error == model.prob_error > 0
    evaluation = jmdp.evaluate(model, [0], jmdp.Local())
    assert again(evaluation, folder).asked.model.prob_error == model.prob_error


OTHERS = [*product(["evaluation ExactPairs", "comparison compare in a table", "review of a table"], [2, 2**32])]


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[pytest.mark.long] * ((kind, seed) not in OTHERS))
        for kind, seed in product(SAVED, [0, 1, 2, 3, 2**32])
    ],
)
def test_other_seeds_names_and_couplings(kind, seed, folder):
    result = kinds(Case(seed))[kind]()
    found = again(result, folder)
    assert_same(found, result)
    assert_same(again(found, folder), result)


@pytest.mark.parametrize("seed", range(6))
def test_tables_and_calibrations_of_other_sizes(seed, folder):
    model, record = Case(seed).table(1 + seed % 5, 1 + seed % 3), kinds(Case(seed))["calibration"]()
    for one in (model, record):
        assert_same(again(one, folder), one)


@pytest.mark.parametrize("kind", [kind for kind in SAVED if kind.startswith("evaluation")])
def test_parts_that_are_computed_again(kind, folder):
    result, found = made(kind), loaded(kind, folder)
    asked = {
        "cross": lambda e: (e.cross_covariance(0, 0, 1, 1), e.cross_covariance_interval(0, 0, 1, 1)),
        "distributions": lambda e: [
            d.value.tobytes() for d in (e.return_distribution(0, 1), e.gap(0, 0, 1).distribution())
        ],
        "moments": lambda e: (m := e.moment((0, 0), (0, 0), (0, 1)), m.low, m.high),
        "start": lambda e: e.variance_split(0, 1),
        "projection": lambda e: (e.projection.error_bound(0, 0, 1, 1), repr(e.projection)),
    }
    for part, ask in asked.items():
        if getattr(result, part) is not None and "ReachablePairs" not in kind:
            assert ask(found) == ask(result), part


GIVEN: dict[str, dict[str, Any]] = {
    "compare": {"simulator": Walk(), "policy": UP},
    "compare three actions": {"simulator": Choices(), "policy": UP},
    "compare in a table": {"simulator": CASE.table(), "state": 0, "policy": CASE.policy()},
    "compare with a range": {"simulator": Walk(), "policy": UP, "state": (1, 0)},
    "compare_policies": {"simulator": Walk(), "policies": CASE.policies, "starts": [(0, 0), (1, 1)]},
    "compare_policies with a margin": {"simulator": Walk(), "policies": CASE.policies},
    "compare_runs": {"runs": CASE.runs},
    "compare_runs, one number": {"runs": CASE.single_runs},
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_loaded_comparison_goes_on(kind, folder):
    result = made(f"comparison {kind}")
    found = loaded(f"comparison {kind}", folder).continued(200, **GIVEN[kind])
    assert_same(found, result.continued(200))
    assert kind != "compare three actions" or found.worse_than == result.worse_than != {}
    assert found.continued(300) is not None  # it has its simulator again
    precise = loaded(f"comparison {kind}", folder).continued(200, precision=0.5, **GIVEN[kind])
    assert_same(precise, result.continued(200, precision=0.5))


@pytest.mark.parametrize("kind", ["review", "reviews"])
def test_a_loaded_review_has_no_simulator(kind, folder):
    found = loaded(kind, folder)
    with pytest.raises(UnavailableError, match="no simulator"):
        found.what_if(0, 0) if kind == "review" else found.by(str)


def test_what_a_loaded_comparison_must_be_given(folder):
    result, found = made("comparison compare"), loaded("comparison compare", folder)
    with pytest.raises(SettingsError, match=r"continued\(samples, simulator=…, policy=…\)"):
        found.continued(100)
    with pytest.raises(SettingsError, match="no argument 'polcy'"):
        found.continued(100, simulator=Walk(), polcy=UP)
    with pytest.raises(SimulatorError, match="differ when they are drawn again"):
        found.continued(100, simulator=Walk(), policy=DOWN)
    with pytest.raises(SimulatorError, match="The list of actions was"):
        found.continued(100, simulator=Walk(), policy=UP, actions=["down", "up"])
    with pytest.raises(SettingsError, match="has its own"):
        result.continued(100, simulator=Walk())
    policies = loaded("comparison compare_policies", folder)
    with pytest.raises(SimulatorError, match="The list of starts"):
        policies.continued(100, simulator=Walk(), policies=CASE.policies, starts=[(0, 0)])
    one = again(made("comparison compare_runs")["cost"], folder)
    with pytest.raises(UnavailableError, match="Continue the whole comparison"):
        one.continued(100, runs=CASE.runs)


def test_parts_that_a_file_cannot_have(folder):
    simulated = loaded("evaluation MonteCarlo on a simulator", folder)
    assert simulated.gap("(0, 0)", 0, 1).mean == simulated.gap((0, 0), 0, 1).mean  # a state by its name, or as given
    lazy = jmdp.LazyJMDP(lambda s: ([1.0], [[1.0, 2.0]], [[s, s]]), 0.5, 2.0)
    found = jmdp.evaluate(lazy, lambda s: [0.5, 0.5], jmdp.Local(), jmdp.ReachablePairs(0))
    assert_same(again(found, folder), found)
    model = CASE.table()
    projected = jmdp.evaluate(model, "uniform", jmdp.Local(), jmdp.LinearProjected(lambda s, a: [1.0, s, a]))
    found = again(projected, folder)
    assert_same(found, projected)
    with pytest.raises(UnavailableError, match="Evaluate again"):
        found.cross_covariance(0, 0, 1, 0)


@pytest.mark.parametrize("kind", ["JIPE", "MonteCarlo", "MonteCarlo of policies"])
def test_what_is_computed_again_must_be_the_same(kind, folder, monkeypatch):
    """Samples of a table are drawn again, state by state; other parts need the whole evaluation, unless it differs."""
    result, found = made(f"evaluation {kind}"), loaded(f"evaluation {kind}", folder)
    other = replace(result, mean=result.mean + 1)
    monkeypatch.setattr(saved_evaluations, "evaluate", lambda *given, **named: other)
    if kind != "JIPE":
        assert str(found.gap(0, 0, 1)) == str(result.gap(0, 0, 1))
        return
    with pytest.raises(UnavailableError, match="other numbers"):
        found.cross_covariance(0, 0, 1, 1)
    other = replace(result, outcome=jmdp.results.Outcome.INTERRUPTED)
    for _ in range(2):  # it is not kept
        with pytest.raises(KeyboardInterrupt):
            found.cross_covariance(0, 0, 1, 1)


def test_interrupted_evaluations_stay_what_they_are(folder):
    result = made("evaluation JIPE")
    found = again(replace(result, outcome=jmdp.results.Outcome.INTERRUPTED), folder)
    assert found.covariance.tobytes() == result.covariance.tobytes()
    with pytest.raises(UnavailableError, match="was interrupted"):
        found.cross_covariance(0, 0, 1, 1)


def test_samples_of_a_comparison_are_saved_with_its_evaluation(folder):
    for kind in ("compare", "compare with a range"):
        part = made(f"comparison {kind}").evaluation
        found = again(part, folder)
        assert_same(found, part)
        assert found.gap(0, 0, 1).distribution().value.tobytes() == part.gap(0, 0, 1).distribution().value.tobytes()
    with pytest.raises(WrongFieldError, match="instead of one of: fixed, anytime, certain"):
        replace(saved_samples(part), band="none").distributions(part)


def test_a_table_must_be_the_same_to_go_on(folder):
    model, found = CASE.table(), loaded("comparison compare in a table", folder)
    other = jmdp.TabularJMDP(
        model.prob,
        model.reward + 100,
        model.next_state,
        model.discount,
        model.terminal,
        action_names=list(model.actions),
    )
    for change in ({"simulator": other}, {"state": 1}, {"policy": [0] * 4}):
        with pytest.raises(SimulatorError, match="differ when they are drawn again"):
            found.continued(200, **{**GIVEN["compare in a table"], **change})


def test_odd_names_and_settings(folder):
    odd = Walk(("a\0b", "line\nbreak"), "\ud800")
    result = jmdp.compare(odd, policy=UP, seed=1, max_samples=60, progress=False)
    found = again(result, folder)
    assert (found.alternatives, found.simulator) == (result.alternatives, r"\ud800")
    precision: dict[str, Any] = {"cost": 0.01, CASE.title: None}
    runs = jmdp.compare_runs(CASE.runs, precision=precision, seed=1, max_samples=30, progress=False)
    assert_same(again(runs, folder).continued(60, runs=CASE.runs, progress=False), runs.continued(60))


def test_budgets_and_tolerances_are_saved(folder):
    """Settings that no kind in the registry has."""
    budgets = {"max_samples": 60, "max_steps": 10_000.5, "max_seconds": 1000}
    for more in ({"precision": 0.01}, {"indifference": 0.01}):
        result = jmdp.compare(Walk(), policy=UP, seed=1, progress=False, **budgets, **more)
        found = again(result, folder)
        settings = result.continue_with.question.settings
        assert replace(found.continue_with.progress.settings, pool=settings.pool, progress=False) == settings
        assert_same(found, result)


def test_other_programs_read_it(folder):
    result = made("evaluation ExactPairs")
    (folder / "plain.nc").write_bytes(saved("evaluation ExactPairs"))
    with xarray.open_dataset(folder / "plain.nc") as data:
        assert data["mean"].sel(state="c, d", action="down") == result.mean[2, 1]
        assert data["covariance"].dims == ("state", "action", "action_2")
        assert data["certificate_gap_mean_error"].dims == ("state", "action", "action_2")
        assert data.attrs["coupling"] == repr(result.coupling)
        assert "jmdp" in data.attrs["jmdp_versions"]
    model = made("table")
    (folder / "model.nc").write_bytes(saved("table"))
    with xarray.open_dataset(folder / "model.nc") as data:
        assert data["next_state"].dims == ("state", "scenario", "action")
        assert data["terminal"].dtype == bool
        assert data.attrs["discount"] == model.discount


def test_saving_twice_gives_the_same_bytes(folder):
    made("comparison compare").save(folder / "again.nc")
    assert (folder / "again.nc").read_bytes() == saved("comparison compare")


@pytest.mark.parametrize("damage", ["cut", "longer", "not ours", "empty"])
def test_damage_is_noticed(damage, folder):
    path = folder / "damaged.nc"
    data = saved("calibration")
    changed = {"cut": data[:-100], "longer": data + b"\0", "not ours": b"PK\x03\x04", "empty": b""}
    path.write_bytes(changed[damage])
    with pytest.raises(FileError, match=r"damaged\.nc"):
        jmdp.load(path)


def test_any_changed_bit_is_noticed(folder):
    path = folder / "damaged.nc"
    data = saved("calibration")
    for at in range(8, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(FileError, match=r"damaged: its checksum|does not end with the checksum"):
            jmdp.load(path)


def test_where_nothing_can_be_written_or_read(folder):
    record = made("calibration")
    with pytest.raises(FileError, match="cannot be written"):
        record.save(folder)
    with pytest.raises(SettingsError, match="path is 3"):
        record.save(3)
    with pytest.raises(FileError, match="no file"):
        jmdp.load(folder / "absent.nc")
    with pytest.raises(SettingsError, match="path is None"):
        jmdp.load(None)


def test_a_folder_is_a_study():
    pytest.importorskip("pyarrow")
    assert repr(jmdp.load(made("study").path)) == repr(made("study"))


FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.nc"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_earlier_versions(path):
    """Written by write_fixtures.py, once for each version of the format."""
    found = jmdp.load(path)
    assert repr(found) + "\n" == path.with_suffix(".txt").read_text(encoding="utf-8")
    if isinstance(found, jmdp.results.Evaluation):
        assert str(found.gap(0, 0, 1))


OLD_COMPARISONS = [path for path in FIXTURES if path.stem.startswith("1 comparison")]


@pytest.mark.parametrize("path", OLD_COMPARISONS, ids=lambda path: path.stem)
def test_comparisons_of_version_1_keep_their_outcome(path, folder):
    """And they say so, also on their page and after they were saved again."""
    with netcdf.read(path, True) as (record, _, _):
        saved = record["object"].get("measures", [record["object"]])
    found = jmdp.load(path)
    for c, old in zip([*found.values()] if isinstance(found, Mapping) else [found], saved, strict=True):
        assert (c.outcome.name, c.best, list(c.survivors)) == (old["outcome"], old["best"], old["survivors"])
        assert c.summary.return_range == (None if old["return_range"] is None else tuple(old["return_range"]))
        assert c.summary.samples.returns.shape[1] == len(old["labels"][2])
    said = "loaded from a file of version 1: the outcome is as recorded, the intervals are computed anew"
    for one in (found, again(found, folder)):
        assert said in " ".join(repr(one).split())
    found.report(folder / "page.html")
    assert said[1:] in (folder / "page.html").read_text(encoding="utf-8")


def test_assumptions_of_version_1_by_measure():
    """They were settings of measures, and are now assumptions by measure."""
    own = [["precision", [["a", [0.5]], ["b", []]]], ["return_range", [["a", [0.0, 1.0]], ["b", []]]]]
    settings = {"class": "Settings", "samples": 9, "seconds": None, "reward_bound": None, "return_range": None}
    node = {"class": "Progress", "settings": settings | {"tie_tolerance": 0.5}, "own": own}
    found = upgraded(node)
    assert found["own"] == [["precision", [["a", 0.5], ["b", None]]]]
    assert found["settings"]["assume"]["return_range"] == {"measures": [["a", [0.0, 1.0]], ["b", None]]}
    assert (found["settings"]["max_samples"], found["settings"]["samples"], found["looks"]) == (9, None, 1)
    for damaged in ({"own": 3}, {"own": [["precision", 3]]}, {"settings": {"class": "Settings"}}):
        with pytest.raises(WrongFieldError):
            upgraded(node | damaged)


def test_there_are_files_of_this_version():
    """One of each kind."""
    assert {f"{VERSION} {kind}" for kind in SAVED} <= {path.stem for path in FIXTURES}


def assert_same(found: Any, expected: Any) -> None:
    """Raise unless two results have the same numbers, bit for bit, and the same text."""
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    if isinstance(expected, jmdp.results.Evaluation):
        _assert_same_evaluation(found, expected)
    elif isinstance(expected, jmdp.comparisons.RunComparisons):
        assert list(found) == list(expected)
        for measure in expected:
            assert_same(found[measure], expected[measure])
    elif isinstance(expected, jmdp.comparisons.Comparison):
        _assert_same_comparison(found, expected)
    elif isinstance(expected, jmdp.reviews.Review | jmdp.reviews.Reviews):
        assert found.to_dataframe().equals(expected.to_dataframe())
        both = [(found, expected)] if isinstance(expected, jmdp.reviews.Review) else zip(found, expected, strict=True)
        for one, other in both:
            _assert_same_review(one, other)
    elif isinstance(expected, RegressedEvaluation):
        seen = np.random.default_rng(0).integers(0, 5, size=(50, *expected.observation[0]))
        for one, other in zip(found.moments(seen), expected.moments(seen), strict=True):
            _assert_equal(one, other)
        assert_same(found.calibration, expected.calibration)
    else:
        for field in fields(expected):
            _assert_equal(getattr(found, field.name), getattr(expected, field.name))


def _assert_same_review(found: Any, expected: Any) -> None:
    assert repr(found.decisions) == repr(expected.decisions)
    _assert_equal(found.trajectory.rewards, expected.trajectory.rewards)
    for values, others in zip(found.values, expected.values, strict=True):
        for name, value in vars(others).items():
            assert np.asarray(getattr(values, name)).tobytes() == np.asarray(value).tobytes()


def _assert_same_comparison(found: Any, expected: Any) -> None:
    assert found.to_dataframe().equals(expected.to_dataframe())
    assert found.answer == expected.answer
    for stage, other in zip(found.summary.samples.stages, expected.summary.samples.stages, strict=True):
        assert stage.alternatives == other.alternatives
        for name, value in vars(other.draws).items():
            if isinstance(value, np.ndarray):
                _assert_equal(getattr(stage.draws, name), value)
    _assert_same_evaluation(found.evaluation, expected.evaluation)


def _assert_same_evaluation(found: Any, expected: Any) -> None:
    for name in ("mean", "covariance", "residuals", "correlation"):
        _assert_equal(getattr(found, name), getattr(expected, name))
        assert not getattr(found, name).flags.writeable
    if expected.certificate is not None:
        for field in fields(expected.certificate):
            _assert_equal(getattr(found.certificate, field.name), getattr(expected.certificate, field.name))
    assert found.states == expected.states
    assert found.actions == expected.actions
    assert found.to_xarray().identical(expected.to_xarray())
    for s, a, b in np.ndindex(*expected.covariance.shape):
        one, other = found.gap(s, a, b), expected.gap(s, a, b)
        assert str(one) == str(other)
        assert one.support == other.support
        assert [(x, x.low, x.high) for x in one.central_moments] == [(x, x.low, x.high) for x in other.central_moments]


def _assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    else:
        assert found == expected or (found != found and expected != expected)
