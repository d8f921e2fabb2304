"""Compiling ahead, with straight-line code on vector registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

_config: Any = numba.config


def compiled(*signatures: Any, fastmath: set[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile for these argument types when the module loads, or take the result from the disk.

    Parts of a kernel have no signatures: they are compiled with the kernel that calls them, later in the same module.

    numba leaves LLVM's straight-line vectoriser off unless its environment variable asks for it. Kernels that spell out
    eight sums side by side are 2.5 times slower without, so it is on while they are compiled, and only then.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        before = _config.SLP_VECTORIZE
        _config.SLP_VECTORIZE = 1
        try:
            types = list(signatures) or None
            kernel: Callable[..., Any] = numba.njit(types, cache=True, nogil=True, fastmath=fastmath)(function)
            return kernel
        finally:
            _config.SLP_VECTORIZE = before

    return decorate
