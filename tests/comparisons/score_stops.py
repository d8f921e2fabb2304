"""How many pairs two hypotheses take: `python tests/comparisons/score_stops.py --runs 1000`.

Gaps have standard deviation 1. The new alternative may lose 0.1 and must not lose 0.3. `jmdp gate --running` with these
two margins, looked at after every 8th pair from 64 on, passes once the loss is certainly below 0.3 and fails once it is
certainly above 0.1. Beside it: a number of pairs fixed in advance that finds either with 97.5%, and Wald's sequential
probability ratio test of −0.1 against −0.3, which is told the standard deviation and that gaps are normal.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from jmdp.statistics.levels import Levels
from jmdp.statistics.means import Sampling

NEAR, FAR, MOST, EVERY = 0.1, 0.3, 4000, 8
RUNNING = Sampling("sequential")


def gate(gaps):
    """Verdict ("pass", "fail" or "") and pairs of the gate."""
    zeros = np.zeros(len(gaps))
    for n in range(64, len(gaps) + 1, EVERY):
        both = np.concatenate([zeros[:n], gaps[:n]])
        levels = Levels(both, np.repeat([0, 1], n), np.tile(np.arange(n), 2)[:, None], ("task",), 2)
        mean, below, above = levels.errors([-1.0, 1.0], 0.05, RUNNING)
        if mean - below > -FAR:
            return "pass", n
        if mean + above < -NEAR:
            return "fail", n
    return "", len(gaps)


def fixed(gaps):
    """The same verdicts after a number of pairs at which either end is 1.96 + 1.96 standard errors away."""
    n = math.ceil(((1.96 + 1.96) / (FAR - NEAR)) ** 2)
    mean, wide = gaps[:n].mean(), 1.96 * gaps[:n].std(ddof=1) / math.sqrt(n)
    return ("pass" if mean - wide > -FAR else "fail" if mean + wide < -NEAR else ""), n


def ratio(gaps):
    """Wald's test, with errors of 2.5%."""
    sums = np.cumsum((FAR - NEAR) * (gaps + (NEAR + FAR) / 2))
    limit = math.log(0.975 / 0.025)
    over = np.flatnonzero(np.abs(sums) >= limit)
    if not over.size:
        return "", len(gaps)
    return ("pass" if sums[over[0]] > 0 else "fail"), int(over[0]) + 1


RULES = {"gate --running": gate, "fixed plan": fixed, "ratio test": ratio}


def measured(rule, mean, kind, runs, seed=0):
    """Shares of passes and fails, and the mean number of pairs."""
    rng, verdicts, pairs = (
        np.random.default_rng([seed, int(1000 * abs(mean)), kind == "skewed"]),
        {"pass": 0, "fail": 0, "": 0},
        0,
    )
    for _ in range(runs):
        noise = rng.normal(size=MOST) if kind == "normal" else rng.exponential(size=MOST) - 1
        found, n = rule(mean + noise)
        verdicts[found] += 1
        pairs += n
    return verdicts["pass"] / runs, verdicts["fail"] / runs, pairs / runs


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    options = parser.parse_args()
    print("| gaps | true mean | rule | passes | fails | pairs on average |\n|---|---|---|---|---|---|")
    for kind in ("normal", "skewed"):
        for mean in (0.0, -0.1, -0.2, -0.3, -0.4):
            for name, rule in RULES.items():
                passes, fails, pairs = measured(rule, mean, kind, options.runs)
                print(f"| {kind} | {mean:g} | {name} | {passes:.1%} | {fails:.1%} | {pairs:.0f} |", flush=True)


if __name__ == "__main__":
    main()
