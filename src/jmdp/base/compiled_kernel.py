"""Compilation of kernels by numba, with a cache on disk that may be missing, read-only, full or damaged.

numba stores compiled code in pickled files and trusts them: a truncated file raises an error of pickle, a changed byte
may be run as machine code, and two processes that compile different signatures of one function at the same time may
store one under the name of the other. Here every file has a checksum and every entry its key, and what does not match
is compiled again. So is a kernel that calls a changed one of another module, which numba does not notice.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

T = TypeVar("T")

_config: Any = numba.config

_DIGEST = hashlib.sha256().digest_size


def compiled(*signatures: Any, **options: Any) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Compile a function that releases the GIL, or load the result from numba's cache, with these options of `njit`.

    With signatures it is compiled for them when the module is imported, otherwise when it is first called. Parts of a
    kernel have no signatures: they are compiled with the kernel that calls them, later in the same module.

    numba disables LLVM's straight-line (SLP) vectoriser unless an environment variable enables it. Kernels with eight
    explicit sums side by side are 2.5 times slower without it, so it is enabled for kernels with signatures.
    """

    def decorate(function: Callable[..., T]) -> Callable[..., T]:
        kernel: Any = numba.njit(nogil=True, **options)(function)
        if _config.DISABLE_JIT:
            return function
        try:
            kernel._cache = _KernelCache(function)
        except (RuntimeError, OSError):
            _warn("numba finds no folder in which it can store compiled code")
        before = _config.SLP_VECTORIZE
        _config.SLP_VECTORIZE = 1 if signatures else before
        try:
            for types in signatures:
                kernel.compile(types)
            kernel.disable_compile(bool(signatures))
        finally:
            _config.SLP_VECTORIZE = before
        return cast(Callable[..., T], kernel)

    return decorate


class _DamagedError(Exception):
    """A file of the cache is not as it was written."""


class _KernelCache(FunctionCache):
    """Cache of one kernel. If it cannot be read or written, the kernel is compiled as if there were no cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = _stamp(function.__code__.co_filename)
        if _config.CACHE_DIR:  # numba's name for the folder is a hash of the path: no two clones would share it
            self._cache_path = os.path.join(_config.CACHE_DIR, f"{function.__module__}-{stamp[:16]}")
            os.makedirs(self._cache_path, exist_ok=True)
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, types: Any, context: Any) -> Any:
        """Compiled code for these types, or None."""
        try:
            return super().load_overload(types, context)
        except OSError as error:
            self._give_up("read", error)

    def save_overload(self, types: Any, compiled_code: Any) -> None:
        """Store compiled code."""
        try:
            super().save_overload(types, compiled_code)
        except OSError as error:
            self._give_up("written", error)

    def _give_up(self, verb: str, error: OSError) -> None:
        self.disable()
        _warn(
            f"numba's cache cannot be {verb} ({error.strerror or error})",
            f"Delete the folder {self.cache_path}, make it writable, or ",
        )


def _stamp(file: str) -> str:
    """Digest of a file and of all kernels of the package: compiled code contains the kernels that it calls."""
    return hashlib.sha256(_all_kernels() + Path(file).read_bytes()).hexdigest()


@cache
def _all_kernels() -> bytes:
    package = Path(__file__).parents[1]
    return b"".join(
        path.read_bytes() for path in sorted([*package.glob("methods/kernels/*.py"), *package.glob("*/*_kernel.py")])
    )


class _CheckedFiles(IndexDataCacheFile):
    """Files of one function: an index and compiled code, each followed by its checksum."""

    def __init__(self, folder: str, name: str, stamp: Any) -> None:
        super().__init__(folder, name, stamp)
        self._version = f"{self._version}, with checksums"  # files without them are those of another version

    def save(self, key: Any, data: Any) -> None:
        """Store an entry together with its key."""
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """Read an entry; None if there is none, if it is damaged, or if another process has stored another there."""
        try:
            found = super().load(key)
        except _DamagedError as error:
            _warn_of_damage(error)
            return None
        return found[1] if found is not None and found[0] == key else None

    def _dump(self, content: Any) -> bytes:
        data: bytes = super()._dump(content)
        return data + hashlib.sha256(data).digest()  # ignored by pickle, which knows where its data end

    def _load_index(self) -> Any:
        version = pickle.dumps(self._version, protocol=-1)
        try:
            with open(self._index_path, "rb") as file:
                if file.read(len(version)) != version:
                    return {}
                _check(file.read(), self._index_path)
        except FileNotFoundError:
            return {}
        except _DamagedError as error:
            _warn_of_damage(error)
            return {}
        return super()._load_index()

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        with open(path, "rb") as file:
            _check(file.read(), path)
        return super()._load_data(name)


def _check(content: bytes, path: str) -> None:
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise _DamagedError(f"{os.path.basename(path)} is damaged")


_warned = False


def _warn_of_damage(error: _DamagedError) -> None:
    _once(f"In numba's cache, {error}. Results are the same; the kernel is compiled again and the file replaced.")


def _warn(problem: str, fix: str = "") -> None:
    _once(
        f"{problem}. Results are the same, but kernels are compiled again in every process, which takes some seconds. "
        f"{fix}{'set' if fix else 'Set'} the environment variable NUMBA_CACHE_DIR to a writable folder."
    )


def _once(text: str) -> None:
    """Warn once in a process, whichever kernels are concerned."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(text, RuntimeWarning, stacklevel=2)
