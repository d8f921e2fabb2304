"""Run the examples, each in its own process, and write their charts and output into docs/gallery.md.

``python -m examples`` runs all of them. ``python -m examples taxi pong`` runs the named ones and keeps the output of
the others on the page. ``--quick`` writes nothing; without names it runs `QUICK`.
``python -m examples --page`` only rewrites the page from the scripts and the output it contains.
``python -m examples.pictures`` draws the environments.
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
    "own_simulator": "A simulator of your own: how many loaves to order?",
    "frozen_lake": "FrozenLake: walk at the goal, or at the wall?",
    "cliff_walking": "CliffWalking: how far from the edge?",
    "taxi": "Taxi: does it pay to plan for the rain?",
    "blackjack": "Blackjack: what is the book worth?",
    "cart_pole": "CartPole: the angle, or its speed?",
    "trained_policy": "Acrobot: does stable-baselines3 beat one line?",
    "lunar_lander": "LunarLander: brake all the way, or fall first?",
    "highway": "Highway: brake or overtake?",
    "minigrid_obstacles": "MiniGrid: what is it worth to look ahead?",
    "swimmer": "MuJoCo Swimmer: how to bend?",
    "pong": "Atari Pong: follow the ball, or wait for it?",
    "freeway": "Atari Freeway: wait for gaps, or just run?",
    "gymnax_asterix": "MinAtar Asterix in JAX: wait, or go for the treasure?",
    "jax_thermostat": "A thermostat in JAX: how wide a band?",
    "learned_gymnax": "CartPole in JAX: left or right, in every state?",
    "learned_gymnasium": "Pendulum: which torque, at every angle?",
    "learned_policies": "CartPole: what is a new policy worth in every state?",
}
"""Examples in the order of the page, with their headings."""
ORDER = list(TITLES)
QUICK = ["own_simulator", "frozen_lake", "jax_thermostat"]
"""One for each kind of simulator but the emulator, whose examples take half a minute: functions, Gymnasium, JAX."""
OPENING = """# Gallery

Questions about environments that you may know, each answered by a script of a few lines. Most take seconds, the longest
about a minute. All seeds are 0. `python -m examples` runs all of them and writes this page; they need
`pip install -e ".[examples]"`. [Simulators](simulators.md) and [Compare two policies](howto/compare_policies.md)
explain the tables, and how to connect your own simulator; [learned moments](neural.md) explains the last entries, which
answer for all states at once.

Sampling stops as soon as the question is decided, at one of the scheduled looks, and the intervals hold at all of them.
So most intervals just exclude 0; `precision=` or `samples=` would make them narrower.

How to read the charts: above, how far each alternative is behind the best one on average (dot and interval) and how
much that varies from episode to episode (bars); below, how often the best one does better, equally well and worse than
each of the others with the same random numbers.
"""
PICTURES = PAGE.parent / "images" / "gallery"


def cards(printed: dict[str, str]) -> str:
    """A picture, the title and a line about each entry, which lead to it."""
    return "\n::::{container} cards\n\n" + "".join(card(name, printed[name]) for name in printed) + "::::\n"


def card(name: str, output: str) -> str:
    """One of them: the environment, the question and the answer; without an answer, what the entry is about."""
    heading = re.sub(r"[^\w -]", "", TITLES[name].lower()).replace(" ", "-")
    picture = f"![{TITLES[name].partition(':')[0]}](images/gallery/{name}.png)"
    words = answer(output) or question(name)
    return f":::{{container}} entry\n{picture}\n\n**[{TITLES[name]}](#{heading})**\n\n{words}\n:::\n\n"


def entry(name: str, output: str) -> str:
    """One section of the page: question, environment beside the chart, answer, script and printed output."""
    said = answer(output)
    pictures = (
        f"![The environment of {name}.py](images/gallery/{name}.png)\n\n"
        f"![Chart of the result of {name}.py](images/gallery/{name}.svg)\n\n"
    )
    return (
        f"\n## {TITLES[name]}\n\n{question(name)}\n\n::::{{container}} beside\n\n{pictures}::::\n\n"
        + f"**Answer:** {said}\n\n" * bool(said)
        + f"`examples/{name}.py`\n\n```python\n{script(name)}\n```\n\n```text\n{output.strip()}\n```\n"
    )


def question(name: str) -> str:
    """The first line of a script."""
    return (ast.get_docstring(ast.parse(script(name))) or "").splitlines()[0]


def answer(output: str) -> str:
    """What is decided, from the first sentence of a comparison: by how much, without how sure and how often."""
    text = re.sub(r"\n +", " ", output)  # a sentence that is wrapped goes on after two spaces
    best = re.search(
        r"^(.* is the best of \d+ \w+) on average.*?: it (earns .*? more than .*?), the second", text, re.M
    )
    if best is not None:
        return f"{best[1]}: it {best[2]} on average."
    known = r"(earns (?!about).*? more than .*? on average|is not worse than .*?|is worse than .*?)"
    found = re.search(rf"^(?:.*: )?(.*? {known}) \(", text, re.M)
    return f"{found[1]}." if found is not None else ""


def script(name: str) -> str:
    """The source of an example."""
    return (HERE / f"{name}.py").read_text(encoding="utf-8").strip()


def outputs(page: str) -> dict[str, str]:
    """What the examples on a page printed."""
    return dict(re.findall(r"\n`examples/(\w+)\.py`\n.*?\n```text\n(.*?)\n```\n", page, re.S))


def written(printed: dict[str, str]) -> str:
    """The page with these outputs."""
    ordered = {name: printed[name] for name in ORDER if name in printed}
    return OPENING + cards(ordered) + "".join(entry(*one) for one in ordered.items())


def main(names: list[str]) -> None:
    """Run the named examples and write the page."""
    quick, page_only = "--quick" in names, "--page" in names
    unknown = [name for name in names if name not in (*ORDER, "--quick", "--page")]
    if unknown:
        sys.exit(f"Unknown example {unknown[0]}. Choose from {', '.join(ORDER)}; or --quick, --page.")
    given = [name for name in ORDER if name in names]
    chosen = given or ([] if page_only else QUICK if quick else ORDER)
    printed = {}
    for name in chosen:
        print(f"== {name}", flush=True)
        strict = ["-W", "error", "-W", "ignore::DeprecationWarning"]  # else importing Box2D fails
        script = HERE / f"{name}.py"
        command = [script] if quick else ["-m", "examples.drawing", script, PICTURES / f"{name}.svg"]
        run = [sys.executable, *strict, *command]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=HERE.parent)
        print(done.stdout)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stderr}")
        printed[name] = done.stdout
    if page_only or not quick:
        kept = outputs(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
        PAGE.write_text(written(kept | printed), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
