"""Errors for unknown objects name what fits them, on the command line too."""

from __future__ import annotations

import pytest
from sound_objects import Shop

import jmdp
from jmdp.errors import SettingsError, SimulatorError
from jmdp.simulators import ObjectSimulator, as_simulator


class Study:
    def run(self):
        return 1.0


@pytest.mark.parametrize("use", [as_simulator, jmdp.testing.check_simulator], ids=["as_simulator", "check_simulator"])
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (Shop(), r"has a method step. Use jmdp.simulators.ObjectSimulator\(Shop, actions=…\).*current\(shop\)"),
        (Shop, r"The class Shop .*ObjectSimulator\(Shop, actions=…\)"),
        (Study(), r"has a method run. Compare whole runs instead: jmdp.compare_runs\(\{\"a\": f, \"b\": g\}, seed=0\)"),
        (lambda luck: 1.0, "call it.*ObjectSimulator.*FunctionSimulator.*compare_runs"),
        (3, "An object of type int is not a simulator.*ObjectSimulator.*FunctionSimulator"),
    ],
)
def test_what_fits_an_object(use, source, says):
    with pytest.raises(SimulatorError, match=says):
        use(source)


def test_compare_says_it_too():
    with pytest.raises(SimulatorError, match="ObjectSimulator"):
        jmdp.compare(Shop(), policy=lambda stock: 0, discount=0.9, seed=0)
    with pytest.raises(SimulatorError, match="ObjectSimulator"):
        jmdp.compare_policies(Shop(), {"a": lambda stock: 0, "b": lambda stock: 1}, discount=0.9, seed=0)


def test_simpy_is_for_whole_runs():
    simpy = pytest.importorskip("simpy")
    for use in (as_simulator, ObjectSimulator):
        with pytest.raises(SimulatorError, match=r"SimPy environments cannot be copied.*compare_runs"):
            use(simpy.Environment())


def test_the_command_line(tmp_path):
    from jmdp.cli.environments import environment
    from jmdp.cli.loading import Loader

    source = "from sound_objects import Shop\n\n\nclass Named(Shop):\n    actions = 4\n"
    (tmp_path / "own_shop.py").write_text(source)
    found = environment(f"{tmp_path / 'own_shop.py'}:Named", Loader(safe=False)).simulator()
    assert repr(found) == "ObjectSimulator(Named, copied by pickle)"
    with pytest.raises(SettingsError, match="Add their number or names to the class, actions = 4"):
        environment(f"{tmp_path / 'own_shop.py'}:Shop", Loader(safe=False))
