"""Admission control of a queue, compared under the same arrivals and services."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jmdp.models.policy import TabularPolicy
from jmdp.worlds.queue_simulator import QueueSimulator
from jmdp.worlds.scenario_simulator import all_tuples
from jmdp.worlds.world import World


def queue_admission(
    room: int = 30,
    *,
    servers: int = 3,
    arrivals: Sequence[float] = (0.25, 0.35),
    service: float = 0.15,
    fees: Sequence[float] = (4.0, 1.0),
    holding_cost: float = 0.05,
    discount: float = 0.99,
) -> World:
    """Admission control of a queue with several customer classes, several servers and finite room.

    Time is divided into slots. In each slot the customer at the door is admitted or rejected; a full system, with
    `room` customers in service and waiting, admits nobody. Then at most one service ends: that of each busy server with
    probability `service`. Then a customer of class c arrives at the door with probability `arrivals[c − 1]`, or nobody.
    The scenario is (class of the arrival, server whose service would end), the same whatever was decided. A slot earns
    the class's fee if a customer is admitted, less holding_cost × customers waiting. This is a uniformised
    continuous-time queue, except that a service and an arrival may fall into the same slot.

    States are named by the number in the system and who is at the door: "7 | class 2", "7 | nobody". Actions are
    "reject" and "admit". Policies: "threshold" (trunk reservation: the class with the highest fee is always admitted,
    others while a server is free), "half_full" (reject all when the system is half full), "always_admit", "uniform".
    `World.start`: empty, with nobody at the door. `World.simulator` is a `QueueSimulator`.
    """
    simulator = QueueSimulator(
        room,
        servers=servers,
        arrivals=arrivals,
        service=service,
        fees=fees,
        holding_cost=holding_cost,
        discount=discount,
    )
    classes = len(simulator.fees) - 1
    states = all_tuples((simulator.room + 1, classes + 1), "Give a smaller room, or simulate: QueueSimulator.")
    who = ["nobody", *(f"class {c + 1}" for c in range(classes))]
    model = simulator.table(states, [f"{inside} | {who[c]}" for inside, c in states.tolist()])
    policies = {name: TabularPolicy.deterministic(model, rule(states)) for name, rule in simulator.policies.items()}
    return World(
        model,
        {**policies, "uniform": TabularPolicy.uniform(model)},
        start=np.eye(1, len(states))[0],
        simulator=simulator,
    )
