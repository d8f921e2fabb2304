"""In the rain the taxi slips: does it pay to plan the route for the rain, and in how many trips does it matter?"""

import gymnasium
import numpy as np

import jmdp


def best_route(env):
    """The best action in each state, by value iteration on the environment's table."""
    value = np.zeros(500)
    for _ in range(200):
        q = [
            [sum(p * (r + 0.99 * value[n] * (not over)) for p, n, r, over in env.unwrapped.P[s][a]) for a in range(6)]
            for s in range(500)
        ]
        value = np.max(q, axis=1)
    return np.argmax(q, axis=1)


rain = gymnasium.make("Taxi-v4", is_rainy=True)
routes = {"planned for rain": best_route(rain), "planned for dry roads": best_route(gymnasium.make("Taxi-v4"))}
print(jmdp.compare_policies(rain, routes, discount=0.99, seed=0))
