"""Compare actions under a policy that stable-baselines3 trained for a minute."""

import gymnasium
from stable_baselines3 import PPO

import jmdp

env = gymnasium.make("CartPole-v1")
model = PPO("MlpPolicy", env, seed=0, device="cpu").learn(25_000)
env.reset(seed=1)
print(jmdp.compare(env, policy=model, discount=0.95, seed=0, max_samples=256))
