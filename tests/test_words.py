"""Messages for what new users try first."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmdp
from jmdp.errors import ModelError, SettingsError, SimulatorError, UnavailableError
from jmdp.files.long_tables import check_columns
from jmdp.results.result import Quantity, unavailable

TABLE = jmdp.worlds.inventory(capacity=3).model
WHY = r"seed is missing: {name}\(…, seed=0\). All random numbers are derived from it, so that the same seed gives"


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("compare", lambda: jmdp.compare(TABLE, "uniform", state=0)),
        ("compare_policies", lambda: jmdp.compare_policies(TABLE, {"a": "uniform", "b": "uniform"}, starts=[0])),
        ("compare_runs", lambda: jmdp.compare_runs({"a": lambda luck: 0.0, "b": lambda luck: 1.0})),
        ("study", lambda: jmdp.study(TABLE, "uniform", [0, 1])),
        ("review", lambda: jmdp.review(TABLE, "uniform", starts=[0])),
        ("visited_states", lambda: jmdp.simulators.visited_states(TABLE, "uniform", count=2)),
        ("MonteCarlo", lambda: jmdp.MonteCarlo(samples=10)),
        ("Incremental", lambda: jmdp.Incremental()),
        ("NeuralGram", lambda: jmdp.NeuralGram()),
    ],
)
def test_a_missing_seed_says_why_it_is_asked_for(name: str, call: Any) -> None:
    with pytest.raises(SettingsError, match=WHY.format(name=name)):
        call()


def test_a_column_with_another_name_is_renamed_and_not_deleted() -> None:
    names = ["state", "scenario", "probability", "action", "reward", "next"]
    for wrong, right in {"prob": "probability", "next_state": "next", "Reward": "reward", "actoin": "action"}.items():
        columns = [wrong if name == right else name for name in names]
        with pytest.raises(ModelError, match=rf"m\.csv has a column '{wrong}'\. Rename it to {right}: a model has"):
            check_columns("m.csv", columns)
    with pytest.raises(ModelError, match=r"has a column 'prob'\. Delete it"):
        check_columns("m.csv", [*names, "prob"])


def test_a_method_is_not_advised_instead_of_itself() -> None:
    said = str(unavailable("ExactPairs", Quantity.CROSS_COVARIANCES))
    assert said.startswith("This evaluation has no covariances between states. ExactPairs provides them, but not")
    said = str(unavailable("MonteCarlo", Quantity.CROSS_COVARIANCES))
    assert said.startswith("MonteCarlo does not provide covariances between states. ExactPairs(), ")


def test_the_pair_that_gymnax_makes_is_a_simulator() -> None:
    gymnax = pytest.importorskip("gymnax")
    pair = gymnax.make("DeepSea-bsuite")
    simulator = jmdp.simulators.as_simulator(pair)
    assert isinstance(simulator, jmdp.simulators.GymnaxSimulator)
    settings = {"policy": "uniform", "discount": 0.5, "seed": 0, "max_samples": 8, "horizon": 3, "progress": False}
    one, other = (jmdp.compare(source, **settings) for source in (pair, pair[0]))
    assert np.array_equal(one.summary.samples.returns, other.summary.samples.returns)
    method = jmdp.MonteCarlo(seed=0, samples=8, horizon=3)
    found = jmdp.evaluate(pair, "uniform", jmdp.Local(), method, discount=0.5)
    assert found.mean.shape == (1, 2)


class Tank:
    """An object without a list of actions."""

    def __init__(self) -> None:
        self.level, self.generator = 0.0, np.random.default_rng(0)

    def step(self, inflow: float) -> tuple[float, float, bool]:
        self.level += inflow + float(self.generator.normal())
        return self.level, -abs(self.level), False


def test_copies_and_reports_without_actions_say_where_to_give_them() -> None:
    simulator = jmdp.simulators.ObjectSimulator(Tank)
    with pytest.raises(
        UnavailableError, match=r"needs actions. Give them to the simulator, ObjectSimulator\(…, actions="
    ):
        simulator.current(Tank())
    with pytest.raises(UnavailableError, match=r"There is no report yet.*ObjectSimulator\(…, actions=\[…\]\)"):
        _ = simulator.report
    with pytest.raises(SimulatorError, match=r"Give the ones to try: check_simulator\(simulator, actions=\[…\]\)"):
        jmdp.testing.check_simulator(simulator)


def test_the_install_line_of_the_readme_has_what_the_page_uses() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    line = next(line for line in readme.splitlines() if line.startswith("pip install"))
    assert {"plot", "cli", "gym", "io"} <= set(line.partition("[")[2].partition("]")[0].split(","))
