"""Admission control of a queue, compared under the same arrivals and services.

Admission control of a queue as a simulator, with its standard policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.base.settings import number, short, whole_number
from jmdp.errors import SettingsError
from jmdp.models.policy import TabularPolicy
from jmdp.simulators.adapters.functions import ScenarioSimulator, all_tuples
from jmdp.simulators.simulator import Step
from jmdp.worlds.world import World, amount


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


class QueueSimulator(ScenarioSimulator):
    """Simulator of `queue_admission`.

    A state is a tuple: the number of customers in the system, and the class of the customer at the door, 0 if there is
    none. The parameters are those of the world. `policies` has "threshold", "half_full" and "always_admit" as functions
    of the state. The system starts empty.
    """

    def __init__(
        self,
        room: int = 30,
        *,
        servers: int = 3,
        arrivals: Sequence[float] = (0.25, 0.35),
        service: float = 0.15,
        fees: Sequence[float] = (4.0, 1.0),
        holding_cost: float = 0.05,
        discount: float = 0.99,
    ) -> None:
        room = whole_number("room", room, 1, 10_000)
        servers = whole_number("servers", servers, 1, room)
        service = number("service", service, 0, 1 / servers)
        holding_cost = amount("holding_cost", holding_cost)
        arrivals = arrays.floats("arrivals", arrivals, "[classes]", SettingsError).tolist()
        fees = arrays.floats("fees", fees, "[classes]", SettingsError).tolist()
        for i, arrival in enumerate(arrivals):
            number(f"arrivals[{i}]", arrival, 0, 1)
        for i, fee in enumerate(fees):
            amount(f"fees[{i}]", fee)
        nobody = 1 - sum(arrivals)
        if not len(arrivals) or nobody < -1e-12:
            shown = short(arrivals)
            raise SettingsError(f"arrivals is {shown}. Give a probability for each class, with a sum up to 1.")
        if len(fees) != len(arrivals):
            raise SettingsError(f"{len(fees)} fees for {len(arrivals)} classes of arrivals. Give one for each class.")
        coming = np.array([max(nobody, 0.0), *arrivals])
        served = np.array([1 - servers * service, *[service] * servers])
        super().__init__(["reject", "admit"], np.outer(coming, served).ravel(), discount)
        self.room, self.servers, self.fees, self.holding_cost = room, servers, (0.0, *fees), holding_cost
        best_paid = int(np.argmax(fees))
        self.policies = {
            "threshold": AdmitBelow(tuple(room if c == best_paid else servers for c in range(len(fees)))),
            "half_full": AdmitBelow((max(room // 2, 1),) * len(fees)),
            "always_admit": AdmitBelow((room,) * len(fees)),
        }

    def step(self, state: tuple[int, ...], action: Any, shock: Shock) -> Step:
        """Simulate one slot: the customer at the door is admitted or rejected, a service may end, one may arrive."""
        assert self.actions is not None
        coming, server = divmod(self.scenario(shock), self.servers + 1)
        inside, at_door = state
        reward = 0.0
        if self.actions.index(action) == 1 and at_door and inside < self.room:
            reward += self.fees[at_door]
            inside += 1
        reward -= self.holding_cost * max(inside - self.servers, 0)
        if 1 <= server <= inside:  # customers in service occupy servers 1, 2, …
            inside -= 1
        return Step(reward, (inside, coming), False)

    def outcomes(self, states: Integers, actions: Integers, scenarios: Integers) -> tuple[Floats, Integers]:
        """Vectorised `step`: rewards [...] and next states [..., 2]."""
        inside, at_door = states[..., 0], states[..., 1]
        coming, server = np.divmod(scenarios, self.servers + 1)
        admitted = (actions == 1) & (at_door > 0) & (inside < self.room)
        inside = inside + admitted
        reward = np.asarray(self.fees)[at_door] * admitted - self.holding_cost * np.maximum(inside - self.servers, 0)
        left = inside - ((server >= 1) & (server <= inside))
        reward, left, coming = np.broadcast_arrays(reward, left, coming)
        return reward, np.stack([left, coming], axis=-1)

    def start(self, shock: Shock) -> tuple[int, int]:
        """Return the start state: empty, with nobody at the door."""
        return 0, 0

    def largest_reward_from(self, state: Any) -> float:
        """Return the largest |reward| over all states and actions."""
        waiting = self.holding_cost * np.array([0.0, self.room - self.servers])
        return float(np.abs(np.subtract.outer(self.fees, waiting)).max())

    def __repr__(self) -> str:
        return f"QueueSimulator({self.room}, servers={self.servers}, {len(self.fees) - 1} classes)"


@dataclass(frozen=True)
class AdmitBelow:
    """Admit a customer of class c while fewer than limits[c − 1] are in the system."""

    limits: tuple[int, ...]

    def __call__(self, state: Any) -> Any:
        """The action in one state, or in many [n, 2]."""
        if isinstance(state, tuple):  # much faster than NumPy
            inside, at_door = state
            return int(at_door > 0 and inside < self.limits[at_door - 1])
        pairs = np.asarray(state)
        return (pairs[..., 0] < np.array([0, *self.limits])[pairs[..., 1]]).astype(np.int64)
