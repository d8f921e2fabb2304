"""Stored files know the code that made them: changes of code are seen, changes of comments are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import provenance
from benchmarks.running import Parts, UnfinishedError

SOURCE = '"""Text."""\n\ndef twice(x):\n    """Double."""\n    return 2 * x\n'


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A repository with one module, and a figure that was recorded with it."""
    for command in (["init", "-q"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    code, figure = tmp_path / "src" / "jmdp" / "twice.py", tmp_path / "docs" / "images" / "twice.svg"
    for path, text in ((code, SOURCE), (figure, "<svg/>")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "first"], cwd=tmp_path, check=True)
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setattr(provenance, "LEDGER", tmp_path / "docs" / "provenance.json")
    monkeypatch.setattr(provenance, "_loaded", lambda: {"src/jmdp/twice.py"})
    provenance.record(figure, seeds="0")
    return code, figure


def why():
    return {row["file"]: row["why"] for row in provenance.stale()}


def test_an_entry_says_how_a_file_was_made(stored):
    entry = provenance.entries()["docs/images/twice.svg"]
    assert set(entry) == {"version", "commit", "date", "machine", "seeds", "content", "digest", "files"}
    assert entry["files"] == {"src/jmdp": "twice.py"}
    assert entry["seeds"] == "0"
    assert len(entry["commit"]) == 10  # without a +: nothing was changed since
    assert why() == {}


def test_comments_and_docstrings_are_no_change(stored):
    code, _ = stored
    code.write_text('# A comment.\n\n\ndef twice(x):\n    """Twice as much."""\n    return 2*x  # as it says\n')
    assert why() == {}


@pytest.mark.parametrize("text", [SOURCE.replace("2 *", "3 *"), SOURCE + "y = 1\n", SOURCE.replace("(x)", "(x=0)")])
def test_changed_code_is_seen(stored, text):
    code, figure = stored
    code.write_text(text)
    assert why() == {"docs/images/twice.svg": "code that it depends on has changed"}
    provenance.record(figure)
    assert why() == {}
    assert provenance.entries()["docs/images/twice.svg"]["commit"].endswith("+")


def test_other_reasons(stored):
    code, figure = stored
    figure.with_name("other.svg").write_text("<svg/>")
    figure.write_text("<svg>by hand</svg>")
    assert why() == {
        "docs/images/other.svg": "not recorded",
        "docs/images/twice.svg": "changed after it was recorded",
    }
    figure.with_name("other.svg").unlink()
    figure.unlink()
    assert why() == {"docs/images/twice.svg": "the file is missing"}
    figure.write_text("<svg/>")
    code.unlink()
    assert why() == {"docs/images/twice.svg": "code that it depends on was removed: src/jmdp/twice.py"}


def test_files_elsewhere_have_no_entry(stored, tmp_path_factory):
    path = tmp_path_factory.mktemp("else") / "x.json"
    path.write_text("{}")
    provenance.record(path)
    assert set(provenance.entries()) == {"docs/images/twice.svg"}


def test_the_modules_that_a_process_has_loaded():
    code = "import benchmarks.sweep, json; from benchmarks import provenance as p; print(json.dumps([*p._loaded()]))"
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    assert {"benchmarks/sweep.py", "benchmarks/report.py", "src/jmdp/__init__.py"} <= set(found)
    assert not any("training" in name or name.startswith("tests/") for name in found)


def square(number):
    """A part."""
    return number * number


def test_parts_are_kept_and_continued(tmp_path):
    over = Parts(tmp_path / "parts", until=0.0)
    with pytest.raises(UnfinishedError, match="0 of 3 parts are done"):
        over.each(square, 3, processes=1)
    Parts(tmp_path / "parts").each(square, 2, processes=1)
    with pytest.raises(UnfinishedError, match="2 of 3 parts are done"):
        over.each(square, 3, processes=1)
    whole = Parts(tmp_path / "parts")
    assert whole.each(square, 3, processes=1) == [0, 1, 4]
    assert over.each(square, 3, processes=1) == [0, 1, 4]
    whole.forget()
    assert not (tmp_path / "parts").exists()
