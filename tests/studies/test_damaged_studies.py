"""Damaged ledgers and parts are noticed: a typed error, or the study as it was a moment before."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import resource
import shutil
from dataclasses import replace

import numpy as np
import pytest

import jmdp
from jmdp.distribute.ledger import Ledger
from jmdp.errors import MemoryBudgetError, StudyError
from studies.study_kills import PlantedPool, digest, study

COUNTS = pytest.mark.parametrize("count", [100, pytest.param(2_500, marks=pytest.mark.long)])
"""Numbers of mutants."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("studies") / "whole"
    study(path)
    return path


def mutant(rng, content: bytes) -> bytes:
    """A truncation, changed bits, a part that is removed, repeated or moved, or other bytes."""
    size = len(content)
    at, length = int(rng.integers(size)), int(rng.integers(1, 64))
    match rng.integers(7):
        case 0:
            return content[:at]
        case 1:
            return content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]
        case 2:
            return content[:at] + content[at + length :]
        case 3:
            return content[:at] + content[at : at + length] + content[at:]
        case 4:
            return content[:at] + rng.bytes(length) + content[at + length :]
        case 5:
            return content[:at] + bytes(length) + content[at + length :]
        case _:
            to = int(rng.integers(size))
            return content[:to] + content[at : at + length] + content[to:]


def signed(ledger: Ledger, path) -> None:
    """Write the records again with valid checksums."""
    made = Ledger.create(path, ledger.records[0])
    with made.exclusive():
        for record in ledger.records[1:]:
            made.append(record)


@COUNTS
def test_mutants_of_ledgers_and_parts(whole, tmp_path, count):
    """Each mutant raises `StudyError`, or has the rows of some of the finished chunks; never other rows."""
    rng = np.random.Generator(np.random.Philox(25))
    rows = {tuple(row.items()) for row in study(whole).to_arrow().to_pylist()}
    path = tmp_path / "mutant"
    shutil.copytree(whole, path)
    files = [path / "ledger.jsonl", *sorted((path / "parts").iterdir())]
    noticed = 0
    for _ in range(count):
        file = files[0] if rng.random() < 0.5 else files[int(rng.integers(1, len(files)))]
        content = file.read_bytes()
        changed = mutant(rng, content)
        file.write_bytes(changed)
        try:
            found = {tuple(row.items()) for row in jmdp.studies.Study.open(path).to_arrow().to_pylist()}
            assert found <= rows, "another study was read"
        except StudyError:
            noticed += 1
        finally:
            file.write_bytes(content)
    assert noticed > 0.4 * count


@COUNTS
def test_mutants_of_parts_with_valid_checksums(whole, tmp_path, count):
    """What somebody else has written, whose checksums are right: typed errors only, with limited memory."""
    rng = np.random.Generator(np.random.Philox(26))
    path = tmp_path / "mutant"
    shutil.copytree(whole, path)
    ledger = Ledger.read(path / "ledger.jsonl")
    parts = sorted((path / "parts").iterdir())
    chunk = next(record for record in ledger.records[1:] if record["rows"])
    part = next(
        file for file in parts if f"{chunk['first']:09d}-{chunk['last']:09d}-rung-{chunk['rung']}." in file.name
    )
    content, before = part.read_bytes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        changed = mutant(rng, content)
        part.write_bytes(changed)
        chunk["bytes"], chunk["sha256"] = len(changed), hashlib.sha256(changed).hexdigest()
        signed(ledger, path / "ledger.jsonl")
        with contextlib.suppress(StudyError, MemoryBudgetError):
            jmdp.studies.Study.open(path).to_arrow()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024


def junk(rng):
    values = [None, True, -1, 2**80, 1.5, "text", [], {}, [1, "a"], {"BEST_FOUND": -3}, "ff", "../../x", float("1e300")]
    return values[int(rng.integers(len(values)))]


@COUNTS
def test_mutants_of_records_with_valid_checksums(whole, tmp_path, count):
    rng = np.random.Generator(np.random.Philox(27))
    path = tmp_path / "mutant"
    shutil.copytree(whole, path)
    for _ in range(count):
        ledger = Ledger.read(whole / "ledger.jsonl")
        record = ledger.records[int(rng.integers(len(ledger.records)))]
        name = list(record)[int(rng.integers(len(record)))]
        match rng.integers(4):
            case 0:
                del record[name]
            case 1:
                record["more"] = junk(rng)
            case _:
                record[name] = junk(rng)
        signed(ledger, path / "ledger.jsonl")
        for read in (
            lambda: repr(jmdp.studies.Study.open(path)),
            lambda: jmdp.studies.Study.open(path).to_arrow(),
            lambda: study(path),
        ):
            with contextlib.suppress(StudyError):
                read()
        for file in path.rglob("*"):
            assert file.resolve().is_relative_to(path.resolve())
        shutil.rmtree(path)
        shutil.copytree(whole, path)


def test_damage_in_the_middle_is_an_error_and_at_the_end_is_done_again(whole, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    lines = (whole / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join([*lines[:2], lines[2].replace(b'"rung":1', b'"rung":2'), *lines[3:]]))
    with pytest.raises(StudyError, match="damaged in line 3"):
        jmdp.studies.Study.open(path)
    with pytest.raises(StudyError, match="damaged in line 3"):
        study(path)
    for end in (lines[-1][:-1], lines[-1][:20], b"", b"\0" * 100):
        (path / "ledger.jsonl").write_bytes(b"".join([*lines[:-1], end]))
        assert not jmdp.studies.Study.open(path).progress.complete
        study(path)
        assert digest(path) == digest(whole)
    for gone in (lines[1:], [lines[0], *lines[2:]], [*lines[:2], lines[1], *lines[2:]]):
        (path / "ledger.jsonl").write_bytes(b"".join(gone))
        with pytest.raises(StudyError):
            study(path)


@pytest.mark.parametrize("bits", [1, pytest.param(8, marks=pytest.mark.long)])
def test_every_changed_bit_of_the_last_line_is_reported(whole, tmp_path, bits):
    """One bit or all of each byte, of the end, too: only the beginning of a line is what a crash leaves."""
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    file = path / "ledger.jsonl"
    content, lines = file.read_bytes(), file.read_bytes().splitlines(keepends=True)
    for at in range(len(content) - len(lines[-1]), len(content)):
        for bit in range(at, at + bits):
            file.write_bytes(content[:at] + bytes([content[at] ^ (1 << bit % 8)]) + content[at + 1 :])
            with pytest.raises(
                StudyError, match=rf"damaged in line {len(lines)}\. .* delete this line and those after"
            ):
                Ledger.read(file)
    for end in range(1, len(lines[-1])):
        file.write_bytes(content[:-end])
        assert len(Ledger.read(file).records) == len(lines) - 1
    file.write_bytes(b"".join(lines[:-1]))  # as the message says
    assert not jmdp.studies.Study.open(path).progress.complete
    study(path)
    assert digest(path) == digest(whole)


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def test_part_that_is_another(whole, tmp_path):
    """Of the same size, so that only reading it tells."""
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    flip(sorted((path / "parts").iterdir())[0])
    assert jmdp.studies.Study.open(path).missing == []
    with pytest.raises(StudyError, match="not the file that the study wrote"):
        jmdp.studies.Study.open(path).to_dataframe()


def said(file, reason):
    first, last = map(int, re.findall(r"\d+", file.name)[:2])
    which = f"state {first} is" if first == last else f"states {first} to {last} are"
    return f"{which} missing or changed: parts/{file.name} ({reason})"


def test_parts_that_are_missing_or_changed_are_named_and_simulated_again(whole, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    states = jmdp.studies.Study.open(whole).progress.states
    assert jmdp.studies.Study.open(path).verify() == []
    parts = sorted((path / "parts").iterdir())
    parts[1].unlink()
    parts[2].write_bytes(parts[3].read_bytes() + b"more")
    flip(parts[4])
    found = jmdp.studies.Study.open(path)
    missing = [said(parts[1], "No such file or directory"), said(parts[2], "another size")]
    assert sorted(found.missing) == missing
    assert (found.progress.finished, found.progress.missing, found.progress.complete) == (states - 2, 2, False)
    assert "2 missing or changed" in str(found.progress)
    assert all(text[1:] in repr(found) for text in missing)
    assert sorted(found.verify()) == [*missing, said(parts[4], "another checksum")]
    with pytest.raises(StudyError, match="same call of study simulates its states again"):
        found.to_arrow()
    pool = PlantedPool()
    found = study(path, pool)
    assert len(pool.ran) == 3
    assert (found.missing, found.verify(), found.progress.complete) == ([], [], True)
    assert digest(path) == digest(whole)


def test_what_is_simulated_again_must_be_what_the_ledger_has(whole, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    file = sorted((path / "parts").iterdir())[3]
    file.unlink()

    class Other(PlantedPool):
        def ordered(self, work, arguments):
            yield from super().ordered(replace(work, seed=6), arguments)

    with pytest.raises(StudyError, match=r"States \d to \d have other results than in the ledger of"):
        study(path, Other())
    assert not file.exists()
    study(path)
    assert digest(path) == digest(whole)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder"])
def test_pipes_devices_and_links_are_refused_at_once(whole, tmp_path, kind):
    def put(file):
        kept = file.rename(tmp_path / file.name)
        match kind:
            case "pipe":
                os.mkfifo(file)
            case "device":
                file.symlink_to("/dev/zero")
            case "link":
                file.symlink_to(kept)
            case "folder":
                file.mkdir()

    path = tmp_path / "study"
    shutil.copytree(whole, path)
    part = sorted((path / "parts").iterdir())[2]
    put(part)
    assert len(jmdp.studies.Study.open(path).verify()) == len(jmdp.studies.Study.open(path).missing) == 1
    with pytest.raises(StudyError, match=part.name):
        jmdp.studies.Study.open(path).to_arrow()
    with pytest.raises(StudyError, match="cannot be written"):
        study(path)
    assert (tmp_path / part.name).read_bytes() == (whole / "parts" / part.name).read_bytes()
    put(path / "ledger.jsonl")
    with pytest.raises(StudyError, match="cannot be read"):
        jmdp.studies.Study.open(path)
    with pytest.raises(StudyError):
        study(path)


def test_a_range_that_is_twice_in_the_ledger(whole, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    ledger = Ledger.read(path / "ledger.jsonl")
    ledger.records.append(ledger.records[1])
    signed(ledger, path / "ledger.jsonl")
    with pytest.raises(StudyError, match="twice"):
        jmdp.studies.Study.open(path)


class Meanwhile(PlantedPool):
    """Something happens when the third block is finished."""

    def __init__(self, event):
        super().__init__()
        self.event = event

    def ordered(self, work, arguments):
        for number, found in enumerate(super().ordered(work, arguments)):
            if number == 2:
                self.event()
            yield found


def test_a_writer_that_lost_its_lock_writes_no_more(whole, tmp_path):
    """Its lock file is deleted; another process may then continue the study, and the first one must not."""
    path = tmp_path / "study"

    def deleted():
        (path / ".ledger.jsonl.lock").unlink()

    def taken_over():
        deleted()
        study(path)
        assert digest(path) == digest(whole)

    with pytest.raises(StudyError, match="its lock file was removed"):
        study(path, Meanwhile(deleted))
    assert jmdp.studies.Study.open(path).progress.finished == 2
    shutil.rmtree(path)
    with pytest.raises(StudyError, match="another process has written to it"):
        study(path, Meanwhile(taken_over))
    assert digest(path) == digest(whole)


def test_two_writers_where_there_are_no_locks(whole, tmp_path, monkeypatch):
    def no_locks(descriptor, *, blocking):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("filelock.lock_descriptor", no_locks)
    path = tmp_path / "study"
    with pytest.raises(StudyError, match="another process has written to it"):
        study(path, Meanwhile(lambda: study(path)))
    assert digest(path) == digest(whole)


def test_records_are_plain_json(whole):
    for line in (whole / "ledger.jsonl").read_text().splitlines():
        json.loads(line[33:])
