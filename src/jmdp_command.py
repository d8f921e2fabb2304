"""The command `jmdp`. The module is outside of the package: Ctrl-C is handled before the package is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> int:
    """Run the command line. Before and after it, Ctrl-C ends the process at once, with the text and code of `jmdp`."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if it is ignored, as by nohup
    if ours:
        signal.signal(signal.SIGINT, _end)
    try:
        from jmdp.cli import main as run

        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return run()
        finally:
            if ours:
                signal.signal(signal.SIGINT, _end)
    except KeyboardInterrupt:  # while a handler was being set
        _end()


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    os.write(2, b"jmdp: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
