"""Inventory control: order quantities compared under the same demand.

Inventory control with a delivery lead time: orders compared under the same demand.

Inventory control as a simulator, with orders that arrive some days later, and its standard policies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.arrays import Floats, Integers
from jmdp.base.luck import Shock
from jmdp.base.settings import number, whole_number
from jmdp.models.policy import TabularPolicy
from jmdp.simulators.adapters.functions import ScenarioSimulator, all_tuples
from jmdp.simulators.simulator import Step
from jmdp.worlds.world import World, amount


def inventory(
    capacity: int = 10,
    *,
    most_ordered: int | None = None,
    mean_demand: float = 3.0,
    price: float = 5.0,
    unit_cost: float = 2.0,
    order_cost: float = 1.0,
    holding_cost: float = 0.2,
    shortage_cost: float = 1.0,
    discount: float = 0.95,
) -> World:
    """Inventory control: stock is reviewed each day, an order arrives at once, and unmet demand is lost.

    The scenario is the day's demand, the same whatever was ordered: Poisson, truncated at its 0.9999 quantile, which
    gets the remaining probability. A day earns price × sales − unit_cost × units ordered − order_cost if anything was
    ordered − holding_cost × units left − shortage_cost × demand lost. Units beyond the capacity are neither ordered nor
    paid.

    At most `most_ordered` units can be ordered, 5 by default.

    States are named by the stock in the morning, "0" … , actions by the order, "order 0" … . Policies:
    "base_stock" (fill up to the critical-ratio quantile of demand), "reorder" (wait until half of that level, then
    fill up), "never", "uniform". `World.start`: any stock, equally likely. `World.simulator` is an `InventorySimulator`
    with lead time 0.
    """
    capacity = whole_number("capacity", capacity, 1, 10_000)
    simulator = InventorySimulator(
        capacity,
        lead_time=0,
        most_ordered=min(5, capacity) if most_ordered is None else most_ordered,
        mean_demand=mean_demand,
        price=price,
        unit_cost=unit_cost,
        order_cost=order_cost,
        holding_cost=holding_cost,
        shortage_cost=shortage_cost,
        discount=discount,
    )
    stock = np.arange(capacity + 1)[:, None]
    model = simulator.table(stock, [str(s) for s in range(capacity + 1)])
    policies = {
        name: TabularPolicy.deterministic(model, simulator.policies[name](stock)) for name in ("base_stock", "reorder")
    }
    policies["never"] = TabularPolicy.deterministic(model, np.zeros(capacity + 1, int))
    policies["uniform"] = TabularPolicy.uniform(model)
    return World(model, policies, start=np.full(capacity + 1, 1 / (capacity + 1)), simulator=simulator)


def inventory_with_lead_time(
    capacity: int = 20,
    *,
    lead_time: int = 2,
    most_ordered: int | None = None,
    mean_demand: float = 3.0,
    price: float = 5.0,
    unit_cost: float = 2.0,
    order_cost: float = 1.0,
    holding_cost: float = 0.2,
    shortage_cost: float = 1.0,
    discount: float = 0.95,
) -> World:
    """Inventory control: stock is reviewed each day, an order arrives `lead_time` days later, unmet demand is lost.

    Each day an order is placed, the order of `lead_time` days ago arrives, then demand occurs. The scenario is the
    demand, the same whatever was ordered: Poisson, truncated at its 0.9999 quantile, which gets the remaining
    probability. A day earns price × sales − unit_cost × units ordered − order_cost if anything was ordered −
    holding_cost × units left − shortage_cost × demand lost. Stock on hand and on order together are at most `capacity`:
    units beyond it are neither ordered nor paid. With lead time 0 this is `inventory`.

    `lead_time` is 1, 2 or 3. At most `most_ordered` units can be ordered, 8 by default. The defaults give 1,053
    states.

    States are named by the stock in the morning and the outstanding orders, the one due today first: "4 | 2,0".
    Actions are "order 0" … . Policies: "base_stock" (fill stock on hand and on order up to the critical-ratio quantile
    of the demand of lead_time + 1 days), "reorder" (wait until half of a day's base stock is missing, then fill up),
    "constant" (order the mean demand every day), "uniform". `World.start`: any stock, equally likely, and nothing on
    order. `World.simulator` is an `InventorySimulator`.
    """
    lead_time = whole_number("lead_time", lead_time, 1, 3)
    simulator = InventorySimulator(
        capacity,
        lead_time=lead_time,
        most_ordered=most_ordered,
        mean_demand=mean_demand,
        price=price,
        unit_cost=unit_cost,
        order_cost=order_cost,
        holding_cost=holding_cost,
        shortage_cost=shortage_cost,
        discount=discount,
    )
    capacity = simulator.capacity
    sizes = (capacity + 1, *[simulator.most_ordered + 1] * lead_time)
    states = all_tuples(sizes, "Give a smaller capacity, most_ordered or lead_time, or simulate: InventorySimulator.")
    states = states[states.sum(axis=1) <= capacity]
    model = simulator.table(states, [f"{on_hand} | {','.join(map(str, due))}" for on_hand, *due in states.tolist()])
    policies = {name: TabularPolicy.deterministic(model, rule(states)) for name, rule in simulator.policies.items()}
    nothing_on_order = (states[:, 1:] == 0).all(axis=1)
    return World(
        model,
        {**policies, "uniform": TabularPolicy.uniform(model)},
        start=np.where(nothing_on_order, 1 / nothing_on_order.sum(), 0.0),
        simulator=simulator,
    )


class InventorySimulator(ScenarioSimulator):
    """Simulator of `inventory` (lead time 0) and of `inventory_with_lead_time`.

    A state is a tuple of 1 + `lead_time` numbers: the stock on hand in the morning, then the outstanding orders, the
    one due today first. The parameters are those of the worlds. `policies` has "base_stock", "reorder" and "constant"
    as functions of the state. A start has any stock from 0 to `capacity`, equally likely, and nothing on order.
    """

    def __init__(
        self,
        capacity: int = 20,
        *,
        lead_time: int = 2,
        most_ordered: int | None = None,
        mean_demand: float = 3.0,
        price: float = 5.0,
        unit_cost: float = 2.0,
        order_cost: float = 1.0,
        holding_cost: float = 0.2,
        shortage_cost: float = 1.0,
        discount: float = 0.95,
    ) -> None:
        capacity = whole_number("capacity", capacity, 1, 10_000)
        lead_time = whole_number("lead_time", lead_time, 0, 100)
        most_ordered = min(8, capacity) if most_ordered is None else most_ordered
        most_ordered = whole_number("most_ordered", most_ordered, 1, capacity)
        mean_demand = number("mean_demand", mean_demand, 0, 500)
        price, unit_cost, order_cost = (
            amount(name, value)
            for name, value in (("price", price), ("unit_cost", unit_cost), ("order_cost", order_cost))
        )
        holding_cost, shortage_cost = amount("holding_cost", holding_cost), amount("shortage_cost", shortage_cost)
        super().__init__([f"order {a}" for a in range(most_ordered + 1)], poisson(mean_demand), discount)
        self.capacity, self.lead_time, self.most_ordered = capacity, lead_time, most_ordered
        self.price, self.unit_cost, self.order_cost = price, unit_cost, order_cost
        self.holding_cost, self.shortage_cost = holding_cost, shortage_cost
        # Under-ordering by a unit costs its margin and the shortage, over-ordering a day's holding.
        short, over = max(price - unit_cost + shortage_cost, 0.0), max(holding_cost, 0.0)
        level = base_stock_level(demand_of_days(self.weights, lead_time + 1), short, over, capacity)
        daily = base_stock_level(self.weights, short, over, capacity)
        self.policies = {
            "base_stock": OrderUpTo(level, level - 1, most_ordered),
            "reorder": OrderUpTo(level, level - math.ceil(daily / 2), most_ordered),
            "constant": ConstantOrder(min(round(mean_demand), most_ordered)),
        }

    def step(self, state: tuple[int, ...], action: Any, shock: Shock) -> Step:
        """Simulate one day: an order is placed, the order due arrives, and the demand (the scenario) is met or lost."""
        assert self.actions is not None
        demand = self.scenario(shock)
        on_hand, *outstanding = state
        placed = min(self.actions.index(action), self.capacity - sum(state))
        arrived, *outstanding = (*outstanding, placed)
        ready = on_hand + arrived
        sold = min(ready, demand)
        left = ready - sold
        paid = self.unit_cost * placed + (self.order_cost if placed > 0 else 0.0)
        reward = self.price * sold - paid - self.holding_cost * left - self.shortage_cost * (demand - sold)
        return Step(reward, (left, *outstanding), False)

    def outcomes(self, states: Integers, actions: Integers, scenarios: Integers) -> tuple[Floats, Integers]:
        """Vectorised `step`: rewards [...] and next states [..., 1 + lead_time]."""
        placed = np.minimum(actions, self.capacity - np.add.reduce(states, axis=-1))
        ready = states[..., 0] + (states[..., 1] if self.lead_time else placed)
        sold = np.minimum(ready, scenarios)
        left = ready - sold
        reward = (
            self.price * sold
            - (self.unit_cost * placed + self.order_cost * (placed > 0))
            - self.holding_cost * left
            - self.shortage_cost * (scenarios - sold)
        )
        after = np.empty((*reward.shape, states.shape[-1]), np.int64)
        after[..., 0] = left
        if self.lead_time:
            after[..., 1:-1] = states[..., 2:]
            after[..., -1] = placed
        return reward, after

    def start(self, shock: Shock) -> tuple[int, ...]:
        """Return a start state: any stock, equally likely, and nothing on order."""
        return (int(shock.uniform() * (self.capacity + 1)), *[0] * self.lead_time)

    def largest_reward_from(self, state: Any) -> float:
        """Return the largest |reward| over all stocks, orders and demands."""
        ready, demand = np.arange(self.capacity + 1)[:, None], np.arange(self.weights.size)
        sold = np.minimum(ready, demand)
        earned = self.price * sold - self.holding_cost * (ready - sold) - self.shortage_cost * (demand - sold)
        placed = np.arange(self.most_ordered + 1)
        paid = self.unit_cost * placed + self.order_cost * (placed > 0)
        return float(max(earned.max() - paid.min(), paid.max() - earned.min()))

    def __repr__(self) -> str:
        return f"InventorySimulator({self.capacity}, lead_time={self.lead_time}, most_ordered={self.most_ordered})"


@dataclass(frozen=True)
class OrderUpTo:
    """Order up to `level` when the inventory position, stock on hand and on order, is at most `reorder_at`."""

    level: int
    reorder_at: int
    most_ordered: int

    def __call__(self, state: Any) -> Any:
        """The action in one state, or in many [n, d]."""
        if isinstance(state, tuple):  # much faster than NumPy
            position = sum(state)
            return min(max(self.level - position, 0), self.most_ordered) if position <= self.reorder_at else 0
        position = np.add.reduce(np.asarray(state), axis=-1)
        missing = np.minimum(np.maximum(self.level - position, 0), self.most_ordered)
        return np.where(position <= self.reorder_at, missing, 0)


@dataclass(frozen=True)
class ConstantOrder:
    """Order the same number of units every day."""

    units: int

    def __call__(self, state: Any) -> Any:
        """The action in one state, or in many [n, d]."""
        if isinstance(state, tuple):
            return self.units
        return np.full(np.shape(state)[:-1], self.units)


def base_stock_level(weights: Floats, short: float, over: float, capacity: int) -> int:
    """Critical-ratio quantile of demand; `short` and `over` are the costs of a unit too few and of one too many."""
    ratio = short / (short + over) if short + over > 0 else 0.5
    return min(int(np.searchsorted(np.cumsum(weights), ratio)), capacity)


def demand_of_days(weights: Floats, days: int) -> Floats:
    """Distribution of the total demand of several days."""
    total = np.ones(1)
    for _ in range(days):
        total = np.convolve(total, weights)
    return total


def poisson(mean: float) -> Floats:
    """Poisson probabilities up to the 0.9999 quantile, which gets the remaining probability."""
    weights = [math.exp(-mean)]
    while sum(weights) < 0.9999:
        weights.append(weights[-1] * mean / len(weights))
    weights[-1] += 1 - math.fsum(weights)
    return np.array(weights)
