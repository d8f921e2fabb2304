"""What is saved is what is loaded: numbers bit for bit, names, settings, and the way to go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("h5netcdf")
import saved_results as examples
import xarray

import jmdp
from jmdp.errors import FileError, SettingsError, SimulatorError, UnavailableError
from jmdp.files import evaluations as saved_evaluations
from jmdp.files.distributions import saved_samples
from jmdp.files.types import WrongFieldError

EVALUATIONS, COMPARISONS = list(examples.evaluations(0)), list(examples.comparisons(0))


def seeds(count: int) -> settings:
    """Random seeds, which are not shrunk: a smaller one is no simpler."""
    return settings(
        max_examples=count,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )


def again(result: Any, folder: Path) -> Any:
    """Save and load."""
    result.save(folder / "result.nc")
    return jmdp.load(folder / "result.nc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.mark.parametrize("kind", EVALUATIONS + COMPARISONS)
@given(seed=st.integers(0, 2**32))
@seeds(2)
def test_evaluations_and_comparisons(kind, seed, folder):
    result = (examples.evaluations(seed) | examples.comparisons(seed))[kind]()
    found = again(result, folder)
    examples.assert_same(found, result)
    examples.assert_same(again(found, folder), result)


@pytest.mark.parametrize("kind", EVALUATIONS)
def test_parts_that_are_computed_again(kind, folder):
    result = examples.evaluations(1)[kind]()
    found = again(result, folder)
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
        if getattr(result, part) is not None and kind != "ReachablePairs":
            assert ask(found) == ask(result), part


GIVEN: dict[str, dict[str, Any]] = {
    "compare": {"simulator": examples.Walk(), "policy": examples.up},
    "compare three actions": {"simulator": examples.Choices(), "policy": examples.up},
    "compare with a range": {"simulator": examples.Walk(), "policy": examples.up, "state": (1, 0)},
    "compare_policies": {
        "simulator": examples.Walk(),
        "policies": examples.POLICIES,
        "starts": [(0, 0), (1, 1)],
    },
    "compare_policies with a margin": {"simulator": examples.Walk(), "policies": examples.POLICIES},
    "compare_runs": {"runs": examples.RUNS},
    "compare_runs, one number": {"runs": examples.SINGLE},
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_loaded_comparison_goes_on(kind, folder):
    result = examples.comparisons(3)[kind]()
    found = again(result, folder).continued(200, **GIVEN[kind])
    examples.assert_same(found, result.continued(200))
    assert kind != "compare three actions" or found.worse_than == {"lose": result.leader}
    assert found.continued(300) is not None  # it has its simulator again


@pytest.mark.parametrize("kind", examples.reviews(0))
@given(seed=st.integers(0, 2**32))
@seeds(5)
def test_reviews(kind, seed, folder):
    result = examples.reviews(seed)[kind]()
    found = again(result, folder)
    for one in (found, again(found, folder)):
        assert repr(one) == repr(result)
        assert one.to_dataframe().equals(found.to_dataframe())
        pairs = [(one, result)] if isinstance(one, jmdp.Review) else zip(one, result, strict=True)
        for left, right in pairs:
            assert repr(left.decisions) == repr(right.decisions)
            assert left.trajectory.rewards.tobytes() == right.trajectory.rewards.tobytes()
            for values, expected in zip(left.values, right.values, strict=True):
                for name, value in vars(expected).items():
                    assert np.asarray(getattr(values, name)).tobytes() == np.asarray(value).tobytes()
    with pytest.raises(jmdp.errors.UnavailableError, match="no simulator"):
        found.what_if(0, 0) if isinstance(found, jmdp.Review) else found.by(str)


@given(seed=st.integers(0, 2**32))
@seeds(10)
def test_models_and_calibrations(seed, folder):
    model = examples.table(np.random.default_rng(seed), states=1 + seed % 5, scenarios=1 + seed % 3)
    examples.assert_same(again(model, folder), model)
    record = examples.calibration(seed)
    examples.assert_same(again(record, folder), record)


def test_what_a_loaded_comparison_must_be_given(folder):
    result = examples.comparisons(3)["compare"]()
    found = again(result, folder)
    with pytest.raises(SettingsError, match=r"continued\(samples, simulator=…, policy=…\)"):
        found.continued(100)
    with pytest.raises(SettingsError, match="no argument 'polcy'"):
        found.continued(100, simulator=examples.Walk(), polcy=examples.up)
    with pytest.raises(SimulatorError, match="differ when they are drawn again"):
        found.continued(100, simulator=examples.Walk(), policy=examples.down)
    with pytest.raises(SimulatorError, match="The list of actions was"):
        found.continued(100, simulator=examples.Walk(), policy=examples.up, actions=["down", "up"])
    with pytest.raises(SettingsError, match="has its own"):
        result.continued(100, simulator=examples.Walk())
    policies = again(examples.comparisons(3)["compare_policies"](), folder)
    with pytest.raises(SimulatorError, match="The list of starts"):
        policies.continued(100, simulator=examples.Walk(), policies=examples.POLICIES, starts=[(0, 0)])
    one = again(examples.comparisons(3)["compare_runs"]()["wait"], folder)
    with pytest.raises(UnavailableError, match="Continue the whole comparison"):
        one.continued(100, runs=examples.RUNS)


def test_parts_that_a_file_cannot_have(folder):
    simulated = again(examples.evaluations(1)["MonteCarlo on a simulator"](), folder)
    assert simulated.gap("(0, 0)", 0, 1).mean == simulated.gap((0, 0), 0, 1).mean  # a state by its name, or as given
    lazy = jmdp.LazyJMDP(lambda s: ([1.0], [[1.0, 2.0]], [[s, s]]), 0.5, 2.0)
    found = jmdp.evaluate(lazy, lambda s: [0.5, 0.5], jmdp.Local(), jmdp.ReachablePairs(0))
    examples.assert_same(again(found, folder), found)
    model = examples.table(np.random.default_rng(0))
    projected = jmdp.evaluate(model, "uniform", jmdp.Local(), jmdp.LinearProjected(lambda s, a: [1.0, s, a]))
    loaded = again(projected, folder)
    examples.assert_same(loaded, projected)
    with pytest.raises(UnavailableError, match="Evaluate again"):
        loaded.cross_covariance(0, 0, 1, 0)


@pytest.mark.parametrize("kind", ["JIPE", "MonteCarlo", "MonteCarlo of policies"])
def test_what_is_computed_again_must_be_the_same(kind, folder, monkeypatch):
    """Samples of a table are drawn again, state by state; other parts need the whole evaluation, unless it differs."""
    result = examples.evaluations(1)[kind]()
    found = again(result, folder)
    other = replace(result, mean=result.mean + 1)
    monkeypatch.setattr(saved_evaluations, "evaluate", lambda *given, **named: other)
    if kind != "JIPE":
        assert str(found.gap(0, 0, 1)) == str(result.gap(0, 0, 1))
        return
    with pytest.raises(UnavailableError, match="other numbers"):
        found.cross_covariance(0, 0, 1, 1)
    other = replace(result, outcome=jmdp.Outcome.INTERRUPTED)
    for _ in range(2):  # it is not kept
        with pytest.raises(KeyboardInterrupt):
            found.cross_covariance(0, 0, 1, 1)


def test_interrupted_evaluations_stay_what_they_are(folder):
    result = examples.evaluations(1)["JIPE"]()
    found = again(replace(result, outcome=jmdp.Outcome.INTERRUPTED), folder)
    assert found.covariance.tobytes() == result.covariance.tobytes()
    with pytest.raises(UnavailableError, match="was interrupted"):
        found.cross_covariance(0, 0, 1, 1)


def test_samples_of_a_comparison_are_saved_with_its_evaluation(folder):
    for kind in ("compare", "compare with a range"):
        part = examples.comparisons(3)[kind]().evaluation
        found = again(part, folder)
        examples.assert_same(found, part)
        assert found.gap(0, 0, 1).distribution().value.tobytes() == part.gap(0, 0, 1).distribution().value.tobytes()
    with pytest.raises(WrongFieldError, match="instead of one of: fixed, anytime, certain"):
        replace(saved_samples(part), band="none").distributions(part)


def test_a_table_must_be_the_same_to_go_on(folder):
    model = examples.table(np.random.default_rng(3))
    other = jmdp.TabularJMDP(model.prob, model.reward + 100, model.next_state, model.discount, model.terminal)
    given = {"policy": "uniform", "state": 0}
    result = jmdp.compare(model, 0, "uniform", coupling=jmdp.Local(), seed=1, samples=60, progress=False)
    found = again(result, folder)
    examples.assert_same(found.continued(200, simulator=model, **given), result.continued(200))
    for change in ({"simulator": other}, {"state": 1}, {"policy": [0] * 4}):
        with pytest.raises(SimulatorError, match="differ when they are drawn again"):
            found.continued(200, **{"simulator": model, **given, **change})


def test_odd_names_and_settings(folder):
    class Odd(examples.Walk):
        actions = jmdp.simulators.action_labels(["a\0b", "line\nbreak"])

        def __repr__(self) -> str:
            return "\ud800"

    result = jmdp.compare(Odd(), policy=examples.up, seed=1, samples=60, progress=False)
    found = again(result, folder)
    assert (found.actions, found.simulator) == (result.actions, r"\ud800")
    precision: dict[str, Any] = {"cost": 0.01, "wait": None}
    runs = jmdp.compare_runs(examples.RUNS, precision=precision, seed=1, samples=30, progress=False)
    examples.assert_same(again(runs, folder).continued(60, runs=examples.RUNS, progress=False), runs.continued(60))


def test_other_programs_read_it(folder):
    result = examples.evaluations(1)["ExactPairs"]()
    result.save(folder / "plain.nc")
    with xarray.open_dataset(folder / "plain.nc") as data:
        assert data["mean"].sel(state="c, d", action="y") == result.mean[2, 1]
        assert data["covariance"].dims == ("state", "action", "action_2")
        assert data["certificate_gap_mean_error"].dims == ("state", "action", "action_2")
        assert data.attrs["coupling"] == repr(result.coupling)
        assert "jmdp" in data.attrs["jmdp_versions"]
    model = examples.table(np.random.default_rng(0))
    model.save(folder / "model.nc")
    with xarray.open_dataset(folder / "model.nc") as data:
        assert data["next_state"].dims == ("state", "scenario", "action")
        assert data["terminal"].dtype == bool
        assert data.attrs["discount"] == model.discount


def test_saving_twice_gives_the_same_bytes(folder):
    result = examples.comparisons(3)["compare"]()
    for name in ("one.nc", "two.nc"):
        result.save(folder / name)
    assert (folder / "one.nc").read_bytes() == (folder / "two.nc").read_bytes()


@pytest.mark.parametrize("damage", ["cut", "longer", "not ours", "empty"])
def test_damage_is_noticed(damage, folder):
    path = folder / "damaged.nc"
    examples.calibration(0).save(path)
    data = path.read_bytes()
    changed = {"cut": data[:-100], "longer": data + b"\0", "not ours": b"PK\x03\x04", "empty": b""}
    path.write_bytes(changed[damage])
    with pytest.raises(FileError, match=r"damaged\.nc"):
        jmdp.load(path)


def test_any_changed_bit_is_noticed(folder):
    path = folder / "damaged.nc"
    examples.calibration(0).save(path)
    data = path.read_bytes()
    for at in range(8, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(FileError, match=r"damaged: its checksum|does not end with the checksum"):
            jmdp.load(path)


def test_where_nothing_can_be_written_or_read(folder):
    record = examples.calibration(0)
    with pytest.raises(FileError, match="cannot be written"):
        record.save(folder)
    with pytest.raises(SettingsError, match="path is 3"):
        record.save(3)
    with pytest.raises(FileError, match="no file"):
        jmdp.load(folder / "absent.nc")
    with pytest.raises(SettingsError, match="path is None"):
        jmdp.load(None)


def test_a_folder_is_a_study(tmp_path):
    pytest.importorskip("pyarrow")
    jmdp.study(examples.Walk(), examples.up, {"here": (0, 0)}, seed=1, budget=64, path=tmp_path / "s", progress=False)
    assert isinstance(jmdp.load(tmp_path / "s"), jmdp.Study)


FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.nc"))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_earlier_versions(path):
    """Written by write_fixtures.py, once for each version of the format."""
    found = jmdp.load(path)
    assert repr(found) + "\n" == path.with_suffix(".txt").read_text(encoding="utf-8")
    if isinstance(found, jmdp.Evaluation):
        assert str(found.gap(0, 0, 1))


def test_there_are_files_of_this_version():
    assert len([path for path in FIXTURES if path.stem.startswith("1 ")]) == 26  # one of each kind
