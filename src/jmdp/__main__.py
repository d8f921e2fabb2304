"""`python -m jmdp` is `jmdp`."""

import sys

from jmdp.cli import main

if __name__ == "__main__":
    sys.exit(main())
