"""Files of PRISM, JANI and Storm give the marginals of the arrays that they were written from, and Storm's values."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import jmdp
from jmdp.errors import FileError, MissingExtraError, ModelError, SettingsError
from jmdp.models.couple import CommonUniform, couple
from jmdp.models.marginals import Marginals
from sample_marginals import random_dense


def moves(row) -> str:
    return " + ".join(f"{float(p)!r} : (s'={n})" for n, p in enumerate(row) if p)


def prism(R, Q) -> str:
    """The MDP as a PRISM program; its states are s = 0, 1, …"""
    S, A = R.shape
    pairs = [(s, a) for s in range(S) for a in range(A)]
    commands = "\n".join(f"[a{a}] s={s} -> {moves(Q[s, a])};" for s, a in reversed(pairs))
    rewards = "\n".join(f"[a{a}] s={s} : {float(R[s, a])!r};" for s, a in pairs)
    return f'mdp\nmodule m\ns : [0..{S - 1}] init 0;\n{commands}\nendmodule\nrewards "gain"\n{rewards}\nendrewards\n'


def drn(R, Q) -> str:
    """The MDP in Storm's own format, with the states in order."""
    S, A = R.shape
    lines = ["@type: MDP", "@parameters", "", "@reward_models", "gain", "@nr_states", S, "@nr_choices", S * A, "@model"]
    for s in range(S):
        lines.append(f"state {s} [0]{' init' * (s == 0)}")
        for a in range(A):
            lines.append(f"\taction a{a} [{float(R[s, a])!r}]")
            lines += [f"\t\t{n} : {float(p)!r}" for n, p in enumerate(Q[s, a]) if p]
    return "\n".join(map(str, lines)) + "\n"


def discounted_chain(R, Q, discount, actions) -> str:
    """The chain of a policy that goes to a sink with probability 1 − γ in each step."""
    S = len(R)
    commands = "\n".join(
        f"[] s={s} -> {moves([*(discount * Q[s, a]), 1 - sum(discount * Q[s, a])])};" for s, a in enumerate(actions)
    )
    rewards = "\n".join(f"s={s} : {float(R[s, a])!r};" for s, a in enumerate(actions))
    return (
        f"dtmc\nmodule m\ns : [0..{S}] init 0;\n{commands}\n[] s={S} -> true;\nendmodule\n"
        f'rewards\n{rewards}\nendrewards\nlabel "sink" = s={S};\n'
    )


def written(folder, name: str, text: str):
    file = folder / name
    file.write_text(text)
    return file


@pytest.fixture
def stormpy():
    return pytest.importorskip("stormpy")


@pytest.mark.parametrize("seed", range(2))
def test_files_have_the_marginals_of_the_arrays_and_storms_own_means(stormpy, tmp_path, seed):
    rng = np.random.default_rng(seed)
    R, Q, discount = random_dense(rng)
    R, (S, A) = np.abs(R), R.shape
    expected = Marginals.from_quantecon(R, Q, discount)
    file = written(tmp_path, "model.prism", prism(R, Q))
    program = stormpy.parse_prism_program(str(file))
    written(tmp_path, "model.drn", drn(R, Q))
    stormpy.io.export_jani_to_file(tmp_path / "model.jani", program.to_jani([])[0], [])
    actions = rng.integers(0, A, S)
    for name in ("model.jani", "model.prism", "model.drn"):
        found = Marginals.from_storm(tmp_path / name, discount)
        order = [int(re.search(r"(?:\bs=|^)(\d+)", str(state))[1]) for state in found.states]
        assert sorted(found.actions) == [f"a{a}" for a in range(A)]
        for i, s in enumerate(order):
            for a in range(A):
                p, r, n = found.outcomes(i, f"a{a}")
                by_state = np.argsort(np.array(order)[n])
                same = expected.outcomes(s, a)
                np.testing.assert_allclose(p[by_state], same.prob, rtol=0, atol=1e-15)
                np.testing.assert_allclose(r, same.reward, rtol=1e-15)
                np.testing.assert_array_equal(np.array(order)[n][by_state], same.next_state)
        model = couple(found, CommonUniform())
        policy = jmdp.TabularPolicy.of({found.states[i]: f"a{actions[s]}" for i, s in enumerate(order)}, model)
        mean = jmdp.evaluate(model, policy, jmdp.Local()).mean
        for s, value in storms_means(stormpy, tmp_path, R, Q, discount, actions).items():
            assert mean[order.index(s), found.actions.index(f"a{actions[s]}")] == pytest.approx(value, abs=1e-8)


def storms_means(stormpy, folder, R, Q, discount, actions) -> dict[int, float]:
    """Storm's expected reward of a policy from the states that it reaches."""
    chain = stormpy.parse_prism_program(str(written(folder, "chain.prism", discounted_chain(R, Q, discount, actions))))
    query = stormpy.parse_property('R=? [F "sink"]')
    options = stormpy.BuilderOptions(build_full=True)
    sparse = stormpy.build_model(chain, options=options)
    environment = stormpy.environments.sound()
    environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.EIGEN)
    values = stormpy.model_checking(sparse, query, environment=environment).get_value_vector()
    states = [int(sparse.state_valuations.to_string(s).strip("[]s=")) for s in range(sparse.nr_states)]
    return {s: value for s, value in zip(states, values, strict=True) if s < len(R)}


GRID = """mdp
const int N;
const double p;
module walk
  x : [0..N] init 0;
  [right] x < N -> p : (x'=x+1) + 1-p : (x'=x);
  [left] x < N -> 1 : (x'=max(x-1, 0));
endmodule
rewards "cost" [left] true : 2; x < N : 1; endrewards
rewards "steps" true : 1; endrewards
label "goal" = x = N;
"""


def test_constants_rewards_and_sinks(stormpy, tmp_path):
    """Rewards of states are added to those of actions; the state that is never left is terminal."""
    found = Marginals.from_storm(written(tmp_path, "walk.nm", GRID), 0.9, "cost", "N=3,p=0.1")
    assert found.states.names == ("x=0", "x=1", "x=2", "x=3")
    assert found.actions.names == ("right", "left")
    np.testing.assert_array_equal(found.terminal, [False, False, False, True])
    p, r, n = found.outcomes("x=1", "right")
    np.testing.assert_allclose(p, [0.9, 0.1])
    np.testing.assert_array_equal(n, [1, 2])
    np.testing.assert_array_equal(r, [1, 1])
    np.testing.assert_array_equal(found.outcomes("x=1", "left").reward, [3])


def test_a_label_ends_the_episode(stormpy, tmp_path):
    text = GRID.replace("endmodule", "  [left] x = N -> 1 : (x'=0);\nendmodule")
    file = written(tmp_path, "walk.prism", text)
    with pytest.raises(ModelError, match=r"Action right has no outcomes in state x=2: a table needs every action"):
        Marginals.from_storm(file, 0.9, "steps", "N=2,p=0.5")
    found = Marginals.from_storm(file, 0.9, "steps", "N=2,p=0.5", terminal="goal")
    np.testing.assert_array_equal(found.terminal, [False, False, True])


def test_choices_without_labels_are_numbered(stormpy, tmp_path):
    file = written(
        tmp_path,
        "walk.prism",
        GRID.replace("[right]", "[]").replace("[left] x", "[] x").replace("[left] true : 2;", ""),
    )
    found = Marginals.from_storm(file, 0.9, "steps", "N=2,p=0.5")
    assert found.actions.names is None
    np.testing.assert_array_equal(found.outcomes("x=1", 0).next_state, [1, 2])
    np.testing.assert_array_equal(found.outcomes("x=1", 1).next_state, [0])


@pytest.mark.parametrize(
    ("name", "text", "settings", "error", "message"),
    [
        ("walk.prism", GRID, {"constants": "N=2,p=0.5"}, SettingsError, r"structures \['cost', 'steps'\]\. Choose one"),
        ("walk.prism", GRID, {"rewards": "steps"}, SettingsError, r"Give constants='N=…,p=…'"),
        ("walk.prism", GRID, {"rewards": "gain", "constants": "N=2,p=1"}, SettingsError, r"rewards is 'gain'\. Use"),
        ("walk.prism", GRID, {"rewards": "cost", "constants": "N=2,p=2"}, ModelError, r"Storm cannot read .*negative"),
        ("walk.prism", GRID, {"rewards": "cost", "constants": "N=2,q=2"}, ModelError, r"undefined constant 'q'"),
        ("walk.prism", GRID, {"rewards": 3}, SettingsError, r"rewards is 3\. Give a text"),
        ("walk.prism", GRID.replace("mdp", "ctmc", 1), {"rewards": "cost", "constants": "N=2,p=1"}, ModelError, "CTMC"),
        ("walk.prism", "mdp module", {}, ModelError, r"Storm cannot read"),
        ("walk.prism", "", {}, ModelError, r"Storm cannot read"),
        ("walk.jani", "{", {}, ModelError, r"Storm cannot read"),
        ("walk.jani", "[" * 1000, {}, ModelError, r"Storm cannot read"),
        ("walk.drn", "@type: MDP", {}, ModelError, r"Storm cannot read"),
        ("walk.drn", "@type: MDP", {"constants": "N=3"}, SettingsError, r"DRN files have none"),
        ("walk.txt", "", {}, ModelError, r"unknown ending"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(stormpy, tmp_path, name, text, settings, error, message):
    with pytest.raises(error, match=message):
        Marginals.from_storm(written(tmp_path, name, text), 0.9, **settings)


def test_files_that_are_too_large_are_refused(tmp_path):
    file = written(tmp_path, "large.drn", "")
    with open(file, "r+b") as stream:
        stream.truncate(2**27)
    with pytest.raises(ModelError, match=r"128 MiB\. Files may have up to 64 MiB"):
        Marginals.from_storm(file, 0.9)


def test_without_stormpy_the_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(MissingExtraError, match=r'pip install "jmdp\[storm\]"'):
        Marginals.from_storm(written(tmp_path, "walk.prism", GRID), 0.9)


@pytest.mark.parametrize("update", ["1/0", "(" * 200_000 + "1" + ")" * 200_000])
def test_a_file_that_ends_the_process_of_storm_is_refused(update, tmp_path):
    pytest.importorskip("stormpy")
    path = tmp_path / "model.prism"
    path.write_text(f"mdp\nmodule m\n s : [0..1] init 0;\n [a] s<2 -> (s'={update});\nendmodule\n")
    with pytest.raises(FileError, match="ended the process in which Storm parsed it"):
        Marginals.from_storm(path, 0.9)
