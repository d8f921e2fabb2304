"""A bakery bakes tonight for tomorrow, and every order meets the same customers: how many loaves?"""

import numpy as np

import jmdp


class Bakery(jmdp.simulators.Simulator):
    """Order every evening, sell every day. Loaves that are not sold by the third day are thrown away."""

    actions = jmdp.simulators.action_labels([f"order {n}" for n in range(0, 10, 3)])

    def step(self, state, action, shock):
        """Simulate one day: reward, next state, and whether the episode is over."""
        rng = shock.generator()
        customers = rng.poisson(5)  # draw all random numbers before the action is used
        late = rng.random() < 0.1  # the delivery arrives after closing time
        fresh, old, tomorrow = state
        delivered = 3 * self.actions.index(action)
        stock = [old, fresh, tomorrow + (0 if late else delivered)]
        sold = 0
        for i in range(3):  # oldest loaves first
            taken = min(stock[i], customers - sold)
            stock[i] -= taken
            sold += taken
        thrown_away = stock[0]
        reward = 4.0 * sold - 2.0 * delivered - 0.5 * thrown_away
        return jmdp.simulators.Step(reward, (stock[2], stock[1], delivered if late else 0), False)

    def start(self, shock):
        """Start with two fresh loaves, two of yesterday, and none on the way."""
        return (2, 2, 0)


def policy(state):
    """Order up to a stock of twelve, from the second evening on."""
    return int(np.clip((12 - sum(state)) // 3, 0, 3))


print(jmdp.testing.check_simulator(Bakery()))
print(jmdp.compare(Bakery(), policy=policy, discount=0.95, seed=0))
