"""Every kind of result is registered, and all have one protocol."""

from __future__ import annotations

import pytest

import jmdp
from jmdp.results.result import Result
from jmdp.show.reports.page import _MODULES
from registry.methods import METHODS
from registry.results import KINDS, SAVED, made

pytest.importorskip("h5netcdf")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")


def test_every_kind_of_result_is_registered():
    """What has a file or a page."""
    from jmdp.files.saving import _FORMS

    assert {type(made(kind)) for kind in SAVED} == set(_FORMS)
    bases = {base.__name__ for kind in KINDS for base in type(made(kind)).__mro__}
    assert set(_MODULES) <= bases


def test_every_method_has_a_saved_result():
    methods = {type(made(kind).method).__name__ for kind in SAVED if kind.startswith("evaluation ")}
    assert methods == {name for name, method in METHODS.items() if method.contract is not None}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("table", "learned")])
def test_one_protocol_of_results(kind):
    """Results print, plot and export alike; those of a method or a comparison also have means and gaps."""
    result = made(kind)
    assert repr(result)
    assert len(result.to_dataframe())
    assert result.to_xarray().sizes
    assert "<p>" in result._repr_html_()
    assert result.plot().axes
    if isinstance(result, jmdp.results.Evaluation | jmdp.comparisons.Comparison):
        assert isinstance(result, Result)
