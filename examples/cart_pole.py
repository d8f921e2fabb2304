"""Which does a controller need more: the angle of the pole, or how fast it turns?"""

import gymnasium

import jmdp

env = gymnasium.make("CartPole-v1")
rules = {
    "by the angle": lambda seen: int(seen[2] > 0),
    "by its speed": lambda seen: int(seen[3] > 0),
}
print(jmdp.compare_policies(env, rules, discount=1.0, seed=0))
