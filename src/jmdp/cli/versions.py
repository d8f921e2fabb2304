"""What a bug report needs: versions of jmdp, Python and the packages it uses, the machine, and the threads."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from jmdp import __version__
from jmdp.base.machine import cores, free_bytes, in_words

_VARIABLES = ("JAX_PLATFORMS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables of the environment that change threads or devices."""
_FOR_DEVELOPERS = ("bench", "dev", "docs", "examples", "other-tools")


def versions() -> str:
    """Return the lines of ``jmdp --version --verbose``; they name no user, host or path."""
    packages = dict(_packages())
    missing = [name for name, found in packages.items() if found is None]
    rows = {
        "jmdp": __version__,
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": f"{cores()} of {os.cpu_count() or 'unknown'} usable",
        "free memory": in_words(free_bytes()) if free_bytes() < float("inf") else "unknown",
        "threads": _threads(),
        **{name: found for name, found in packages.items() if found},
        "not installed": ", ".join(missing) or "none",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _threads() -> str:
    """Threads of the matrix libraries that NumPy loads, and the variables that set threads or devices."""
    import numpy  # noqa: F401 (its libraries are looked at)
    from threadpoolctl import threadpool_info

    pools = [f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()]
    given = [f"{name}={os.environ[name]}" for name in _VARIABLES if name in os.environ]
    return ", ".join(pools + given) or "unknown"


def _packages() -> Iterator[tuple[str, str | None]]:
    """Direct dependencies for users, in order of their names, and their versions."""
    try:
        lines = requires("jmdp") or []
    except PackageNotFoundError:  # imported from a source tree that is not installed
        lines = []
    needed = [line for line in lines if not re.search(rf"extra == ['\"]({'|'.join(_FOR_DEVELOPERS)})['\"]", line)]
    for name in sorted({re.split(r"[^\w.-]", line)[0] for line in needed} - {"jmdp"}, key=str.lower):
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, None
