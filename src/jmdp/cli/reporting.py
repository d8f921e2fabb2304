"""The option --report of all commands that have a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from jmdp.base.whole_files import replacement, reserved
from jmdp.cli.command import Command, writing
from jmdp.cli.options import Optionally
from jmdp.reports.page import check_extras
from jmdp.reports.writing import html_of

COMMAND_LINE: ContextVar[str | None] = ContextVar("COMMAND_LINE", default=None)
"""The command line that is being run, as a shell reads it."""


@dataclass(frozen=True, kw_only=True)
class Reporting(Command):
    """Command whose result has a page."""

    report: Annotated[Optionally[Path], tyro.conf.arg(metavar="PAGE.html")] = None
    """Write a self-contained HTML page about the result to PAGE.html; this command is in it."""

    @contextmanager
    def reserved_page(self) -> Iterator[None]:
        """Reserve the file first: a wrong path or a missing package must not be found after an hour."""
        if self.report is None:
            yield
            return
        check_extras()
        with ExitStack() as stack:
            with writing("--report", self.report):
                stack.enter_context(reserved(self.report))
            yield

    def write_page(self, result: Any, **focus: Any) -> None:
        """Write the page of a result, if it was asked for, while its file is reserved."""
        if self.report is not None:
            page = html_of(result, COMMAND_LINE.get(), **focus).encode("utf-8")
            with writing("--report", self.report), replacement(self.report) as file:
                file.write(page)
