"""Evidence for `jmdp.review`: python tests/reviews/review_evidence.py [PART …] [--scale X] [--seed N].

Prints a table for each part. `--scale 0.1` uses a tenth of the stated numbers of episodes and repetitions.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import blunder_runs  # noqa: E402
import correction_runs  # noqa: E402
import coverage_runs  # noqa: E402
import gallery_replays  # noqa: E402
import identity_runs  # noqa: E402
from scipy.stats import binomtest  # noqa: E402

import jmdp  # noqa: E402

Row = Sequence[Any]


def parts_of_returns(scale: float, seed: int) -> Iterator[Row]:
    """Expectation + skill + luck = earned + final: largest difference, relative to the sum of the magnitudes."""
    yield "values", "episodes", "largest relative difference"
    found = identity_runs.of_tables(_size(100, scale), 10_000 * seed)
    yield "exact, random tables", len(found), f"{max(found):.1e}"
    found = identity_runs.of_simulators(_size(1000, scale), 10_000 * seed)
    yield "estimated, simulators", len(found), f"{max(found):.1e}"


def luck_of_tables(scale: float, seed: int) -> Iterator[Row]:
    """Mean luck in standard errors, on random tables with exact values."""
    yield "planted bug", "largest, of episodes", "largest, of steps by state and action", "number of means"
    for bug in identity_runs.BUGS:
        whole, single, count = identity_runs.luck_scores(
            _size(20, scale), _size(1000, scale), bug, 1000 + 10_000 * seed
        )
        yield bug, f"{whole:.2f}", f"{single:.2f}", count


def replays(scale: float, seed: int) -> Iterator[Row]:
    """Replays with the taken action: rewards, terminations, digests of states and hindsight are equal bit for bit."""
    yield "environment", "steps", "states compared", "replays that differ", "seconds"
    for name in gallery_replays.CASES:
        began = time.perf_counter()
        try:
            steps, wrong, compared = gallery_replays.replayed(name, _size(30, scale), _size(30, scale), 7 + seed)
            yield name, steps, compared, wrong, _seconds(began)
        except jmdp.errors.JMDPError as refusal:
            yield name, "refused", str(refusal).split(".")[0], "", _seconds(began)


def blunders(scale: float, seed: int) -> Iterator[Row]:
    """Planted blunders that `Review.worst` ranks first, with exact 95% intervals."""
    yield "environment", "rollouts", "episodes", "ranked first", "judged a mistake", "least ratio", "least std errors"
    for name in blunder_runs.SETTINGS:
        found = blunder_runs.ranked(name, _size(200, scale), seed)
        yield (
            name, blunder_runs.SETTINGS[name]().samples, found.reviewed, _rate(found.first, found.reviewed),
            _rate(found.mistakes, found.reviewed), f"{found.ratio:.1f}", f"{found.clear:.1f}",
        )  # fmt: skip


def bias(scale: float, seed: int) -> Iterator[Row]:
    """Mean of the corrected value over repetitions, less the exact value, on a table."""
    yield "fit", "episodes", "repetitions", "bias", "standard error", "std errors", "std error of the plain mean"
    for name, episodes, folds in (("other folds", 20, 5), ("other folds", 6, 2), ("same episodes", 20, 5)):
        yield _bias_row(name, episodes, folds, _size(2000, scale), seed)
    yield _bias_row("same episodes", 6, 2, _size(2000, scale), seed)


def _bias_row(name: str, episodes: int, folds: int, repetitions: int, seed: int) -> Row:
    if name == "same episodes":
        with correction_runs.no_folds():
            mean, error, plain, exact = correction_runs.bias(repetitions, episodes, folds, 1_000_000 * seed)
    else:
        mean, error, plain, exact = correction_runs.bias(repetitions, episodes, folds, 1_000_000 * seed)
    off = mean - exact
    return name, episodes, repetitions, f"{off:+.4f}", f"{error:.4f}", f"{off / error:+.1f}", f"{plain:.4f}"


def factors(scale: float, seed: int) -> Iterator[Row]:
    """How many times as many episodes the plain mean needs, and the cost of the correction."""
    yield "environment", "episodes", "plain mean", "corrected", "episodes_factor", "steps per step", "seconds"
    for name in correction_runs.factor_cases():
        episodes = _size(100 if "CartPole" in name else 200, scale)
        began = time.perf_counter()
        found = correction_runs.factor(name, episodes, 3 + seed)
        yield name, episodes, found.mean, found.corrected, found.episodes_factor, f"{found.cost:.0f}", _seconds(began)


def coverage(scale: float, seed: int) -> Iterator[Row]:
    """Intervals of `RolloutValues` with confidence 0.95 that miss the truth; p-value of a miss rate above 5%."""
    yield "problem", "rollouts", "quantity", "misses", "intervals", "rate", "p-value", ""
    for name in coverage_runs.PROBLEMS:
        for samples in (32, 128):
            for quantity, (missed, total) in coverage_runs.misses(name, samples, _size(1000, scale), seed=seed).items():
                yield name, samples, quantity, *_misses(missed, total)


def averages(scale: float, seed: int) -> Iterator[Row]:
    """Intervals of averages over episodes with confidence 0.95 that miss the truth."""
    yield "problem", "episodes", "quantity", "misses", "intervals", "rate", "p-value", "", "without interval"
    for name in ("skewed rewards", "skewed rewards, other reference", "reward of chance 0.02"):
        for episodes in (20, 100):
            found = coverage_runs.average_misses(
                name, episodes, _size(200, scale), truth=_size(5000, scale), seed=1 + seed
            )
            for quantity, (missed, total, without) in found.items():
                yield name, episodes, quantity, *_misses(missed, total), without


PARTS: dict[str, Callable[[float, int], Iterator[Row]]] = {
    "parts": parts_of_returns,
    "luck": luck_of_tables,
    "replays": replays,
    "blunders": blunders,
    "bias": bias,
    "factors": factors,
    "coverage": coverage,
    "averages": averages,
}


def _misses(missed: int, total: int) -> Row:
    p = float(binomtest(missed, total, 0.05, alternative="greater").pvalue)
    return missed, total, f"{100 * missed / total:.1f}%", f"{p:.2g}", "TOO MANY" if p < 1e-3 else ""


def _rate(count: int, total: int) -> str:
    if not total:
        return "none"
    low, high = binomtest(count, total).proportion_ci()
    return f"{100 * count / total:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def _size(number: int, scale: float) -> int:
    return max(5, round(number * scale))


def _seconds(began: float) -> str:
    return f"{time.perf_counter() - began:.0f}"


def main() -> None:
    """Run the parts and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the stated sizes")
    parser.add_argument("--seed", type=int, default=0, help="random seed; others repeat the study with new draws")
    asked = parser.parse_args()
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown or not 0 < asked.scale <= 100:
        parser.error(f"unknown part {unknown[0]}; choose from {', '.join(PARTS)}" if unknown else "scale must be > 0")
    warnings.simplefilter("ignore")
    for name in asked.parts or PARTS:
        began = time.perf_counter()
        print(f"\n== {name}: {PARTS[name].__doc__}", flush=True)
        for row in PARTS[name](asked.scale, asked.seed):
            print("  ".join(f"{cell!s:<{max(9, len(str(cell)))}}" for cell in row), flush=True)
        print(f"({_seconds(began)} s)", flush=True)


if __name__ == "__main__":
    main()
