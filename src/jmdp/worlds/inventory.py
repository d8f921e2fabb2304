"""A stock room: how much to order, compared under the same demand."""

from __future__ import annotations

import math

import numpy as np

from jmdp.base.arrays import Floats
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.worlds.world import World, check_range, check_whole


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
    """Stock on hand is reviewed each day; an order arrives at once; what demand cannot be met is lost.

    The scenario is the day's demand, the same whatever was ordered: Poisson, with everything above its 0.9999
    quantile put there. A day earns price × sales − unit_cost × units ordered − order_cost if anything was ordered −
    holding_cost × units left − shortage_cost × demand lost. What does not fit is neither ordered nor paid.

    At most `most_ordered` units can be ordered, 5 by default.

    States are named by the stock in the morning, "0" … , actions by the order, "order 0" … . Policies:
    "base_stock" (fill up to the critical-ratio quantile of demand), "reorder" (wait until half of that level, then
    fill up), "never", "uniform".
    """
    check_whole("capacity", capacity, 1, 10_000)
    most_ordered = min(5, capacity) if most_ordered is None else most_ordered
    check_whole("most_ordered", most_ordered, 1, capacity)
    check_range("mean_demand", mean_demand, 0, 500)
    weights = _poisson(mean_demand)
    demand = np.arange(weights.size)
    stock, order = np.arange(capacity + 1), np.arange(most_ordered + 1)
    placed = np.minimum(order, capacity - stock[:, None])  # [S, A]
    ready = (stock[:, None] + placed)[:, None, :]  # [S, 1, A]
    sold = np.minimum(ready, demand[:, None])  # [S, K, A]
    left = ready - sold
    reward = (
        price * sold
        - (unit_cost * placed + order_cost * (placed > 0))[:, None, :]
        - holding_cost * left
        - shortage_cost * (demand[:, None] - sold)
    )
    model = TabularJMDP(
        np.tile(weights, (stock.size, 1)),
        reward,
        left,
        discount,
        None,
        [str(s) for s in stock],
        [f"order {a}" for a in order],
    )
    # Under-ordering by a unit costs its margin and the shortage, over-ordering a day's holding.
    level = _base_stock(weights, max(price - unit_cost + shortage_cost, 0.0), max(holding_cost, 0.0), capacity)
    fill = np.minimum(np.maximum(level - stock, 0), most_ordered)
    policies = {
        "base_stock": TabularPolicy.deterministic(model, fill),
        "reorder": TabularPolicy.deterministic(model, np.where(stock <= level // 2, fill, 0)),
        "never": TabularPolicy.deterministic(model, np.zeros_like(fill)),
        "uniform": TabularPolicy.uniform(model),
    }
    return World(model, policies)


def _base_stock(weights: Floats, short: float, over: float, capacity: int) -> int:
    """The critical-ratio quantile of demand, for these costs of a unit too few and of one too many."""
    ratio = short / (short + over) if short + over > 0 else 0.5
    return min(int(np.searchsorted(np.cumsum(weights), ratio)), capacity)


def _poisson(mean: float) -> Floats:
    """Poisson probabilities up to the 0.9999 quantile, with the rest put on it."""
    weights = [math.exp(-mean)]
    while sum(weights) < 0.9999:
        weights.append(weights[-1] * mean / len(weights))
    weights[-1] += 1 - math.fsum(weights)
    return np.array(weights)
