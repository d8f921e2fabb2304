"""Learned results are saved with any policy, and answer as before."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("h5netcdf")
pytest.importorskip("equinox")

import jmdp
from jmdp.errors import FileError, SettingsError, SimulatorError, UnavailableError
from jmdp.methods.neural_gram import encoders
from registry.results import Walk

SETTINGS = {"seed": 1, "visits": 40, "updates": 8, "batch": 32, "held_out": 8}


def down(observation: object) -> int:
    """A function that pickle does not support."""
    return 1


down.__module__ = down.__qualname__ = "nowhere"


@pytest.fixture(scope="module", params=["MLP", "gram without held-out states"])
def learned(request):
    more = {} if request.param == "MLP" else {"encoder": encoders.MLP(16, 1), "kernel": "gram", "held_out": None}
    method = jmdp.NeuralGram(**{**SETTINGS, **more})
    return jmdp.evaluate(Walk(), down, jmdp.Local(), method, progress=False)


def test_round_trip(learned, tmp_path):
    learned.save(tmp_path / "learned.nc")
    found = jmdp.load(tmp_path / "learned.nc")
    assert repr(found) == repr(learned)
    state, seen = (1, 0), np.array([1.0, 0.0])
    for name in ("mean", "covariance"):
        assert getattr(found.at(seen), name).tobytes() == getattr(learned.at(state), name).tobytes()
    assert found.cross_covariance(seen, 0, seen + 1, 1) == learned.cross_covariance(state, 0, (2, 1), 1)
    with pytest.raises(UnavailableError, match="connected"):
        found.calibrate(seed=3)
    whole = found.connected(Walk(), down)
    assert whole.at(state).mean.tobytes() == learned.at(state).mean.tobytes()
    given = {"seed": 3, "states": 4, "rollouts": 4}
    assert repr(whole.calibrate(**given)) == repr(learned.calibrate(**given))
    whole.save(tmp_path / "again.nc")
    assert repr(jmdp.load(tmp_path / "again.nc")) == repr(learned)


def test_other_actions_are_refused(learned):
    with pytest.raises(SimulatorError, match="not those that were learned"):
        learned.connected(Walk(("0", "1", "2")), down)


def test_an_encoder_of_the_users_own_code_is_refused(learned, tmp_path):
    from dataclasses import replace

    own = replace(learned, encoder=lambda observation: observation)
    with pytest.raises(SettingsError, match="whose code a file cannot contain"):
        own.save(tmp_path / "own.nc")


def test_parameters_must_fit_the_network(learned, tmp_path):
    import json

    import h5py
    from netcdf_files import sealed

    learned.save(tmp_path / "learned.nc")
    for change in ({"rank": 10**9}, {"rank": 3}, {"settings": {"width": 10**9, "depth": 1}}, {"shape": [10**9, 10**9]}):
        with h5py.File(tmp_path / "learned.nc", "r") as file:
            arrays = {name: file[name][...] for name in file if file[name].dtype.kind in "fiu"}
        record = json.loads(arrays["jmdp_record"].tobytes())
        record["object"]["network"] |= change
        arrays["jmdp_record"] = np.frombuffer(json.dumps(record).encode(), np.uint8)
        with h5py.File(tmp_path / "changed.nc", "w") as file:
            for name, array in arrays.items():
                file[name] = array
        (tmp_path / "changed.nc").write_bytes(sealed((tmp_path / "changed.nc").read_bytes()))
        with pytest.raises((FileError, jmdp.errors.MemoryBudgetError)):
            jmdp.load(tmp_path / "changed.nc")


@pytest.mark.parametrize(
    ("learned", "policy"),
    [
        ("MLP", down),
        ("gram without held-out states", "uniform"),
        pytest.param("MLP", "uniform", marks=pytest.mark.long),
        pytest.param("gram without held-out states", down, marks=pytest.mark.long),
    ],
    indirect=["learned"],
)
def test_a_learned_evaluation_values_the_steps_of_reviews(learned, policy):
    """As a value function, so that the mean corrected for luck is unbiased however wrong the network is."""
    shared = {"seed": 2, "horizon": 5, "episodes": 40, "progress": False}
    found = jmdp.review(Walk(), policy, method=jmdp.reviews.LookaheadValues(learned, samples=32), **shared)
    plain = jmdp.review(Walk(), policy, method=jmdp.reviews.LookaheadValues(lambda seen: 0.0, samples=32), **shared)
    assert abs(float(found.corrected) - float(plain.corrected)) < 1.0
    for one in found:
        assert one.earned + float(one.final) == pytest.approx(
            float(one.expectation) + float(one.skill) + float(one.luck), rel=1e-12
        )
    one = jmdp.review(Walk(), down, method=jmdp.reviews.LookaheadValues(learned), seed=2, horizon=5, progress=False)
    assert one.values[0].value == learned.at((0, 0)).mean[0, 1]
