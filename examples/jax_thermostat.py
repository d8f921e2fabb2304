"""A heater wears out by switching: how far should the room be from 20 °C before the thermostat acts?"""

import jax
import jax.numpy as jnp

import jmdp


def step(key, room, heat):
    """Simulate five minutes: temperature and whether the heater is on, under a random draught."""
    warm, was_on = room
    warm = warm - 0.05 * (warm - 10.0) + 0.8 * heat + 0.3 * jax.random.normal(key)
    cost = (warm - 20.0) ** 2 + 1.0 * (heat != was_on)
    return -cost, jnp.array([warm, heat]), False


def within(band):
    """Switch on below this band around 20 °C, off above it."""
    return lambda room: jnp.where(room[0] < 20 - band, 1, jnp.where(room[0] > 20 + band, 0, room[1].astype(int)))


house = jmdp.simulators.JaxSimulator(step, ["off", "on"], start=lambda key: jnp.array([20.0, 0.0]))
thermostats = {"0 °C": within(0.0), "0.5 °C": within(0.5), "1.5 °C": within(1.5)}
print(jmdp.compare_policies(house, thermostats, discount=0.99, seed=0))
