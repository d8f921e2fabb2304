"""`jmdp study`: a study from a settings file, its results in files, and every kind of wrong file."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import gymnasium
import pytest
from cli_runs import SHOP, run

import jmdp
from jmdp.errors import StudyError
from jmdp.simulators import GymnasiumSimulator
from studies.study_kills import PlantedPool

WINDY = """
env = "world:windy_gridworld"
policy = "uniform"
states = "all"
max_samples = 64
horizon = 8
"""

BEST = [0, 3, 3, 3, 0, 0, 0, 0, 3, 1, 0, 0, 0, 2, 1, 0]
LAKE = f"""
env = "FrozenLake-v1"
policy = "{",".join(map(str, BEST))}"
states = [4, "8", 14]
seed = 5
discount = 0.9
max_samples = 64
horizon = 20
"""

SHOP_STATES = """
import jmdp

levels = [0, 2, 4]
named = {"empty": 0, "some": 3}
number = 7


def made():
    return [1, 5]


def lake():
    return {"next to a hole": 4, "start": 0}


def fails():
    raise KeyError("no states today")
"""

SLOW = """
import time

import jmdp


def reward(stock, order, demand):
    time.sleep(5e-5)
    return 3.0 * min(stock + order, demand) - 2.0 * order


simulator = jmdp.simulators.FunctionSimulator(
    reward=reward,
    next_state=lambda stock, order, demand: max(0, min(20, stock + order) - demand),
    actions=["order 0", "order 3"],
    luck=lambda rng: int(rng.poisson(3)),
)
"""

SLOW_STUDY = """
env = "slow.py:simulator"
policy = "order 3"
states = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]
discount = 0.9
max_samples = 64
horizon = 6
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of the user's, from which nothing stays imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("shop.py").write_text(SHOP)
    Path("places.py").write_text(SHOP_STATES)
    yield tmp_path
    for name in ("shop", "places", "slow"):
        sys.modules.pop(name, None)


def put(text: str, name: str = "study.toml") -> None:
    Path(name).write_text(text, encoding="utf-8")


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def study(capsys, text: str, options: str = "", out: str = "out"):
    put(text)
    return run(capsys, f"jmdp study study.toml --out {out} --quiet {options}")


def test_a_world(capsys, here):
    found = study(capsys, WINDY)
    assert (found.code, found.err) == (0, "")
    opened = jmdp.studies.Study.open("out")
    assert found.out == f"{opened!r}\n"
    assert opened.progress.states == 24  # all that are not terminal
    assert opened.coordinates == ["row", "column"]
    world = jmdp.worlds.windy_gridworld()
    policy = jmdp.TabularPolicy.uniform(world.model)
    jmdp.study(world, policy, seed=0, path="library", max_samples=64, horizon=8, progress=False)
    assert opened.to_arrow().equals(jmdp.studies.Study.open("library").to_arrow())
    assert Path("out/study.toml").read_text() == WINDY


def test_resuming_a_finished_study_changes_nothing(capsys, here):
    first = study(capsys, WINDY)
    before = contents("out")
    again = study(capsys, WINDY)
    assert (again.code, again.out) == (first.code, first.out)
    assert contents("out") == before
    assert study(capsys, f"# a comment\n{WINDY}pool = 1\n").code == 0  # neither is a difference
    assert contents("out") == before


def test_states_of_frozen_lake_are_those_of_compare(capsys, here):
    found = study(capsys, LAKE)
    assert (found.code, found.err) == (0, "")
    rows = jmdp.studies.Study.open("out").to_dataframe()
    assert list(rows["state"].unique()) == ["4", "8", "14"]
    for label, part in rows.groupby("state"):
        env = gymnasium.make("FrozenLake-v1")
        env.reset(seed=1)
        env.unwrapped.s = int(label)
        key = int(part["key"].iloc[0])
        truth = jmdp.compare(env, policy=BEST, discount=0.9, horizon=20, max_samples=64, seed=key, progress=False)
        leader = part[part["leader"]].iloc[0]
        assert truth.leader == leader["action"]
        assert leader["outcome"] == truth.outcome.name
        for _, row in part.iterrows():
            mean = truth.beside(row["action"])["mean"]
            ends = [mean.low, mean.high] if mean.has_interval else [math.nan, math.nan]
            assert [row["mean"], row["mean_low"], row["mean_high"]] == pytest.approx([float(mean), *ends], nan_ok=True)


def test_all_states_of_frozen_lake(capsys, here):
    assert study(capsys, LAKE.replace('[4, "8", 14]', '"all"')).code == 0
    labels = jmdp.studies.Study.open("out").to_dataframe()["state"].unique()
    assert list(labels) == ["0", "1", "2", "3", "4", "6", "8", "9", "10", "13", "14"]  # neither holes nor the goal


def test_policies_in_states_of_frozen_lake(capsys, here):
    text = LAKE.replace("policy =", "#").replace("[4", "[9, 4") + f'[policies]\nold = "uniform"\nnew = "{BEST}"'
    found = study(capsys, text.replace("[0, 3", "0, 3").replace("1, 0]", "1, 0"), "--json")
    assert found.code == 0
    assert found.json["alternative"] == "policy"
    assert found.json["alternatives"] == ["old", "new"]
    assert found.json["settings"]["coupling"] == "Synchronous(policy_luck='shared')"
    env = gymnasium.make("FrozenLake-v1")
    env.reset(seed=1)
    env.unwrapped.s = 9
    simulator = GymnasiumSimulator(env)
    row = jmdp.studies.Study.open("out").to_dataframe().query("state == '9' and policy == 'new'").iloc[0]
    truth = jmdp.compare_policies(
        simulator,
        {"old": "uniform", "new": BEST},
        starts=[simulator.current(9)],
        discount=0.9,
        horizon=20,
        max_samples=64,
        seed=int(row["key"]),
        progress=False,
    )
    assert row["outcome"] == truth.outcome.name
    assert row["mean"] == pytest.approx(float(truth.beside("new")["mean"]))


def test_json_record(capsys, here):
    record = study(capsys, WINDY + 'actions = ["U", 1]\nseed = 3\n', "--json").json
    assert (record["states"], record["finished"], record["failed"], record["complete"]) == (24, 24, 0, True)
    assert sum(record["outcomes"].values()) == 24
    assert record["decided"] == jmdp.studies.Study.open("out").progress.decided
    assert record["settings"]["seed"] == 3
    assert record["alternatives"] == ["U", "R"]
    assert run(capsys, "jmdp study --status out --json").json == record


@pytest.mark.parametrize(
    ("states", "labels"),
    [
        ("[0, 3]", ["0", "3"]),
        ('"places.py:levels"', ["0", "2", "4"]),
        ('"places.py:named"', ["empty", "some"]),
        ('"places.py:made"', ["1", "5"]),
    ],
)
def test_states_of_a_simulator_of_ones_own(states, labels, capsys, here):
    text = f'env = "shop.py:simulator"\npolicy = "shop.py:policy"\nstates = {states}\n'
    found = study(capsys, f"{text}discount = 0.9\nmax_samples = 32\nhorizon = 5\n")
    assert found.code == 0
    announced = found.err.splitlines()
    assert all(line.startswith("jmdp: loading ") for line in announced)
    assert list(jmdp.studies.Study.open("out").to_dataframe()["state"].unique()) == labels


def test_states_of_a_file_by_number_and_label(capsys, here):
    assert study(capsys, LAKE.replace('[4, "8", 14]', '"places.py:lake"')).code == 0
    assert list(jmdp.studies.Study.open("out").to_dataframe()["state"].unique()) == ["next to a hole", "start"]
    assert study(capsys, WINDY.replace('"all"', '"places.py:made"'), out="windy").code == 0
    model = jmdp.worlds.windy_gridworld().model
    labels = jmdp.studies.Study.open("windy").to_dataframe()["state"].unique()
    assert list(labels) == [model.states.name(1), model.states.name(5)]


def test_states_that_the_policy_visits(capsys, here):
    text = 'env = "CartPole-v1"\npolicy = "uniform"\nstates = { visited = 5, every = 4 }\ndiscount = 0.9\n'
    assert study(capsys, f"{text}max_samples = 16\nhorizon = 5\n").code == 0
    assert jmdp.studies.Study.open("out").progress.states == 5
    assert study(capsys, LAKE.replace('[4, "8", 14]', "{ visited = 6 }"), out="lake").code == 0
    simulator = GymnasiumSimulator(gymnasium.make("FrozenLake-v1"))
    seen = [int(simulator.observe(s)) for s in jmdp.simulators.visited_states(simulator, BEST, seed=5, count=6)]
    labels = list(jmdp.studies.Study.open("lake").to_dataframe()["state"].unique())
    assert labels == [f"{i}: {n}" for i, n in enumerate(seen)]
    assert study(capsys, WINDY.replace('"all"', "{ visited = 6, every = 2 }"), out="windy").code == 0


def test_settings_reach_the_study(capsys, here, monkeypatch):
    """Without the workers, which change no result."""
    module, pools = import_module("jmdp.cli.commands.study"), []
    monkeypatch.setattr(module, "study", lambda *given, pool, **more: pools.append(pool) or jmdp.study(*given, **more))
    text = WINDY.replace("max_samples = 64", "max_samples = 20") + (
        "seed = 9\nindifference = 0.5\nconfidence = 0.9\nreward_bound = 5\nreturn_range = [-60, 60.5]\n"
        'largest_loss = 50\nrarest = 0.125\ntie_tolerance = 0.25\ncoupling = "local"\npolicy_luck = "shared"\n'
        "discount = 0.95\npool = 2\n"
    )
    gamma = jmdp.worlds.windy_gridworld().model.discount
    found = study(capsys, text.replace("discount = 0.95", f"discount = {gamma}"), "--json")
    assert found.code == 0, found.err
    assert pools == [2]
    assert found.json["settings"] == {
        "seed": 9,
        "max_samples": 20,
        "discount": gamma,
        "horizon": 8,
        "coupling": "Local(policy_luck='shared')",
        "confidence": 0.9,
        "indifference": 0.5,
        "reward_bound": 5.0,
        "return_range": [-60.0, 60.5],
        "largest_loss": 50.0,
        "rarest": 0.125,
        "tie_tolerance": 0.25,
    }


def test_another_study_in_the_folder(capsys, here):
    study(capsys, WINDY)
    before = contents("out")
    for change, said in {
        "seed = 1\n": "out has a study with no seed, but study.toml has seed 1.",
        'coupling = "local"\n': "no coupling, but study.toml has coupling 'local'",
    }.items():
        found = study(capsys, WINDY + change)
        assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1)
        assert said in found.err
        assert "give another --out" in found.err
    found = study(capsys, WINDY.replace("horizon = 8", ""))
    assert "a study with horizon 8, but study.toml has no horizon" in found.err
    assert contents("out") == before
    Path("out/study.toml").write_text("seed = ")
    assert "is not valid TOML" in study(capsys, WINDY).err
    Path("out/study.toml").unlink()
    assert "study.toml is missing" in study(capsys, WINDY).err


def test_a_corrected_file_may_use_the_folder_of_a_failed_attempt(capsys, here):
    found = study(capsys, WINDY + "discount = 0.5\n")  # the table has its own
    assert found.code == 2
    assert "study.toml: discount is 0.5" in found.err
    assert study(capsys, WINDY).code == 0
    assert Path("out/study.toml").read_text() == WINDY


def test_verify_reads_all_results(capsys, here):
    study(capsys, WINDY)
    found = run(capsys, "jmdp study --verify out")
    assert (found.code, found.out) == (0, "All results in out are as they were written.\n")
    part = sorted(Path("out/parts").iterdir())[4]
    content = part.read_bytes()
    part.write_bytes(content[:-1] + b"?")
    assert run(capsys, "jmdp study --status out").code == 0  # of the right size
    found = run(capsys, "jmdp study --verify out")
    assert found.code == 1
    assert f"state 4 is missing or changed: parts/{part.name} (another checksum)" in found.out
    assert "simulates these states again" in found.out
    found = run(capsys, "jmdp study --verify out --json")
    assert (found.code, len(found.json["damaged"])) == (1, 1)
    assert study(capsys, WINDY).code == 0
    assert part.read_bytes() == content
    assert run(capsys, "jmdp study --verify out").code == 0
    for wrong in ("study.toml --verify out", "--verify out --status out", "--verify nowhere"):
        assert run(capsys, f"jmdp study {wrong}").code == 2


def test_a_study_whose_workers_are_killed_ends_as_interrupted(capsys, here, monkeypatch):
    pool = PlantedPool(kills={3: 10**6})
    with monkeypatch.context() as patched:
        patched.setattr("jmdp.cli.commands.study._pool", lambda given: nullcontext(pool))
        patched.setattr("jmdp.studies.driver._PAUSES", (0, 0))
        found = study(capsys, WINDY)
    assert found.code == 130
    assert "INTERRUPTED: workers were ended" in found.out
    assert "1 states are not finished. The same call of study continues." in found.out
    assert study(capsys, WINDY).code == 0


def test_failed_states_give_exit_code_1(capsys, here):
    put(SLOW.replace("time.sleep(5e-5)", "assert stock < 25"), "slow.py")
    found = study(capsys, SLOW_STUDY, "--json")
    assert found.code == 1
    assert found.json["failed"] == found.json["outcomes"]["FAILED"] > 0
    assert found.json["complete"]
    assert run(capsys, "jmdp study --status out").code == 1


def wait_for_results(out: str) -> None:
    """Until the ledger has its header and a finished part."""
    ledger = Path(out) / "ledger.jsonl"
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < 3:
        time.sleep(0.01)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_and_resumed(capsys, here, server):
    put(SLOW, "slow.py")
    put(SLOW_STUDY)
    assert run(capsys, "jmdp study study.toml --out whole --quiet").code == 0
    process = server.start(["study", "study.toml", "--out", "out", "--quiet"])
    wait_for_results("out")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    status = run(capsys, "jmdp study --status out --json")
    assert status.code == 1
    assert not status.json["complete"]
    assert 0 < status.json["finished"] < 30
    text = run(capsys, "jmdp study --status out").out
    assert "states are not finished" in text
    again = run(capsys, "jmdp study study.toml --out out --quiet")
    assert again.code == 0
    found, whole = contents("out"), contents("whole")
    assert {name for name in found if "parts" in name} == {name for name in whole if "parts" in name}
    assert all(found[name] == whole[name] for name in whole if "parts" in name or name == "study.toml")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
def test_interrupted(capsys, here, server):
    put(SLOW, "slow.py")
    put(SLOW_STUDY)
    process = server.start(["study", "study.toml", "--out", "out", "--quiet"])
    wait_for_results("out")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "states are not finished" in out
    assert run(capsys, "jmdp study study.toml --out out --quiet").code == 0


BAD = {
    "no env": ('policy = "uniform"\nstates = "all"', ["env is missing", "FrozenLake-v1"]),
    "no states": ('env = "world:inventory"\npolicy = "uniform"', ["states is missing", "visited = 200"]),
    "no policy": ('env = "world:inventory"\nstates = "all"', ["policy is missing", "[policies]"]),
    "empty": ("", ["env is missing"]),
    "not TOML": ("env = world", ["not valid TOML", "line 1"]),
    "not UTF-8": (b"env = '\xff'", ["UTF-8"]),
    "key twice": (WINDY + "max_samples = 5\n", ["not valid TOML"]),
    "deep": ("x = " + "[" * 100_000, ["not valid TOML"]),
    "unknown key": (WINDY + "confidense = 0.9\n", ["confidense is 0.9", "Did you mean 'confidence'?"]),
    "unknown table": (WINDY + "[visited]\ncount = 3\n", ["visited is {'count': 3}", "no key 'visited'"]),
    "env a number": (WINDY.replace('"world:windy_gridworld"', "3"), ["env is 3", "FrozenLake-v1"]),
    "env empty": (WINDY.replace("world:windy_gridworld", ""), ["env is ''"]),
    "unknown world": (WINDY.replace("windy_", "windi_"), ["env is 'world:windi_gridworld'", "Did you mean"]),
    "unknown environment": (WINDY.replace("world:windy_gridworld", "Frozen-v9"), ["env is 'Frozen-v9'", "cannot make"]),
    "no such file": (WINDY.replace("world:windy_gridworld", "none.py:x"), ["env is 'none.py:x'", "There is no file"]),
    "unknown policy": (WINDY.replace("uniform", "uniforn"), ["policy is 'uniforn'", "Did you mean 'uniform'?"]),
    "policy a list": (WINDY.replace('"uniform"', "[0, 1]"), ["policy is [0, 1]", 'policy = "uniform"']),
    "one of policies": (WINDY.replace("policy", "policies.only"), ["policies is {'only': 'uniform'}", "two or more"]),
    "policies wrong": (
        WINDY.replace('policy = "uniform"', 'policies = { a = "U", b = "nowhere" }'),
        ["policies is", "no policy 'nowhere'"],
    ),
    "policy and policies": (WINDY + '[policies]\na = "U"\nb = "R"\n', ["policy is given together with [policies]"]),
    "actions and policies": (
        WINDY.replace('policy = "uniform"', 'actions = ["U", "R"]') + '[policies]\na = "U"\nb = "R"\n',
        ["actions is given together with [policies]"],
    ),
    "actions a text": (WINDY + 'actions = "U"\n', ["actions is 'U'", "actions = ["]),
    "one action": (WINDY + 'actions = ["U"]\n', ["actions is ['U']", "two or more"]),
    "unknown action": (WINDY + 'actions = ["U", "X"]\n', ["actions is ['U', 'X']", "'X'"]),
    "states a number": (WINDY.replace('"all"', "3"), ["states is 3", '"all"']),
    "states a word": (WINDY.replace('"all"', '"every"'), ["states is 'every'", '"all"']),
    "states empty": (WINDY.replace('"all"', "[]"), ["states is []"]),
    "unknown state": (WINDY.replace('"all"', '["nowhere"]'), ["states is ['nowhere']"]),
    "state too large": (WINDY.replace('"all"', "[25]"), ["states is [25]"]),
    "state a list": (WINDY.replace('"all"', "[[0, 1]]"), ["states is [[0, 1]]"]),
    "state of a lake": (LAKE.replace("14", "16"), ["states is [4, '8', 16]", "from 0 to 15"]),
    "all of CartPole": (
        'env = "CartPole-v1"\npolicy = "left"\nstates = "all"\ndiscount = 0.9',
        ["states is 'all'", "visited = 200"],
    ),
    "list for CartPole": (
        'env = "CartPole-v1"\npolicy = "left"\nstates = [1, 2]\ndiscount = 0.9',
        ["states is [1, 2]", "visited = 200"],
    ),
    "visited none": (WINDY.replace('"all"', "{ visited = 0 }"), ["states is {'visited': 0}"]),
    "visited misspelt": (
        WINDY.replace('"all"', "{ visited = 3, evry = 2 }"),
        ["states is", "no key 'evry'", "Did you mean 'every'?"],
    ),
    "every alone": (WINDY.replace('"all"', "{ every = 2 }"), ["states is {'every': 2}", "visited = 200"]),
    "states of a number": (WINDY.replace('"all"', '"places.py:number"'), ["states is 'places.py:number'", "is 7"]),
    "states misspelt": (WINDY.replace('"all"', '"places.py:level"'), ["Did you mean 'levels'?"]),
    "states raise": (WINDY.replace('"all"', '"places.py:fails"'), ["no states today", "in fails"]),
    "seed a text": (WINDY + 'seed = "1"\n', ["seed is '1'", "whole number"]),
    "seed true": (WINDY + "seed = true\n", ["seed is True", "whole number"]),
    "seed negative": (WINDY + "seed = -1\n", ["seed is -1"]),
    "discount missing": (LAKE.replace("discount = 0.9", ""), ["discount is missing", "discount = 0.99"]),
    "discount large": (LAKE.replace("discount = 0.9", "discount = 1.5"), ["discount is 1.5", "from 0 to 1"]),
    "discount nan": (LAKE.replace("discount = 0.9", "discount = nan"), ["discount is nan"]),
    "max_samples": (WINDY.replace("max_samples = 64", "max_samples = 1"), ["max_samples is 1", "at least 2"]),
    "budget a float": (
        WINDY.replace("max_samples = 64", "max_samples = 1e3"),
        ["max_samples is 1000.0", "whole number"],
    ),
    "indifference": (WINDY + "indifference = 0\n", ["indifference is 0", "> 0"]),
    "confidence": (WINDY + "confidence = 95\n", ["confidence is 95", "e.g. 0.95"]),
    "horizon": (WINDY.replace("horizon = 8", "horizon = 0"), ["horizon is 0", "at least 1"]),
    "reward_bound": (WINDY + "reward_bound = inf\n", ["reward_bound is inf"]),
    "return_range": (WINDY + "return_range = [3, 1]\n", ["return_range is [3, 1]", "[0, 1]"]),
    "largest_loss": (WINDY + "largest_loss = 0\n", ["largest_loss is 0"]),
    "rarest": (WINDY + "rarest = 1\n", ["rarest is 1"]),
    "tie_tolerance": (WINDY + "tie_tolerance = -1\n", ["tie_tolerance is -1"]),
    "coupling": (WINDY + 'coupling = "Local"\n', ["coupling is 'Local'", "'local'"]),
    "policy_luck": (WINDY + "policy_luck = true\n", ["policy_luck is True", "'shared'"]),
    "truncated_ends": (WINDY + "truncated_ends = 1\n", ["truncated_ends is 1", "true or false"]),
    "truncated table": (WINDY + "truncated_ends = true\n", ["truncated", "Gymnasium"]),
    "pool": (WINDY + "pool = 0\n", ["pool is 0", '"ray"']),
    "pool a text": (WINDY + 'pool = "rey"\n', ["pool is 'rey'", '"ray"']),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_files(name, capsys, here):
    text, said = BAD[name]
    Path("study.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = run(capsys, "jmdp study study.toml --out out --quiet")
    lines = [line for line in found.err.splitlines() if not line.startswith("jmdp: loading ")]
    assert (found.code, found.out, len(lines)) == (2, "", 1), found
    assert "study.toml" in lines[0] or name == "states raise"
    assert len(lines[0]) < 1600
    for part in said:
        assert part in lines[0]
    assert not Path("out/ledger.jsonl").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("jmdp study", "settings file is missing"),
        ("jmdp study study.toml", "--out is missing"),
        ("jmdp study none.toml --out out", "no file 'none.toml'"),
        ("jmdp study . --out out", "no file '.'"),
        ("jmdp study --out out", "settings file is missing"),
        ("jmdp study study.toml --status out", "Give one of them"),
        ("jmdp study --status nowhere", "nowhere"),
        ("jmdp study study.toml --out shop.py", "shop.py"),
        ("jmdp study study.toml --out shop.py/inside", "shop.py"),
        ("jmdp study study.toml --out out --net shop.py:Net", "--net"),
    ],
)
def test_wrong_command_lines(line, said, capsys, here):
    put(WINDY)
    found = run(capsys, line)
    assert (found.code, found.out, len(found.err.splitlines())) == (2, "", 1), found
    assert said in found.err


def test_safe_refuses_code_of_files(here):
    """In one process; the last file is harmless."""
    code = "import sys\nfrom jmdp.cli import main\nfor name in 'abcd':\n" + (
        "    print(main(['study', f'{name}.toml', '--out', name, '--quiet', '--safe', '--json']), file=sys.stderr)\n"
    )
    put(WINDY.replace('"all"', '"places.py:levels"'), "a.toml")
    put(WINDY.replace('"uniform"', '"shop.py:policy"'), "b.toml")
    put(WINDY.replace("world:windy_gridworld", "shop.py:simulator"), "c.toml")
    put(WINDY, "d.toml")
    path = {**os.environ, "PYTHONPATH": str(Path(jmdp.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=path, capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    assert said[1::2] == ["2", "2", "2"]
    assert said[6:] == ["0"]
    assert all("--safe refuses" in line for line in said[:6:2])
    assert json.loads(done.stdout)["complete"]
    assert not any(Path(name).exists() for name in "abc")


def test_errors_are_of_their_kind(here):
    from jmdp.cli.study_file import StudyFile

    put(WINDY)
    file = StudyFile.read(Path("study.toml"))
    Path("out").mkdir()
    put("", "out/ledger.jsonl")
    with pytest.raises(StudyError, match="another --out"):
        file.check_same(Path("out"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_safe_reads_a_study_in_a_child(capsys, here, monkeypatch):
    """Ledger and parts are read by processes with limits, also to continue; the record is the same."""
    put(WINDY)
    assert run(capsys, "jmdp study study.toml --out out --quiet").code == 0
    plain = run(capsys, "jmdp study --status out --json").json
    commands = "jmdp study --status out --safe", "jmdp study study.toml --out out --quiet --safe"
    for command in commands:
        assert run(capsys, f"{command} --json").json == plain
    for limit, file in ({"LARGEST_JSON": 100}, "ledger.jsonl"), ({"MEMORY": 50}, ".parquet"):
        with monkeypatch.context() as patch:
            for name, value in limit.items():
                patch.setattr(f"jmdp.base.guard.{name}", value)
            for command in commands[file == ".parquet" :]:  # the first one reads no parts
                found = run(capsys, command)
                assert (found.code, found.out) == (2, "")
                assert f"{file} cannot be read: the process that read it broke the protocol" in found.err
