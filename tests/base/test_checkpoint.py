"""P11 to P14: a checkpoint that is damaged or hostile is refused, with one kind of error and little memory."""

from __future__ import annotations

import io
import os
import pickle
import stat
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import jmdp
from jmdp.base import whole_files
from jmdp.errors import CheckpointError

ARRAYS = {
    "table": np.random.default_rng(1).normal(size=(60, 4)),
    "memory": np.arange(40).reshape(2, 20),
    "nothing": np.zeros(0, np.int64),
    "done": np.array([3, 1_000]),
    "one": np.array(2.5),
    "about": np.arange(32, dtype=np.uint8),
}


def equal(found, arrays=ARRAYS):
    return found.keys() == arrays.keys() and all(
        found[name].dtype == array.dtype and np.array_equal(found[name], array) for name, array in arrays.items()
    )


def exists(path):
    with whole_files.reserved_checkpoint(path) as found:
        return found


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "run.npz"
    whole_files.save(place, ARRAYS)
    return place


def test_what_was_saved_comes_back(path):
    found = whole_files.load(path, ARRAYS)
    assert equal(found)
    assert all(array.flags.writeable and array.flags.c_contiguous and array.flags.aligned for array in found.values())
    assert os.listdir(path.parent) == ["run.npz"]


def test_it_is_a_numpy_archive(path):
    with np.load(path, allow_pickle=False) as archive:
        assert all(np.array_equal(archive[name], array) for name, array in ARRAYS.items())


def test_the_order_of_memory_does_not_matter(tmp_path):
    path = tmp_path / "run.npz"
    whole_files.save(path, {"a": np.asfortranarray(ARRAYS["table"]), "b": ARRAYS["table"][::2, ::-1]})
    found = whole_files.load(path, {"b": np.zeros((30, 4)), "a": np.zeros((60, 4))})
    assert np.array_equal(found["a"], ARRAYS["table"])
    assert np.array_equal(found["b"], ARRAYS["table"][::2, ::-1])


def test_the_same_arrays_give_the_same_bytes(path, tmp_path):
    whole_files.save(tmp_path / "again.npz", dict(reversed(ARRAYS.items())))
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_others_may_read_it_as_they_may_other_files(path, tmp_path):
    (tmp_path / "other").touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "other").stat().st_mode)


def test_memory_is_once_that_of_the_arrays_to_read_and_little_to_write(tmp_path):
    path, arrays = tmp_path / "run.npz", {"a": np.ones((1 << 20, 8))}
    tracemalloc.start()
    whole_files.save(path, arrays)
    written = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    whole_files.load(path, arrays)
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written < 40 << 20  # NumPy writes 16 MiB at a time
    assert read < (64 << 20) + (1 << 20)


# Damage.


def refused(path, like=ARRAYS):
    """Whether it is refused as it should be; False where it loads and is the same."""
    try:
        found = whole_files.load(path, like)
    except CheckpointError as error:
        said = str(error)
    else:
        assert equal(found, like), "other numbers were loaded"
        return False
    assert str(path) in said
    assert "Give another" in said
    assert len(said) < 600
    return True


def test_p11_a_thousand_truncations_and_flipped_bits(path):
    """Each is refused, or is in bytes that carry nothing; half of the flips are outside of the numbers."""
    whole = path.read_bytes()
    rng = np.random.default_rng(11)
    numbers = np.zeros(len(whole), bool)
    for array in ARRAYS.values():
        if array.size > 1:
            at = whole.index(array.tobytes())
            numbers[at : at + array.nbytes] = True
    around = np.flatnonzero(~numbers)
    assert 1_000 < around.size < len(whole) - 2_000
    cuts = sorted({0, 1, len(whole) - 1, *rng.choice(len(whole), 297, replace=False).tolist()})
    flips = [(int(at), int(rng.integers(8))) for at in (*rng.choice(around, 350), *rng.integers(len(whole), size=352))]
    mutants = [whole[:cut] for cut in cuts]
    for at, bit in flips:
        mutant = bytearray(whole)
        mutant[at] ^= 1 << bit
        mutants.append(bytes(mutant))
    seen, start = [], time.monotonic()
    tracemalloc.start()
    for mutant in mutants:
        path.write_bytes(mutant)
        seen.append(refused(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{len(mutants)} mutants, {sum(seen)} refused, {peak / 2**20:.2f} MiB, {time.monotonic() - start:.1f} s")
    assert len(mutants) >= 999
    assert sum(seen) > 600
    assert peak < 4 << 20
    # A flip in the numbers is always refused.
    assert all(seen[len(cuts) + i] for i, (at, _) in enumerate(flips) if numbers[at])


def test_what_is_cut_short_is_called_so(path):
    whole = path.read_bytes()
    for end in (10, whole.index(b"NUMPY"), whole.index(ARRAYS["table"].tobytes()) + 100):
        path.write_bytes(whole[:end])
        with pytest.raises(CheckpointError, match="is truncated"):
            whole_files.load(path, ARRAYS)


def test_p11_every_flip_in_the_numbers_of_a_small_one_is_refused(tmp_path):
    path, arrays = tmp_path / "run.npz", {"a": np.arange(1.0, 5.0)}
    whole_files.save(path, arrays)
    whole = path.read_bytes()
    first = whole.index(arrays["a"].tobytes())
    for bit in range(8 * first, 8 * (first + arrays["a"].nbytes)):
        mutant = bytearray(whole)
        mutant[bit // 8] ^= 1 << bit % 8
        path.write_bytes(mutant)
        with pytest.raises(CheckpointError, match="checksum"):
            whole_files.load(path, arrays)


@pytest.mark.parametrize("block", [512, 4_096])
def test_p11_blocks_of_zeros_are_refused(path, block, tmp_path):
    """As a crash of the machine leaves them where a disk does not keep its order."""
    arrays = {"a": np.random.default_rng(2).normal(size=4_000)}
    whole_files.save(path, arrays)
    whole = path.read_bytes()
    for first in range(0, len(whole) - 1_024, block):
        path.write_bytes(whole[:first] + bytes(len(whole[first : first + block])) + whole[first + block :])
        assert refused(path, arrays)


# Hostile files. Each maker gives the bytes of a file.


class Canary:
    """Leaves a file when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return Path.touch, (self.place,)


def npy(array, header=None):
    file = io.BytesIO()
    if header is None:
        np.lib.format.write_array(file, array, allow_pickle=True)
        return file.getvalue()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + array.tobytes()


def archive(members=None, method=zipfile.ZIP_STORED, **changes):
    """A zip file of these members; by default those of the checkpoint, some of them changed."""
    if members is None:
        arrays = {**{name: ARRAYS[name] for name in sorted(ARRAYS)}, "digest": whole_files._digest(ARRAYS)}
        members = [(f"{name}.npy", changes.get(name, npy(array))) for name, array in arrays.items()]
    file = io.BytesIO()
    with warnings.catch_warnings(action="ignore", category=UserWarning), zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            out.writestr(zipfile.ZipInfo(name), data, method)
    return file.getvalue()


def members():
    with zipfile.ZipFile(io.BytesIO(archive())) as whole:
        return [(name, whole.read(name)) for name in whole.namelist()]


def header(shape, descr="<f8", order=False):
    return {"descr": descr, "fortran_order": order, "shape": shape}


def raw_header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


FEW = np.zeros(4)
HOSTILE = {
    "empty": lambda: b"",
    "text": lambda: b"seed,updates\n1,2\n" * 100,
    "zeros": lambda: bytes(10_000),
    "one signature": lambda: b"PK\3\4",
    "many signatures": lambda: b"PK\3\4" * 5_000,
    "an empty archive": lambda: archive([]),
    "an end without a beginning": lambda: b"PK\5\6" + bytes(18),
    "an npy alone": lambda: npy(ARRAYS["table"]),
    "a pickle": lambda: pickle.dumps(ARRAYS),
    "16 GiB by its header": lambda: archive(table=npy(FEW, header((2**31,)))),
    "2**63 numbers by its header": lambda: archive(table=npy(FEW, header((2**63,)))),
    "a negative shape": lambda: archive(table=npy(FEW, header((-60, -4)))),
    "an overflowing shape": lambda: archive(table=npy(FEW, header((2**62, 2**62)))),
    "many axes": lambda: archive(table=npy(FEW, header((1,) * 4_000))),
    "a shape of booleans": lambda: archive(table=npy(FEW, header((True, 4)))),
    "one row too many": lambda: archive(table=npy(np.zeros((61, 4)))),
    "one axis too many": lambda: archive(table=npy(np.zeros((60, 4, 1)))),
    "columns first": lambda: archive(table=npy(np.asfortranarray(ARRAYS["table"]))),
    "float32": lambda: archive(table=npy(ARRAYS["table"].astype(np.float32))),
    "the other byte order": lambda: archive(table=npy(ARRAYS["table"].astype(">f8"))),
    "whole numbers": lambda: archive(table=npy(ARRAYS["table"].view(np.int64))),
    "a type with fields": lambda: archive(table=npy(FEW, header((60, 4), [("a", "<f8")]))),
    "a type of no size": lambda: archive(table=npy(FEW, header((2**40,), "V0"))),
    "a huge type": lambda: archive(table=npy(FEW, header((60, 4), "V2147483647"))),
    "objects": lambda: archive(table=npy(FEW, header((60, 4), "|O"))),
    "another version": lambda: archive(table=npy(ARRAYS["table"]).replace(b"\x01\x00", b"\x02\x00", 1)),
    "a header that is deep": lambda: archive(table=raw_header(b"(" * 60_000)),
    "a header that computes": lambda: archive(table=raw_header(b"{'shape': 9**9**9**9}" + b" " * 100)),
    "a header that calls": lambda: archive(table=raw_header(b"{'shape': __import__('os').getpid()}" + b" " * 100)),
    "a header that is no text": lambda: archive(table=raw_header(b"\xff\xfe\0" * 50)),
    "a header that never ends": lambda: archive(table=b"\x93NUMPY\x01\x00\xff\xff"),
    "a long header": lambda: archive(table=raw_header(b" " * 65_535) + ARRAYS["table"].tobytes()),
    "no header": lambda: archive(table=ARRAYS["table"].tobytes()),
    "nothing in a member": lambda: archive(table=b""),
    "bytes too few": lambda: archive(table=npy(ARRAYS["table"])[:-8]),
    "bytes too many": lambda: archive(table=npy(ARRAYS["table"]) + bytes(8)),
    "a bomb of deflate": lambda: archive(method=zipfile.ZIP_DEFLATED, table=bytes(1 << 25)),
    "a bomb of bzip2": lambda: archive(method=zipfile.ZIP_BZIP2, table=bytes(1 << 25)),
    "a bomb of lzma": lambda: archive(method=zipfile.ZIP_LZMA, table=bytes(1 << 25)),
    "a bomb with an honest header": lambda: archive(
        method=zipfile.ZIP_DEFLATED, table=npy(ARRAYS["table"])[:128] + bytes(1 << 25)
    ),
    "compressed": lambda: archive(method=zipfile.ZIP_DEFLATED),
    "a member too few": lambda: archive(members()[:-1]),
    "a member twice": lambda: archive([members()[0], *members()]),
    "a member twice, later": lambda: archive([*members()[:3], *members()[2:]]),
    "another order": lambda: archive(members()[::-1]),
    "a member in a folder": lambda: archive([(f"folder/{name}", data) for name, data in members()]),
    "a member outside": lambda: archive([(f"../../{name}", data) for name, data in members()]),
    "a member by its full path": lambda: archive([(f"/etc/{name}", data) for name, data in members()]),
    "names in other letters": lambda: archive([(name.upper(), data) for name, data in members()]),
    "a long name": lambda: archive([("x" * 65_000, data) for _, data in members()]),
    "a name that is no text": lambda: archive().replace(b"about.npy", b"\xff\xfe\0ut.npy"),
    "encrypted, it says": lambda: archive().replace(b"PK\3\4\x14\0\0\0", b"PK\3\4\x14\0\1\0"),
    "ten thousand members": lambda: archive([(f"{i}.npy", b"") for i in range(10_000)]),
    "an archive in an archive": lambda: archive(table=archive()),
    "something before": lambda: b"#!/bin/sh\n" + archive(),
    "another checksum": lambda: archive(digest=npy(np.zeros(32, np.uint8))),
    "other numbers": lambda: archive(table=npy(ARRAYS["table"] + 1)),
    "nan for a number": lambda: archive(one=npy(np.array(np.nan))),
    "members exchanged": lambda: archive(memory=npy(ARRAYS["memory"] + 1), done=npy(ARRAYS["done"] - 1)),
}

READER = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_checkpoint as here

def held(name):
    return int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1]) << 10

limit = held("VmSize") + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
before = held("VmHWM")
for path in sys.argv[2:]:
    print("refused" if here.refused(here.Path(path)) else "loaded")
print(held("VmHWM") - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="the memory of a process is asked of Linux")
def test_p12_p13_hostile_files_are_refused_in_little_memory(tmp_path):
    """In a process that may take 64 MiB more than it has: no crash, no other error, a peak within 16 MiB."""
    paths = []
    for i, make in enumerate(HOSTILE.values()):
        paths.append(tmp_path / f"{i}.npz")
        paths[-1].write_bytes(make())
    big = tmp_path / "sparse.npz"
    with open(big, "wb") as file:
        file.truncate(1 << 40)
    out = subprocess.run(
        [sys.executable, "-W", "error", "-c", READER, Path(__file__).parent, *paths, big],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    *verdicts, peak = out.stdout.splitlines()
    print(f"{len(verdicts)} hostile files, peak {int(peak) / 2**20:.1f} MiB")
    assert [name for name, verdict in zip([*HOSTILE, "sparse"], verdicts, strict=True) if verdict != "refused"] == []
    assert len(verdicts) >= 60
    assert int(peak) < 16 << 20


def test_the_hostile_files_differ_from_an_honest_one_only_in_what_they_say(path):
    """Negative control: the maker's own archive loads."""
    path.write_bytes(archive())
    assert not refused(path)


@pytest.mark.parametrize("name", [*ARRAYS, "digest"])
def test_p14_nothing_is_unpickled(name, path, tmp_path):
    canary = tmp_path / "canary"
    objects = np.empty(1, object)
    objects[0] = Canary(canary)
    path.write_bytes(archive(**{name: npy(objects)}))
    assert refused(path)
    assert not canary.exists()
    with np.load(path, allow_pickle=True) as loaded:  # the canary is alive
        loaded[name]
    assert canary.exists()


def test_p14_no_source_of_files_knows_pickle():
    for module in (whole_files,):
        text = Path(module.__file__).read_text().replace("allow_pickle=False", "").replace("unpickled", "")
        assert "pickle" not in text
        assert "np.load(" not in text
        assert "eval(" not in text


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_refused_at_once(make, tmp_path):
    path = tmp_path / "run.npz"
    make(path)
    assert refused(path)


def test_what_is_not_there_is_refused(tmp_path):
    assert refused(tmp_path / "run.npz")


# Where nothing can be written or read.


CHILD = """
import fcntl, os, resource, sys
from pathlib import Path
import numpy as np
from jmdp.base import whole_files

path = Path(sys.argv[1])

def attempt(work):
    try:
        work()
        print("nothing")
    except Exception as error:
        print(f"{type(error).__name__}: {error}")

def reserve():
    with whole_files.reserved_checkpoint(path):
        pass

def become_nobody():
    if os.geteuid() == 0:
        os.setgid(65_534)
        os.setuid(65_534)

"""


def child(path, code):
    """Lines that a process of its own prints."""
    out = subprocess.run([sys.executable, "-c", CHILD + code, path], capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    return out.stdout.splitlines()


@pytest.fixture
def public():
    """A directory that nobody can come to."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        whole_files.save(Path(name) / "run.npz", ARRAYS)
        yield Path(name)
        os.chmod(name, 0o755)


def test_without_permission_to_read(public):
    os.chmod(public / "run.npz", 0)
    (said,) = child(public / "run.npz", "become_nobody(); attempt(lambda: whole_files.load(path, {}))")
    assert said.startswith("CheckpointError: ")
    assert "Permission denied. Give another file" in said


def test_without_permission_to_write(public):
    os.chmod(public, 0o555)
    door, said = child(
        public / "run.npz",
        "become_nobody(); attempt(reserve); attempt(lambda: whole_files.save(path, {}))",
    )
    assert door.startswith("CheckpointError: No checkpoint can be saved to")
    assert "Permission denied. Give a file in an existing, writable directory" in door
    assert said.startswith("CheckpointError: ")
    assert "cannot be saved: Permission denied. An earlier checkpoint there, if any, is intact" in said
    assert os.listdir(public) == ["run.npz"]
    assert not refused(public / "run.npz")


def test_a_directory_that_is_missing(tmp_path):
    path = tmp_path / "missing" / "run.npz"
    for work in (lambda: exists(path), lambda: whole_files.save(path, ARRAYS)):
        with pytest.raises(CheckpointError, match=r"run.npz.*: No such file or directory\. "):
            work()
    assert not path.parent.exists()


def test_the_question_leaves_nothing(tmp_path):
    assert not exists(tmp_path / "run.npz")
    assert os.listdir(tmp_path) == []
    whole_files.save(tmp_path / "run.npz", ARRAYS)
    assert exists(tmp_path / "run.npz")
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_full_disk_leaves_the_old_one_whole(path):
    """The size of files is limited in a child, which fails as a full disk does: in the middle of a write."""
    before = path.read_bytes()
    lines = child(
        path,
        """
most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for room in (0, 1, 100, 1_000, 4_096, 5_000, 100_000, 1_000_000, 1_600_000, 1_600_300, most):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    attempt(lambda: whole_files.save(path if room != most else path.with_name("other"), {"a": np.ones(200_000)}))
    print(*sorted(os.listdir(path.parent)))
""",
    )
    said, left = lines[::2], lines[1::2]
    assert said.pop() == "nothing"  # with room it is saved
    assert left.pop() == "other run.npz"
    assert len(said) == 10
    for error in said:
        assert error.startswith(f"CheckpointError: {path} cannot be saved: File too large. An earlier checkpoint there")
        assert "run again" in error
    assert set(left) == {"run.npz"}
    assert path.read_bytes() == before


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_of_the_disk_leaves_the_old_one_whole(call, path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(CheckpointError, match=r"cannot be saved: Input/output error\."):
        whole_files.save(path, {"a": np.zeros(3)})
    assert os.listdir(path.parent) == ["run.npz"]
    assert not refused(path)


# The file beside it.


def test_what_a_killed_run_left_is_overwritten(path):
    whole = path.read_bytes()
    path.with_name(".run.npz.part").write_bytes(b"x" * 1_000_000)
    whole_files.save(path, ARRAYS)
    assert os.listdir(path.parent) == ["run.npz"]
    assert path.read_bytes() == whole


def test_runs_in_one_directory_leave_the_files_of_others_alone(tmp_path):
    """Names of which one begins with another too."""
    names = ["a", "a.b", ".a", "a.part", "b"]
    others = {tmp_path / f".{name}.part": name.encode() for name in names if name != "a"}
    for path, text in others.items():
        path.write_bytes(text)
    exists(tmp_path / "a")
    whole_files.save(tmp_path / "a", ARRAYS)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.name != "a"} == others


def test_of_three_that_save_to_one_file_two_are_refused_at_a_time(tmp_path):
    """What is there is always of one of three processes, and whole; a refusal names the process that has it."""
    path, like = tmp_path / "run.npz", {"a": np.zeros(20_000)}
    whole_files.save(path, like)
    code = """
import time
done = refused = 0
while done < 40:
    try:
        with whole_files.reserved_checkpoint(path):
            whole_files.save(path, {'a': np.full(20_000, float(sys.argv[2]))})
        done += 1
    except whole_files.CheckpointError as error:
        assert 'run.npz is in use by ' in str(error), error
        refused += 1
    time.sleep(0.001)
print(refused)
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD + code, path, str(n)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for n in (1, 2, 3)
    ]
    seen = []
    while any(process.poll() is None for process in children):
        found = whole_files.load(path, like)["a"]
        assert (found == found[0]).all()
        seen.append(float(found[0]))
    out, err = zip(*(process.communicate() for process in children), strict=True)
    assert err == ("", "", "")
    assert sum(map(int, out)) > 0
    assert set(seen) == {0.0, 1.0, 2.0, 3.0}
    assert sum(one != other for one, other in pairwise(seen)) > 10
    assert os.listdir(tmp_path) == ["run.npz"]


HOLDER = (
    CHILD
    + """
with whole_files.reserved_checkpoint(path):
    print(os.getpid(), flush=True)
    sys.stdin.read()
"""
)


def test_a_checkpoint_in_use_is_refused_at_once_and_free_after_a_kill(path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        number = holder.stdout.readline().strip()
        with pytest.raises(CheckpointError, match=rf"run\.npz is in use by process {number} on .*give another file"):
            exists(path)
        assert not refused(path)  # it can be read
        holder.kill()
    assert sorted(os.listdir(path.parent)) == [".run.npz.lock", "run.npz"]
    assert exists(path)
    assert os.listdir(path.parent) == ["run.npz"]


def test_a_second_run_with_the_same_checkpoint_is_refused(tmp_path, monkeypatch):
    world = jmdp.worlds.anti_correlated_bandit()
    method = jmdp.Incremental(seed=1, updates=1_000, path=tmp_path / "run.npz")

    def run():
        return jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method, progress=False, throw=False)

    save = whole_files.save

    def save_and_run_again(*args):
        save(*args)
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()} on"):
            run()

    monkeypatch.setattr(whole_files, "save", save_and_run_again)
    first = run()
    monkeypatch.undo()
    assert np.array_equal(run().mean, first.mean)
    assert os.listdir(tmp_path) == ["run.npz"]


ODD = {
    "null character": "a\0b.npz",
    "surrogate": "\ud800.npz",
    "long name": "n" * 300,
    "name too long for the file beside": "n" * 252,
    "nothing": "",
    "parent": "..",
    "in a file": "file/run.npz",
    "loop of links": "loop",
    "link to nowhere": "nowhere",
    "pipe": "pipe",
    "folder": "folder",
    "link to a device": "device",
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_what_cannot_be_a_checkpoint_is_refused(name, tmp_path):
    (tmp_path / "file").write_text("precious")
    (tmp_path / "loop").symlink_to("pool")
    (tmp_path / "pool").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing" / "x")
    (tmp_path / "device").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    before = sorted(os.listdir(tmp_path))
    path = tmp_path / name
    for work in (lambda: exists(path), lambda: whole_files.save(path, ARRAYS), lambda: whole_files.load(path, ARRAYS)):
        with pytest.raises(CheckpointError, match=r"\. (Give|An earlier)") as error:
            work()
        assert str(error.value).isprintable()
        assert len(str(error.value)) < 1_000
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "file").read_text() == "precious"
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_an_array_larger_than_the_file_is_refused_before_it_is_allocated(path):
    """The header agrees with what is expected, 8 TB; the file has a few bytes."""
    large = {"table": np.broadcast_to(np.float64(0), (10**12,))}
    path.write_bytes(archive([("table.npy", npy(np.zeros(4), header((10**12,))))]))
    with pytest.raises(CheckpointError, match="truncated: it ends inside table"):
        whole_files.load(path, large)


def test_a_link_is_followed(tmp_path):
    """It stays a link, and the file beside is beside what it leads to, on the same disk."""
    (tmp_path / "disk").mkdir()
    link, place = tmp_path / "run.npz", tmp_path / "disk" / "large.npz"
    link.symlink_to(place)
    assert not exists(link)
    whole_files.save(link, ARRAYS)
    assert link.is_symlink()
    assert not refused(link)
    assert os.listdir(tmp_path / "disk") == ["large.npz"]


@pytest.mark.parametrize(
    "make", [lambda link, victim: link.symlink_to(victim), lambda link, victim: link.hardlink_to(victim)]
)
def test_a_link_in_place_of_the_temporary_file_is_replaced(make, path):
    victim = path.with_name("victim")
    victim.write_text("precious")
    make(path.with_name(".run.npz.part"), victim)
    whole_files.save(path, ARRAYS)
    assert victim.read_text() == "precious"
    assert not refused(path)
    assert sorted(os.listdir(path.parent)) == ["run.npz", "victim"]


def test_a_link_made_again_while_a_save_begins_is_not_followed(path, monkeypatch):
    victim, part, unlink = path.with_name("victim"), path.with_name(".run.npz.part"), Path.unlink
    victim.write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self: part.hardlink_to(victim))
        with pytest.raises(CheckpointError, match="cannot be saved"):
            whole_files.save(path, ARRAYS)
    unlink(part)
    assert victim.read_text() == "precious"
    assert not refused(path)


def test_a_pipe_in_place_of_the_temporary_file_is_replaced(path):
    os.mkfifo(path.with_name(".run.npz.part"))
    whole_files.save(path, ARRAYS)
    assert os.listdir(path.parent) == ["run.npz"]


def test_a_folder_in_place_of_the_temporary_file_is_named(path):
    path.with_name(".run.npz.part").mkdir()
    with pytest.raises(CheckpointError, match=r"\.run\.npz\.part is in the way \(Is a directory\); delete it"):
        whole_files.save(path, ARRAYS)


LOCKS = {
    "symbolic link": lambda lock, victim: lock.symlink_to(victim),
    "hard link": lambda lock, victim: lock.hardlink_to(victim),
    "link to nowhere": lambda lock, victim: lock.symlink_to(victim.with_name("missing")),
    "pipe": lambda lock, victim: os.mkfifo(lock),
    "folder": lambda lock, victim: lock.mkdir(),
}


@pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS.keys())
def test_what_is_in_place_of_the_lock_is_named_and_left_alone(make, path):
    victim = path.with_name("victim")
    victim.write_text("precious")
    make(path.with_name(".run.npz.lock"), victim)
    before = sorted(os.listdir(path.parent))
    with pytest.raises(CheckpointError, match=r"\.run\.npz\.lock is in the way"):
        exists(path)
    assert victim.read_text() == "precious"
    assert sorted(os.listdir(path.parent)) == before


def test_permissions_are_kept_and_those_of_new_files_follow_the_umask(tmp_path):
    path = tmp_path / "run.npz"
    before = os.umask(0o027)
    try:
        whole_files.save(path, ARRAYS)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        for mode in (0o600, 0o666, 0o604):
            path.chmod(mode)
            whole_files.save(path, ARRAYS)
            assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)
