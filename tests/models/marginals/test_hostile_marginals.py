"""Hostile arguments of marginals and couplings raise errors of jmdp, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from jmdp.errors import JMDPError
from jmdp.models.couple import CommonUniform, JointTable, Maximal, Product, couple
from jmdp.models.marginals import Marginals


def endless():
    while True:
        yield []


def damaged(**change):
    """A sparse matrix whose arrays were changed after it was made."""
    matrix = sp.csr_array(np.eye(2))
    for name, value in change.items():
        setattr(matrix, name, np.array(value, dtype=getattr(matrix, name).dtype))
    return matrix


HUGE = np.broadcast_to(0.5, (10**7, 10**7))
SMALL = Marginals([[2, 1]], [0.5, 0.5, 1], [1, 2, 3], [0, 0, 0], 0.5)
P = {0: {0: [(1.0, 0, 0.0, False)]}}

HOSTILE = {
    "nothing": lambda: Marginals(None, None, None, None, None),
    "counts that are negative": lambda: Marginals([[-1, 2]], [1.0], [1.0], [0], 0.5),
    "counts that overflow": lambda: Marginals([[2**62, 2**62]], [1.0], [1.0], [0], 0.5),
    "counts of too many": lambda: Marginals([[2]], [1.0], [1.0], [0], 0.5),
    "no states": lambda: Marginals(np.zeros((0, 2), int), [], [], np.zeros(0, int), 0.5),
    "no actions": lambda: Marginals(np.zeros((2, 0), int), [], [], np.zeros(0, int), 0.5),
    "float counts": lambda: Marginals([[1.0]], [1.0], [1.0], [0], 0.5),
    "rewards of another length": lambda: Marginals([[1]], [1.0], [1.0, 2.0], [0], 0.5),
    "a huge array": lambda: Marginals([[1]], np.broadcast_to(0.5, 10**14), [1.0], [0], 0.5),
    "a masked array": lambda: Marginals([[1]], np.ma.masked_equal([1.0], 1.0), [1.0], [0], 0.5),
    "complex numbers": lambda: Marginals([[1]], [1.0 + 0j], [1.0], [0], 0.5),
    "a wrong terminal": lambda: Marginals([[1]], [1.0], [1.0], [0], 0.5, [0]),
    "names of another number": lambda: Marginals([[1]], [1.0], [1.0], [0], 0.5, None, ["a", "b"]),
    "a discount of 1": lambda: Marginals.from_toy_text(P, 1.0),
    "a discount that is text": lambda: Marginals.from_quantecon([[0.0]], [[[1.0]]], "x"),
    "an object as P": lambda: Marginals.from_toy_text(object(), 0.5),
    "an object in P": lambda: Marginals.from_toy_text({0: object()}, 0.5),
    "an object as an outcome": lambda: Marginals.from_toy_text({0: {0: [object()]}}, 0.5),
    "objects as numbers": lambda: Marginals.from_toy_text({0: {0: [(object(), 0, object(), False)]}}, 0.5),
    "an endless list": lambda: Marginals.from_toy_text({0: {0: [(1.0, 0, 0.0, False), iter(endless, 0)]}}, 0.5),
    "P without state 0": lambda: Marginals.from_toy_text({1: P[0]}, 0.5),
    "an empty P": lambda: Marginals.from_toy_text({}, 0.5),
    "P as text": lambda: Marginals.from_toy_text("FrozenLake-v1", 0.5),
    "an outcome that is text": lambda: Marginals.from_toy_text({0: {0: ["abcd"]}}, 0.5),
    "a next state that is huge": lambda: Marginals.from_toy_text({0: {0: [(1.0, 10**400, 0.0, False)]}}, 0.5),
    "a done that is a number": lambda: Marginals.from_toy_text({0: {0: [(1.0, 0, 0.0, 1)]}}, 0.5),
    "a reward that is NaN": lambda: Marginals.from_toy_text({0: {0: [(1.0, 0, np.nan, False)]}}, 0.5),
    "no Q": lambda: Marginals.from_quantecon([[0.0]]),
    "an object as R": lambda: Marginals.from_quantecon(object()),
    "objects as R and Q": lambda: Marginals.from_quantecon(object(), object(), 0.5),
    "a huge Q": lambda: Marginals.from_quantecon([[0.0]], np.broadcast_to(0.5, (10**5, 10**5, 10**5)), 0.5),
    "Q of another shape": lambda: Marginals.from_quantecon([[0.0]], [[[0.5, 0.5]]], 0.5),
    "only one of the indices": lambda: Marginals.from_quantecon([0.0], [[1.0]], 0.5, [0]),
    "sparse Q without indices": lambda: Marginals.from_quantecon([0.0], sp.eye_array(1), 0.5),
    "an index of a state that is too large": lambda: Marginals.from_quantecon([0.0], [[1.0]], 0.5, [7], [0]),
    "an index of an action that is too large": lambda: Marginals.from_quantecon([0.0], [[1.0]], 0.5, [0], [2**62]),
    "sparse indices out of range": lambda: Marginals.from_quantecon(
        [0, 0], damaged(indices=[0, 10**6]), 0.5, [0, 1], [0, 0]
    ),
    "sparse pointers out of range": lambda: Marginals.from_quantecon(
        [0, 0], damaged(indptr=[0, 1, 10**6]), 0.5, [0, 1], [0, 0]
    ),
    "negative sparse indices": lambda: Marginals.from_mdptoolbox([damaged(indices=[-5, 0])], [0, 0], 0.5),
    "a sparse array of complex numbers": lambda: Marginals.from_mdptoolbox([sp.eye_array(2) * 1j], [0, 0], 0.5),
    "a single sparse matrix": lambda: Marginals.from_mdptoolbox(sp.eye_array(2), [0, 0], 0.5),
    "matrices of other shapes": lambda: Marginals.from_mdptoolbox([np.eye(2), np.eye(3)], [0, 0], 0.5),
    "matrices that are not square": lambda: Marginals.from_mdptoolbox([np.ones((2, 3))], [0, 0], 0.5),
    "a ragged P": lambda: Marginals.from_mdptoolbox([[[1.0], [0.5, 0.5]]], [0, 0], 0.5),
    "an endless P": lambda: Marginals.from_mdptoolbox(endless(), [0, 0], 0.5),
    "a huge P": lambda: Marginals.from_mdptoolbox([HUGE], [0, 0], 0.5),
    "R of another shape": lambda: Marginals.from_mdptoolbox([np.eye(2)], [[0, 0, 0]], 0.5),
    "an object as R for matrices": lambda: Marginals.from_mdptoolbox([np.eye(2)], object(), 0.5),
    "an R of objects": lambda: Marginals.from_mdptoolbox([np.eye(2)], [object()], 0.5),
    "an order that is unknown": lambda: CommonUniform(order="random"),
    "a truth value that is a number": lambda: CommonUniform(across_states=1),
    "no marginals": lambda: couple(None, Product()),
    "no rule": lambda: couple(SMALL, None),
    "a class as the rule": lambda: couple(SMALL, Maximal),
    "an object as the rule": lambda: couple(SMALL, object()),
    "rewards that are too large": lambda: couple(Marginals([[1]], [1.0], [1e200], [0], 0.5), Product()),
    "a table of text": lambda: JointTable("a", "b"),
    "a table of another shape": lambda: JointTable([[1.0]], [[[0], [0]]]),
    "a huge table": lambda: JointTable(HUGE, np.broadcast_to(0, (10**7, 10**7, 2))),
    "a table for other marginals": lambda: couple(SMALL, JointTable([[1.0]], [[[0]]])),
    "a table of NaN": lambda: couple(SMALL, JointTable([[np.nan, 1.0]], [[[0, 0], [1, 0]]])),
    "a table of negative outcomes": lambda: couple(SMALL, JointTable([[0.5, 0.5]], [[[0, 0], [-1, 0]]])),
    "a table that does not sum to 1": lambda: couple(SMALL, JointTable([[0.5, 0.4]], [[[0, 0], [1, 0]]])),
    "no file": lambda: Marginals.from_storm("missing.prism", 0.5),
    "a folder": lambda: Marginals.from_storm("/", 0.5),
    "a device": lambda: Marginals.from_storm("/dev/zero", 0.5),
    "a path with a null byte": lambda: Marginals.from_storm("a\0.prism", 0.5),
    "an object as the path": lambda: Marginals.from_storm(object(), 0.5),
    "an unknown state": lambda: SMALL.outcomes("x", 0),
    "an unknown action": lambda: SMALL.outcomes(0, 9),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_arguments_are_refused(name):
    with pytest.raises(JMDPError):
        HOSTILE[name]()
