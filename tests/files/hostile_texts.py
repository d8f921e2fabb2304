"""Hostile CSV files, and files of other kinds."""

from __future__ import annotations

import numpy as np
from hostile_registry import MIB, added

HEAD = b"state,scenario,probability,action,reward,next\n"
ROW = b"a,0,1,x,1,a\n"

added("10⁷ columns", "a line of ten million columns", lambda: HEAD + b"," * 10**7 + b"\n")
added("10⁶ columns", "a line of a million columns", lambda: HEAD + b"," * 10**6 + b"\n")
added("10⁷ columns in the header", "a header of ten million columns", lambda: b"state," * 10**7)
added(
    "30,000 columns in the header",
    "a header of as many columns as a line may have",
    lambda: b"a," * 30_000 + b"\n" + b"b," * 30_000,
)
added("one huge cell", "a cell of 4 MB", lambda: HEAD + b"x" * (4 * MIB))
added(
    "one huge cell after others",
    "a cell of 3 MB after a megabyte of rows",
    lambda: HEAD + ROW * 80_000 + b"x" * (3 * MIB),
)
added("one huge quoted cell", "an open quotation mark before 4 MB of lines", lambda: HEAD + b'"' + ROW * 350_000)
added("huge file", "100 MB of rows", lambda: HEAD + ROW * 8_000_000)
added("repeated rows", "2 MB of the same row", lambda: HEAD + ROW * 200_000)
added("long names", "names of 60,000 characters", lambda: HEAD + ROW.replace(b"a", b"a" * 30_000))
added(
    "square table",
    "20,000 states with a scenario each: a table of 4·10⁸ entries from 600 KB",
    lambda: HEAD + b"".join(b"s%d,k%d,1,x,1,s0\n" % (i, i) for i in range(20_000)),
)
added(
    "many names",
    "400,000 different names in 3 MB",
    lambda: HEAD + b"".join(b"%x,%x,1,%x,1,%x\n" % (i, i, i, i) for i in range(100_000)),
)
added("empty lines", "a million empty lines", lambda: HEAD + b"\n" * MIB)
added("only commas", "lines of separators only", lambda: HEAD + b",,,,,\n" * 300_000)
added("only quotation marks", "nothing but quotation marks", lambda: b'"' * 60_000)
added("quotation marks in lines", "cells of escaped quotation marks", lambda: HEAD + (b'"' * 6000 + b"\n") * 100)
added("null bytes in text", "null bytes in cells", lambda: HEAD + b"a\0b,0,1,x,1,a\n")
added("null bytes only", "a megabyte of zeros", lambda: bytes(MIB))
added("UTF-16", "text of two bytes a character", lambda: (HEAD + ROW).decode().encode("utf-16"))
added("UTF-16 without mark", "the same without a byte order mark", lambda: (HEAD + ROW).decode().encode("utf-16-le"))
added("UTF-32", "text of four bytes a character", lambda: (HEAD + ROW).decode().encode("utf-32"))
added(
    "mixed encodings",
    "a line in Latin-1 after lines in UTF-8",
    lambda: HEAD + "é,0,1,x,1,é\n".encode() + "è,0,1,x,1,è\n".encode("latin-1"),
)
added("overlong UTF-8", "a slash in two bytes", lambda: HEAD + b"\xc0\xaf,0,1,x,1,a\n")
added("encoded surrogates", "half a character in UTF-8", lambda: HEAD + b"\xed\xa0\x80,0,1,x,1,a\n")
added("old Mac lines", "lines that end with a carriage return", lambda: (HEAD + ROW * 9).replace(b"\n", b"\r"))
added("carriage return in a cell", "a quoted carriage return", lambda: HEAD + b'"a\rb",0,1,x,1,a\n')
added(
    "decimal commas",
    "numbers with decimal commas",
    lambda: (HEAD + b"a,0,1,x,1.5,a\n").replace(b",", b";").replace(b".", b","),
)
added("number of many digits", "a reward of 5000 digits", lambda: HEAD + b"a,0,1,x," + b"9" * 5000 + b",a\n")
added(
    "numbers of other scripts",
    "digits that Python reads but no spreadsheet means",
    lambda: HEAD + "a,0,١,x,1_0,a\n".encode(),
)
added("formula", "a cell that a spreadsheet would run", lambda: HEAD + b"=cmd|' /C calc'!A0,0,1,x,=1+1,a\n")
added("noise", "random bytes", lambda: b"\x01" + np.random.default_rng(0).bytes(100_000))
added("HTML", "a page of a login instead of the file", lambda: b"<!DOCTYPE html><html><body>Sign in</body></html>")
added("HDF5", "the signature of HDF5 and noise", lambda: b"\x89HDF\r\n\x1a\n" + np.random.default_rng(0).bytes(1000))
added("empty file", "nothing", lambda: b"")
