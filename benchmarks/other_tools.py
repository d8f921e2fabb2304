"""One example for each of five other tools, on a task of its own, with the answer of jmdp beside it.

The tables of docs/comparison.md are the rows of this comparison. Parts whose packages are not installed are left out.
A full run may need an environment of its own, ``pip install "jmdp[bench,other-tools]"``: simoptlib 1.2.4
needs NumPy below 2.4, and the release of arch that rliable 1.2.0 needs does not import with pandas 3.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

from benchmarks.other_tools_exact import quantecon, storm
from benchmarks.other_tools_rows import SEED
from benchmarks.other_tools_sampled import rliable, simopt, stable_baselines
from benchmarks.report import Report, Row, markdown

_EXAMPLES: dict[str, tuple[str, str, Callable[[bool], list[Row]]]] = {
    "stable-baselines3": ("stable-baselines3", "stable_baselines3", stable_baselines),
    "rliable": ("rliable", "rliable", rliable),
    "SimOpt": ("simoptlib", "simopt", simopt),
    "QuantEcon": ("quantecon", "quantecon", quantecon),
    "Storm": ("stormpy", "stormpy", storm),
}
"""Package, module and example of each tool."""


def compare(quick: bool) -> Report:
    """Run the example of every tool that is installed."""
    report = Report("other_tools", quick, seeds="0")
    for tool, (package, module, example) in _EXAMPLES.items():
        if find_spec(module) is None:
            report.notes.append(f"{package} is not installed and was left out: pip install {package}")
            continue
        print(tool, flush=True)
        report.rows += [{"tool": tool, **row} for row in example(quick)]
        report.notes.append(f"{tool}: {package} {version(package)}.")
    report.notes.append(
        f"Seeds are {SEED}; of the second policy that is evaluated apart, {SEED + 100}. n is the number of episodes or "
        "runs of each policy or design. ± SE is one standard error, [low, high] a 95% interval. Those of jmdp are "
        "valid at every stopping time and therefore wider than intervals for one fixed n. Times are best times of "
        "contenders that run alternately, with the range of the ratios over rounds in parentheses."
    )
    return report


def table(rows: list[Row], tool: str) -> str:
    """Return the rows of one tool as they are in docs/comparison.md."""
    return markdown([{name: row[name] for name in row if name != "tool"} for row in rows if row["tool"] == tool])
