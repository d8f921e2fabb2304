"""The global generators of NumPy and Python during a step: left alone, or seeded from its shock."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from jmdp.base.luck import Shock


def untouched_global_generators(shock: Shock) -> AbstractContextManager[None]:
    """Global generators are left alone."""
    return nullcontext()


@contextmanager
def seeded_global_generators(shock: Shock) -> Iterator[None]:
    """Within, the global generators of NumPy and Python follow from the shock; after, they are as before."""
    before, before_python = np.random.get_state(), random.getstate()  # noqa: NPY002 (others draw from it)
    seed = np.frombuffer(shock.derived(b"global").words, np.uint32)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed.tobytes())
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
        random.setstate(before_python)
