"""Checkpoints of training, kept by Orbax: written beside the last one and then made the last one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from jmdp.errors import CheckpointError, MissingExtraError

if TYPE_CHECKING:
    from jmdp.neural.learner import Progress

_MEND = "Take another folder, or delete this one to begin again."


class Checkpoints:
    """Those of one run, in a folder of their own; the last two are kept.

    Raises `CheckpointError` where the folder holds a run that is about something else.
    """

    def __init__(self, folder: Path, about: str) -> None:
        try:
            import orbax.checkpoint as ocp
        except ImportError:
            raise MissingExtraError('Checkpoints need Orbax: pip install "jmdp[nn]"') from None
        self._folder, self._ocp = folder.absolute(), ocp
        self._folder.mkdir(parents=True, exist_ok=True)
        self._settings = self._folder / "run.json"
        if self._settings.exists() and _read(self._settings) != about:
            raise CheckpointError(f"{folder} is of a run with another simulator, policy, coupling or settings. {_MEND}")
        self._settings.write_text(json.dumps({"about": about}), encoding="utf-8")
        self._manager = ocp.CheckpointManager(
            self._folder / "training", options=ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
        )

    def save(self, progress: Progress) -> None:
        """Now."""
        arrays = eqx.filter(progress, eqx.is_array)
        self._manager.save(int(progress.chunk), args=self._ocp.args.StandardSave(_leaves(arrays)))
        self._manager.wait_until_finished()

    def latest(self, fresh: Progress) -> Progress:
        """Where the run stopped, or the beginning."""
        step = self._manager.latest_step()
        if step is None:
            return fresh
        arrays, rest = eqx.partition(fresh, eqx.is_array)
        wanted = _leaves(arrays)
        try:
            found = self._manager.restore(step, args=self._ocp.args.StandardRestore(wanted))
        except (ValueError, OSError, KeyError) as error:
            raise CheckpointError(f"{self._folder} cannot be read: {error}. {_MEND}") from error
        leaves = [found[name] for name in wanted]
        restored: Progress = eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest)
        return restored

    def close(self) -> None:
        """No more."""
        self._manager.close()


def _leaves(arrays: Any) -> dict[str, Any]:
    """A plain dictionary: Orbax need not know our classes."""
    return {f"{i:04d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(arrays))}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))["about"]
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{path} is damaged. {_MEND}") from None
