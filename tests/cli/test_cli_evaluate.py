"""`jmdp evaluate`: the library's numbers, whole and labelled, and options in any order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cli_runs import run

import jmdp
from jmdp.cli.environments import WORLDS


def library(method=None, coupling=None, **options):
    world = jmdp.worlds.inventory(**options)
    return jmdp.evaluate(
        world.model, world.policies["base_stock"], coupling or jmdp.Local(), method or jmdp.ExactPairs()
    )


def test_every_world_has_a_word(capsys):
    """With its function's parameters as options, however its name is hyphenated."""
    assert set(WORLDS) == {name for name in jmdp.worlds.__all__ if name.islower()} - {"lazy_windy_gridworld"}
    for name, make in WORLDS.items():
        assert make is getattr(jmdp.worlds, name)
        text = run(capsys, f"jmdp evaluate {name.replace('_', '-')} --help").out
        options = list(make.__kwdefaults__)
        assert options
        for option in options:
            assert f"--{option.replace('_', '-')} " in text


def test_json_is_what_the_library_says(capsys):
    found = run(capsys, "jmdp evaluate inventory --capacity 4 --state 2 --coupling synchronous --json")
    assert found.code == 0
    record, result = found.json, library(capacity=4, coupling=jmdp.Synchronous())
    assert record["world"]["capacity"] == 4
    assert record["world"]["mean_demand"] == 3.0
    assert record["policy"] == "base_stock"
    assert record["coupling"] == {"name": "Synchronous", "policy_luck": "independent"}
    assert record["method"]["name"] == "ExactPairs"
    assert record["method"]["tolerance"] == 1e-10
    assert (record["outcome"], record["converged"], record["certificate"]) == ("CONVERGED", True, "certified")
    (state,) = record["states"]
    assert state["state"] == "2"
    interval = result.mean_interval("2", "order 1")
    assert state["means"]["order 1"] == {"value": result.mean[2, 1], "low": interval.low, "high": interval.high}
    assert len(state["covariances"]) == 5 * 6 / 2
    for gap in state["gaps"]:
        truth = result.gap("2", gap["first"], gap["second"])
        assert gap["first"] == state["reference"] == "order 2"  # what the policy orders
        assert gap["mean"]["value"] == truth.mean
        assert gap["std"]["low"] == truth.std_interval.low
        assert gap["correlation"]["value"] == truth.correlation
        assert gap["no_better_at_most"]["value"] == truth.inferiority_bound()
    assert len(state["gaps"]) == 4


def test_all_states_without_one_chosen(capsys):
    line = "jmdp evaluate inventory --capacity 4 --actions 3 'order 0'"
    record = run(capsys, f"{line} --json").json
    assert [state["state"] for state in record["states"]] == [*"01234"]
    assert all(list(state["means"]) == ["order 3", "order 0"] for state in record["states"])
    text = run(capsys, line).out
    assert "choose a state: --state 2" in text
    rows = [row.split() for row in text.splitlines() if row[:1].isdecimal()]
    mean = library(capacity=4).mean
    assert rows == [[str(s), f"{mean[s, 3]:.6g}", f"{mean[s, 0]:.6g}"] for s in range(5)]


def test_many_states_are_not_listed(capsys):
    text = run(capsys, "jmdp evaluate coupled_reward_chain --length 31").out
    assert "There are 31 states." in text
    assert "\ns0 " not in text


def test_text_has_numbers_with_their_errors(capsys):
    text = run(capsys, "jmdp evaluate inventory --coupling synchronous --state 3").out
    assert "world inventory(capacity=10, " in text
    assert "certified" in text
    line = next(line for line in text.splitlines() if line.startswith("order 0"))
    assert " ".join(line.split()) == "order 0 0.875418 4.23481 0.965654 0.9591"
    assert "upper bound from mean and variance" in text


@pytest.mark.parametrize(
    "line",
    [
        "jmdp evaluate anti_correlated_bandit --method exact-distribution --tolerance 0.2 --cells 64 --discount 0.5",
        "jmdp evaluate anti-correlated-bandit --discount 0.5 --tolerance 0.2 --method=exact-distribution --cells 64",
        "jmdp evaluate --cells 64 --method exact-distribution --tolerance 0.2 anti_correlated_bandit --discount 0.5",
    ],
    ids=["method first", "hyphens", "world last"],
)
def test_options_come_in_any_order_and_a_distribution_gives_the_chance_itself(line, capsys):
    found = run(capsys, f"{line} --json")
    assert found.code == 0
    record = found.json
    assert {**record["method"], "max_sweeps": 0, "memory_budget": 0} == {
        "name": "ExactDistribution",
        "tolerance": 0.2,
        "cells": 64,
        "max_cells": 2**16,
        "max_sweeps": 0,
        "memory_budget": 0,
    }
    (gap,) = record["states"][0]["gaps"]
    assert "no_better_at_most" not in gap
    assert gap["no_better"]["low"] <= 0.5 <= gap["no_better"]["high"]
    text = run(capsys, line).out
    assert "upper bound" not in text


def test_samples_tell_their_seed_and_number(capsys):
    line = "jmdp evaluate anti_correlated_bandit --method monte-carlo --samples 200 --confidence 0.9 --json --seed"
    one, again, other = (run(capsys, f"{line} {seed}").json for seed in (1, 1, 2))
    assert one == again
    assert one["states"] != other["states"]
    assert (one["method"]["seed"], one["method"]["samples"], one["confidence"]) == (1, 200, 0.9)
    assert (one["outcome"], one["certificate"]) == ("SAMPLED", "statistical")


@pytest.mark.parametrize(
    "options",
    [
        "--method jipe --tolerance 1e-6",
        "--method incremental --updates 100000 --seed 3",
        "--method reachable-pairs --tolerance 1e-3",
        "--method exact-pairs --order 4 --precision float64",
        "--coupling independent --policy-luck shared",
    ],
    ids=lambda options: options.split()[1],
)
def test_every_method_answers(options, capsys):
    found = run(capsys, f"jmdp evaluate windy_gridworld --rows 2 --columns 3 --state 1,1 {options} --json")
    assert found.code == 0
    (state,) = found.json["states"]
    assert state["state"] == "1,1"
    assert [*state["means"]] == [*"URDL"]
    assert state["reference"] == "R"


def test_without_a_certificate_nothing_is_claimed(capsys):
    line = "jmdp evaluate anti_correlated_bandit --method incremental --no-averaging --updates 1000"
    gap = run(capsys, f"{line} --json").json["states"][0]["gaps"][0]
    assert gap["no_better_at_most"] is None
    assert (gap["mean"]["low"], gap["mean"]["high"]) == (None, None)
    text = run(capsys, line).out
    assert "∞" not in text
    assert " [" not in text
    assert "--method exact-pairs" in text
    assert "estimates without error bounds" in text


@pytest.mark.parametrize(
    ("policy", "reference"),
    [("never", "order 0"), ("order 2", "order 2"), ("1", "order 1"), ("0,1,2", "order 2"), ("uniform", None)],
    ids=["named", "action", "number", "table", "uniform"],
)
def test_policies_are_named_or_written_down(policy, reference, capsys):
    line = f"jmdp evaluate inventory --capacity 2 --state 2 --policy '{policy}' --json"
    (state,) = run(capsys, line).json["states"]
    best = max(state["means"], key=lambda action: state["means"][action]["value"])
    assert state["reference"] == (reference or best)


def test_no_where_the_tolerance_is_not_met(capsys):
    found = run(capsys, "jmdp evaluate inventory --max-sweeps 1 --json")
    assert found.code == 1
    assert (found.json["outcome"], found.json["converged"]) == ("SWEEPS_EXHAUSTED", False)


def test_what_was_reached_is_printed_when_interrupted(capsys, monkeypatch):
    reached = replace(library(capacity=2), outcome=jmdp.results.Outcome.INTERRUPTED)
    monkeypatch.setattr("jmdp.cli.commands.evaluate.evaluate", lambda *args, **settings: reached)
    found = run(capsys, "jmdp evaluate inventory --capacity 2 --json")
    assert found.code == 130
    assert found.json["outcome"] == "INTERRUPTED"


def test_safe_imports_nothing_from_the_current_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    assert run(capsys, "jmdp evaluate anti_correlated_bandit --safe").code == 0
    (tmp_path / "matplotlibrc").touch()
    found = run(capsys, "jmdp evaluate anti_correlated_bandit --safe")
    assert (found.code, found.out) == (2, "")
    assert "--safe: matplotlibrc in the current folder would be read" in found.err
