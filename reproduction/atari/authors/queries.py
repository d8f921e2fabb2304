"""Pair queries and paired rollouts on the authors' settings.

Frame skip 1, no sticky actions, the uniform policy, one grey frame of 84 × 84 as observation. Two actions are queried
in a state under one random sign u. The first has the reward clip(points + c u, 0, 1), the second clip(points − c u, 0,
1): the reward depends on the position in the query, not on the action. In a rollout of two branches u is shared
whenever both have the same RAM; otherwise each branch draws its own. Next actions are always drawn separately. Returns
are multiplied by 1 − γ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from jmdp import Shock
from jmdp.base.labels import identity
from jmdp.base.whole_files import whole_file
from jmdp.simulators import ALESimulator, Simulator, Step, action_labels

Frames = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

DISCOUNT = 0.99
WEIGHT = 1.0
"""c, the weight of the shared sign in rewards."""
SIDE = 84
PIECE = 8
"""States whose paired rollouts are simulated and stored together."""


def coupled(points: Any, sign: Any, first: Any) -> Any:
    """Reward of a query: clip(points ± c u, 0, 1), + for the first queried action."""
    return np.clip(points + np.where(first, WEIGHT, -WEIGHT) * sign, 0.0, 1.0)


def reduced(screen: Frames) -> Frames:
    """Grey frame 84 × 84: averages over the area of each pixel."""
    narrow = _COLUMNS @ (_ROWS @ screen.astype(np.float32)).T
    return np.asarray(np.rint(narrow.T), np.uint8)


def _areas(pixels: int) -> csr_array:
    """[84, pixels], share of each pixel in each of 84 equal intervals."""
    ends = np.linspace(0, pixels, SIDE + 1)
    low, high = ends[:-1, None], ends[1:, None]
    inside = np.minimum(high, np.arange(1, pixels + 1)) - np.maximum(low, np.arange(pixels))
    return csr_array((np.maximum(inside, 0) / (high - low)).astype(np.float32))


_ROWS, _COLUMNS = _areas(210), _areas(160)


class Emulator:
    """One running game."""

    def __init__(self, game: str) -> None:
        from ale_py import ALEInterface, LoggerMode, roms

        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setInt("frame_skip", 1)
        self.ale.setFloat("repeat_action_probability", 0.0)
        path = roms.get_rom_path(game)
        assert path is not None
        self.ale.loadROM(path)
        self.moves = self.ale.getMinimalActionSet()

    def act(self, action: int) -> tuple[float, bool]:
        """Points of one frame, and whether the game was over, in which case a new one begins."""
        points = float(self.ale.act(self.moves[action]))
        over = bool(self.ale.game_over(with_truncation=False))
        if over:
            self.ale.reset_game()
        return points, over

    def seen(self) -> Frames:
        """The frame as the networks see it."""
        return reduced(self.ale.getScreenGrayscale())


class Queries(NamedTuple):
    """T steps of a random walk, with one query of two actions in each state; the first one is executed."""

    frame: Frames  # [T, 84, 84], states of the walk
    after: Frames  # [T, 2, 84, 84], frames after both actions
    action: npt.NDArray[np.int64]  # [T, 2]
    reward: Floats  # [T, 2], coupled
    ended: npt.NDArray[np.bool_]  # [T, 2]


@dataclass(frozen=True)
class Walk:
    """A random walk with its queries, simulated in segments."""

    game: str
    seed: int
    segment: int = 5000
    """Steps of a segment."""

    def collected(self, number: int, folder: Path) -> Queries:
        """Return a segment, simulated now unless its file exists. It begins where the one before it ended."""
        path = folder / "queries" / f"{self.game}-{self.seed}-{_name(self)}-{number}.npz"
        if not path.exists():
            played = [self.collected(i, folder).action[:, 0] for i in range(number)]
            found = self._simulate(number, np.concatenate([np.zeros(0, np.int64), *played]).tolist())
            with whole_file(path) as file:
                np.savez_compressed(file, **found._asdict())
        with np.load(path) as file:
            return Queries(*(file[name] for name in Queries._fields))

    def _simulate(self, number: int, played: list[int]) -> Queries:
        emulator, rng = Emulator(self.game), Shock.of_sample(self.seed, number).derived(b"queries").generator()
        for before in played:
            emulator.act(before)
        ale, A, T = emulator.ale, len(emulator.moves), self.segment
        frame, after = np.empty((T, SIDE, SIDE), np.uint8), np.empty((T, 2, SIDE, SIDE), np.uint8)
        action = np.stack([rng.permuted(np.arange(A))[:2] for _ in range(T)])
        points, ended, seen = np.zeros((T, 2)), np.zeros((T, 2), np.bool_), emulator.seen()
        for t in range(T):
            frame[t], here = seen, ale.cloneState()
            points[t, 1], ended[t, 1] = emulator.act(action[t, 1])
            after[t, 1] = emulator.seen()
            ale.restoreState(here)
            points[t, 0], ended[t, 0] = emulator.act(action[t, 0])
            after[t, 0] = seen = emulator.seen()
        signs = rng.choice([-1.0, 1.0], T)
        return Queries(frame, after, action, coupled(points, signs[:, None], np.array([True, False])), ended)


class Starts(NamedTuple):
    """States of random walks, with a pair of actions each."""

    screen: Frames  # [N, 210, 160]
    pair: npt.NDArray[np.int64]  # [N, 2]
    walk: npt.NDArray[np.int64]  # [N], number of the random walk that visited the state


class Simulated(NamedTuple):
    """Paired rollouts from states."""

    returns: Floats  # [N, n, 2], multiplied by 1 − γ
    together: Floats  # [N], share of steps that both branches began with the same RAM


@dataclass(frozen=True)
class Reference:
    """Paired rollouts in states of random walks: every `spacing`-th state of each walk, from its first one on."""

    game: str
    seed: int
    walks: int
    states: int
    """States of each walk."""
    spacing: int
    rollouts: int
    length: int
    """Steps of a rollout."""

    def starts(self) -> Starts:
        """Return the states in which rollouts begin."""
        emulator = Emulator(self.game)
        parts = [self._walked(emulator, walk)[1] for walk in range(self.walks)]
        return Starts(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def collected(self, folder: Path, tell: Callable[[str], None]) -> Simulated:
        """Return the rollouts. Each piece of a walk has its own file."""
        parts = []
        for walk in range(self.walks):
            for first in range(0, self.states, PIECE):
                path = folder / "reference" / f"{self.game}-{self.seed}-{_name(self)}-{walk}-{first}.npz"
                if not path.exists():
                    found = self._simulate(walk, range(first, min(first + PIECE, self.states)), tell)
                    with whole_file(path) as file:
                        np.savez(file, **found._asdict())
                with np.load(path) as file:
                    parts.append(Simulated(*(file[name] for name in Simulated._fields)))
        return Simulated(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def _walked(self, emulator: Emulator, walk: int) -> tuple[list[Any], Starts]:
        """Snapshots of a walk's states, and what is known of them."""
        rng, A = Shock.of_sample(self.seed, walk).derived(b"walk").generator(), len(emulator.moves)
        emulator.ale.reset_game()
        snapshots, screens, pairs = [], [], []
        for t in range(self.states * self.spacing):
            if t % self.spacing == 0:
                snapshots.append(emulator.ale.cloneState())
                screens.append(emulator.ale.getScreenGrayscale())
                pairs.append(rng.permuted(np.arange(A))[:2])
            emulator.act(int(rng.integers(A)))
        return snapshots, Starts(np.stack(screens), np.stack(pairs), np.full(self.states, walk))

    def _simulate(self, walk: int, states: range, tell: Callable[[str], None]) -> Simulated:
        branches = Emulator(self.game), Emulator(self.game)
        snapshots, starts = self._walked(branches[0], walk)
        returns, together = np.zeros((len(states), self.rollouts, 2)), np.zeros(len(states))
        for i, state in enumerate(states):
            tell(f"{self.game}: paired rollouts, walk {walk + 1} of {self.walks}, state {state + 1} of {self.states}")
            rng = Shock.of_sample(self.seed, walk).derived(b"paired rollouts", state).generator()
            for n in range(self.rollouts):
                rewards, same = _pair(branches, snapshots[state], starts.pair[state], self.length, rng)
                returns[i, n] = (1 - DISCOUNT) * DISCOUNT ** np.arange(self.length) @ rewards
                together[i] += same / self.rollouts
        return Simulated(returns, together)


def _pair(
    branches: tuple[Emulator, Emulator], start: Any, pair: Any, length: int, rng: np.random.Generator
) -> tuple[Floats, float]:
    """Rewards [length, 2] of two branches from one state, and the share of steps that began with the same RAM."""
    actions = rng.integers(len(branches[0].moves), size=(length, 2))
    actions[0] = pair
    signs, points, over = rng.choice([-1.0, 1.0], (length, 2)), np.zeros((length, 2)), [False, False]
    live, same = np.ones((length, 2), np.bool_), np.zeros(length, np.bool_)
    for branch in branches:
        branch.ale.restoreState(start)
    for t in range(length):
        same[t] = t == 0 or np.array_equal(branches[0].ale.getRAM(), branches[1].ale.getRAM())
        for b in (0, 1):
            live[t, b] = not over[b]
            if not over[b]:
                points[t, b], over[b] = branches[b].act(actions[t, b])
        if all(over):
            live[t + 1 :] = False
            break
    signs[same, 1] = signs[same, 0]
    return live * coupled(points, signs, np.array([True, False])), float(same.mean())


class Queried(NamedTuple):
    """State of `QueriedGame`: a state of the emulator, and what the next step plays there."""

    game: Any
    position: int  # of the branch in the query
    pair: tuple[int, int]  # actions that the first and the second branch play


class QueriedGame(Simulator):
    """The same rollouts for `jmdp.evaluate`, under `Synchronous`; the two actions are the positions in the query.

    All randomness of a step derives from the shock and the RAM, so branches with the same RAM share the sign, and
    others draw their own. The policy `stay` keeps a branch in its position, which the first pixel shows.
    """

    actions = action_labels(["first", "second"])

    def __init__(self, game: str, length: int) -> None:
        self.length = length
        self.ale = ALESimulator(game, frame_skip=1, sticky=0.0, observation="grayscale")
        assert self.ale.actions is not None
        self.moves = self.ale.actions.size
        self.lanes = self.ale.lanes

    @property
    def episode_limit(self) -> int:
        """Steps of a rollout."""
        return self.length

    def start(self, shock: Shock) -> Queried:
        """A start of the game, with the pair that is queried first."""
        return Queried(self.ale.start(shock), 0, self._pair(shock.uniforms(2)))

    def step(self, state: Queried, action: Any, shock: Shock) -> Step:
        """Outcome of a query, with reward (1 − γ) clip(points ± c u, 0, 1)."""
        return self._step(state, action, shock, self.ale.step)

    def advance(self, state: Queried, action: Any, shock: Shock) -> Step:
        """`step` that uses up the state."""
        return self._step(state, action, shock, self.ale.advance)

    def digest(self, state: Queried) -> bytes:
        """RAM, position and pair."""
        return bytes(state.game.ram) + bytes([state.position, *state.pair])

    def observe(self, state: Queried) -> Frames:
        """The grey screen; its first pixel is the position."""
        return marked(self.ale.observe(state.game), state.position)

    def _step(self, state: Queried, action: Any, shock: Shock, go: Any) -> Step:
        position = self.actions.index(action)
        draws = shock.derived(b"RAM", where=state.game.ram.tobytes()).uniforms(3)
        found = go(state.game, state.pair[position], shock)
        reward = coupled(found.reward, 1.0 if draws[0] < 0.5 else -1.0, position == 0)
        after = Queried(found.state, position, self._pair(draws[1:]))
        return Step((1 - DISCOUNT) * float(reward), after, found.terminated)

    def _pair(self, draws: Floats) -> tuple[int, int]:
        return int(draws[0] * self.moves), int(draws[1] * self.moves)


def marked(screen: Frames, position: int = 0) -> Frames:
    """The screen with the position in its first pixel; [..., 210, 160]."""
    screen = screen.copy()
    screen[..., 0, 0] = position
    return screen


def stay(observation: Frames) -> str:
    """The policy that keeps a branch in its position; its actions are drawn by the game."""
    return "second" if observation[0, 0] else "first"


def _name(settings: Any) -> str:
    """Settings and versions on which the numbers of a file depend."""
    return identity(settings, DISCOUNT, WEIGHT, SIDE, version("ale-py")).hex()[:8]
