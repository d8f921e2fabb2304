"""A shop of one's own: thirty lines, and every order meets the same customers."""

import numpy as np

import jmdp


class Shop(jmdp.simulators.Simulator):
    """Order every evening, sell every day; what is not sold by the third day is thrown away."""

    actions = jmdp.simulators.action_labels([f"order {n}" for n in range(0, 10, 3)])

    def step(self, state, action, shock):
        """One day: reward, next state, and whether it is all over."""
        rng = shock.generator()
        customers = rng.poisson(5)  # all luck first, before the action matters
        late = rng.random() < 0.1  # the van comes after closing time
        fresh, old, tomorrow = state
        delivered = 3 * self.actions.index(action)
        stock = [old, fresh, tomorrow + (0 if late else delivered)]
        sold = 0
        for i in range(3):  # the oldest first
            taken = min(stock[i], customers - sold)
            stock[i] -= taken
            sold += taken
        thrown_away = stock[0]
        reward = 4.0 * sold - 2.0 * delivered - 0.5 * thrown_away
        return jmdp.simulators.Step(reward, (stock[2], stock[1], delivered if late else 0), False)

    def start(self, shock):
        """Two fresh loaves, two of yesterday, none on the way."""
        return (2, 2, 0)


def policy(state):
    """Fill up to twelve."""
    return int(np.clip((12 - sum(state)) // 3, 0, 3))


print(jmdp.testing.check_simulator(Shop()))
print(jmdp.compare(Shop(), policy=policy, discount=0.95, seed=0))
