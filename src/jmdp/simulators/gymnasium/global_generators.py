"""Context managers for the global random generators of NumPy and Python during a step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from jmdp.base.luck import Shock


def untouched_global_generators(shock: Shock) -> AbstractContextManager[None]:
    """Leave the global generators unchanged."""
    return nullcontext()


@contextmanager
def seeded_global_generators(shock: Shock) -> Iterator[None]:
    """Seed the global generators of NumPy and Python from the shock, and restore their states on exit."""
    before, before_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (environments may draw from it)
    seed = np.frombuffer(shock.derived(b"global").words, np.uint32)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed.tobytes())
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(before_python)
