"""Whole files: made with their folder, replaced at once, and left as they were by an error."""

from __future__ import annotations

import pytest

from jmdp.base.whole_files import whole_file


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "new" / "report.html"
    with whole_file(path) as file:
        file.write(b"first")
        assert not path.exists()
    assert path.read_bytes() == b"first"
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"second" * 10_000, None])
    assert path.read_bytes() == b"first"
    with whole_file(path) as file:
        file.write(b"third")
    assert path.read_bytes() == b"third"
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]


def test_folders_are_made_only_where_asked(tmp_path):
    with pytest.raises(FileNotFoundError), whole_file(tmp_path / "new" / "run.npz", make_folder=False):
        pass
    assert list(tmp_path.iterdir()) == []
