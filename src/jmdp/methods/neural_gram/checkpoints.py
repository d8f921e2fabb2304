"""Training checkpoints, written atomically by Orbax. A checksum of all arrays detects corrupted files.

Logging of learning curves: as JSON lines, and for TensorBoard if tensorboardX is installed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path
from typing import Any, TextIO

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.base.labels import identity
from jmdp.base.settings import error_text, short
from jmdp.base.whole_files import replacement, reserved, whole_file
from jmdp.errors import CheckpointError, MissingExtraError
from jmdp.methods.neural_gram.trainer import TrainingProgress

CURVES = "curves.jsonl"


class Tracker:
    """Logger that writes the metrics of a run to ``curves.jsonl`` in a folder, and to TensorBoard event files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lines: TextIO | None = None
        self._board: Any = None

    def begin(self, updates: int) -> None:
        """Start or resume logging after this many updates; entries of later updates are removed."""
        path = self._folder / CURVES
        if path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.splitlines() if _is_of(line, updates)]
            with whole_file(path) as file:
                file.write("".join(f"{line}\n" for line in lines).encode())
        self._lines = path.open("a", encoding="utf-8")
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            return
        self._board = SummaryWriter(str(self._folder), flush_secs=10, purge_step=updates + 1 if updates else None)

    def write(self, updates: int, values: dict[str, float]) -> None:
        """Log metrics after this many updates; values that are not finite are left out."""
        if self._lines is None:
            self.begin(0)
        assert self._lines is not None
        known = {name: value for name, value in values.items() if math.isfinite(value)}
        self._lines.write(json.dumps({"updates": updates, **known}) + "\n")
        self._lines.flush()
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(name, value, updates)

    def close(self) -> None:
        """Close both files."""
        if self._lines is not None:
            self._lines.close()
        if self._board is not None:
            self._board.close()


def _is_of(line: str, updates: int) -> bool:
    """True if a line is complete and belongs to no later update."""
    try:
        return bool(json.loads(line)["updates"] <= updates)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


_FIX = "Use another folder, or delete this one to start again."


class Checkpoints:
    """Checkpoint manager of one training run, in its own folder. The last two checkpoints are kept.

    Raises `CheckpointError` if the folder contains the checkpoints of a different run, or if a run is using it.
    """

    def __init__(self, folder: Path, run: bytes) -> None:
        try:
            import orbax.checkpoint as ocp
        except ImportError:
            raise MissingExtraError('Checkpoints need Orbax: pip install "jmdp[nn]"') from None
        self._ocp, self._initial = ocp, b""
        self._folder = _made(folder)
        _refuse_links(self._folder)
        settings = self._folder / "run.json"
        with contextlib.ExitStack() as stack:
            try:
                exists = stack.enter_context(reserved(settings)).exists
                if not exists:
                    with replacement(settings) as file:  # atomic, so that a killed run leaves no partial file
                        file.write(json.dumps({"identity": run.hex()}).encode())
            except OSError as error:
                raise CheckpointError(f"Cannot use the folder {folder}: {error.strerror}. Use another one.") from error
            if exists and _read(settings) != run.hex():
                raise CheckpointError(
                    f"{folder} belongs to a run with a different simulator, policy, coupling or settings. {_FIX}"
                )
            options = ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
            try:
                self._manager = ocp.CheckpointManager(self._folder / "training", options=options)
            except Exception as error:  # Orbax and its dependencies do not document what they raise
                raise CheckpointError(
                    f"The checkpoints in {folder} are damaged ({error_text(error)}). {_FIX}"
                ) from error
            self._lock = stack.pop_all()

    def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint, unless one exists for this chunk."""
        self._manager.wait_until_finished()
        step = int(progress.chunk)
        if step in self._manager.all_steps():
            return
        leaves = _leaves(progress)
        leaves["checksum"] = self._checksum(leaves)
        try:
            self._manager.save(step, args=self._ocp.args.StandardSave(leaves))
            self._manager.wait_until_finished()
        except Exception as error:  # as above
            raise CheckpointError(
                f"No checkpoint can be saved to {self._folder} ({error_text(error)}). Fix the cause, e.g. free disk "
                "space, and run again to resume."
            ) from error

    def latest(self, fresh: TrainingProgress) -> TrainingProgress:
        """Return the latest valid checkpoint, or `fresh` if there is none. Damaged checkpoints are skipped.

        `fresh` is the initial state; a run with different initial parameters counts as a different run.
        """
        wanted = _leaves(fresh)
        self._initial = identity(wanted)
        wanted["checksum"] = np.zeros(32, np.uint8)
        failed: list[int] = []
        reason = ""
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                found = self._manager.restore(step, args=self._ocp.args.StandardRestore(wanted))
                leaves = {name: np.asarray(found[name]) for name in wanted}
                if np.array_equal(leaves.pop("checksum"), self._checksum(leaves)):
                    break
                reason = reason or "wrong checksum"
            except Exception as error:  # Orbax and its dependencies do not document what they raise
                reason = reason or error_text(error)
            failed.append(step)
        else:
            if failed:
                raise CheckpointError(
                    f"The checkpoints in {self._folder} are damaged, or belong to a run with a different encoder "
                    f"({reason}). {_FIX}"
                )
            return fresh
        for step in failed:  # otherwise `save` would skip these steps
            with contextlib.suppress(Exception):
                self._manager.delete(step)
        arrays, rest = eqx.partition(fresh, eqx.is_array)
        restored = jax.tree.unflatten(jax.tree.structure(arrays), [jnp.asarray(leaf) for leaf in leaves.values()])
        progress: TrainingProgress = eqx.combine(restored, rest)
        return progress

    def close(self) -> None:
        """Close the checkpoint manager, and let other runs use the folder."""
        with self._lock:
            self._manager.close()

    def _checksum(self, leaves: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
        return np.frombuffer(identity(self._initial, leaves), np.uint8).copy()


def _leaves(progress: TrainingProgress) -> dict[str, npt.NDArray[Any]]:
    """Arrays of the training state as a plain dictionary, so that Orbax does not depend on our classes."""
    return {f"{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(eqx.filter(progress, eqx.is_array)))}


def _made(folder: Path) -> Path:
    """Absolute path of the folder, which is made if it does not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null character, or one that the file system cannot encode
        reason = getattr(error, "strerror", None) or error
        raise CheckpointError(
            f"Cannot create the folder {short(str(folder), 300)}: {reason}. Use another one."
        ) from error
    return folder.absolute()


def _refuse_links(folder: Path) -> None:
    """Raise unless a run left files and folders only: links lead outside of the folder, and reading a pipe waits."""
    for entry in list(os.scandir(folder)):
        if entry.name in ("run.json", CURVES):
            _refuse(entry, entry.is_file(follow_symlinks=False), "file")
        elif entry.name == "training":
            _refuse(entry, entry.is_dir(follow_symlinks=False), "folder")
            _refuse_links_below(entry.path)


def _refuse_links_below(folder: str) -> None:
    folders = [folder]
    while folders:  # without recursion, which deep folders would exceed
        for entry in list(os.scandir(folders.pop())):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                _refuse(entry, entry.is_file(follow_symlinks=False), "file")


def _refuse(entry: os.DirEntry[str], fits: bool, kind: str) -> None:
    if not fits:
        raise CheckpointError(f"{entry.path} is not a regular {kind}. {_FIX}")


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return json.loads(file.read(1_000))["identity"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path} is damaged. {_FIX}") from None
