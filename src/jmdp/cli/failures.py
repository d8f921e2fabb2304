"""Exceptions as one line of text."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jmdp
from jmdp.base.settings import error_text
from jmdp.errors import JMDPError

_LONGEST = 1_500
_INSTALLED = tuple(
    os.path.join(folder, "")
    for folder in (
        str(Path(jmdp.__file__).parent),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)
_FRAME = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)


@contextmanager
def standard_output() -> Iterator[None]:
    """Name standard output in the errors of writing to it. That its reader, such as head, has ended is none."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        error.filename = "standard output"
        raise


def discard_output() -> None:
    """Discard what is still to be written to standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def one_line(error: Exception) -> str:
    """Return what was wrong, and for errors of user code where they were raised."""
    if isinstance(error, JMDPError):
        said = str(error)
    elif isinstance(error, OSError) and error.filename is not None:
        said = f"{error.filename}: {error.strerror}"
    elif isinstance(error, SyntaxError):
        said = f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    else:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        said = f"{error_text(error, _LONGEST)} ({_place(error)}{notes})"
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in " ".join(said.split()))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"


def _place(error: Exception) -> str:
    """The last line of user code, or of any code if there is none."""
    frames = [(frame.filename, str(frame.lineno), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error.__cause__, RuntimeError):  # of a worker process: its traceback as text
        frames += _FRAME.findall(str(error.__cause__))
    own = [frame for frame in frames if not frame[0].startswith(("<", *_INSTALLED))]
    file, line, name = (own or frames)[-1]
    return f"in {name}, {file}, line {line}"
