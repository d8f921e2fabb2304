"""From walks to a network: the exact answer of a table within 2%, the same on several devices, and an early stop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jmdp
from jmdp.errors import SettingsError
from jmdp.methods.neural_gram.encoders import OneHot
from jmdp.methods.neural_gram.learned_evaluation import _moments
from jmdp.methods.neural_gram.lookahead_rollouts import PairReplay, Shock
from jmdp.methods.neural_gram.neural_gram import NeuralGram
from jmdp.methods.neural_gram.training_loop import CHUNK, HeldOutScore, TrainingData, train
from methods.neural_gram.gram_cases import WORLD, walks
from reference.table_walks import table_walks

TESTS = Path(__file__).parents[2]


def errors(model, policy, coupling, network) -> tuple[float, float, float]:
    """Relative Frobenius errors of covariances and of variances of gaps in all states; median error of such a gap."""
    going, A = np.flatnonzero(~model.terminal), model.actions.size
    covariance = _moments(network, going)[1]
    truth = np.asarray(jmdp.evaluate(model, policy, coupling, progress=False).covariance)[going]
    variance = np.einsum("saa->sa", truth)
    own = np.einsum("saa->sa", covariance)
    gap = own[:, :, None] + own[:, None] - 2 * covariance
    gaps, apart = variance[:, :, None] + variance[:, None] - 2 * truth, ~np.eye(A, dtype=bool)
    assert gaps[:, apart].min() > 1e-3  # luck decides everywhere
    off = [np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in ((covariance, truth), (gap, gaps))]
    return *off, float(np.median(np.abs(gap / np.where(apart, gaps, 1.0) - 1)[:, apart]))


def learned_table(world, coupling, visits: int, updates: int, batch: int, seed: int):
    settings = NeuralGram(
        seed=seed, updates=updates, batch=batch, steps=1, learning_rate=1e-2, weight_decay=0.0, dropout=0.0,
        mean_rate=1.0, rank=16, encoder=OneHot(world.model.shape[0]), held_out=None,
    )  # fmt: skip
    policy = world.policies["uniform"]
    found = table_walks(
        world.model, policy, coupling, np.random.default_rng(seed), visits=visits, repeats=2, length=8
    )  # fmt: skip
    data = TrainingData(found, None, world.model.actions.size, world.model.discount)
    network = train(settings, data).network
    return errors(world.model, policy, coupling, network)


def grid(size: int, discount: float):
    return jmdp.worlds.windy_gridworld(
        size, size, gust=0.4, blown_reward=-0.5, step_reward=-0.1, discount=discount
    )  # fmt: skip


def test_a_table_of_features_learns_the_exact_answer():
    """Of 60,000 visits sampling alone leaves about √(2/n) = 1.7% of an entry, n = 6,700 walks each; 5% is thrice that.

    Measured once with walks of 6 steps: 2.2% and 1.4%. Negative control below.
    """
    covariance, gap, median = learned_table(grid(2, 0.8), jmdp.Local(), 60_000, 1_000, 512, 1)
    assert covariance < 0.05
    assert gap < 0.05
    assert median < 0.05


@pytest.mark.long
def test_untrained_it_is_far_from_the_exact_answer():
    """So that the figures above say something."""
    covariance, gap, _ = learned_table(grid(2, 0.8), jmdp.Local(), 2_000, 1, 512, 1)
    assert covariance > 0.3
    assert gap > 0.3


@pytest.mark.long
@pytest.mark.parametrize("coupling", [jmdp.Local(), jmdp.Synchronous()], ids=lambda c: type(c).__name__)
def test_a_table_of_features_learns_the_exact_answer_within_two_percent(coupling):
    covariance, gap, median = learned_table(grid(3, 0.8), coupling, 300_000, 8_000, 1024, 1)
    print(f"{coupling}: covariance {covariance:.2%}, gap {gap:.2%}, median {median:.2%}")
    assert covariance < 0.02
    assert gap < 0.02


# ------------------------------------------------------------------------------------------------ devices

SMALL = NeuralGram(seed=1, updates=2 * CHUNK, batch=16, rank=2, encoder=OneHot(4))
SEVERAL = """
import jax, numpy as np
from jmdp.methods.neural_gram.training_loop import TrainingData, train
from methods.neural_gram.test_training_loop import SMALL, WORLD, walks
assert len(jax.devices()) == 4
data = TrainingData(walks(), None, 4, WORLD.model.discount)
runs = [train(SMALL, data, devices=jax.devices()[:n]) for n in (1, 4)]
one, four = (np.stack([run.curve.rms, run.curve.drift]) for run in runs)
print(float(np.nanmax(np.abs(one - four) / (np.abs(one) + 1e-3))), len(runs[1].curve.updates))
try:
    train(SMALL, data, devices=jax.devices()[:3])
except ValueError as error:
    print(error)
"""


@pytest.mark.long
def test_four_devices_give_the_numbers_of_one():
    """TD errors over 100 updates; sums over devices are rounded apart, no more."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SEVERAL], capture_output=True, text=True, check=False,
        env={
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
        },
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    numbers, message = run.stdout.splitlines()
    off, chunks = numbers.split()
    assert float(off) < 1e-5
    assert chunks == "2"
    assert "batch is 16, and there are 3 devices" in message
    assert "multiple of 12" in message


# ------------------------------------------------------------------------------------------------ when to stop


def test_learning_stops_where_held_out_walks_say_so_and_the_best_is_kept():
    """Six walks are learned by heart, which held-out ones do not like."""
    settings = NeuralGram(
        seed=2, updates=60 * CHUNK, batch=8, rank=2, encoder=OneHot(4), learning_rate=3e-2, patience=2, dropout=0.0
    )
    few, others = walks(6, 1, seed=5), walks(40, 16, seed=6)
    found = train(settings, TrainingData(few, others, 4, WORLD.model.discount))
    looks = found.scores[~np.isnan(found.scores)]
    assert 0 < found.curve.updates[-1] < settings.updates
    assert not found.interrupted
    best = int(looks.argmin())
    assert looks.size - 1 - best == 2
    assert (looks[best + 1 :] > looks[best]).all()
    _, scales = PairReplay(few, WORLD.model.discount, settings.steps, Shock.of_sample(2, 0)).scales()
    assert HeldOutScore(others, WORLD.model.discount, scales)(found.network)[0] == pytest.approx(looks[best], rel=1e-5)


def test_devices_are_asked_for_at_the_door():
    with pytest.raises(SettingsError, match="batch is 6"):
        NeuralGram(seed=1, batch=6)
