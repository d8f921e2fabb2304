"""Digests of results of every method, coupling, adapter and file: ``PYTHONPATH=tests python -m registry.record FILE``.

A change that is to leave all results bit for bit is tested by two records, one of each version. A second file is
compared with the first: what differs is printed, and the exit code is 1.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from registry.adapters import ADAPTERS
from registry.methods import METHODS
from registry.results import CASE, KINDS, SAVED, Always, made, saved


def digest(*parts: Any) -> str:
    """Digest of texts and arrays."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else str(part).encode())
    return found.hexdigest()[:16]


def arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a result, as its file has them."""
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result.nc")
        result.save(path)
        with h5py.File(path) as file:
            return [np.asarray(file[name]) for name in sorted(file) if file[name].dtype.kind in "fiub"]


def on_tables() -> Iterator[tuple[str, str]]:
    """Each method with each coupling that it takes, on a table of six states."""
    world = jmdp.worlds.windy_gridworld(2, 3)
    for name, registered in METHODS.items():
        for coupling in registered.couplings if registered.contract is not None else ():
            method = replace(registered.contract, state="0,1") if registered.one_state else registered.contract
            result = jmdp.evaluate(world.model, world.policies["uniform"], coupling, method, throw=False)
            yield f"{name} {coupling!r}", digest(result.mean, result.covariance, str(result))


def on_simulators() -> Iterator[tuple[str, str]]:
    """Actions and policies compared on each adapter."""
    for name, adapter in ADAPTERS.items():
        simulator, given = adapter.make(), {"seed": 3, "samples": 20, "horizon": 8, "discount": 0.9, "progress": False}
        actions = list(adapter.actions or range(2))[:2]
        calls = {
            "compare": partial(jmdp.compare, simulator, policy=adapter.policy, actions=actions, **given),
            "compare_policies": partial(
                jmdp.compare_policies, simulator, {"one": adapter.policy, "other": Always(actions[1])}, **given
            ),
        }
        for said, call in calls.items():
            try:
                result = call()
            except jmdp.errors.JMDPError as error:
                yield f"{said} {name}", f"{type(error).__name__}: {error}"
            else:
                yield f"{said} {name}", digest(str(result), *arrays(result))


def results() -> Iterator[tuple[str, str]]:
    """Texts, tables and files of a result of each kind."""
    for kind in KINDS:
        result = made(kind)
        yield f"text {kind}", digest(str(result)) if kind != "study" else digest(result.to_dataframe().to_csv())
        if kind in SAVED:
            yield f"file {kind}", digest(*arrays(result))
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "again.nc")
                path.write_bytes(saved(kind))
                yield f"loaded {kind}", digest(str(jmdp.load(path)))
    yield "seed", str(CASE.seed)


def main(paths: list[str]) -> int:
    """Write the record, or compare it with an earlier one."""
    found = dict(record for part in (on_tables, on_simulators, results) for record in part())
    path = Path(paths[0])
    if not path.exists():
        path.write_text(json.dumps(found, indent=1))
        print(len(found), "digests")
        return 0
    before = json.loads(path.read_text())
    differ = [name for name in before | found if before.get(name) != found.get(name)]
    print(*(f"differs: {name}" for name in differ), f"{len(before) - len(differ)} of {len(before)} are equal", sep="\n")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
