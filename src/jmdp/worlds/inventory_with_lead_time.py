"""Inventory control with a delivery lead time: orders compared under the same demand."""

from __future__ import annotations

import numpy as np

from jmdp.base.settings import whole_number
from jmdp.models.policy import TabularPolicy
from jmdp.worlds.inventory_simulator import InventorySimulator
from jmdp.worlds.scenario_simulator import all_tuples
from jmdp.worlds.world import World


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
