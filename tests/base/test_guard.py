"""A child process reads files that are not trusted: what it may use, how it may end, and what it may answer."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import guard_readers
import numpy as np
import pytest

import jmdp
from jmdp.base import guard
from jmdp.errors import FileError, MemoryBudgetError, SettingsError, StudyError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")


def read(reader, *arguments, path="some/model", **named):
    """The answer of a child that calls a function of `guard_readers`."""
    ((about, arrays),) = guard.guarded(getattr(guard_readers, reader), [[path, *arguments]], [], **named)
    return about, arrays


def test_values_and_arrays_come_back():
    found = guard.guarded(guard_readers.arrays, [["a", 3], ["b", 0]], ["no_such_module"])
    for (about, arrays), path, count in zip(found, "ab", (3, 0), strict=True):
        assert about == [path, None, {"text": "\udc80é"}]
        assert {name: (array.dtype.str, array.shape) for name, array in arrays.items()} == {
            "numbers": ("<f8", (1, count)),
            "flags": ("|b1", (2,)),
            "none": ("<i8", (0, 3)),
            "one": ("<u2", ()),
        }
        assert arrays["numbers"].tolist() == [[*range(count)]]
        assert arrays["flags"].tolist() == [True, False]


def test_limits_of_the_child():
    about, _ = read("limits")
    assert guard.MEMORY < about["RLIMIT_AS"][1] < guard.MEMORY + (2 << 30)
    assert about["RLIMIT_CPU"][1] < 200
    assert [about[f"RLIMIT_{name}"] for name in ("CORE", "FSIZE")] == [[0, 0]] * 2


def test_a_child_writes_no_file(tmp_path):
    with pytest.raises(FileError, match="OSError"):
        read("writes", path=str(tmp_path / "file"))
    assert not (tmp_path / "file").exists() or not (tmp_path / "file").stat().st_size


@pytest.mark.parametrize(
    ("reader", "error", "message"),
    [
        ("takes_memory", MemoryBudgetError, r"model: It needs more than 512 MiB\. If you trust it, leave out"),
        ("takes_memory_by_pieces", MemoryBudgetError, "model: It needs more than 512 MiB"),
        ("breaks", FileError, r"model: It cannot be read \(ZeroDivisionError: in a library\)"),
        ("aborts", FileError, "some/model cannot be read: the process that read it was ended by SIGABRT"),
        ("exits", FileError, "the process that read it ended with exit code 0"),
        ("states_other_error", FileError, r"broke the protocol \(it stated the error 'SimulatorError'\)"),
    ],
)
def test_ways_of_ending(reader, error, message):
    with pytest.raises(error, match=message):
        read(reader)


@pytest.mark.parametrize("reader", ["hangs", "leaves_a_process"])
def test_a_deadline_ends_the_child(reader, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 1.0)
    started = []
    start = guard._started
    monkeypatch.setattr(guard, "_started", lambda *given: started.append(start(*given)) or started[-1])
    before = time.monotonic()
    with pytest.raises(StudyError, match=r"took longer than 1 s|ended with exit code 0"):
        read(reader, error=StudyError)
    assert time.monotonic() - before < 60
    while running(started[0].pid):
        assert time.monotonic() - before < 60
        time.sleep(0.01)


def running(group):
    """Processes of a group that are not dead."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, _, pgrp = Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2].split()[:3]
            found += [name] * (int(pgrp) == group and state != "Z")
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\x1b[2J\r\nclear \u202e\x07" + "x" * 5000, r"some/model: \[2J clear x+…$"),
        ("some/model is odd", "some/model is odd$"),
    ],
)
def test_texts_of_errors_are_printable_and_short(text, said):
    with pytest.raises(FileError, match=said) as caught:
        read("states_error", text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1100


def frame(said, data=b""):
    text = said if isinstance(said, bytes) else json.dumps(said).encode()
    return (len(text).to_bytes(8, "little") + text + data).hex()


def listed(*arrays):
    return {"about": None, "arrays": list(arrays)}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("ff" * 8, "GiB|TiB of JSON"),
        (frame(b'"\xff"'), "utf-8"),
        (frame(b"[" * 100_000), "recursion"),
        (frame([]), "indices must be|broke the protocol"),
        (frame({}), "broke the protocol .'about'"),
        (frame({"error": "x" * 3}), "too many values"),
        (frame({"error": ["os.system", "true"]}), "it stated the error 'os.system'"),
        (frame({"error": ["JMDPError", "x"]}), "it stated the error 'JMDPError'"),
        (frame(listed(["a", "|O8", [1]]), b"x" * 8), "an array of type '|O8'"),
        (frame(listed(["a", ["<f8"], [1]]), b"x" * 8), "broke the protocol"),
        (frame(listed(["a", "<U9", [1]])), "an array of type '<U9'"),
        (frame(listed(["a", "<f8", [-1]])), r"shape \[-1\]"),
        (frame(listed(["a", "<f8", [2**62, 4]])), "shape"),
        (frame(listed(["a", "<f8", [True]])), "shape"),
        (frame(listed(["a", "<f8", [2**39]])), "more than 512 MiB of arrays"),
        (frame(listed(*[["a", "<f8", [2**23]]] * 9)), "took longer"),
        (frame(listed(["a", "|b1", [2]]), b"\1\7"), "booleans that are neither 0 nor 1"),
    ],
)
def test_answers_that_no_reader_gives(answer, message, monkeypatch):
    """A child that was taken over can answer anything: it gets no further than an error."""
    monkeypatch.setattr(guard, "SECONDS", 3.0)
    with pytest.raises(FileError, match=message):
        read("says", answer)


def test_the_sum_of_all_arrays_is_limited(monkeypatch):
    monkeypatch.setattr(guard, "MEMORY", 1024)
    assert read("arrays", 100)[1]["numbers"].size == 100
    with pytest.raises(FileError, match="more than 1 KiB of arrays"):
        read("arrays", 200)
    with pytest.raises(FileError, match="more than 1 KiB of arrays"):
        guard.guarded(guard_readers.arrays, [["a", 100], ["b", 100]], [])


def test_a_child_imports_little():
    """Not the libraries of other formats, nor numba."""
    about, _ = read("modules")
    assert not {"pyarrow", "h5py", "pandas", "numba", "xarray", "jax", "torch"} & set(about)


def test_no_guard_without_limits_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    (tmp_path / "model.npz").write_bytes(b"PK\3\4")
    (tmp_path / "result.nc").write_bytes(b"")
    for reads in (
        lambda: jmdp.read_model(tmp_path / "model.npz", trusted=False),
        lambda: jmdp.load(tmp_path / "result.nc", trusted=False),
        lambda: jmdp.studies.Study.open(tmp_path, trusted=False),
        lambda: jmdp.load(tmp_path, trusted=False),
    ):
        with pytest.raises(SettingsError, match=r"trusted=False \(--safe\) needs Linux"):
            reads()


def test_trusted_is_true_or_false(tmp_path):
    (tmp_path / "model.csv").write_text("x")
    for reads in (jmdp.read_model, jmdp.load, jmdp.studies.Study.open):
        for odd in (None, 0, "no", np.array([True, True])):
            with pytest.raises(SettingsError, match="trusted is"):
                reads(tmp_path / "model.csv", trusted=odd)
