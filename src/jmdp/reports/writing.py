"""The page of a result of any kind, and its file."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from jmdp.base.settings import short
from jmdp.base.whole_files import whole_file
from jmdp.errors import FileError, SettingsError
from jmdp.files.opening import path_text
from jmdp.reports.page import Page, render

_MODULES = {
    "Evaluation": "evaluation_page",
    "RunComparisons": "comparison_page",
    "Comparison": "comparison_page",
    "LearnedEvaluation": "learned_page",
    "Calibration": "learned_page",
    "Study": "study_page",
    "Review": "review_page",
    "Reviews": "review_page",
}
"""Modules in this folder by class or base class, each with a function ``page(result, command, …)``; imported on use."""


def page_of(result: Any, command: str | None = None, **focus: Any) -> Page:
    """The page of a result; `command` is the command line that made it, and `focus` the state to show, if any."""
    for kind in type(result).__mro__:
        if kind.__module__.startswith("jmdp.") and kind.__name__ in _MODULES:
            found: Page = import_module(f"jmdp.reports.{_MODULES[kind.__name__]}").page(result, command, **focus)
            return found
    raise SettingsError(f"{short(result)} has no page. Give a result of jmdp.")


def html_of(result: Any, command: str | None = None, **focus: Any) -> str:
    """The page of a result as HTML."""
    return render(page_of(result, command, **focus))


def write(result: Any, path: str | os.PathLike[str], command: str | None = None, **focus: Any) -> None:
    """Write the page of a result, replacing an existing file as a whole."""
    place = Path(path_text(path))
    page = html_of(result, command, **focus).encode("utf-8")
    try:
        with whole_file(place) as file:
            file.write(page)
    except OSError as error:
        raise FileError(
            f"{short(str(place), 300)} cannot be written: {error.strerror or error}. Give a file in a writable folder."
        ) from error
