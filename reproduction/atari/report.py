"""Tables and figures of all stored records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jmdp import plots
from jmdp.results import Calibration, Estimate
from reproduction.atari.settings import PAPER
from reproduction.atari.td_figure import td_figure
from reproduction.atari.train import records
from reproduction.findings import Floats

Gathered = dict[tuple[str, float, str, str], tuple[Calibration, Calibration, list[dict[str, object]]]]


def gathered(folder: Path) -> Gathered:
    """Records by coupling, c, game and kernel, joined over data seeds: without and with a lookahead, and settings."""
    parts: dict[tuple[str, float, str, str], list[tuple[Calibration, Calibration, dict[str, object]]]] = {}
    for path in sorted((folder / "records").glob("*.npz")):
        found = records(path)
        about = found[2]
        if about["quick"]:
            continue
        key = (str(about["coupling"]), float(str(about["c"])), str(about["game"]), str(about["kernel"]))
        parts.setdefault(key, []).append(found)
    return {
        key: (
            Calibration.joined([alone for alone, _, _ in found]),
            Calibration.joined([ahead for _, ahead, _ in found]),
            [about for _, _, about in found],
        )
        for key, found in parts.items()
    }


def summary(found: Gathered) -> list[dict[str, object]]:
    """One row per coupling, c, game and kernel, with intervals, states, rollouts and seeds."""
    rows: list[dict[str, object]] = []
    for (coupling, c, game, kernel), (alone, ahead, about) in found.items():
        rows.append(
            {
                "coupling": coupling, "c": c, "game": game, "kernel": kernel,
                "seeds": [part["seed"] for part in about], "states": len(np.unique(alone.state)),
                "rollouts": alone.returns.shape[1],
                "seconds": round(float(np.mean([float(str(part["seconds"])) for part in about])), 1),
                "gap_variance_scale": [round(float(str(part["gap_variance_scale"])), 3) for part in about],
                **{name: _numbers(getattr(alone, name)) for name in _NAMES},
                **{f"ahead_{name}": _numbers(getattr(ahead, name)) for name in _NAMES if name in _AHEAD},
            }
        )  # fmt: skip
    return rows


_NAMES = (
    "ratio", "independent_ratio", "closed_form_ratio", "gap_ratio", "rank_correlation", "rank_reliability",
    "mean_correlation", "mean_reliability",
)  # fmt: skip
_AHEAD = ("ratio", "rank_correlation", "mean_correlation")


def _numbers(value: Estimate | None) -> list[float] | None:
    return None if value is None else [float(value), value.low, value.high]


def table(rows: Sequence[dict[str, object]]) -> str:
    """Return Markdown tables, one for each coupling and c."""
    lines: list[str] = []
    blocks = sorted(
        {(str(row["coupling"]), float(str(row["c"]))) for row in rows}, key=lambda b: (b[0] != "Synchronous", b[1])
    )
    for coupling, c in blocks:
        lines += [
            "",
            f"### {coupling}, c = {c:g}",
            "",
            "| game | learned / MC | plain Gram / MC | independent / MC | closed form / MC | rank corr. (reliability) "
            "| mean-gap corr. (reliability) | with lookahead: ratio | rank corr. | mean-gap corr. |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        here = [row for row in rows if row["coupling"] == coupling and float(str(row["c"])) == c]
        plain = {row["game"]: row for row in here if row["kernel"] == "gram"}
        for row in (row for row in here if row["kernel"] == "sum"):
            gram = plain.get(row["game"])
            cells = [
                str(row["game"]), _cell(row["ratio"]), "–" if gram is None else _cell(gram["ratio"]),
                _cell(row["independent_ratio"]), _cell(row["closed_form_ratio"]),
                f"{_cell(row['rank_correlation'])} ({_value(row['rank_reliability'])})",
                f"{_cell(row['mean_correlation'])} ({_value(row['mean_reliability'])})",
                _cell(row["ahead_ratio"]), _cell(row["ahead_rank_correlation"]), _cell(row["ahead_mean_correlation"]),
            ]  # fmt: skip
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    assert isinstance(value, list)
    return str(Estimate(*value)).replace(" in ", " ")


def _value(value: object) -> str:
    assert isinstance(value, list)
    return f"{value[0]:.2f}"


def curves(folder: Path, coupling: str, c: float) -> tuple[dict[str, tuple[Floats, Floats]], list[str]]:
    """Learning curves of the paper's games: updates and mean square TD errors of all data seeds; and block names."""
    found: dict[str, tuple[Floats, Floats]] = {}
    for game in PAPER:
        squares = []
        for path in sorted((folder / "records").glob(f"{game}-{coupling}-{c:g}-*-sum-*.npz")):
            with np.load(path) as file:
                if not json.loads(str(file["about"]))["quick"]:
                    updates, rms, blocks = file["updates"], file["rms"], file["blocks"].tolist()
                    squares.append(rms**2)
        found[f"{game.replace('_', ' ')}, {len(squares)} data seeds"] = updates, np.array(squares)
    return found, blocks


def write(folder: Path) -> str:
    """Write the numbers, then the table and the figures; return the table."""
    found = gathered(folder)
    rows = summary(found)
    (folder / "summary.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    text = table(rows)
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    for (coupling, c, game, kernel), (alone, ahead, _) in found.items():
        if kernel == "sum":
            for name, record in (("alone", alone), ("ahead", ahead)):
                title = f"{game.replace('_', ' ')}, {coupling} coupling, c = {c:g}" + (
                    ", with lookahead" * (name == "ahead")
                )
                figure = plots.calibration_scatter(record, title=title)
                figure.savefig(folder / f"scatter-{game}-{coupling}-{c:g}-{name}.svg")
    if all(("Synchronous", 1.0, game, "sum") in found for game in PAPER):
        shown, blocks = curves(folder, "Synchronous", 1.0)
        figure = td_figure(shown, blocks)
        figure.suptitle("NeuralGram, Synchronous coupling, c = 1")
        figure.savefig(folder / "td_errors.svg")
    return text
