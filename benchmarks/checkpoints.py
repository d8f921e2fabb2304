"""PPO agents at two checkpoints of a short training, as small networks in one file.

`python -m benchmarks.checkpoints` writes the file. Training needs stable-baselines3; loading does not. Only
the actor is stored, in single precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats

FILE = Path(__file__).with_name("ppo_checkpoints.npz")

TRAININGS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "FrozenLake": ("FrozenLake-v1", 12_000, {"ent_coef": 0.01}),
    "CartPole": ("CartPole-v1", 24_000, {}),
    "Acrobot": ("Acrobot-v1", 120_000, {"gamma": 0.99, "n_epochs": 4, "gae_lambda": 0.94}),
    "LunarLander": (
        "LunarLander-v3",
        300_000,
        {"n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
    ),
}
"""Environment, total steps and settings of PPO. The checkpoints are taken halfway and at the end."""


@dataclass(frozen=True, eq=False)
class Network:
    """Trained actor as a policy that returns the most likely action. Integer observations are encoded as one-hot."""

    layers: tuple[tuple[Floats, Floats], ...]  # weight [out, in] and bias [out] of each

    def __call__(self, observation: Any) -> int:
        """Return the action for one observation."""
        x = np.asarray(observation)
        if x.ndim == 0:
            x = np.eye(self.layers[0][0].shape[1])[int(x)]
        for weight, bias in self.layers[:-1]:
            x = np.tanh(weight @ x + bias)
        weight, bias = self.layers[-1]
        return int(np.argmax(weight @ x + bias))


@cache
def trained(task: str) -> dict[str, Network]:
    """Return the agents of a task by name: "half" and "end"."""
    with np.load(FILE) as saved:
        return {
            point: Network(
                tuple((saved[f"{task}/{point}/{i}/weight"], saved[f"{task}/{point}/{i}/bias"]) for i in range(3))
            )
            for point in ("half", "end")
        }


def train(task: str) -> dict[str, Any]:
    """Train one agent with a fixed seed and return its arrays by name."""
    import gymnasium
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    name, steps, settings = TRAININGS[task]
    envs = make_vec_env(lambda: gymnasium.make(name), 8, seed=0)
    settings = {"n_steps": 128, "policy_kwargs": {"net_arch": [32, 32]}, **settings}
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", **settings)
    found = {}
    for point in ("half", "end"):
        model.learn(steps // 2, reset_num_timesteps=False)
        actor = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
        layers = [layer for layer in actor if hasattr(layer, "weight")]
        for i, layer in enumerate(layers):
            found[f"{task}/{point}/{i}/weight"] = layer.weight.detach().numpy().copy()
            found[f"{task}/{point}/{i}/bias"] = layer.bias.detach().numpy().copy()
    return found


if __name__ == "__main__":
    np.savez_compressed(FILE, **{key: array for task in TRAININGS for key, array in train(task).items()})
