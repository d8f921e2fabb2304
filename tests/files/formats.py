"""Formats whose damaged files the mutants test: a format joins by an entry in `FORMATS`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import netcdf_files
import sample_files
import score_files
import study_files

from jmdp.files import read_model


class Format(NamedTuple):
    """How valid files of a format are made and loaded."""

    make: Callable[[int], bytes]  # a valid file for each seed
    load: Callable[[Path, bool], str]  # a text that is the same only for the same contents; whether the file is trusted
    mutations: str = ""  # names of mutations of this format in `mutants`, besides those of all bytes


def load_model(path: Path, trusted: bool) -> str:
    discount = None if path.read_bytes()[:2] == b"PK" else 0.9
    return sample_files.fingerprint(read_model(path, discount, trusted=trusted))


def make_npz(seed: int) -> bytes:
    return sample_files.npz(sample_files.small_model(seed, named=seed % 2 == 0), compressed=seed % 3 == 0)


def make_csv(seed: int) -> bytes:
    rows = sample_files.records(sample_files.small_model(seed, named=seed % 2 == 0))
    return sample_files.csv_text(rows, ",;\t"[seed % 3]).encode("utf-8-sig" if seed % 5 == 0 else "utf-8")


def make_parquet(seed: int) -> bytes:
    rows = sample_files.records(sample_files.small_model(seed, named=seed % 2 == 0))
    codec = ["none", "snappy", "gzip", "zstd", "brotli", "lz4"][seed % 6]
    page = "2.0" if seed % 4 == 0 else "1.0"
    return sample_files.parquet(
        rows, compression=codec, data_page_version=page, row_group_size=10, use_dictionary=seed % 5 != 0
    )


FORMATS = {
    "npz": Format(make_npz, load_model, "zip"),
    "csv": Format(make_csv, load_model, "csv"),
    "parquet": Format(make_parquet, load_model, "parquet"),
    "netcdf": Format(netcdf_files.make, netcdf_files.load, "netcdf"),
    "study part": Format(study_files.make_part, study_files.load_part, "parquet"),
    "scores": Format(score_files.plain, score_files.load),
    "scores in zip files": Format(score_files.zipped, score_files.load, "zip"),
    "scores in Parquet": Format(score_files.parquet, score_files.load, "parquet"),
    "study ledger": Format(study_files.make_ledger, study_files.load_ledger, "ledger"),
}
