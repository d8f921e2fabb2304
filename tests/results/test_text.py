"""The writer of tables: which digits a cell has, where its interval is, and that all tables are written by it."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jmdp
from jmdp.base.interval import Estimate
from jmdp.results.text import Written, facts, html_table, lines, paragraphs, percent, shown, written

FINITE = st.floats(-1e12, 1e12)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (Estimate(0.5, 0.25, 0.75), "0.50 [0.25, 0.75]"),
        (Estimate(2.0, 2.0, 2.0), "2"),
        (Estimate(1 / 3, 1 / 3 - 1e-12, 1 / 3 + 1e-12), "0.333333"),
        (Estimate(1234567.0, 1234567.0, 1234567.0), "1234570"),
        (Estimate.within(0.123456, None), "0.123"),
        (Estimate.within(math.nan, None), "–"),
        (Estimate(3.0, 1.0, math.inf), "3.0 [1.0, inf]"),
        (Written("0"), "0"),
        (0.123456, "0.1235"),
        (12345, "12,345"),
        (True, "True"),
        ("left", "left"),
    ],
)
def test_cells(cell, text):
    assert shown(cell) == text


def test_an_estimate_without_an_interval_is_not_exact():
    assert not written(Estimate.within(0.5, None)).exact
    assert not written(percent(Estimate.within(0.5, None))).exact
    assert written(Estimate(0.5, 0.25, 0.75)).exact
    assert written(Estimate(2.0, 2.0, 2.0)).exact


@given(FINITE, st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_cell_contains_its_interval(value, below, above):
    number = Estimate(value, value - below, value + above)
    text = written(number)
    if text.interval:
        low, high = map(Fraction, re.findall(r"-?[\d.]+(?:e[-+]\d+)?", text.interval))
        assert low <= Fraction(number.low) <= Fraction(number.high) <= high
    else:  # six digits are supported by the whole interval
        digits = len(re.sub(r"e.*|[-.]", "", text.value).lstrip("0")) or 1
        unit = 10.0 ** (math.floor(math.log10(abs(value) or 1.0)) - 5)
        assert digits <= 9
        assert abs(float(text.value) - number.low) <= unit
        assert abs(float(text.value) - number.high) <= unit


@pytest.mark.parametrize(("share", "text"), [(0.825, "82% [82, 83]"), (0.0, "0% [0, 1]"), (0.9999, ">99% [99, 100]")])
def test_percents(share, text):
    assert str(percent(Estimate(share, max(0.0, share - 1e-3), min(1.0, share + 1e-4)))) == text


ROWS = [{"action": "left", "mean": Estimate(0.5, 0.25, 0.75)}, {"action": "a\nb", "mean": 1.0, "n": 3}]


def test_lines_are_aligned_and_missing_cells_are_empty():
    assert lines(ROWS, ["action", "n", "mean"]) == [
        "action  n               mean",
        "left       0.50 [0.25, 0.75]",
        "a b     3                  1",
    ]


def test_html_has_the_same_cells_and_hides_nothing():
    table = html_table([{"a<b": Estimate(0.5, 0.25, 0.75)}] * 70)
    assert "<th>a&lt;b</th>" in table
    assert table.count("<td>0.50 [0.25, 0.75]</td>") == 60
    assert "10 more rows" in table


def test_paragraphs_wrap_sentences_and_not_tables():
    long = " ".join(["word"] * 40)
    text = paragraphs([long, [long], "end", [], "last"])
    first = text.partition("\n\n")[0].split("\n")
    assert len(first) > 1
    assert max(map(len, first)) <= 100
    assert text.endswith(f"\n\n{long}\n\nend\n\nlast")


def test_facts_are_below_the_sentence():
    assert facts({"mean": 1.5}) == ["  mean         1.5"]


def test_text_page_and_notebook_of_a_comparison_have_the_same_cells(tmp_path):
    runs = {"a": lambda luck: luck.uniform("x"), "b": lambda luck: luck.uniform("x") + luck.uniform("y") - 0.4}
    found = jmdp.compare_runs(runs, seed=1, samples=64, progress=False)
    found.report(tmp_path / "page.html")
    page = re.sub(r"<[^>]*>", "", (tmp_path / "page.html").read_text(encoding="utf-8"))
    for name in found.alternatives:
        mean, better = written(found.mean_of(name)), written(percent(found.superiority(name, found.reference)))
        texts = [str(mean)] if name == found.reference else [str(mean), str(better)]
        assert all(text in repr(found) for text in texts)
        for part in (mean, better)[: len(texts)]:
            assert f"{part.value} {part.interval}".replace("-", "−") in page
        assert str(mean) in found._repr_html_()
