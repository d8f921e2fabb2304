"""Whole files: made with their folder, replaced at once, and left as they were by an error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest

from jmdp.base.whole_files import reserved, whole_file


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "new" / "report.html"
    with whole_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"second" * 10_000, None])
    assert path.read_bytes() == b"first"
    with whole_file(path) as file:
        file.write(b"third")
    assert path.read_bytes() == b"third"
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]


LIKE_WINDOWS = """
import os, sys
from pathlib import Path

def refusing(function):
    def call(name, *rest, **settings):
        for number in os.listdir("/proc/self/fd"):
            try:
                if os.path.samefile(f"/proc/self/fd/{number}", name):
                    raise PermissionError(13, "The process cannot access the file: it is in use", str(name))
            except FileNotFoundError:
                pass
        return function(name, *rest, **settings)
    return call

os.unlink, os.replace = refusing(os.unlink), refusing(os.replace)
from jmdp.base.whole_files import replacement, reserved, whole_file

path = Path(sys.argv[1])
for text in (b"first", b"second"):
    with whole_file(path) as file:
        file.write(text)
try:
    with whole_file(path) as file:
        file.write(b"third")
        raise KeyError
except KeyError:
    pass
assert path.read_bytes() == b"second"
assert os.listdir(path.parent) == [path.name], os.listdir(path.parent)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="open files are asked of Linux")
def test_no_open_file_is_renamed_or_removed(tmp_path):
    """Windows refuses both. The lock is removed after it was closed."""
    subprocess.run([sys.executable, "-c", LIKE_WINDOWS, tmp_path / "new" / "run.npz"], check=True, timeout=60)


def test_a_file_in_use_is_refused_at_once(tmp_path):
    path = tmp_path / "report.html"
    with reserved(path) as reservation:
        assert not reservation.exists
        with pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()} on "), whole_file(path):
            pass
    assert os.listdir(tmp_path) == []


def test_a_lock_removed_by_hand_is_not_taken_for_that_of_another(tmp_path):
    path, lock = tmp_path / "report.html", tmp_path / ".report.html.lock"
    with reserved(path):
        lock.unlink()
        with reserved(path):
            assert lock.exists()
        lock.write_text("of another")
    assert lock.read_text() == "of another"


def test_where_files_cannot_be_locked_they_are_written_all_the_same(tmp_path, monkeypatch):
    def no_locks(descriptor, *, blocking):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.lock_descriptor", no_locks)
    path = tmp_path / "report.html"
    with whole_file(path) as file:
        file.write(b"first")
    part = tmp_path / ".report.html.part"
    (tmp_path / "other").write_text("half of ano")
    with pytest.raises(OSError, match="another process replaced the temporary file"), whole_file(path):
        os.replace(tmp_path / "other", part)
    assert path.read_bytes() == b"first"
