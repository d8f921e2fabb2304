"""Draw the environments of the gallery: ``python -m examples.pictures [NAME…]``, all by default.

Each environment is rendered by itself, some steps after a reset with seed 0. Entries that learn about all states show
several states in one picture. Pictures of MuJoCo need a graphics card or OSMesa (Debian: libosmesa6).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import jmdp
from benchmarks.provenance import record

PICTURES = Path(__file__).parents[1] / "docs" / "images" / "gallery"
SIZE = (480, 360)
COLOURS = 48
Frame = Any  # uint8 [height, width, 3]


def gymnasium_frame(name: str, steps: int = 0, states: Callable[[Any], None] | None = None, **settings: Any) -> Frame:
    """The environment after so many random actions; `states` may put it into another state before it is drawn."""
    os.environ.setdefault("MUJOCO_GL", "osmesa")
    import gymnasium
    import highway_env  # noqa: F401 (registers its environments)
    import minigrid  # noqa: F401

    env = gymnasium.make(name, render_mode="rgb_array", **settings)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
    if states is not None:
        states(env.unwrapped)
    return np.asarray(env.render())


def put(**values: Any) -> Callable[[Any], None]:
    """Set attributes of an environment."""
    return lambda env: [setattr(env, key, value) for key, value in values.items()] and None


def atari(game: str, policy: Callable[[Any], int], first: int, last: int) -> Frame:
    """A game from one step to another, the brightest of each pixel: what moves leaves a trail."""
    simulator = jmdp.simulators.ALESimulator(game, observation="screen")
    state, frames = simulator.start(jmdp.Shock.of_sample(0, 0)), []
    for t in range(last):
        state = simulator.step(state, policy(state.ram), jmdp.Shock.of_sample(0, t)).state
        frames.append(state.screen)
    return np.max(frames[first:], axis=0)


def chase(ram: Any) -> int:
    """Pong: move the paddle to the ball."""
    off = int(ram[51]) - int(ram[54])
    return 0 if abs(off) <= 2 else 2 if off > 0 else 3


def min_atar(steps: int) -> Frame:
    """MinAtar Asterix: the player in blue, enemies in orange with their trails, treasure in green."""
    import gymnax
    import jax

    env, params = gymnax.make("Asterix-MinAtar")
    seen, state = env.reset(jax.random.key(0), params)
    for t in range(steps):
        seen, state, *_ = env.step(jax.random.key(t), state, 0, params)
    colours = np.array([[0, 114, 178], [213, 94, 0], [255, 214, 170], [0, 158, 115]], np.uint8)
    cells = np.full((10, 10, 3), 245, np.uint8)
    for channel in (2, 1, 3, 0):
        cells[np.asarray(seen)[:, :, channel] > 0] = colours[channel]
    drawn = np.kron(cells, np.ones((36, 36, 1), np.uint8))
    drawn[::36] = drawn[:, ::36] = 225
    return drawn


def shop() -> Frame:
    """A shelf: fresh loaves, those of yesterday, and a delivery of tomorrow."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    figure = Figure(figsize=(4.8, 3.6), dpi=100, facecolor="#FBF7F0")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 48), ylim=(0, 36))
    axes.axis("off")
    rows = {"today": (23, "#C68642", 2), "yesterday": (13.5, "#E3BE8F", 2), "order?": (4, "white", 6)}
    for name, (y, colour, loaves) in rows.items():
        axes.plot([13, 46], [y - 0.6, y - 0.6], color="#5B4636", linewidth=4 if name != "order?" else 0)
        axes.text(2, y + 1.8, name, fontsize=15, color="#3B2F27", va="center")
        for i in range(loaves):
            style = {"linestyle": "--"} if name == "order?" else {}
            axes.add_patch(FancyBboxPatch((14.6 + 5.2 * i, y + 0.4), 3.4, 3.2, boxstyle="round,pad=0.6",
                                          facecolor=colour, edgecolor="#7A5230", linewidth=1.6, **style))  # fmt: skip
    axes.text(24, 32, "bread for tomorrow", fontsize=17, weight="bold", color="#3B2F27", ha="center", va="center")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3]


def room() -> Frame:
    """A day of a room: its temperature, and when the heater is on."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rng, warm, heat, path = np.random.default_rng(0), 20.0, 0, []
    for _ in range(150):
        heat = 1 if warm < 19.5 else 0 if warm > 20.5 else heat
        warm += -0.05 * (warm - 10) + 0.8 * heat + 0.3 * rng.normal()
        path.append((warm, heat))
    degrees, on = np.array(path).T
    figure = Figure(figsize=(4.8, 3.6), dpi=100, facecolor="#F3F8FC")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    axes.set(xlim=(0, 150), ylim=(16.5, 23.5))
    axes.axhspan(19.5, 20.5, color="#CFE6D4")
    axes.fill_between(range(150), 16.5, 16.5 + 0.9 * on, step="mid", color="#D55E00", alpha=0.8, linewidth=0)
    axes.plot(degrees, color="#0072B2", linewidth=2.5)
    axes.text(6, 22.6, "20 °C ± ?", fontsize=24, weight="bold", color="#1f2328", va="center")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[:, :, :3]


def together(frames: list[Frame]) -> Frame:
    """Several states in one picture, the darkest of each pixel."""
    return np.min(frames, axis=0)


def poles(*shown: tuple[float, float]) -> Frame:
    """CartPole in several states, given as the place of the cart and the angle of the pole."""
    states = [np.array([x, 0.0, angle, 0.0]) for x, angle in shown]
    return together([gymnasium_frame("CartPole-v1", states=put(state=state)) for state in states])


def pendulums() -> Frame:
    """Pendulum in several states."""
    angles = np.linspace(-2.6, 2.6, 7)
    return together([gymnasium_frame("Pendulum-v1", states=put(state=np.array([a, 0.0]))) for a in angles])


ROAD = {"vehicles_count": 4, "screen_width": 320, "screen_height": 240, "scaling": 6}
DRAW: dict[str, Callable[[], Frame]] = {
    "own_simulator": shop,
    "frozen_lake": partial(gymnasium_frame, "FrozenLake-v1", states=put(s=14)),
    "cliff_walking": partial(gymnasium_frame, "CliffWalking-v1", states=put(s=14)),
    "taxi": partial(gymnasium_frame, "Taxi-v4", states=put(s=254, lastaction=0), is_rainy=True),
    "blackjack": partial(gymnasium_frame, "Blackjack-v1"),
    "cart_pole": partial(gymnasium_frame, "CartPole-v1", states=put(state=np.array([0.3, 0.0, 0.15, 0.0]))),
    "trained_policy": partial(gymnasium_frame, "Acrobot-v1", steps=30),
    "lunar_lander": partial(gymnasium_frame, "LunarLander-v3", steps=45, enable_wind=True),
    "highway": partial(gymnasium_frame, "highway-fast-v0", steps=1, config=ROAD),
    "minigrid_obstacles": partial(gymnasium_frame, "MiniGrid-Dynamic-Obstacles-6x6-v0", steps=1),
    "swimmer": partial(gymnasium_frame, "Swimmer-v5", steps=20),
    "pong": partial(atari, "pong", chase, 104, 105),
    "freeway": partial(atari, "freeway", lambda ram: 1, 9, 10),
    "gymnax_asterix": partial(min_atar, 60),
    "jax_thermostat": room,
    "learned_gymnax": partial(poles, (-1.9, -0.2), (-0.9, 0.12), (0.1, -0.05), (1.0, 0.2), (1.9, 0.0)),
    "learned_gymnasium": pendulums,
    "learned_policies": partial(poles, (-1.1, 0.2), (1.1, -0.2)),
}
"""How the picture of each entry is made."""


def framed(frame: Frame) -> Image.Image:
    """The picture in the middle of a sheet of one size; the rest has the colour of its upper left corner."""
    image = Image.fromarray(np.ascontiguousarray(frame)).convert("RGB")
    scale = min(SIZE[0] / image.width, SIZE[1] / image.height)
    way = Image.Resampling.NEAREST if scale >= 1.5 else Image.Resampling.LANCZOS
    image = image.resize((round(scale * image.width), round(scale * image.height)), way)
    sheet = Image.new("RGB", SIZE, image.getpixel((0, 0)))
    sheet.paste(image, ((SIZE[0] - image.width) // 2, (SIZE[1] - image.height) // 2))
    return sheet.quantize(COLOURS, dither=Image.Dither.NONE)


def main(names: list[str]) -> None:
    """Draw them."""
    for name in names or DRAW:
        out = PICTURES / f"{name}.png"
        framed(DRAW[name]()).save(out, optimize=True)
        record(out, seeds="0")
        print(f"{out.name}: {out.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
