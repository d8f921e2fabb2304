"""Run the examples, each in its own process, and write their charts and output into docs/gallery.md.

``python -m examples`` runs all of them. ``python -m examples taxi pong`` runs the named ones and keeps the output of
the others on the page. ``--quick`` writes nothing; without names it runs `QUICK`.
``python -m examples --page`` only rewrites the page from the scripts and the output it contains.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "gallery.md"
TITLES = {
    "own_simulator": "A simulator of your own: a shop",
    "frozen_lake": "FrozenLake: which way to step on slippery ice",
    "taxi": "Taxi in the rain: which way to drive",
    "blackjack": "Blackjack: hit or stick",
    "cart_pole": "CartPole: push left or right",
    "trained_policy": "CartPole with a policy trained by stable-baselines3",
    "lunar_lander": "LunarLander in the wind: which engine to fire",
    "highway": "Highway: which lane to take in traffic",
    "minigrid_obstacles": "MiniGrid: moving obstacles",
    "half_cheetah": "HalfCheetah: two continuous actions",
    "pong": "Atari Pong: where to move the paddle",
    "boxing": "Atari Boxing: which punch or step",
    "gymnax_cart_pole": "CartPole in JAX",
    "gymnax_breakout": "MinAtar Breakout in JAX",
    "learned_gymnax": "CartPole in JAX: a network for all states",
    "learned_gymnasium": "Pendulum: a network for all states",
    "learned_pong": "Atari Pong: a network for all states",
}
"""Examples in the order of the page, with their headings."""
ORDER = list(TITLES)
QUICK = ["own_simulator", "frozen_lake", "gymnax_cart_pole"]
"""One for each kind of simulator but the emulator, whose examples take half a minute: functions, Gymnasium, JAX."""
OPENING = """# Gallery

Each entry is a script from the folder `examples`, its chart and its printed output. `python -m examples` runs all of
them and writes this page; they need `pip install -e ".[examples]"`. [Simulators](simulators.md) explains the tables and
how to connect your own simulator, [networks](neural.md) the last entries, which train a network.

How to read the charts: above, how far each action is behind the best one on average (dot and interval) and how much
that varies from rollout to rollout (bars); below, how often the best one does better, equally well and worse than each
of the others with the same random numbers.
"""
PICTURES = PAGE.parent / "images" / "gallery"


def cards(names: list[str]) -> str:
    """A picture, the title and a line about each entry, which lead to it."""
    return "\n::::{container} cards\n\n" + "".join(card(name) for name in names) + "::::\n"


def card(name: str) -> str:
    """One of them. Its line is the first of the script's docstring, without the words of the title."""
    title, words = TITLES[name], (ast.get_docstring(ast.parse(script(name))) or "").splitlines()[0]
    subject, colon, rest = words.partition(": ")
    if colon and title.startswith(subject):
        words = rest[0].upper() + rest[1:]
    heading = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
    picture = f"![](images/gallery/{name}.svg)\n\n" if (PICTURES / f"{name}.svg").exists() else ""
    return f":::{{container}} entry\n{picture}**[{title}](#{heading})**\n\n{words}\n:::\n\n"


def entry(name: str, output: str) -> str:
    """One section of the page: heading, chart if there is one, script and printed output."""
    chart = f"![Chart of the result of {name}.py](images/gallery/{name}.svg)\n\n"
    return (
        f"\n## {TITLES[name]}\n\n`examples/{name}.py`\n\n"
        f"{chart if (PICTURES / f'{name}.svg').exists() else ''}"
        f"```python\n{script(name)}\n```\n\n```text\n{output.strip()}\n```\n"
    )


def script(name: str) -> str:
    """The source of an example."""
    return (HERE / f"{name}.py").read_text(encoding="utf-8").strip()


def outputs(page: str) -> dict[str, str]:
    """What the examples on a page printed."""
    return dict(re.findall(r"\n`examples/(\w+)\.py`\n.*?\n```text\n(.*?)\n```\n", page, re.S))


def written(printed: dict[str, str]) -> str:
    """The page with these outputs."""
    names = [name for name in ORDER if name in printed]
    return OPENING + cards(names) + "".join(entry(name, printed[name]) for name in names)


def main(names: list[str]) -> None:
    """Run the named examples and write the page."""
    quick, page_only = "--quick" in names, "--page" in names
    unknown = [name for name in names if name not in (*ORDER, "--quick", "--page")]
    if unknown:
        sys.exit(f"Unknown example {unknown[0]}. Choose from {', '.join(ORDER)}; or --quick, --page.")
    given = [name for name in ORDER if name in names]
    chosen = given or ([] if page_only else QUICK if quick else ORDER)
    kept = outputs(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    for name in chosen:
        print(f"== {name}", flush=True)
        strict = ["-W", "error", "-W", "ignore::DeprecationWarning"]  # else importing Box2D fails
        command = (
            [HERE / f"{name}.py"] if quick else [HERE / "drawing.py", HERE / f"{name}.py", PICTURES / f"{name}.svg"]
        )
        done = subprocess.run([sys.executable, *strict, *command], capture_output=True, text=True, check=False)
        print(done.stdout)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        kept[name] = done.stdout
    if page_only or not quick:
        PAGE.write_text(written(kept), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
