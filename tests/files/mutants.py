"""Random damage to valid files: a loader gives the same contents, other contents, or a typed error; nothing else.

Mutants are not trusted, so that a child process reads each under limits of memory and time.
``python tests/files/mutants.py --mutants 25000 --seed 1`` counts what happens, and prints each failure with the number
that replays it: ``--seed S --only FORMAT:NUMBER`` (with ``--keep FILE`` the file is kept).
"""

from __future__ import annotations

import argparse
import io
import random
import struct
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import netcdf_files
import thrift_tree
from formats import FORMATS
from loader_process import MIB, Loader, too_much
from netcdf_files import rewritten
from study_files import rerecorded

INTERESTING = [
    0,
    1,
    2,
    3,
    7,
    255,
    256,
    2**15,
    2**16 - 1,
    2**24,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**48,
    2**63 - 1,
    2**63,
    2**64 - 1,
]
VARIANTS = 26
"""Valid files of each format."""

Mutation = Callable[[random.Random, bytes], bytes]


def flip(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def overwrite(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.choice([1, 2, 4, 16])) + data[at + 1 :]


def truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(1, len(data))]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(rng.choice([1, 2, 3, 8, 100])) + data[at:]


def cut_out(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice([1, 2, 4, 8, 50]) :]


def duplicate(rng: random.Random, data: bytes) -> bytes:
    one, other = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    at = rng.choice([other, rng.randrange(len(data))])
    return data[:at] + data[one:other] + data[at:]


def integer(rng: random.Random, data: bytes) -> bytes:
    """An integer of 1 to 8 bytes becomes an interesting one, most often near the end, where directories are."""
    width = rng.choice([1, 2, 4, 8])
    last = len(data) - width
    at = rng.randrange(max(0, last - 200), last + 1) if rng.random() < 0.5 else rng.randrange(last + 1)
    return data[:at] + changed_value(rng).to_bytes(9, "little")[:width] + data[at + width :]


def changed_value(rng: random.Random) -> int:
    return max(0, rng.choice(INTERESTING) + rng.choice([-1, 0, 0, 1]))


EVERY: list[Mutation] = [flip, overwrite, truncate, insert, cut_out, duplicate, integer]


def repacked(rng: random.Random, data: bytes) -> bytes:
    """A member is changed by any other mutation, and the archive written again with correct checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([*members])
    change = rng.choice([*EVERY, header_text, header_text, header_text])
    members[name] = change(rng, members[name])
    out = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(out, "w", method) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    return out.getvalue()


def header_text(rng: random.Random, data: bytes) -> bytes:
    """A word in the header of an array is replaced."""
    length = int.from_bytes(data[8:10], "little")
    text = data[10 : 10 + length].decode("latin-1")
    old = rng.choice(["<f8", "<i8", "|b1", "(4", "3", "2", "False", "fortran_order", "shape", "descr", "{", ",", "'"])
    new = rng.choice(
        ["|O", "<f4", ">i8", "<U7", "<U2000", "|V8", "-1", "9" * 30, "1e3", "True", "None", "()", "[[", "0", "{", "#"]
    )
    text = text.replace(old, new, rng.choice([1, 9]))
    if rng.random() < 0.5:
        text = text.rstrip().ljust(length - 1)[: length - 1] + "\n"  # the same length, as NumPy pads it
    new_length = len(text) if rng.random() < 0.8 else rng.randrange(65536)
    return data[:8] + new_length.to_bytes(2, "little") + text.encode("latin-1") + data[10 + length :]


def checksums(rng: random.Random, data: bytes) -> bytes:
    """The data of a stored member is changed in place, and its checksum corrected in both of its headers."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = rng.choice(archive.infolist())
    out = bytearray(data)
    name, more = struct.unpack_from("<HH", out, info.header_offset + 26)
    start = info.header_offset + 30 + name + more
    for _ in range(rng.choice([1, 3, 10])):
        out[start + rng.randrange(info.compress_size)] = rng.randrange(256)
    if info.compress_type == zipfile.ZIP_STORED:
        crc = zlib.crc32(out[start : start + info.compress_size]).to_bytes(4, "little")
        return bytes(out).replace(info.CRC.to_bytes(4, "little"), crc)
    return bytes(out)


def directory(rng: random.Random, data: bytes) -> bytes:
    """An integer in the zip directory or in its end is replaced."""
    start = data.rindex(b"PK\1\2") if rng.random() < 0.7 else data.rindex(b"PK\5\6")
    width = rng.choice([2, 4])
    at = min(start + rng.randrange(2, 46), len(data) - width)
    return data[:at] + changed_value(rng).to_bytes(9, "little")[:width] + data[at + width :]


def lines(rng: random.Random, data: bytes) -> bytes:
    """Lines or cells of a CSV file are exchanged, dropped or repeated, or a cell replaced."""
    rows = data.split(b"\r\n")
    at = rng.randrange(len(rows))
    cells = rows[at].split(b",")
    one, other = rng.randrange(len(cells)), rng.randrange(len(cells))
    match rng.randrange(6):
        case 0:
            del rows[at]
        case 1:
            rows.insert(rng.randrange(len(rows)), rows[at])
        case 2:
            rows[at], rows[-2] = rows[-2], rows[at]
        case 3:
            cells[one], cells[other] = cells[other], cells[one]
            rows[at] = b",".join(cells)
        case 4:
            odd = [
                b"",
                b'"',
                b"nan",
                b"1e999",
                b"0,5",
                b"1_0",
                b"\xff",
                b"\0",
                b"-0",
                "١".encode(),
                b"9" * 5000,
                b'""""',
                b"=1+1",
            ]
            cells[one] = rng.choice(odd)
            rows[at] = b",".join(cells)
        case _:
            rows[at] *= rng.choice([2, 30])
    return b"\r\n".join(rows)


def footer(rng: random.Random, data: bytes) -> bytes:
    """Integers in the footer of a Parquet file are replaced, and its length corrected."""
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    tree, _ = thrift_tree.parse(data, start)
    paths = thrift_tree.integers(tree)
    for path in rng.sample(paths, rng.choice([1, 1, 2, 4])):
        thrift_tree.put(tree, path, _other(rng, thrift_tree.get(tree, path)[1]))
    text = thrift_tree.written(tree)
    return data[:start] + text + len(text).to_bytes(4, "little") + b"PAR1"


def page(rng: random.Random, data: bytes) -> bytes:
    """An integer in the header of a page is replaced; offsets of later pages are moved with it."""
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    tree, _ = thrift_tree.parse(data, start)
    chunks = [chunk for group in tree[4][1][1] for chunk in group[1][1][1]]
    about = rng.choice(chunks)[3][1]
    at = about[11][1] if 11 in about and rng.random() < 0.5 else about[9][1]
    head, end = thrift_tree.parse(data, at)
    path = rng.choice(thrift_tree.integers(head))
    thrift_tree.put(head, path, _other(rng, thrift_tree.get(head, path)[1]))
    text = thrift_tree.written(head)
    moved = len(text) - (end - at)
    for chunk in chunks:
        for number in (9, 11):
            if number in chunk[3][1] and chunk[3][1][number][1] > at:
                chunk[3][1][number][1] += moved
    about[7][1] += moved
    foot = thrift_tree.written(tree)
    return data[:at] + text + data[end:start] + foot + len(foot).to_bytes(4, "little") + b"PAR1"


def resealed(rng: random.Random, data: bytes) -> bytes:
    """A saved result is changed by any other mutation, and its checksum corrected."""
    return netcdf_files.sealed(rng.choice(EVERY)(rng, netcdf_files.body(data)))


def _other(rng: random.Random, value: int) -> int:
    near = value + rng.choice([-2, -1, 1, 2, 8])
    return rng.choice([near, near, -near, changed_value(rng) % 2**63, -1 - changed_value(rng) % 2**62])


SPECIAL: dict[str, list[Mutation]] = {
    "": [],
    "zip": [repacked, repacked, repacked, checksums, directory],
    "csv": [lines, lines, lines],
    "parquet": [footer, footer, page, page],
    "netcdf": [resealed] * 6 + [rewritten] * 6,
    "ledger": [rerecorded] * 4,
}


def mutant(seed: int, kind: str, serial: int, files: list[bytes]) -> tuple[int, str, bytes]:
    """Number of the valid file, mutation and bytes of a mutant, which do not depend on what other formats there are."""
    rng = random.Random(f"{seed} {kind} {serial}")
    changes = [*EVERY, *SPECIAL[FORMATS[kind].mutations]]
    change, number = changes[serial % len(changes)], (serial + serial // len(changes)) % VARIANTS  # all, even of few
    data = change(rng, files[number])
    if change in EVERY and rng.random() < 0.2:
        data = rng.choice(EVERY)(rng, data + b" ")
    return number, change.__name__, data


STUDIES = ("study ledger", "study part")


def alternating(count: int, kinds: Sequence[str] = tuple(sorted(FORMATS))) -> list[tuple[str, int]]:
    """Format and number of so many mutants, of these formats in turn."""
    return [(kinds[i % len(kinds)], i // len(kinds)) for i in range(count)]


def run(
    which: list[tuple[str, int]], seed: int, loader: Loader, keep: Path | None = None
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Load mutants that are not trusted; return counts of outcomes by format, and a description of each failure."""
    counts: Counter[tuple[str, str]] = Counter()
    peaks, seconds = Counter[str](), dict.fromkeys(FORMATS, 0.0)
    failures = []
    valid = {kind: [FORMATS[kind].make(i) for i in range(VARIANTS)] for kind in {kind for kind, _ in which}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant"

        @cache
        def expected(kind: str, number: int) -> str:
            path.write_bytes(valid[kind][number])
            return FORMATS[kind].load(path, True)

        for kind, serial in which:
            number, change, data = mutant(seed, kind, serial, valid[kind])
            (keep or path).write_bytes(data)
            report = loader.load(kind, keep or path)
            what = report["outcome"]
            if what == "loaded":
                what = "loaded equal" if report["text"] == expected(kind, number) else "loaded different"
            counts[kind, what] += 1
            peaks[kind] = max(peaks[kind], report.get("child", 0))
            seconds[kind] = max(seconds[kind], report.get("seconds", 0.0))
            if too_much(report) or what in ("other", "crash", "hang"):
                failures.append(f"--seed {seed} --only {kind}:{serial}: {change} of file {number}: {what}\n{report}")
    for kind in sorted(peaks):
        print(f"{kind}: at most {peaks[kind] / MIB:,.0f} MiB in a child, {seconds[kind]:.1f} s")
    return counts, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--studies", type=int, metavar="MUTANTS", help="only so many of study folders")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", metavar="FORMAT:NUMBER", help="the one mutant to load")
    parser.add_argument("--keep", type=Path, help="file that the mutant is written to, and left in")
    asked = parser.parse_args()
    which = alternating(asked.mutants) if asked.studies is None else alternating(asked.studies, STUDIES)
    if asked.only:
        kind, _, serial = asked.only.partition(":")
        which = [(kind, int(serial))]
    with Loader() as loader:
        counts, failures = run(which, asked.seed, loader, asked.keep)
    for (kind, what), count in sorted(counts.items()):
        print(f"{kind:14} {what:18} {count:7,}")
    print(*failures, sep="\n")
    print(f"{len(failures)} failures among {sum(counts.values()):,} mutants, seed {asked.seed}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
