"""The callback for stable-baselines3: pairs the policy as it is with the best so far."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import jmdp

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.logger import KVWriter, Logger  # noqa: E402

from jmdp.training import PairedEvalCallback  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Small networks on a busy machine: several threads wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Kept(KVWriter):
    """What was logged."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def trained(callback, steps, seed=0):
    model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=seed, device="cpu", verbose=0)
    kept = Kept()
    model.set_logger(Logger(None, [kept]))
    model.learn(steps, callback=callback)
    return model, [row for row in kept.rows if "jmdp/gap" in row]


@pytest.mark.parametrize("looks", [2, pytest.param(4, marks=pytest.mark.long)])
def test_ppo_on_cart_pole_gets_better_and_is_kept(tmp_path, looks):
    callback = PairedEvalCallback(
        gymnasium.make("CartPole-v1"), eval_freq=1024, episodes=64, best_model_save_path=tmp_path, deterministic=False
    )
    model, rows = trained(callback, 1024 * looks)
    assert len(rows) == len(callback.comparisons) == looks
    names = ("gap_low", "gap_high", "chance_better", "mean_return", "best_mean_return", "episodes", "new_best")
    for row in rows:
        assert all(f"jmdp/{name}" in row for name in names)
        assert row["jmdp/gap_low"] <= row["jmdp/gap"] <= row["jmdp/gap_high"]
        assert row["jmdp/new_best"] == (row["jmdp/gap_low"] > 0)
        gap = row["jmdp/mean_return"] - row["jmdp/best_mean_return"]
        assert row["jmdp/gap"] == pytest.approx(gap)
    assert any(row["jmdp/new_best"] for row in rows)
    best = sb3.PPO.load(tmp_path / "best_model", device="cpu")
    observation = np.array([[0.01, 0.02, 0.03, 0.04]], np.float32)
    again = [policy.predict(observation, deterministic=True)[0] for policy in (best, callback.best_policy)]
    assert again[0] == again[1]
    seeds = {one.seed for one in callback.comparisons}
    assert len(seeds) == looks
    assert model.num_timesteps >= 1024 * looks


def test_the_same_policy_is_no_new_best_unless_tolerated():
    for tolerance, kept in ((0.0, 0), (1e9, 1)):
        callback = PairedEvalCallback(
            gymnasium.make("CartPole-v1"), eval_freq=200, episodes=64, horizon=20, tolerance=tolerance
        )
        _, rows = trained(callback, 256)  # before the first update
        assert len(rows) == 1
        assert rows[0]["jmdp/gap"] == 0
        assert rows[0]["jmdp/new_best"] == kept


def test_settings_are_checked():
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(jmdp.errors.SettingsError, match="tolerance is -1"):
        PairedEvalCallback(env, tolerance=-1)
    with pytest.raises(jmdp.errors.SimulatorError, match="vector environment"):
        PairedEvalCallback(gymnasium.make_vec("CartPole-v1", 2))
