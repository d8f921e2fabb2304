"""Hostile npz files: zip bombs, headers, dtypes and shapes that no array has, pickles, damaged directories."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from functools import cache
from typing import Any

import numpy as np
import sample_files
from hostile_registry import CANARY, MIB, added, hostile


def npy(shape: object, descr: object = "<f8", data: bytes = b"", *, fortran: object = False, version: int = 1) -> bytes:
    """An array with any header."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {fortran!r}, 'shape': {shape!r}, }}\n".encode()
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(width, "little") + text + data


def member(name: str, data: bytes, **fields: Any) -> dict[str, Any]:
    """A member of a zip file; `packed` is what is stored, all fields can be set."""
    return {
        "name": name.encode(),
        "packed": data,
        "method": 0,
        "flags": 0,
        "crc": zlib.crc32(data),
        "size": len(data),
        "csize": None,
        "offset": None,
        "extra": b"",
        **fields,
    }


def zipped(*members: dict[str, Any], comment: bytes = b"", **end: int) -> bytes:
    """A zip file of members; fields of its end can be set."""
    out, directory = b"", b""
    for m in members:
        csize = len(m["packed"]) if m["csize"] is None else m["csize"]
        common = struct.pack(
            "<HHHHHLLLHH",
            20,
            m["flags"],
            m["method"],
            0,
            33,
            m["crc"],
            csize,
            m["size"],
            len(m["name"]),
            len(m["extra"]),
        )
        offset = len(out) if m["offset"] is None else m["offset"]
        out += b"PK\3\4" + common + m["name"] + m["extra"] + m["packed"]
        directory += b"PK\1\2\x14\0" + common + struct.pack("<HHHLL", 0, 0, 0, 0, offset) + m["name"] + m["extra"]
    fields = {"count": len(members), "size": len(directory), "offset": len(out), **end}
    return (
        out
        + directory
        + struct.pack(
            "<4s4H2LH",
            b"PK\5\6",
            0,
            0,
            fields["count"],
            fields["count"],
            fields["size"],
            fields["offset"],
            len(comment),
        )
        + comment
    )


@cache
def model_members() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(sample_files.npz(sample_files.small_model()))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def model_with(more: tuple[dict[str, Any], ...] = (), end: dict[str, Any] | None = None, **changes: Any) -> bytes:
    """A valid npz file with some arrays replaced by other bytes or members, and more members at its end."""
    members = []
    for name, data in model_members().items():
        change = changes.get(name.removesuffix(".npy"), data)
        members.append(change if isinstance(change, dict) else member(name, change))
    return zipped(*members, *more, **(end or {}))


BIG = 144 * MIB
"""Zeros in a bomb; the tests allow 128 MiB of memory."""
FLOATS = (BIG // 48, 3, 2)


@cache
def deflated_zeros(size: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    piece = bytes(4 * MIB)
    return b"".join(packer.compress(piece) for _ in range(size // len(piece))) + packer.flush()


def bomb(header: bytes, zeros: int = BIG, **fields: Any) -> dict[str, Any]:
    """A member of zeros after its header."""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    packed = packer.compress(header) + packer.flush(zlib.Z_SYNC_FLUSH) + deflated_zeros(zeros)
    return member("reward.npy", b"", packed=packed, **{"method": 8, "size": zeros + len(header), **fields})


added("zip bomb", "144 MiB of zeros in 200 KB, with a header that agrees", lambda: model_with(reward=bomb(npy(FLOATS))))
added(
    "zip bomb of all arrays",
    "every array is 144 MiB of zeros, and all shapes agree",
    lambda: zipped(
        *(
            {**bomb(npy((BIG // 8, 1, 1), d)), "name": f"{n}.npy".encode()}
            for n, d in (("reward", "<f8"), ("next_state", "<i8"))
        ),
        {**bomb(npy((BIG // 8, 1))), "name": b"prob.npy"},
    ),
)
added(
    "zip bomb of small numbers",
    "arrays of one byte a number that need eight in a model",
    lambda: zipped(
        *(
            {**bomb(npy(s, d), 16 * MIB), "name": f"{n}.npy".encode()}
            for n, s, d in (
                ("reward", (16 * MIB, 1, 1), "|i1"),
                ("next_state", (16 * MIB, 1, 1), "|u1"),
                ("prob", (16 * MIB, 1), "|b1"),
            )
        )
    ),
)
added(
    "zip bomb that lies",
    "the directory says 300 bytes, the stream gives 144 MiB",
    lambda: model_with(reward=bomb(npy((4, 3, 2)), size=len(npy((4, 3, 2))) + 192)),
)
added(
    "zip bomb that says 4 GiB",
    "sizes of 2³² − 1 in the directory",
    lambda: model_with(reward=bomb(npy(FLOATS), size=2**32 - 1)),
)
added(
    "zip bomb of text",
    "names of states that are 1000 characters of zeros each",
    lambda: model_with(state_names={**bomb(npy((BIG // 4000,), "<U1000")), "name": b"state_names.npy"}),
)
added(
    "header bomb",
    "a header of 4 GiB (format 2.0), of which 144 MiB are there",
    lambda: model_with(reward=bomb(b"\x93NUMPY\2\0\xff\xff\xff\xff")),
)
added(
    "16 GiB in 200 bytes",
    "a header that makes NumPy allocate 16 GiB",
    lambda: zipped(member("prob.npy", npy((2**31,)))),
)
added(
    "16 GiB reward", "one array of a valid model with a header of 16 GiB", lambda: model_with(reward=npy((2**30, 2, 1)))
)
added(
    "16 GiB in headers that agree",
    "the headers of all arrays agree on 16 GiB, of which nothing is there",
    lambda: zipped(
        *(
            member(f"{n}.npy", npy(s, d))
            for n, s, d in (
                ("prob", (2**31, 1), "<f8"),
                ("reward", (2**31, 1, 1), "<f8"),
                ("next_state", (2**31, 1, 1), "<i8"),
            )
        )
    ),
)
added(
    "16 GiB everywhere",
    "all headers agree on 16 GiB, and the directory too",
    lambda: zipped(
        *(
            member(f"{n}.npy", npy(s, d), size=2**32 - 2)
            for n, s, d in (
                ("prob", (2**31, 1), "<f8"),
                ("reward", (2**31, 1, 1), "<f8"),
                ("next_state", (2**31, 1, 1), "<i8"),
            )
        )
    ),
)
for what, shape in {
    "negative": (-4, 3, 2),
    "overflowing": (2**62, 4, 4),
    "overflowing to the right size": (2**64 + 4, 3, 2),
    "two negatives": (-4, -3, 2),
    "huge with an empty axis": (2**62, 0, 2),
    "fractional": (4.0, 3, 2),
    "boolean": (True, 3, 2),
    "list": [4, 3, 2],
    "none": None,
    "text": "432",
    "many axes": (1,) * 900,
    "nested": ((4,), 3, 2),
    "digits": 10**3000,
}.items():
    added(f"shape {what}", f"the shape {str(shape)[:40]}", lambda s=shape: model_with(reward=npy(s, data=bytes(192))))
for what, descr in {
    "objects": "|O",
    "void": "|V8",
    "complex": "<c16",
    "quadruple": "<f16",
    "dates": "<M8[ns]",
    "bytes": "|S8",
    "fields": [("a", "<f8")],
    "sub-arrays": ("<f8", (2**40,)),
    "long text": "<U99999999",
    "nothing": "",
    "code": "__import__('os').system('true')",
    "text of 0": "<U0",
}.items():
    added(f"dtype {what}", f"the dtype {descr}", lambda d=descr: model_with(reward=npy((4, 3, 2), d, bytes(192))))


class Canary:
    """An object whose pickle makes a file when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ.get(CANARY, "canary"),)


@hostile("pickle in an array", "names of states are Python objects, whose pickle makes a file")
def pickled() -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([Canary()] * 4, dtype=object), allow_pickle=True)
    return model_with(state_names=out.getvalue())


@hostile("pickle as a file", "the file is a pickle")
def plain_pickle() -> bytes:
    import pickle

    return pickle.dumps(Canary())


@hostile("pickle as text dtype", "an array of text whose data are a pickle")
def text_pickle() -> bytes:
    data = plain_pickle().ljust(4 * 4 * 40, b".")[: 4 * 4 * 40]
    return model_with(state_names=npy((4,), "<U40", data))


added(
    "header of code",
    "a header with a call instead of a dict",
    lambda: model_with(reward=raw_header(b"__import__('os').mkdir('x')")),
)
added("header of brackets", "a header of 4000 brackets", lambda: model_with(reward=raw_header(b"(" * 4000)))
added(
    "header of minus signs",
    "a header nested as deep as a parser allows",
    lambda: model_with(reward=raw_header(b"-" * 4000 + b"1")),
)
added(
    "header of a long sum", "a header that is an expression", lambda: model_with(reward=raw_header(b"1+" * 2000 + b"1"))
)
added(
    "header of a power",
    "an expression that would need all memory",
    lambda: model_with(reward=raw_header(b"9**9**9**9")),
)
added(
    "header with a null", "a null character in the header", lambda: model_with(reward=raw_header(b"{'descr': '<f8\0'}"))
)
added("header too long", "a header of 60,000 bytes", lambda: model_with(reward=raw_header(b"{" + b" " * 60_000 + b"}")))
added(
    "header of keys",
    "unknown keys in the header",
    lambda: model_with(reward=raw_header(b"{'descr': '<f8', 'shape': (4, 3, 2), 'x': 1}")),
)
added("version 3", "an array in format 3.0", lambda: model_with(reward=npy((4, 3, 2), data=bytes(192), version=3)))
added("no array", "a member that is no array", lambda: model_with(reward=b"reward"))
added("empty member", "an array of no bytes", lambda: model_with(reward=b""))
added(
    "text beyond Unicode",
    "names whose characters do not exist",
    lambda: model_with(state_names=npy((4,), "<U2", b"\xff" * 32)),
)
added(
    "surrogates",
    "names of halves of characters",
    lambda: model_with(state_names=npy((4,), "<U1", struct.pack("<4L", *range(0xD800, 0xD804)))),
)
added(
    "booleans that are 7",
    "a boolean array with other bytes than 0 and 1",
    lambda: model_with(terminal=npy((4,), "|b1", bytes([7, 0, 1, 255]))),
)
added(
    "next state beyond 2⁶³",
    "indices that become negative when converted",
    lambda: model_with(next_state=npy((4, 3, 2), "<u8", b"\xff" * 192)),
)
added("nan everywhere", "rewards that are no numbers", lambda: model_with(reward=npy((4, 3, 2), data=b"\xff" * 192)))
added("discount of an array", "a discount of 10⁹ numbers", lambda: model_with(discount=npy((10**9,))))


def raw_header(text: bytes) -> bytes:
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(192)


added(
    "duplicate names",
    "two arrays with the same name",
    lambda: model_with((member("prob.npy", npy((4, 3), data=bytes(96))),)),
)
added(
    "path traversal",
    "a member whose name leaves the folder",
    lambda: model_with((member("../../../tmp/evil.npy", b"x"),)),
)
added("absolute path", "a member with an absolute name", lambda: model_with((member("/etc/evil.npy", b"x"),)))
added(
    "name with a null", "zipfile cuts a name at a null character", lambda: model_with((member("prob.npy\0evil", b"x"),))
)
added(
    "name of control characters",
    "a name that would clear the terminal",
    lambda: model_with((member("\x1b[2J\r\n.npy", b"x"),)),
)
added("long name", "a name of 60,000 characters", lambda: model_with((member("a" * 60_000, b"x"),)))
added(
    "nested zip",
    "a zip file in a zip file in a zip file",
    lambda: zipped(member("model.npz", zipped(member("model.npz", model_with())))),
)
added("nested as an array", "an array that is a zip file", lambda: model_with(reward=model_with()))
added(
    "encrypted",
    "the flag of an encrypted member",
    lambda: model_with(reward=member("reward.npy", npy((4, 3, 2), data=bytes(192)), flags=1)),
)
added(
    "strongly encrypted",
    "the flag of strong encryption",
    lambda: model_with(reward=member("reward.npy", npy((4, 3, 2), data=bytes(192)), flags=0x41)),
)
added(
    "patch",
    "the flag of patched data",
    lambda: model_with(reward=member("reward.npy", npy((4, 3, 2), data=bytes(192)), flags=0x20)),
)
for what, method in {"bzip2": 12, "LZMA": 14, "deflate64": 9, "unknown": 99}.items():
    added(
        f"method {what}",
        f"compression by {what}",
        lambda m=method: model_with(reward=member("reward.npy", npy((4, 3, 2), data=bytes(192)), method=m)),
    )
added(
    "wrong checksum",
    "data that do not match their checksum",
    lambda: model_with(reward=member("reward.npy", npy((4, 3, 2), data=bytes(192)), crc=1)),
)
added(
    "stream of noise",
    "a compressed member that is no stream",
    lambda: model_with(reward=member("reward.npy", bytes(range(256)), method=8)),
)
added(
    "endless empty blocks",
    "a million empty blocks before the data",
    lambda: model_with(reward=member("reward.npy", b"", packed=b"\0\0\0\xff\xff" * 10**6, method=8, size=512)),
)
added(
    "offset beyond the end",
    "a member that begins after the end",
    lambda: model_with(reward=member("reward.npy", b"", offset=2**31)),
)
added(
    "all at one place",
    "every member has the same offset",
    lambda: zipped(*(member(n, d, offset=0) for n, d in model_members().items())),
)
added(
    "million members",
    "a directory of a million entries in 46 MB",
    lambda: b"PK\3\4" + bytes(26) + end_after(b"PK\1\2" + bytes(42), 10**6),
)
added("directory of 4 GiB", "the end says that the directory has 4 GiB", lambda: model_with(end={"size": 2**32 - 1}))
added("directory elsewhere", "the end points to another directory", lambda: model_with(end={"offset": 0}))
added(
    "64-bit directory",
    "a 64-bit end that says 2⁶³ bytes",
    lambda: model_with()[:-22] + end_64(2**63) + model_with()[-22:],
)
added("comment", "64 KB of comment that begin like an end", lambda: model_with(end={"comment": b"PK\5\6" * 16_000}))
added(
    "extra field",
    "a 64-bit extra field without its contents",
    lambda: model_with(reward=member("reward.npy", b"", size=2**32 - 1, extra=b"\1\0\0\0")),
)
added("empty zip", "a zip file without members", lambda: zipped())
added("only the signature", "four bytes of a zip file", lambda: b"PK\3\4")
added(
    "xlsx",
    "a workbook, which is a zip file too",
    lambda: zipped(member("[Content_Types].xml", b"<x/>"), member("xl/workbook.xml", b"<x/>")),
)
added("prepended bytes", "a valid archive behind other bytes", lambda: b"PK\3\4" + model_with())
added("appended bytes", "a valid archive before other bytes", lambda: model_with() + bytes(1000))


def end_after(entry: bytes, count: int) -> bytes:
    return entry * count + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, len(entry) * count, 30, 0)


def end_64(size: int) -> bytes:
    at = len(model_with()) - 22
    end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 7, 7, size, 0)
    return end + struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)


for fraction in range(1, 8):
    added(
        f"npz cut at {fraction}/8",
        "an archive that ends too early",
        lambda f=fraction: model_with()[: len(model_with()) * f // 8],
    )
