"""Ahead-of-time compilation with LLVM's straight-line (SLP) vectoriser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

_config: Any = numba.config


def compiled(*signatures: Any, fastmath: set[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile for these argument types when the module is imported, or load the result from the disk cache.

    Parts of a kernel have no signatures: they are compiled with the kernel that calls them, later in the same module.

    numba disables LLVM's straight-line vectoriser unless an environment variable enables it. Kernels with eight
    explicit sums side by side are 2.5 times slower without it, so it is enabled while they are compiled.
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
