"""A file that was replaced is on the disk: its contents before the rename, and its name after it."""

from __future__ import annotations

import os
import stat

from jmdp.base.whole_files import whole_file


def test_contents_are_flushed_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    calls, fsync, replace = [], os.fsync, os.replace

    def flushed(descriptor):
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def renamed(source, target):
        calls.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    with whole_file(tmp_path / "report.html") as file:
        file.write(b"text")
    assert calls == ["file", "rename", "folder"]
