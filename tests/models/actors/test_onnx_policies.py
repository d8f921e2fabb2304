"""ONNX networks as policies: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from test_as_policy import THREE, TWO, assert_drawn_as, assert_pure, one, shocks, softmax

import jmdp
import onnx_networks as nets
from jmdp.base.labels import Labels
from jmdp.errors import PolicyError
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.actors.trained_policies import onnx_session

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

W = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def session(model):
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def test_logits_by_default_and_as_in_torch():
    model, weights = nets.mlp((4, 64, 64, 3))
    observations = list(np.random.default_rng(1).normal(size=(150, 4)))
    actor = as_policy(session(model), THREE)
    assert repr(actor) == "InferenceSession (ONNX)"
    assert actor.needs_luck
    assert_pure(actor, observations)
    x = observations[3].astype(np.float32)
    expected = softmax(np.tanh(np.tanh(x @ weights[0]) @ weights[1]) @ weights[2])
    assert_drawn_as(actor, observations[3], expected)
    assert one(session(model), observations[3], greedy=True) == expected.argmax()


def test_torch_gives_the_same_actions():
    torch = pytest.importorskip("torch")
    model, weights = nets.mlp((4, 64, 3))
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 64, bias=False), torch.nn.Tanh(), torch.nn.Linear(64, 3, bias=False)
    )
    for layer, w in zip((module[0], module[2]), weights, strict=True):
        layer.weight.data = torch.as_tensor(w.T.copy())
    observations = list(np.random.default_rng(2).normal(size=(1000, 4)))
    found = [as_policy(policy, THREE).act(observations, shocks(1000)) for policy in (session(model), module)]
    assert found[0] == found[1]  # at most 1000 · 3 · 1e-7 = 3e-4 of a chance to differ, by rounding; the seed is fixed


@pytest.mark.parametrize("batch", ["batch", 1, 7])
def test_batches_of_any_or_of_a_fixed_size(batch):
    observations = list(np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32))
    actor = as_policy(session(nets.linear(W, batch)), THREE, greedy=True)
    assert actor.act(observations, shocks(20)) == (np.array(observations) @ W).argmax(axis=1).tolist()
    assert_pure(as_policy(session(nets.linear(W, batch)), THREE), observations)


def test_probabilities_by_name_or_by_argument():
    named = session(nets.linear(W, output="probabilities", more=["Softmax"]))
    other = session(nets.linear(W, output="y", more=["Softmax"]))
    x = np.ones(4, np.float32)
    assert_drawn_as(as_policy(named, THREE), x, softmax(x @ W))
    assert_drawn_as(as_policy(other, THREE, logits=False), x, softmax(x @ W))
    with pytest.raises(PolicyError, match=r"sum to 1. If they are probabilities, name the output 'probabilities' or"):
        one(other, x)
    with pytest.raises(PolicyError, match=r"sum to .*If they are logits: .*logits=True"):
        one(session(nets.linear(W)), x, logits=False)


def choosing(kind, outputs):
    """Logits, their values and the best action, as outputs of these names."""
    shapes = {"logits": ("FLOAT", ["b", 3]), "action": ("INT64", ["b"]), "values": ("FLOAT", ["b", 1])}
    nodes = [
        ("MatMul", ["obs", "w"], ["logits"], {}),
        ("ArgMax", ["logits"], ["action"], {"axis": 1, "keepdims": 0}),
        ("ReduceMax", ["logits"], ["values"], {"axes": [1]}),
    ]
    names = {name: shapes[kept] for kept, name in outputs.items()}
    nodes += [("Identity", [kept], [name], {}) for kept, name in outputs.items() if kept != name]
    return session(nets.network(nodes, {"obs": (kind, ["b", 4])}, names, {"w": W}))


def test_integers_are_actions():
    x = np.ones(4)
    actor = as_policy(choosing("FLOAT", {"action": "chosen"}), THREE)
    assert not actor.needs_luck
    assert actor.act([x, -x], []) == [(x @ W).argmax(), (-x @ W).argmax()]


def test_one_of_several_outputs_by_its_name():
    x = np.ones(4)
    assert_drawn_as(
        as_policy(choosing("FLOAT", {n: n for n in ("values", "action", "logits")}), THREE), x, softmax(x @ W)
    )
    assert one(choosing("FLOAT", {"values": "values", "action": "action"}), x) == (x @ W).argmax()
    with pytest.raises(PolicyError, match=r"outputs values, best. Name the one to use 'logits', 'probabilities' or"):
        as_policy(choosing("FLOAT", {"values": "values", "action": "best"}), THREE)
    with pytest.raises(PolicyError, match="Name the one to use 'action'"):
        as_policy(choosing("FLOAT", {"values": "values", "logits": "logits"}), None)


def test_continuous_actions_are_the_output():
    actor = as_policy(session(nets.linear(W[:, :2], output="y", more=["Tanh"])), None)
    assert not actor.needs_luck
    (found,) = actor.act([np.ones(4)], [])
    np.testing.assert_allclose(found, np.tanh(W[:, :2].sum(axis=0)), rtol=1e-6)
    assert found.shape == (2,)


def test_dictionaries_go_to_inputs_by_name():
    nodes = [("Cast", ["picture"], ["p"], {"to": 1}), ("Concat", ["speed", "p"], ["x"], {"axis": 1})]
    inputs = {"speed": ("FLOAT", ["b", 1]), "picture": ("UINT8", ["b", 3])}
    model = nets.network([*nodes, ("MatMul", ["x", "w"], ["y"], {})], inputs, {"y": ("FLOAT", ["b", 3])}, {"w": W})
    observation = {"picture": np.array([3, 2, 1], np.uint8), "speed": np.array([0.5])}
    expected = (np.array([0.5, 3, 2, 1]) @ W).argmax()
    assert one(session(model), observation, greedy=True) == expected
    assert one(session(model), observation | {"more": np.ones(9)}, greedy=True) == expected
    with pytest.raises(PolicyError, match=r"input 'picture', but the observation has speed. Name the inputs"):
        one(session(model), {"speed": np.ones(1)})
    with pytest.raises(PolicyError, match=r"speed \[batch, 1\] \(float32\), picture .* one array, not a dict"):
        one(session(model), np.ones(4))
    with pytest.raises(
        PolicyError, match=r"picture \[batch, 3\] \(uint8\), but received int64 values that uint8 lacks"
    ):
        one(session(model), observation | {"picture": np.array([300, 0, 0])})


def test_shapes():
    grid = np.arange(4.0).reshape(2, 2)
    assert one(session(nets.linear(W)), grid, greedy=True) == (grid.ravel() @ W).argmax()  # flattened
    with pytest.raises(PolicyError, match=r"takes the input obs \[batch, 4\] \(float32\), but .* the shape \[5\]"):
        one(session(nets.linear(W)), np.ones(5))
    with pytest.raises(
        PolicyError, match=r"shape \(64, 3\) as 'logits' for 64 observations. Return \[batch, 2\] logits"
    ):
        one(session(nets.linear(W)), np.ones(4), TWO)
    table = nets.network(
        [("Gather", ["w", "state"], ["y"], {})], {"state": ("INT64", ["b"])}, {"y": ("FLOAT", ["b", 3])}, {"w": W}
    )
    assert one(session(table), 2, greedy=True) == W[2].argmax()
    with pytest.raises(PolicyError, match=r"failed in onnxruntime: .*out of data bounds"):
        one(session(table), 9)
    with pytest.raises(PolicyError, match="float64 values that int64 lacks"):
        one(session(table), 0.5)
    with pytest.raises(PolicyError, match=r"has the input 'x', a tensor\(string\) of shape \['b'\]"):
        as_policy(
            session(nets.network([("Identity", ["x"], ["y"], {})], {"x": ("STRING", ["b"])}, {"y": ("STRING", ["b"])})),
            THREE,
        )


def test_random_numbers_within_the_network_are_refused():
    nodes = [("MatMul", ["obs", "w"], ["y"], {}), ("Multinomial", ["y"], ["action"], {"sample_size": 1, "seed": 1.0})]
    model = nets.network(nodes, {"obs": ("FLOAT", ["b", 4])}, {"action": ("INT32", ["b", 1])}, {"w": W * 0})
    with pytest.raises(PolicyError, match=r"draws random numbers.*Export the logits"):
        one(session(model), np.ones(4))


def test_the_number_of_threads_does_not_matter():
    model, _ = nets.mlp((64, 256, 256, 6))
    observations = list(np.random.default_rng(0).normal(size=(100, 64)))
    found = []
    for threads in (1, 3):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        found.append(
            as_policy(ort.InferenceSession(model, options), Labels("action", 6)).act(observations, shocks(100))
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("source", ["bytes", "path"])
def test_policies_are_sent_to_workers(source, tmp_path):
    model, path = nets.linear(W), tmp_path / "policy.onnx"
    path.write_bytes(model)
    actor = as_policy(onnx_session(model if source == "bytes" else str(path)), THREE)
    observations = list(np.random.default_rng(1).normal(size=(50, 4)))
    again = pickle.loads(pickle.dumps(actor))
    assert again.act(observations, shocks(50)) == actor.act(observations, shocks(50))


@pytest.mark.long
def test_a_comparison_in_worker_processes(two_workers):
    gymnasium = pytest.importorskip("gymnasium")
    policies = {"a": session(nets.linear(W[:, :2])), "b": session(nets.linear(W[:, 1:]))}
    settings = {"discount": 1.0, "seed": 0, "samples": 64}
    pools = (None, two_workers)
    found = [jmdp.compare_policies(gymnasium.make("CartPole-v1"), policies, **settings, pool=pool) for pool in pools]
    assert str(found[0]) == str(found[1])


def test_a_session_without_its_model_is_not_sent():
    class Bare:
        def __init__(self):
            inner = session(nets.linear(W))
            self.run, self.get_inputs, self.get_outputs = inner.run, inner.get_inputs, inner.get_outputs

    with pytest.raises(PolicyError, match=r"Make it from a file, or use pool=None"):
        pickle.dumps(as_policy(Bare(), THREE))


def test_onnxruntime_is_not_imported():
    code = (
        "import sys, jmdp\njmdp.as_policy(lambda obs: 0, None)\nassert not {'onnx', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
