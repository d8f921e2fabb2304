"""Run the command line: `python -m jmdp` is equivalent to `jmdp`."""

import sys

from jmdp_command import main

if __name__ == "__main__":
    sys.exit(main())
