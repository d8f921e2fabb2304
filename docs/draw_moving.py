"""Draw the moving picture of the front page: two agents in one windy grid, pushed by the same gusts.

Futures are drawn with seed 0, the first three are shown, and the numbers below them are exact. A second file, without
movement, is for readers who prefer that.

``python -m docs.draw_moving`` writes docs/images/same_gusts.svg and same_gusts_still.svg, the same bytes every time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import jmdp
from benchmarks.provenance import record

Walks = dict[str, list[tuple[int, int, int]]]  # by agent: cells before a step, after its own move, after the gust
IMAGES = Path(__file__).parent / "images"
SEED, FUTURES, GUST = 0, 3, 0.3
ROWS, COLUMNS = 4, 7
MOVE, BLOW, PAUSE = 0.24, 0.22, 1.3  # seconds
COLOURS = {"up first": "#0072B2", "right first": "#D55E00"}
WORDS, QUIET, GUSTS = "#1f2328", "#57606a", "#56B4E9"
CELL, LEFT, TOP = 50, 14, 74  # of the grid
WIDTH, HEIGHT = 680, 372
BARS, LANE, STEP = 400, 62, 15  # left edge and height of a future's bars, width of a step

world = jmdp.worlds.windy_gridworld(ROWS, COLUMNS, gust=GUST, step_reward=-1.0, goal_reward=-1.0)
model = world.model
START, GOAL = (ROWS - 1) * COLUMNS, COLUMNS - 1
up_first = {model.states.name(s): "U" if s >= COLUMNS else "R" for s in range(ROWS * COLUMNS)}
policies = {"up first": up_first, "right first": world.policies["goal_directed"]}


_FIRST_FRAME = 0.3
"""Where the picture begins, as a share of its time: in the second future, since the first frame is empty."""


@dataclass
class Moving:
    """An attribute that changes at some times."""

    times: list[float] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    def at(self, time: float, value: object) -> None:
        """From the last time on, move to this value."""
        self.times.append(time)
        self.values.append(str(value))

    def jump(self, time: float, value: object) -> None:
        """Take this value at once."""
        self.at(time, self.values[-1])
        self.at(time, value)

    def animate(self, name: str, total: float) -> str:
        """The element that moves it."""
        self.at(total, self.values[-1])
        kept = [i for i in range(len(self.times)) if not 0 < i < len(self.times) - 1 or not self._idle(i)]
        times = ";".join(f"{min(1.0, self.times[i] / total):.4f}".rstrip("0").rstrip(".") or "0" for i in kept)
        values = ";".join(self.values[i] for i in kept)
        return (
            f'<animate attributeName="{name}" values="{values}" keyTimes="{times}" dur="{total:.2f}s" '
            f'begin="-{_FIRST_FRAME * total:.2f}s" repeatCount="indefinite"/>'
        )

    def _idle(self, i: int) -> bool:
        return self.values[i - 1] == self.values[i] == self.values[i + 1]


def gusts() -> np.ndarray:
    """[futures, steps], whether there is a gust."""
    return np.random.default_rng(SEED).random((FUTURES, 60)) < GUST


def walk(name: str, blown: np.ndarray) -> list[tuple[int, int, int]]:
    """The cells of an agent: before each step, after its own move, and after the gust."""
    policy, state, cells = policies[name], START, []
    probs = jmdp.TabularPolicy.of(policy, model).probs
    for gust in blown.astype(int):
        action = int(probs[state].argmax())
        calm, after = (int(model.next_state[state, k, action]) for k in (0, gust))
        cells.append((state, calm, after))
        state = after
        if state == GOAL:
            return cells
    raise AssertionError("the goal is reached within 60 steps")


def place(state: int, name: str) -> tuple[float, float]:
    """Where an agent stands in its cell: side by side, so that both are seen."""
    row, column = divmod(state, COLUMNS)
    off = -10 if name == "up first" else 10
    return LEFT + CELL * (column + 0.5) + off, TOP + CELL * (row + 0.5) + off / 2


def numbers() -> tuple[str, str]:
    """The two sentences below, from the exact distributions of the gap."""
    found = []
    for coupling in (jmdp.Synchronous(), jmdp.Independent()):
        result = jmdp.evaluate(model, policies, coupling, jmdp.ExactDistribution(), horizon=60, discount=1.0)
        gap = result.gap(model.states.name(START), "up first", "right first")
        found.append((gap, gap.distribution()))
    (gap, same), (_, own) = found
    assert float(same.inferiority()) < 1e-9
    return (
        f"Same gusts: “up first” is {gap.mean:.1f} steps faster on average, never slower.",
        f"Separate simulations: it looks slower in {100 * float(own.inferiority()):.0f}% of pairs.",
    )


def picture(moving: bool) -> str:
    """The whole picture."""
    blown = gusts()
    walks = [{name: walk(name, future) for name in COLOURS} for future in blown]
    begins, clock = [], 0.6
    for both in walks:
        begins.append(clock)
        clock += max(map(len, both.values())) * (MOVE + BLOW) + PAUSE
    total = clock + 1.6
    parts = [*_board(), *_tape(blown, walks, begins, total, moving)]
    parts += _lanes(walks, begins, total, moving)
    parts += [part for name in COLOURS for part in _agent(name, walks, begins, total, moving)]
    for y, words, colour in zip((328, 356), numbers(), (WORDS, QUIET), strict=True):
        parts.append(f'<text x="{LEFT}" y="{y}" font-size="18.5" fill="{colour}">{words}</text>')
    said = "Two agents walk through one windy grid, pushed by the same gusts, in three futures."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif" role="img" '
        f'aria-label="{said}">\n<title>{said}</title>\n<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _board() -> list[str]:
    """Cells, goal, and what they are called."""
    parts = []
    for state in range(ROWS * COLUMNS):
        row, column = divmod(state, COLUMNS)
        fill = "#d7f0e5" if state == GOAL else "#f6f8fa"
        box = f'x="{LEFT + CELL * column}" y="{TOP + CELL * row}" width="{CELL}" height="{CELL}"'
        parts.append(f'<rect {box} fill="{fill}" stroke="#d0d7de"/>')
    x, y = LEFT + CELL * (COLUMNS - 0.5), TOP + CELL * 0.5
    parts.append(f'<text x="{x}" y="{y + 6}" font-size="16" fill="#1a6b4a" text-anchor="middle">goal</text>')
    parts.append(f'<text x="{BARS}" y="26" font-size="17" fill="{QUIET}">steps to the goal, in 3 futures</text>')
    return parts


def _tape(
    blown: np.ndarray,
    walks: list[Walks],
    begins: list[float],
    total: float,
    moving: bool,
) -> list[str]:
    """The gusts of the present future, one mark for each step, and the wind over the whole grid."""
    parts = [f'<text x="{LEFT}" y="26" font-size="17" fill="{QUIET}">gusts, the same for both:</text>']
    size, gap = 15, 5
    wind = Moving()
    wind.at(0, 0)
    for i, (both, begin) in enumerate(zip(walks, begins, strict=True)):
        steps = max(map(len, both.values()))
        for t in range(steps):
            x, y = LEFT + t * (size + gap), 40
            colour = GUSTS if blown[i, t] else "#eaeef2"
            mark, when = Moving(), begin + t * (MOVE + BLOW) + MOVE
            mark.at(0, 0)
            mark.jump(when, 1)
            mark.jump(_end(walks, begins, i, total), 0)
            body = f'<rect x="{x}" y="{y}" width="{size}" height="{size}" rx="3" fill="{colour}"/>'
            if blown[i, t]:
                arrow = f"M{x + 11} {y + 7.5}h-7m3 -3.5l-3.5 3.5l3.5 3.5"
                body += f'<path d="{arrow}" stroke="white" stroke-width="2" fill="none"/>'
            if moving:
                parts.append(f'<g opacity="0">{mark.animate("opacity", total)}{body}</g>')
            elif i == FUTURES - 1:
                parts.append(f"<g>{body}</g>")
            if blown[i, t]:
                wind.jump(when, 1)
                wind.jump(when + BLOW, 0)
    lines = "".join(
        f'<path d="M{LEFT + CELL * COLUMNS - 20 - 90 * c} {TOP + CELL * (r + 0.5)}h-56m9 -8l-9 8l9 8" stroke="{GUSTS}" '
        'stroke-width="4" fill="none" stroke-linecap="round"/>'
        for r in range(ROWS)
        for c in range(3)
    )
    if moving:
        parts.append(f'<g opacity="0">{wind.animate("opacity", total)}<g opacity="0.55">{lines}</g></g>')
    return parts


def _end(walks: list[Walks], begins: list[float], i: int, total: float) -> float:
    """When a future is replaced by the next one."""
    return begins[i + 1] if i + 1 < len(walks) else total - 0.05


def _lanes(walks: list[Walks], begins: list[float], total: float, moving: bool) -> list[str]:
    """For each future, a bar of steps for each agent, which grow, and the difference."""
    parts = []
    for i, (both, begin) in enumerate(zip(walks, begins, strict=True)):
        top = TOP - 32 + i * (LANE + 10)
        for k, (name, colour) in enumerate(COLOURS.items()):
            steps = len(both[name])
            y = top + k * 27
            width = Moving()
            width.at(0, 0)
            for t in range(steps):
                when = begin + t * (MOVE + BLOW)
                width.jump(when + MOVE, STEP * (t + 1))
            width.jump(total - 0.05, 0)
            grown = width.animate("width", total) if moving else ""
            parts.append(
                f'<rect x="{BARS}" y="{y}" width="{0 if moving else STEP * steps}" height="23" rx="3" fill="{colour}">'
                f"{grown}</rect>"
            )
            label = f'<text x="{BARS + 6}" y="{y + 17}" font-size="15" fill="white">{name if i == 0 else ""} </text>'
            count = f'<text x="{BARS + STEP * steps + 6}" y="{y + 17}" font-size="16" fill="{WORDS}">{steps}</text>'
            at = begin + steps * (MOVE + BLOW)
            parts += [_appearing(label, begin + 6 * (MOVE + BLOW), total, moving), _appearing(count, at, total, moving)]
    return parts


def _appearing(body: str, when: float, total: float, moving: bool) -> str:
    if not moving:
        return body
    shown = Moving()
    shown.at(0, 0)
    shown.jump(when, 1)
    shown.jump(total - 0.05, 0)
    return f'<g opacity="0">{shown.animate("opacity", total)}{body}</g>'


def _agent(name: str, walks: list[Walks], begins: list[float], total: float, moving: bool) -> list[str]:
    """A dot that walks; without movement, its way in the last future."""
    colour, both = COLOURS[name], [place(START, name)]
    x, y = Moving(), Moving()
    for one, value in zip((x, y), both[0], strict=True):
        one.at(0, value)
    for i, (walked, begin) in enumerate(zip(walks, begins, strict=True)):
        for t, (_, calm, after) in enumerate(walked[name]):
            when = begin + t * (MOVE + BLOW)
            for at, state in ((when + MOVE, calm), (when + MOVE + BLOW, after)):
                for one, value in zip((x, y), place(state, name), strict=True):
                    if at == when + MOVE:
                        one.at(when, one.values[-1])
                    one.at(at, value)
        for one, value in zip((x, y), both[0], strict=True):
            one.jump(_end(walks, begins, i, total), value)
    start = f'cx="{both[0][0]}" cy="{both[0][1]}" r="11" fill="{colour}" stroke="white" stroke-width="2"'
    if moving:
        return [f"<circle {start}>{x.animate('cx', total)}{y.animate('cy', total)}</circle>"]
    way = [place(START, name)] + [place(state, name) for _, calm, after in walks[-1][name] for state in (calm, after)]
    line = " ".join(f"{a:g},{b:g}" for a, b in way)
    return [
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="4" opacity="0.7"/>',
        f"<circle {start}/>",
    ]


if __name__ == "__main__":
    for file, moving in (("same_gusts.svg", True), ("same_gusts_still.svg", False)):
        (IMAGES / file).write_text(picture(moving), encoding="utf-8")
        record(IMAGES / file, seeds=str(SEED))
        print(f"{file}: {(IMAGES / file).stat().st_size / 1000:.0f} KB")
