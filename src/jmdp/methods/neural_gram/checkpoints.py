"""Training checkpoints, written atomically by Orbax. A checksum of all arrays detects corrupted files."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jmdp.base.identity import identity
from jmdp.base.whole_files import whole_file
from jmdp.errors import CheckpointError, MissingExtraError
from jmdp.methods.neural_gram.trainer import TrainingProgress

_FIX = "Use another folder, or delete this one to start again."


class Checkpoints:
    """Checkpoint manager of one training run, in its own folder. The last two checkpoints are kept.

    Raises `CheckpointError` if the folder contains the checkpoints of a different run.
    """

    def __init__(self, folder: Path, run: bytes) -> None:
        try:
            import orbax.checkpoint as ocp
        except ImportError:
            raise MissingExtraError('Checkpoints need Orbax: pip install "jmdp[nn]"') from None
        self._folder, self._ocp = folder.absolute(), ocp
        self._initial = b""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"Cannot create the folder {folder}: {error.strerror}. Use another one.") from error
        settings = self._folder / "run.json"
        if not settings.exists():
            with whole_file(settings) as file:  # atomic, so that a killed run leaves no partial file
                file.write(json.dumps({"identity": run.hex()}).encode())
        elif _read(settings) != run.hex():
            raise CheckpointError(
                f"{folder} belongs to a run with a different simulator, policy, coupling or settings. {_FIX}"
            )
        self._manager = ocp.CheckpointManager(
            self._folder / "training", options=ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
        )

    def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint, unless one exists for this chunk."""
        self._manager.wait_until_finished()
        step = int(progress.chunk)
        if step in self._manager.all_steps():
            return
        leaves = _leaves(progress)
        leaves["checksum"] = self._checksum(leaves)
        self._manager.save(step, args=self._ocp.args.StandardSave(leaves))
        self._manager.wait_until_finished()

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
                reason = reason or f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            failed.append(step)
        else:
            if failed:
                raise CheckpointError(
                    f"The checkpoints in {self._folder} are damaged, or belong to a run with a different encoder "
                    f"({reason[:200]}). {_FIX}"
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
        """Close the checkpoint manager."""
        self._manager.close()

    def _checksum(self, leaves: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
        return np.frombuffer(identity(self._initial, leaves), np.uint8).copy()


def _leaves(progress: TrainingProgress) -> dict[str, npt.NDArray[Any]]:
    """Arrays of the training state as a plain dictionary, so that Orbax does not depend on our classes."""
    return {f"{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(eqx.filter(progress, eqx.is_array)))}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["identity"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path} is damaged. {_FIX}") from None
