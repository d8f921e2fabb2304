"""Hostile saved results are refused with a typed error that names the file, in little memory and in time."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("h5netcdf")
import hostile_results
from loader_process import LIMIT, MIB, Loader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")


def test_hostile_results(tmp_path):
    path, failures = tmp_path / "result.nc", {}
    with Loader() as loader:
        for name, (_, make) in hostile_results.FILES.items():
            path.write_bytes(make())
            report = loader.load("netcdf", path)
            fine = report["outcome"] == "error" and report["peak"] <= loader.budget + 64 * MIB
            if not fine or str(path) not in report["text"] or report["seconds"] > LIMIT:
                failures[name] = report
    assert failures == {}
