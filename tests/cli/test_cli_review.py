"""The command `jmdp review`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import jmdp
from cli.cli_runs import SHOP, run
from jmdp.cli.environments import environment
from jmdp.cli.loading import Loader
from jmdp.errors import SettingsError

TABLE = "jmdp review world:inventory --policy base_stock --seed 3 --horizon 12 --quiet"


def test_a_table_is_reviewed_exactly(capsys):
    world = jmdp.worlds.inventory()
    expected = jmdp.review(world, world.policies["base_stock"], seed=3, horizon=12)
    found = run(capsys, TABLE)
    assert (found.code, found.err) == (0, "")
    assert found.out.strip() == repr(expected)
    record = run(capsys, f"{TABLE} --json").json
    assert record["answer"] == expected.answer
    assert record["luck"]["value"] == float(expected.luck)
    assert [step["action"] for step in record["steps"]] == [one.action for one in expected.decisions]


def test_several_episodes(capsys):
    record = run(capsys, f"{TABLE} --episodes 6 --reference reorder --json").json
    assert record["episodes"] == 6
    assert record["reference"] == "table of 11 states"
    assert record["corrected"]["low"] <= record["corrected"]["value"] <= record["corrected"]["high"]


def test_a_simulator_of_the_user(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    line = "jmdp review shop.py:simulator --policy shop.py:policy --discount 0.9 --horizon 9 --steps 2 5 --rollouts 8"
    record = run(capsys, f"{line} --played 'order 0' 1 0 1 0 1 --json --quiet").json
    assert [step["step"] for step in record["steps"]] == [2, 3, 4]
    assert [step["action"] for step in record["steps"]] == ["order 0", "order 3", "order 0"]
    assert record["policy"] == "given actions"
    assert {step["samples"] for step in record["steps"]} == {8}


STOCK = """
import jmdp
from jmdp.simulators import Simulator, Step

class Stock(Simulator):
    actions = None

    def start(self, shock):
        return 10

    def step(self, state, action, shock):
        demand = int(40 * shock.uniform())
        stock = max(0, state + action - demand)
        return Step(min(state + action, demand) - 0.2 * len(range(stock)), stock, False)

def order(stock):
    return 20
"""


@pytest.mark.parametrize("command", ["review", "compare"])
def test_actions_of_a_step_that_takes_numbers_are_numbers(command, capsys, tmp_path, monkeypatch):
    """A text of one number is that number, and several are a vector, unless an action space says otherwise."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stock.py").write_text(STOCK)
    line = f"jmdp {command} stock.py:Stock --policy stock.py:order --discount 0.9 --horizon 5 --actions 0 20 40"
    found = run(capsys, f"{line} {'--rollouts' if command == 'review' else '--max-samples'} 8 --json --quiet")
    assert found.code in (0, 1)  # 1: not decided
    rows = found.json["steps" if command == "review" else "actions"]
    assert sorted({row["action"] for row in rows}) == (["20"] if command == "review" else ["0", "20", "40"])
    here = environment("stock.py:Stock", Loader(safe=False))
    read = [here.read_action(text) for text in ("20", "-3", "0.5", "1e2")]
    assert [(type(one), one) for one in read] == [(int, 20), (int, -3), (float, 0.5), (float, 100.0)]
    assert here.read_action("0.5,-1").tolist() == [0.5, -1.0]
    with pytest.raises(SettingsError, match="is not an action"):
        here.read_action("many")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--rollouts 4 --lookahead 4", "exclude each other"),
        ("--steps 5 2", "steps=range(first, stop)"),
        ("--played 0 9", "9"),
        ("--episodes 1", "episodes"),
        ("--reference nobody", "nobody"),
        ("--lookahead 4", "fits values to other episodes"),
    ],
)
def test_wrong_options(options, said, capsys):
    found = run(capsys, f"{TABLE} {options}")
    assert found.code == 2
    assert found.out == ""
    assert said in found.err


def test_a_simulator_without_a_discount(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    found = run(capsys, "jmdp review shop.py:simulator --policy shop.py:policy")
    assert found.code == 2
    assert "--discount" in found.err


def test_pictures_are_drawn_without_sound():
    """In a process of its own: pygame is opened once, and without a sound card it prints, past Python's streams."""
    pytest.importorskip("pygame")
    code = "import os; from jmdp.cli.environments import environment; from jmdp.cli.loading import Loader; "
    make = "env = environment('CartPole-v1', Loader(safe=False), frames=True).source; env.reset(seed=0); env.render(); "
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("SDL_")}
    shown = "import pygame; print(pygame.mixer.get_init() is None or os.environ['SDL_AUDIODRIVER'])"
    found = subprocess.run([sys.executable, "-c", code + make + shown], env=quiet, capture_output=True, text=True)
    assert "ALSA" not in found.stderr
    assert found.stdout.splitlines()[-1] == "dummy"
