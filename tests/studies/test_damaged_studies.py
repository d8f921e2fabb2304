"""Damaged ledgers and parts are noticed: a typed error, or the study as it was a moment before."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil

import numpy as np
import pytest

import jmdp
from jmdp.distribute.ledger import Ledger
from jmdp.errors import MemoryBudgetError, StudyError
from studies.study_kills import digest, study

MUTANTS = int(os.environ.get("JMDP_MUTANTS", "300"))


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
    for record in ledger.records[1:]:
        made.append(record)


def test_mutants_of_ledgers_and_parts(whole, tmp_path):
    """Each mutant raises `StudyError`, or has the rows of some of the finished chunks; never other rows."""
    rng = np.random.Generator(np.random.Philox(25))
    rows = {tuple(row.items()) for row in study(whole).to_arrow().to_pylist()}
    path = tmp_path / "mutant"
    shutil.copytree(whole, path)
    files = [path / "ledger.jsonl", *sorted((path / "parts").iterdir())]
    noticed = 0
    for _ in range(MUTANTS):
        file = files[0] if rng.random() < 0.5 else files[int(rng.integers(1, len(files)))]
        content = file.read_bytes()
        changed = mutant(rng, content)
        file.write_bytes(changed)
        try:
            found = {tuple(row.items()) for row in jmdp.Study.open(path).to_arrow().to_pylist()}
            assert found <= rows, "another study was read"
        except StudyError:
            noticed += 1
        finally:
            file.write_bytes(content)
    assert noticed > 0.4 * MUTANTS


def test_mutants_of_parts_with_valid_checksums(whole, tmp_path):
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
    for _ in range(MUTANTS // 2):
        changed = mutant(rng, content)
        part.write_bytes(changed)
        chunk["bytes"], chunk["sha256"] = len(changed), hashlib.sha256(changed).hexdigest()
        signed(ledger, path / "ledger.jsonl")
        with contextlib.suppress(StudyError, MemoryBudgetError):
            jmdp.Study.open(path).to_arrow()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 * 1024


def junk(rng):
    values = [None, True, -1, 2**80, 1.5, "text", [], {}, [1, "a"], {"BEST_FOUND": -3}, "ff", "../../x", float("1e300")]
    return values[int(rng.integers(len(values)))]


def test_mutants_of_records_with_valid_checksums(whole, tmp_path):
    rng = np.random.Generator(np.random.Philox(27))
    path = tmp_path / "mutant"
    shutil.copytree(whole, path)
    for _ in range(MUTANTS // 2):
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
            lambda: repr(jmdp.Study.open(path)),
            lambda: jmdp.Study.open(path).to_arrow(),
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
        jmdp.Study.open(path)
    with pytest.raises(StudyError, match="damaged in line 3"):
        study(path)
    for end in (lines[-1][:-1], lines[-1][:20], b"", b"\0" * 100, lines[-1].replace(b"1", b"2")):
        (path / "ledger.jsonl").write_bytes(b"".join([*lines[:-1], end]))
        assert not jmdp.Study.open(path).progress.complete
        study(path)
        assert digest(path) == digest(whole)
    for gone in (lines[1:], [lines[0], *lines[2:]], [*lines[:2], lines[1], *lines[2:]]):
        (path / "ledger.jsonl").write_bytes(b"".join(gone))
        with pytest.raises(StudyError):
            study(path)


def test_part_that_is_missing_or_another(whole, tmp_path):
    path = tmp_path / "study"
    shutil.copytree(whole, path)
    one, other = sorted((path / "parts").iterdir())[:2]
    one.write_bytes(other.read_bytes())
    with pytest.raises(StudyError, match="not the file that the study wrote"):
        jmdp.Study.open(path).to_dataframe()
    one.unlink()
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        jmdp.Study.open(path).to_dataframe()


def test_records_are_plain_json(whole):
    for line in (whole / "ledger.jsonl").read_text().splitlines():
        json.loads(line[33:])
