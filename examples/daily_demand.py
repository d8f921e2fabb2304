"""Two years of daily sales of a shop that does not exist: made here, with week, year, trend, promotions and stockouts.

Demand follows the day of the week and the season, grows, and is higher on promotion days; what the season leaves is
autocorrelated, as weather is. The shop has ordered by a rule of thumb, and sometimes sold out: sales then hide demand.
``python examples/daily_demand.py sales.csv`` writes the table.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

DAYS = 728
"""104 weeks from Monday, 1 January 2024, on."""

WEEK = (0.85, 0.8, 0.9, 1.0, 1.2, 1.4, 0.85)
"""Demand of each weekday, from Monday, relative to the average."""

CASE = 60
"""Units of one order; it arrives after two days, in the morning."""


def demand_of(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Demand of each day, and whether it is a promotion day."""
    promotions, demand, weather = [0] * DAYS, [], 0.0
    for begin in np.cumsum(rng.integers(16, 40, DAYS // 16)):
        for day in range(begin, min(begin + 3, DAYS)):
            promotions[day] = 1
    for day in range(DAYS):
        weather = 0.4 * weather + rng.normal(0, 0.13)
        year = 1 + 0.08 * math.sin(2 * math.pi * (day - 100) / 365.25)
        growth = 1 + 0.03 * day / 365.25
        mean = 20 * WEEK[day % 7] * year * growth * (1.6 if promotions[day] else 1.0) * math.exp(weather)
        demand.append(int(rng.poisson(mean)))
    return demand, promotions


def two_years(seed: int = 0) -> dict[str, list[Any]]:
    """The table: day, units sold, promotion, stockout, stock in the morning, and what was ordered in the evening."""
    rng = np.random.default_rng(seed)
    demand, promotions = demand_of(rng)
    first = np.datetime64("2024-01-01")
    table: dict[str, list[Any]] = {
        "day": [str(first + day) for day in range(DAYS)],
        "sold": [],
        "promotion": promotions,
    }
    table |= {"stockout": [], "stock": [], "ordered": []}
    stock, tomorrow, later = 50, 0, 0
    for wanted in demand:
        sold = min(stock, wanted)
        table["stock"].append(stock)
        table["sold"].append(sold)
        table["stockout"].append(int(wanted > stock))
        left = stock - sold + tomorrow + later
        order = CASE if left + rng.integers(-15, 16) < 65 else 0  # a rule of thumb, not always kept
        table["ordered"].append(order)
        stock, tomorrow, later = stock - sold + tomorrow, later, order
    return table


if __name__ == "__main__":
    found = two_years()
    lines = [",".join(found), *(",".join(map(str, row)) for row in zip(*found.values(), strict=True))]
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    print(f"{DAYS} days, {sum(found['sold']):,} units sold, {sum(found['stockout'])} days sold out")
