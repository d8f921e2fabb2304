"""Hostile saved results are refused with a typed error that names the file, in little memory and in time."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("h5netcdf")
import hostile_results

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and peaks of memory are those of Linux")


def test_hostile_results(tmp_path, loader):
    assert loader.accepted("netcdf", hostile_results.FILES, tmp_path / "result.nc") == {}
