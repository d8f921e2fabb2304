"""Small ONNX networks, built node by node, for tests."""

from __future__ import annotations

import itertools

import numpy as np


def network(nodes, inputs, outputs, constants=None):
    """A model as bytes. Inputs and outputs: name to (type, shape). Nodes: (operator, inputs, outputs, attributes)."""
    from onnx import TensorProto, helper, numpy_helper

    def declared(names):
        return [
            helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)
            for name, (kind, shape) in names.items()
        ]

    graph = helper.make_graph(
        [helper.make_node(kind, given, made, **attributes) for kind, given, made, attributes in nodes],
        "policy",
        declared(inputs),
        declared(outputs),
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def linear(weights, batch="batch", output="logits", more=()):
    """Logits of a linear map; `more` are operators applied to them."""
    weights = np.asarray(weights, np.float32)
    names = ["y0", *(f"y{i + 1}" for i in range(len(more) - 1)), output] if more else [output]
    nodes = [("MatMul", ["obs", "weights"], [names[0]], {})]
    nodes += [(kind, [a], [b], {}) for kind, a, b in zip(more, names, names[1:], strict=False)]
    return network(
        nodes,
        {"obs": ("FLOAT", [batch, weights.shape[0]])},
        {output: ("FLOAT", [batch, weights.shape[1]])},
        {"weights": weights},
    )


def mlp(sizes, seed=0):
    """Layers with random weights and tanh between them."""
    rng, nodes, constants, at = np.random.default_rng(seed), [], {}, "obs"
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        constants[f"w{i}"] = (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32)
        last = i == len(sizes) - 2
        nodes.append(("MatMul", [at, f"w{i}"], ["logits" if last else f"h{i}"], {}))
        nodes += [] if last else [("Tanh", [f"h{i}"], [f"t{i}"], {})]
        at = f"t{i}"
    shapes = {"obs": ("FLOAT", ["batch", sizes[0]])}, {"logits": ("FLOAT", ["batch", sizes[-1]])}
    return network(nodes, *shapes, constants), [constants[f"w{i}"] for i in range(len(sizes) - 1)]
