"""Run the examples, each in a separate process, and write their output to docs/gallery.md.

``python -m examples`` runs all examples. ``python -m examples taxi pong`` runs the named ones and leaves the others on
the page unchanged. ``python -m examples --quick`` runs those without training or emulators and writes nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "gallery.md"
ORDER = ["own_simulator", "frozen_lake", "taxi", "blackjack", "cart_pole", "trained_policy", "lunar_lander", "highway",
         "minigrid_obstacles", "half_cheetah", "pong", "boxing", "gymnax_cart_pole", "gymnax_breakout",
         "learned_gymnax", "learned_gymnasium", "learned_pong"]  # fmt: skip
SLOW = {"trained_policy", "highway", "half_cheetah", "pong", "boxing", "minigrid_obstacles", "lunar_lander",
        "learned_gymnax", "learned_gymnasium", "learned_pong"}  # fmt: skip
OPENING = """# Gallery

Each script is followed by its output. `python -m examples` runs all scripts and writes this page; they need
`pip install -e ".[examples]"`. The tables, and how to use your own simulator, are explained in
[simulators.md](simulators.md). Scripts named learned_… train networks: [neural.md](neural.md).
"""


def main(names: list[str]) -> None:
    """Run the named examples and write the page."""
    quick = "--quick" in names
    unknown = [name for name in names if name not in (*ORDER, "--quick")]
    if unknown:
        sys.exit(f"Unknown example {unknown[0]}. Choose from {', '.join(ORDER)}; or --quick.")
    chosen = [name for name in ORDER if name in names or (not names) or (quick and name not in SLOW)]
    kept = dict(re.findall(r"## `(\w+)\.py`\n(.*?)(?=\n## |\Z)", PAGE.read_text(), re.S)) if PAGE.exists() else {}
    for name in chosen:
        path = HERE / f"{name}.py"
        print(f"== {name}", flush=True)
        strict = ["-W", "error", "-W", "ignore::DeprecationWarning"]  # else importing Box2D fails
        done = subprocess.run([sys.executable, *strict, path], capture_output=True, text=True, check=False)
        print(done.stdout)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        kept[name] = f"\n```python\n{path.read_text().strip()}\n```\n\n```text\n{done.stdout.strip()}\n```\n"
    if not quick:
        PAGE.write_text(OPENING + "".join(f"\n## `{name}.py`\n{kept[name]}" for name in ORDER if name in kept))


if __name__ == "__main__":
    main(sys.argv[1:])
