"""Coverage of intervals from resampled histories: ``python tests/statistics/history_coverage.py --runs 400``.

Demand is autoregressive, D_t = 20 + 5 X_t with X of variance 1 and correlation ρ from day to day. Two orders of a
newsvendor, whose expected gap has a closed form; and two reorder rules of a shop with stock, whose expected gap is that
of many simulated histories. Each run makes one history, compares in it with ``luck=history.resampled()``, and asks
whether the interval contains the expected gap; beside it the i.i.d. bootstrap of the recorded daily gaps.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

import jmdp

MEAN, STD = 20.0, 5.0
ORDERS = 17, 23
POINTS = 30, 45
RHOS, DAYS = (0.0, 0.5, 0.8), (100, 200, 500, 1000)


def demand(rho: float, days: int, count: int, rng: np.random.Generator) -> Any:
    """[count, days], stationary from the first day on."""
    noise = rng.normal(size=(count, days)) * math.sqrt(1 - rho**2)
    noise[:, 0] /= math.sqrt(1 - rho**2)
    return MEAN + STD * lfilter([1], [1, -rho], noise, axis=1)


def newsvendor(luck: jmdp.Luck, order: int) -> Any:
    return 5 * np.minimum(order, luck.recorded("demand", luck.periods)) - 2 * order


def newsvendor_gap(rho: float, days: int) -> float:
    """E min(q, D) = μ Φ(z) − σ φ(z) + q (1 − Φ(z)) with z = (q − μ)/σ, for normal D."""

    def sold(order: float) -> float:
        z = (order - MEAN) / STD
        return float(MEAN * norm.cdf(z) - STD * norm.pdf(z) + order * norm.sf(z))

    first, second = ORDERS
    return days * (5 * (sold(second) - sold(first)) - 2 * (second - first))


def shop(luck: jmdp.Luck, point: float) -> list[float]:
    """Order 60 units if fewer than `point` are there or coming; they arrive after two days."""
    stock, tomorrow, later, earned = 40.0, 0, 0, []
    for wanted in luck.recorded("demand", luck.periods).tolist():
        sold = min(stock, max(0.0, wanted))
        order = 60 if stock - sold + tomorrow + later < point else 0
        earned.append(4.0 * sold - 0.1 * (stock - sold) - (8.0 if order else 0.0))
        stock, tomorrow, later = stock - sold + tomorrow, later, order
    return earned


def shop_gap(rho: float, days: int, count: int = 20_000) -> float:
    """Mean over many histories."""
    wanted, total = np.maximum(demand(rho, days, count, np.random.default_rng(99)), 0.0), []
    for point in POINTS:
        stock, tomorrow, later = np.full(count, 40.0), np.zeros(count), np.zeros(count)
        earned = np.zeros(count)
        for day in range(days):
            sold = np.minimum(stock, wanted[:, day])
            order = np.where(stock - sold + tomorrow + later < point, 60.0, 0.0)
            earned += 4.0 * sold - 0.1 * (stock - sold) - 8.0 * (order > 0)
            stock, tomorrow, later = stock - sold + tomorrow, later, order
        total.append(float(earned.mean()))
    return total[1] - total[0]


CASES: dict[str, tuple[Callable[..., Any], tuple[int, int], Callable[[float, int], float]]] = {
    "newsvendor": (newsvendor, ORDERS, newsvendor_gap),
    "shop": (shop, POINTS, shop_gap),
}


@dataclass
class Row:
    """Results of one case, correlation and length."""

    runs: int
    given: int  # runs with an interval
    covered: int  # of these
    iid: int  # runs in which the i.i.d. bootstrap covers
    effective: float  # median
    block: float  # median

    def __str__(self) -> str:
        share = f"{100 * self.covered / self.given:5.1f}%" if self.given else "    –"
        low = f"{100 * lower(self.covered, self.given):5.1f}%" if self.given else "    –"
        return (
            f"{100 * self.given / self.runs:5.1f}%  {share}  {low}  {100 * self.iid / self.runs:5.1f}%  "
            f"{self.effective:6.0f}  {self.block:4.0f}"
        )


def lower(count: int, n: int) -> float:
    """One-sided 99% lower limit of a share (Clopper and Pearson): below it only with a chance of 1%."""
    from scipy.special import betaincinv

    return float(betaincinv(count, n - count + 1, 0.01)) if count else 0.0


def measured(case: str, rho: float, days: int, runs: int, seed: int, samples: int = 200) -> Row:
    """Coverage over many histories."""
    run, designs, truth = CASES[case]
    expected, rng = truth(rho, days), np.random.default_rng([seed, days, round(100 * rho)])
    rules = {str(one): partial(run, **{"order" if case == "newsvendor" else "point": one}) for one in designs}
    old, new = rules
    row, effective, blocks = Row(runs, 0, 0, 0, 0, 0), [], []
    for i, series in enumerate(demand(rho, days, runs, rng)):
        history = jmdp.RecordedLuck({"day": range(days), "demand": series})
        found = jmdp.compare_runs(rules, seed=i, luck=history.resampled(), samples=samples, progress=False)
        use, interval = found.summary.history, found.gap(new, old).mean_interval
        assert use is not None
        effective.append(use.effective or 0.0)
        blocks.append(use.block or 0)
        row.given += interval is not None
        row.covered += interval is not None and expected in interval
        lucks = [jmdp.Luck(history.given_to(jmdp.Shock.of_sample(0, 0))) for _ in rules]
        gaps = np.subtract(*[rule(luck) for rule, luck in zip((rules[new], rules[old]), lucks, strict=True)])
        totals = rng.choice(gaps, (1000, days)).sum(axis=1)
        low, high = np.quantile(totals, [0.025, 0.975])
        row.iid += bool(low <= expected <= high)
    row.effective, row.block = float(np.median(effective)), float(np.median(blocks))
    return row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", choices=CASES, action="append")
    given = parser.parse_args()
    print(f"{given.runs} histories each, seed {given.seed}; intervals at 95%")
    print("case          ρ  days  given  covers  at least  i.i.d.  counts as  block")
    for case in given.case or CASES:
        for rho in RHOS:
            for days in DAYS:
                row = measured(case, rho, days, given.runs, given.seed)
                print(f"{case:10s} {rho:.1f}  {days:4d}  {row}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
