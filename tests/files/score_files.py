"""Valid files of recorded scores: tables of all formats, and logs as the tools write them (`score_logs`)."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np

from jmdp.files import scores

LOGS = Path(__file__).parent / "score_logs"
"""Written by the tools themselves: tests/files/write_score_logs.py."""


def rows(seed: int) -> list[dict[str, object]]:
    """Scores of two alternatives on tasks, with trials."""
    rng = np.random.default_rng(seed)
    return [
        {"alternative": name, "id": f"task {i}", "trial": r, "score": float(np.round(rng.normal(), 3))}
        for name in ("old", "new")
        for i in range(3 + seed % 4)
        for r in range(1 + seed % 2)
    ]


def csv(seed: int) -> bytes:
    """A table with any of the separators."""
    separator, found = ",;\t"[seed % 3], rows(seed)
    lines = [separator.join(found[0]), *(separator.join(map(str, row.values())) for row in found)]
    return "\n".join(lines).encode("utf-8-sig" if seed % 5 == 0 else "utf-8")


def lines(seed: int) -> bytes:
    """Lines of JSON, or one list."""
    found = rows(seed)
    return (json.dumps(found) if seed % 2 else "\n".join(map(json.dumps, found))).encode()


def inspect(seed: int) -> bytes:
    """A log of Inspect in one text."""
    found = [row for row in rows(seed) if row["alternative"] == "new"]
    samples = [
        {"id": row["id"], "epoch": row["trial"], "scores": {"match": {"value": "CIPN"[i % 4]}}}
        for i, row in enumerate(found)
    ]
    return json.dumps({"version": 2, "eval": {"model": "m", "task": "t"}, "samples": samples}).encode()


def harness(seed: int) -> bytes:
    """Samples of lm-evaluation-harness."""
    found = sorted(LOGS.glob("samples_*.jsonl"))[seed % 2].read_bytes().splitlines(keepends=True)
    return b"".join(found[: 1 + seed % len(found)])


def lerobot(seed: int) -> bytes:
    """An evaluation of lerobot, with seeds or without."""
    episodes = [{"episode_ix": i, "success": bool(i % 2), **({"seed": 1000 + i} if seed % 2 else {})} for i in range(6)]
    return json.dumps({"per_episode": episodes, "aggregated": {}}).encode()


def packed(seed: int) -> bytes:
    """A log of Inspect as it writes it, packed by Zstandard."""
    return (LOGS / f"inspect_{('old', 'new')[seed % 2]}.eval").read_bytes()


PLAIN = (csv, lines, inspect, harness, lerobot, packed)


def plain(seed: int) -> bytes:
    """A file whose bytes are changed, and nothing is computed anew."""
    return PLAIN[seed % len(PLAIN)](seed)


def zipped(seed: int) -> bytes:
    """A log of Inspect, or evaluations of stable-baselines3, as zip files."""
    out = io.BytesIO()
    if seed % 2:
        rng = np.random.default_rng(seed)
        np.savez(out, timesteps=np.arange(3), results=rng.normal(size=(3, 5)), ep_lengths=np.ones((3, 5), int))
        return out.getvalue()
    log = json.loads(inspect(seed))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if seed % 4 else zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps({"eval": log["eval"]}))
        for sample in log["samples"]:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return out.getvalue()


def parquet(seed: int) -> bytes:
    """A table in a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    codec = ["none", "snappy", "gzip", "zstd"][seed % 4]
    parquet.write_table(pyarrow.Table.from_pylist(rows(seed)), out, compression=codec, write_page_checksum=True)
    return out.getvalue()


def load(path: Path, trusted: bool) -> str:
    """What is read, as text."""
    return repr(scores.read(path, trusted))
