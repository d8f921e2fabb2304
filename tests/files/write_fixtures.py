"""Write a file of each kind of result with this version: ``python tests/files/write_fixtures.py``.

The files stay when the format changes: later versions must read them. A text beside each has what the result prints.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import saved_results as examples

from jmdp.files.schema import VERSION

FOLDER = Path(__file__).parent / "fixtures"


def main() -> None:
    made = {
        "table": lambda: examples.table(np.random.default_rng(5), state_names=["a", "b", "c", "end"]),
        "calibration": lambda: examples.calibration(5),
        **{f"evaluation {name}": make for name, make in examples.evaluations(5).items()},
        **{f"comparison {name}": make for name, make in examples.comparisons(5).items()},
        **examples.reviews(5),
    }
    FOLDER.mkdir(exist_ok=True)
    for name, make in made.items():
        result = make()
        result.save(FOLDER / f"{VERSION} {name}.nc")
        (FOLDER / f"{VERSION} {name}.txt").write_text(repr(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
