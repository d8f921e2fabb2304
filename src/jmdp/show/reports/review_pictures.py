"""Pictures of states: small images with a palette, as many as a page can hold."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jmdp.base.settings import UNCONVERTIBLE, error_text
from jmdp.errors import UnavailableError
from jmdp.reviews.review import Review
from jmdp.reviews.trajectory import Trajectory

MOST_FRAMES = 120
"""Pictures of a timeline."""

_WIDTH = 160
"""Pixels of a picture; larger ones are scaled down."""

_TALLEST = 320
_COLOURS = 64
_MOST_BYTES = 1_500_000
"""Of the pictures of a timeline."""

_LARGEST = 100_000_000
"""Numbers of a frame; larger ones are not drawn."""


@dataclass(frozen=True)
class Picture:
    """A picture of a state."""

    png: bytes
    coarse: bool  # so small that its pixels are shown as squares

    @property
    def source(self) -> str:
        """The picture as a data URL."""
        return f"data:image/png;base64,{base64.b64encode(self.png).decode('ascii')}"


@dataclass(frozen=True)
class Pictures:
    """Pictures before some steps, or why there are none."""

    found: dict[int, Picture]
    missing: str = ""

    @classmethod
    def of(cls, review: Review, trajectory: Trajectory, steps: Sequence[int]) -> Pictures:
        """Pictures of the states before these steps; `trajectory` is that of the review or continues it."""
        at = sorted(set(steps))
        before = None if trajectory is review.trajectory else review.trajectory
        try:
            frames = review.replay.frames(trajectory, before, set(at))
        except UnavailableError as error:
            return cls({}, str(error))
        except Exception as error:  # of any kind: the environment draws
            return cls({}, f"The states could not be drawn: {error_text(error)}.")
        if frames is None:
            return cls(
                {}, 'The simulator draws no pictures; environments of Gymnasium do with render_mode="rgb_array".'
            )
        found = [encoded(frame) for frame in frames]
        if any(one is None for one in found):
            return cls({}, "The pictures of the simulator are not arrays [height, width, 3] of uint8.")
        return cls({step: one for step, one in zip(at, found, strict=False) if one is not None})

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(one.png) for one in self.found.values())


def encoded(frame: Any) -> Picture | None:
    """A frame as a small PNG; None if it is no picture."""
    from PIL import Image

    try:
        array = np.asarray(frame)
    except UNCONVERTIBLE:
        return None
    if array.dtype != np.uint8 or array.size == 0 or array.size > _LARGEST:
        return None
    if array.ndim == 3 and array.shape[2] in (3, 4):
        array = array[:, :, :3]
    elif array.ndim != 2:
        return None
    image = Image.fromarray(np.ascontiguousarray(array)).convert("RGB")
    scale = min(1.0, _WIDTH / image.width, _TALLEST / image.height)
    if scale < 1:
        size = max(1, round(scale * image.width)), max(1, round(scale * image.height))
        image = image.resize(size, Image.Resampling.BOX)
    file = io.BytesIO()
    image.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return Picture(file.getvalue(), coarse=image.width < _WIDTH / 2)


def chosen(steps: Sequence[int], kept: Sequence[int], most: int) -> list[int]:
    """At most so many steps: evenly spaced ones, with the first, the last and as many of `kept` as have room."""
    if len(steps) <= most:
        return list(steps)
    found = {steps[0], steps[-1], *kept[: most // 3]}
    room = most - len(found)
    return sorted(found | {steps[round(x)] for x in np.linspace(0, len(steps) - 1, room + 2)[1:-1]})


def timeline(review: Review) -> tuple[list[int], Pictures]:
    """The steps of a timeline, the one after the last included, and their pictures."""
    steps = range(review.first, review.first + len(review) + 1)
    worst = [one.step for one in review.worst()]
    shown = chosen(steps, worst, MOST_FRAMES)
    pictures = Pictures.of(review, review.trajectory, shown)
    if pictures.size > _MOST_BYTES:
        most = max(12, math.floor(len(shown) * _MOST_BYTES / pictures.size))
        shown = chosen(shown, [step for step in worst if step in pictures.found], most)
        pictures = Pictures({step: pictures.found[step] for step in shown})
    return shown, pictures
