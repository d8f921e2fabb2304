"""The command `jmdp review`."""

from __future__ import annotations

import pytest

import jmdp
from cli.cli_runs import SHOP, run

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
