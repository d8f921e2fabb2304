"""Inventory control: order quantities compared under the same demand."""

from __future__ import annotations

import numpy as np

from jmdp.base.settings import whole_number
from jmdp.models.policy import TabularPolicy
from jmdp.worlds.inventory_simulator import InventorySimulator
from jmdp.worlds.world import World


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
