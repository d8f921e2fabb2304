"""Compilation of kernels by numba, with a cache on disk that may be missing, read-only, full or damaged.

numba stores compiled code in pickled files and trusts them, and it does not notice that a kernel of another file has
changed. So each kernel has a folder for each tuple of argument types, named by a digest of all that the code depends
on. Beside numba's files is their checksum: what does not match is compiled again, under a lock. Where that fails, the
kernel is compiled without a cache. Only public names of numba are used.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np

T = TypeVar("T")
Types = tuple[Any, ...]
"""Types of numba, one for each argument."""

_config: Any = numba.config

_PATIENCE = 60
"""Seconds to wait for another process that compiles the same kernel."""


def compiled_part(**options: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Compile a part of kernels together with each kernel that calls it, with these options of `njit`."""
    return cast(Callable[[Callable[..., T]], Callable[..., T]], numba.njit(nogil=True, **options))


def compiled(**options: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Compile a kernel, which releases the GIL, or load it from the cache; with these options of `njit`.

    It is compiled when it is first called with arguments of these types: integers and floats of Python are int64 and
    float64. It is called from Python; kernels call parts (`compiled_part`).
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        if _config.DISABLE_JIT:
            return function
        known: dict[Any, Callable[..., T]] = {}  # by kinds of arguments
        kernels: dict[Types, Callable[..., T]] = {}

        @functools.wraps(function)
        def call(*arguments: Any) -> T:
            kernel = known.get(key := tuple(map(_kind, arguments)))
            if kernel is None:
                with _alone:  # threads that call a kernel at the same time compile it once
                    types = tuple(map(numba.typeof, arguments))
                    if types not in kernels:
                        kernels[types] = _kernel(function, types, options)
                    kernel = known[key] = kernels[types]
            return kernel(*arguments)

        return call

    return decorate


def _kind(argument: Any) -> Any:
    """Return equal values for arguments of the same type of numba, much faster than `numba.typeof`."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
    if isinstance(argument, tuple):
        return type(argument), *map(_kind, argument)
    return type(argument)


_alone = threading.RLock()
"""Held while numba's settings are those of one kernel."""


def _kernel(function: Any, types: Types, options: dict[str, Any]) -> Any:
    """Return the kernel for these types, from the first folder that can be used.

    numba disables LLVM's straight-line (SLP) vectoriser unless an environment variable enables it. Kernels with eight
    explicit sums side by side (`pair_product`) are 2.5 times slower without it.
    """
    problem = "there is no writable folder"
    before = getattr(_config, "CACHE_DIR", ""), _config.SLP_VECTORIZE
    _config.SLP_VECTORIZE = before[1] or 1
    try:
        for folder in _folders(function, types):
            try:
                return _cached(function, types, options, folder)
            except Exception as error:  # of the file system, or of numba
                problem = f"{folder}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
        _config.CACHE_DIR = before[0]
        kernel: Any = numba.njit(types, nogil=True, **options)(function)
    finally:
        _config.CACHE_DIR, _config.SLP_VECTORIZE = before
    _warn(problem)
    return kernel


def _cached(function: Any, types: Types, options: dict[str, Any], folder: Path) -> Any:
    """Load the kernel from this folder, or compile it and store it there."""
    source = folder / "kernel.py"  # numba names its files by this path: copies of the package share them
    copy = FunctionType(function.__code__.replace(co_filename=str(source)), function.__globals__, function.__name__)
    functools.update_wrapper(copy, function)
    load = functools.partial(numba.njit(types, nogil=True, cache=True, **options), copy)
    _config.CACHE_DIR = str(folder)
    if _is_intact(folder):
        return load()
    from filelock import FileLock  # imported on use: it imports asyncio and sqlite3

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", timeout=_PATIENCE):
        if _is_intact(folder):  # another process has compiled it meanwhile
            return load()
        for path in _files(folder):
            path.unlink()
        source.write_bytes(Path(function.__code__.co_filename).read_bytes())
        kernel = load()
        (folder / "checksum").write_text(_checksum(folder))
        return kernel


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".nbi", ".nbc"))


def _checksum(folder: Path) -> str:
    told = hashlib.sha256()
    for path in _files(folder):
        content = path.read_bytes()
        told.update(f"{path.name} {len(content)} ".encode() + content)
    return told.hexdigest()


def _is_intact(folder: Path) -> bool:
    try:
        return (folder / "checksum").read_bytes() == _checksum(folder).encode()
    except OSError:
        return False


def _folders(function: Any, types: Types) -> Iterator[Path]:
    """Folders in which the kernel may be stored: in NUMBA_CACHE_DIR, or beside the source or in the user's cache."""
    file = Path(function.__code__.co_filename)
    try:
        content = _sources() + file.read_bytes()
    except OSError:  # the source is not a file
        return
    told = hashlib.sha256(content)
    told.update(repr((function.__module__, function.__qualname__, str(types), _machine())).encode())
    name = f"{function.__name__}-{told.hexdigest()[:16]}"
    if chosen := getattr(_config, "CACHE_DIR", ""):
        yield Path(chosen).resolve() / name
        return
    yield file.parent.resolve() / "__pycache__" / name
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield Path(cache).resolve() / "jmdp" / name


@functools.cache
def _sources() -> bytes:
    """All kernels of the package: compiled code contains the kernels that it calls."""
    package = Path(__file__).parents[1]
    return b"".join(
        path.read_bytes() for path in sorted([*package.glob("methods/kernels/*.py"), *package.rglob("*_kernel.py")])
    )


@functools.cache
def _machine() -> tuple[object, ...]:
    """Versions and processor for which code is compiled."""
    import llvmlite
    from llvmlite import binding

    processor = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    chosen = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    return numba.__version__, llvmlite.__version__, np.__version__, platform.python_version(), *processor, *chosen


_warned = False


def _warn(problem: str) -> None:
    """Warn once in a process, whichever kernels are concerned."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"The cache of compiled code cannot be used ({problem}). Results are the same, but kernels are compiled "
            "again in every process, which takes some seconds. Set the environment variable NUMBA_CACHE_DIR to a "
            "writable folder.",
            RuntimeWarning,
            stacklevel=2,
        )
