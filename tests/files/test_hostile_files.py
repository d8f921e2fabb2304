"""Every hostile file that is not trusted is refused with a typed error, within the limits, and nothing in it is run."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import hostile_files
import mutants
import numpy as np
import pytest
import study_files
from loader_process import too_much

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")


HARMLESS = frozenset(
    {"offset of data: 2147483647", f"offset of data: {2**62}", "version 3", "prepended bytes", "appended bytes"}
)
"""Files that their library reads in a way that does no harm."""


LARGE = frozenset(
    {"million members", "huge file", "footer of 4 GiB", "empty lines", "page bomb", "many names", "repeated rows",
     "huge dictionary", "zip bomb", "two million equal rows"}
)  # fmt: skip
"""Files that take about a second each to be made or refused."""


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.long)])
def test_hostile_files(tmp_path, loader, large):
    """Only errors of jmdp, within the limits of the child; each message names the file."""
    files = {name: file for name, file in hostile_files.FILES.items() if (name in LARGE) is large}
    assert loader.accepted("hostile", files, tmp_path / "model", HARMLESS) == {}
    assert not loader.canary.exists()
    assert files.keys() == LARGE if large else len(files) >= 60


def test_the_canary_would_sing(tmp_path, monkeypatch):
    import pickle

    monkeypatch.setenv(hostile_files.CANARY, str(tmp_path / "canary"))
    pickle.loads(hostile_files.hostile_zips.plain_pickle())
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("which", "seed"),
    [
        (mutants.alternating(100), 0),
        pytest.param(mutants.alternating(1_000), 2, marks=pytest.mark.long),
        pytest.param(mutants.alternating(25_000), 1, marks=pytest.mark.long),
        pytest.param(mutants.alternating(10_000, mutants.STUDIES), 3, marks=pytest.mark.long),
    ],
    ids=lambda value: f"{len(value)} mutants" if isinstance(value, list) else f"seed {value}",
)
def test_mutants(which, seed, loader):
    """Damaged files of all formats, by every mutation, and of every kind of result."""
    counts, failures = mutants.run(which, seed, loader)
    assert failures == []
    for kind in {kind for kind, _ in which}:
        found = {what: count for (of, what), count in counts.items() if of == kind}
        assert found["error"] > 0.4 * sum(found.values())


def bomb(folder: Path) -> None:
    """A study of 85 KB with 6 GB of text: in 6 parts, a text of 1 MB that 1,000 rows repeat."""
    import pyarrow
    from pyarrow import parquet

    count, parts = 500, 6
    table = pyarrow.Table.from_pylist(study_files.rows(0, count), schema=study_files.COLUMNS.schema())
    text = pyarrow.DictionaryArray.from_arrays(np.zeros(table.num_rows, np.int32), ["x" * 1_000_000])
    table = table.set_column(table.column_names.index("error"), "error", text)
    out = io.BytesIO()
    parquet.write_table(table, out, compression="zstd", store_schema=False)
    header = study_files.HEADER | {"states": count * parts}
    records = [study_files.record(count * i, out.getvalue(), count) for i in range(parts)]
    contents = {count * i: out.getvalue() for i in range(parts)}
    study_files.write_folder(folder, study_files.signed([header, *records]), contents, count)


def test_a_small_folder_of_much_text(tmp_path, loader):
    """The first part breaks the limit; a child reads all of them, so that none is read after it."""
    bomb(tmp_path / "study")
    assert sum(file.stat().st_size for file in (tmp_path / "study").rglob("*") if file.is_file()) < 100_000
    report = loader.load("folder", tmp_path / "study")
    assert report["kind"] == "MemoryBudgetError"
    assert "rung-1.parquet: It needs more than 512 MiB" in report["text"]
    assert not too_much(report)


def test_undamaged_files_are_equal(tmp_path, loader):
    for kind, form in mutants.FORMATS.items():
        for seed in range(6):
            (tmp_path / "valid").write_bytes(form.make(seed))
            report = loader.load(kind, tmp_path / "valid")
            assert (report["outcome"], report["text"]) == ("loaded", form.load(tmp_path / "valid", True)), kind


def test_these_tests_can_fail(tmp_path, loader):
    """Exceptions of other types, unplanned memory, crashes and hangs are seen."""
    path = tmp_path / "any"
    assert too_much(loader.load("large", path))
    for kind, wanted in (("raises", "other"), ("crashes", "crash"), ("hangs", "hang")):
        assert loader.load(kind, path, limit=2)["outcome"] == wanted
