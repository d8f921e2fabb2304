"""Checkpoints for `jmdp gate`: a trained PPO agent, one that is equal up to rounding, and one that is spoiled.

`python -m benchmarks.gate_checkpoints FOLDER` writes them as models of stable-baselines3, from the networks that the
benchmarks use, without training.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checkpoints import TRAININGS, Network, trained

NOISE = {
    "CartPole": {"good": 0.0, "equal": 1e-4, "spoiled": 0.5},
    "LunarLander": {"good": 0.0, "equal": 1e-4, "spoiled": 1.0},
}
"""Standard deviation of the noise on all weights of the actor."""


def model(task: str, network: Network, noise: float) -> Any:
    """Return a PPO model with the weights of a network plus normal noise."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO

    found = PPO("MlpPolicy", gymnasium.make(TRAININGS[task][0]), policy_kwargs={"net_arch": [32, 32]}, device="cpu")
    actor = [*found.policy.mlp_extractor.policy_net, found.policy.action_net]
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for layer, arrays in zip((one for one in actor if hasattr(one, "weight")), network.layers, strict=True):
            for own, array in zip((layer.weight, layer.bias), arrays, strict=True):
                own.copy_(torch.as_tensor(array + noise * rng.standard_normal(array.shape), dtype=own.dtype))
    return found


def write(folder: Path) -> None:
    """Write all checkpoints, such as CartPole_good.zip."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, sizes in NOISE.items():
        for name, noise in sizes.items():
            model(task, trained(task)["end"], noise).save(folder / f"{task}_{name}.zip")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
