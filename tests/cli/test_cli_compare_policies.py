"""`jmdp compare-policies`: the library's comparison of policies, from words."""

from __future__ import annotations

import pytest
from cli_runs import SHOP, run

import jmdp

INVENTORY = "jmdp compare-policies world:inventory --policies base_stock new=reorder"


def test_prints_as_the_library_does(capsys):
    world = jmdp.worlds.inventory()
    pair = {"base_stock": world.policies["base_stock"], "new": world.policies["reorder"]}
    expected = jmdp.compare_policies(world, pair, starts={0: 0.25, 5: 0.75}, seed=2, baseline="base_stock")
    found = run(capsys, f"{INVENTORY} --starts 0=0.25 5=0.75 --seed 2 --baseline base_stock")
    assert found.out == f"{expected}\n"
    assert " ".join(found.out.split()).startswith(expected.answer)
    assert found.code == 0


def test_starts_in_shares(capsys):
    world = jmdp.worlds.inventory()
    pair = {"base_stock": world.policies["base_stock"], "new": world.policies["reorder"]}
    expected = jmdp.compare_policies(world, pair, starts=[0, 5], seed=0, samples=64, stratify=True)
    assert run(capsys, f"{INVENTORY} --starts 0 5 --samples 64 --stratify").out == f"{expected}\n"


def test_json_has_the_answer(capsys):
    found = run(capsys, f"{INVENTORY} --starts 0 --samples 64 --json")
    assert (found.code, found.json["decided"], found.json["outcome"]) == (0, True, "SAMPLED")
    few = run(capsys, f"{INVENTORY} --starts 0 --samples 4 --json")
    assert (few.code, few.json["decided"], few.json["outcome"]) == (1, False, "SAMPLED")
    assert [row["policy"] for row in found.json["policies"]] == ["base_stock", "new"]
    assert found.json["pairing"]["gain"]["value"] > 1


def test_a_plan_from_a_pilot(capsys):
    world = jmdp.worlds.inventory()
    pair = {"base_stock": world.policies["base_stock"], "new": world.policies["reorder"]}
    pilot = jmdp.compare_policies(world, pair, starts={0: 1.0}, seed=0, samples=64)
    found = run(capsys, f"{INVENTORY} --starts 0 --plan --difference 0.5")
    assert found.code == 0
    assert found.out == f"{pilot.plan(difference=0.5)}\n"
    larger = run(capsys, f"{INVENTORY} --starts 0 --plan --precision 0.5 --samples 100 --json").json
    assert larger["pilot"] == 100
    assert larger["fixed_range"][0] < larger["fixed"] < larger["fixed_range"][1]


def test_a_figure_is_saved(capsys, tmp_path):
    found = run(capsys, f"{INVENTORY} --starts 0 --plot {tmp_path / 'figure.svg'}")
    assert found.code == 0
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_policies_of_ones_own_and_environments_that_cannot_be_copied(capsys, tmp_path, monkeypatch):
    pytest.importorskip("Box2D")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    shop = "jmdp compare-policies shop.py:simulator --discount 0.9 --policies mine=shop.py:policy none='order 0'"
    assert run(capsys, f"{shop} --baseline none").code == 0
    lander = "jmdp compare-policies LunarLander-v3 --discount 1 --horizon 50 --max-samples 4 --policies 0 2"
    assert run(capsys, lander).code in (0, 1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("jmdp compare-policies world:inventory --policies base_stock", "two or more"),
        ("jmdp compare-policies world:inventory --policies a=base_stock a=reorder --starts 0", "different names"),
        ("jmdp compare-policies CartPole-v1 --policies 0 1", "--discount 1"),
        (
            "jmdp compare-policies CartPole-v1 --policies 0 1 --discount 1 --starts 0",
            "--starts is available for tables only",
        ),
        (f"{INVENTORY} --starts 0=half 3=half", "Give a probability for each"),
        (f"{INVENTORY} --starts 0 --baseline old", "base_stock, new"),
        (f"{INVENTORY} --starts 0 --plan", "--plan needs one of --difference and --precision"),
        (f"{INVENTORY} --starts 0 --plan --difference 1 --precision 1", "--plan needs one of"),
        (f"{INVENTORY} --starts 0 --difference 1", "--difference needs --plan"),
    ],
)
def test_what_is_refused(capsys, line, said):
    found = run(capsys, line)
    assert found.code == 2
    assert said in found.err
