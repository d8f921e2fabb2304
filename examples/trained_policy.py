"""Swing up a double pendulum: does half a minute of PPO, by stable-baselines3, beat one line of Python?"""

import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import jmdp

envs = make_vec_env("Acrobot-v1", 8, seed=0)
model = PPO("MlpPolicy", envs, n_steps=128, n_epochs=4, gae_lambda=0.94, seed=0, device="cpu").learn(40_000)
players = {
    "PPO": model,
    "one line": lambda seen: 2 if seen[5] > 0 else 0,  # push the way the elbow turns
}
print(jmdp.compare_policies(gymnasium.make("Acrobot-v1"), players, discount=1.0, seed=0))
