"""Without fcntl, fork and other parts of POSIX, as on Windows: imports, files, workers, the command line."""

from __future__ import annotations

import os
import subprocess
import sys

REMOVED = """
import builtins, io, os, signal, sys

for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "forkpty", "getgid", "getuid", "geteuid",
             "killpg", "nice", "pread", "pwrite", "sched_getaffinity", "setsid", "statvfs", "sysconf"):
    delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "pthread_kill", "pthread_sigmask", "setitimer"):
    delattr(signal, name)

def without_meminfo(path, *arguments, real=io.open, **settings):
    if isinstance(path, str) and path == "/proc/meminfo":
        raise FileNotFoundError(2, "No such file or directory", path)
    return real(path, *arguments, **settings)

builtins.open = without_meminfo
"""
"""Run by every process when Python starts, also by workers."""

CODE = """
import importlib, os, pkgutil, sys
from pathlib import Path
import numpy as np
import jmdp
from jmdp.base import whole_files
from jmdp.cli import main

assert sys.modules["fcntl"] is None

def imports():
    names = [module.name for module in pkgutil.walk_packages(jmdp.__path__, "jmdp.") if "__main__" not in module.name]
    for name in names:
        importlib.import_module(name)
    assert len(names) > 100

def use():
    path = Path(sys.argv[1]) / "run.npz"
    arrays = {"a": np.arange(5.0)}
    for _ in range(2):
        with whole_files.reserved_checkpoint(path):
            whole_files.save(path, arrays)
            assert np.array_equal(whole_files.load(path, arrays)["a"], arrays["a"])
    path.unlink()
    victim, lock = path.with_name("victim"), path.with_name(".run.npz.lock")
    victim.write_text("precious")
    lock.symlink_to(victim)
    try:
        with whole_files.reserved_checkpoint(path):
            raise AssertionError("a link was followed")
    except whole_files.CheckpointError:
        assert victim.read_text() == "precious"
    lock.unlink()
    victim.unlink()
    world = jmdp.worlds.inventory()
    policy = world.policies["base_stock"]
    method = jmdp.Incremental(seed=1, updates=20_000, path=path)
    first, again = (
        jmdp.evaluate(world.model, policy, jmdp.Local(), method, progress=False, throw=False) for _ in range(2)
    )
    assert np.array_equal(first.mean, again.mean)
    assert os.listdir(path.parent) == ["run.npz"]
    asked = {"state": 3, "seed": 1, "max_samples": 256, "progress": False}
    found = [jmdp.compare(world, policy, pool=pool, **asked) for pool in (None, 2)]
    assert str(found[0]) == str(found[1])
    found[0].save(path.with_name("found.nc"))
    assert str(jmdp.load(path.with_name("found.nc"))) == str(found[0])
    found[0].report(path.with_name("page.html"))
    given = dict(seed=1, path=path.with_name("study"), max_samples=64, progress=False)
    rows = [jmdp.study(world, policy, range(4), **given).to_arrow().to_pylist() for _ in range(2)]
    assert len(rows[0]) == 4 * world.model.actions.size
    assert rows[0] == rows[1]
    assert jmdp.review(world, policy, seed=1, steps=range(3), horizon=20, progress=False).decisions

LINES = ("--version --verbose", "evaluate inventory --state 3 --coupling synchronous", "check world:inventory",
         "compare world:inventory --state 3 --policy base_stock --max-samples 100 --pool 2")

def commands():
    for line in LINES:
        assert main(line.split()) in (0, 1), line

if __name__ == "__main__":
    imports()
    use()
    commands()
"""


def test_without_posix(tmp_path):
    """The warning is that of filelock, which knows locks of POSIX and of Windows."""
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(REMOVED)
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "work").mkdir()
    path = os.pathsep.join([str(tmp_path / "start"), *filter(None, [os.environ.get("PYTHONPATH")])])
    found = subprocess.run(
        [sys.executable, "-W", "ignore:only soft file lock", tmp_path / "code.py", tmp_path / "work"],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
