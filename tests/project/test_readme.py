"""The Python of README and docs, run as a reader would, prints what they say."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def examples(page):
    """Each ``python`` block with the ``text`` block that follows it."""
    return re.findall(r"```python\n((?:(?!```).)*)```\n+```text\n(.*?)```", page.read_text(), flags=re.DOTALL)


PAGES = {
    "README.md": 1, "docs/index.md": 3, "docs/choose.md": 4, "docs/learning.md": 2, "docs/mathematics.md": 11,
    "docs/projection.md": 1,
    "docs/simulators.md": 4, "docs/tables.md": 8, "docs/howto/own_policy.md": 4, "docs/howto/own_simulator.md": 7,
    "docs/howto/read_a_certificate.md": 4, "docs/howto/resume.md": 2, "docs/howto/extend.md": 6,
    "docs/howto/compare_policies.md": 1, "docs/howto/gate.md": 1, "docs/howto/whole_runs.md": 6,
    "docs/howto/bring_a_model.md": 5, "docs/howto/keep.md": 3, "docs/howto/report.md": 2, "docs/howto/review.md": 6,
    "docs/control.md": 6, "docs/howto/scores.md": 5, "docs/howto/study.md": 9, "docs/howto/plan.md": 5,
    "docs/howto/history.md": 10, "docs/tutorials/new_policy.md": 10,
}  # fmt: skip


@pytest.mark.parametrize(("name", "count"), PAGES.items())
def test_pages_print_what_they_say(name, count, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    names: dict[str, object] = {}
    page = ROOT / name
    assert len(examples(page)) == count
    for code, says in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)  # as in a script
        assert without_rounding(printed.getvalue()) == without_rounding(says)


@pytest.mark.long
def test_the_training_of_the_first_tutorial_runs(tmp_path, monkeypatch):
    """Its blocks ``py`` need torch; their results differ between machines."""
    pytest.importorskip("stable_baselines3")
    monkeypatch.chdir(tmp_path)
    import jmdp

    names: dict[str, object] = {"jmdp": jmdp}
    blocks = re.findall(r"```py\n(.*?)```", (ROOT / "docs/tutorials/new_policy.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for code in blocks:
            exec(compile(code, "new_policy.md", "exec", dont_inherit=True), names)
    assert "2 policies of GymnasiumSimulator(CartPole-v1)" in printed.getvalue()
    assert printed.getvalue().count("\n") > 15


@pytest.mark.long
@pytest.mark.parametrize(("name", "count"), [("docs/neural.md", 2), ("docs/tutorials/new_algorithm.md", 4)])
def test_pages_that_train_run_and_print_such_tables(name, count, tmp_path, monkeypatch):
    """Numbers of a network differ between processors after some hundred updates; words and layout do not."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    page = ROOT / name
    assert len(examples(page)) == count
    for code, says in examples(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec", dont_inherit=True), names)  # as in a script
        assert without_numbers(printed.getvalue()) == without_numbers(says)


def without_numbers(text):
    """Words, and … for each number; lines may break elsewhere if numbers have other digits."""
    return re.sub(r"-?\d[\d.,]*(e[+-]?\d+)?", "…", text).split()


def without_rounding(text):
    """Numbers below 1e-6 are rounding, and differ between machines, as do decimals beyond the sixth."""
    return re.sub(r"(\.\d{6})\d+", r"\1…", re.sub(r"\d(\.\d+)?e-(0[7-9]|[1-9]\d)", "…", text))
