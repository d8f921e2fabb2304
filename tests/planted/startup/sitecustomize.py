"""Plants a bug in processes that a test starts: Python imports this module first."""

import os
import sys
from pathlib import Path

if "PLANTED_BUG" in os.environ:
    sys.path.append(str(Path(__file__).parents[2]))
    from planted.bugs import BUGS
    from planted.planting import plant

    sys.path.pop()
    plant(next(bug for bug in BUGS if bug.name == os.environ["PLANTED_BUG"]))
