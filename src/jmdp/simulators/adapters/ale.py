"""Atari 2600 games (ale-py): states are snapshots of the emulator, and a step is pure in state, action and shock.

The emulator's own sticky actions are off, because the action they would repeat is not in its saved state. Instead, the
coins come from the shock, and the previous action is stored with each snapshot. So is the observation, because the
screen is stale after a restore. The state that an emulator has just reached is *live* in it: the next step needs no
restore. A live state is saved only if it is needed again, or if its emulator is needed for another state.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from jmdp.base.labels import Label, Labels
from jmdp.base.luck import Shock
from jmdp.base.settings import boolean, nonnegative, short, whole
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError
from jmdp.simulators.simulator import Simulator, Step

if TYPE_CHECKING:
    import ale_py

Observation = Literal["ram", "screen", "grayscale"]
Bytes = npt.NDArray[np.uint8]
Kind = tuple[str, int | None, int | None, Observation]  # simulators of equal kind accept each other's states
_DEAD_REFERENCE = type(None)  # returns None when called, like a weak reference to a deleted object
_EVICTIONS_BEFORE_ANOTHER = 1000  # saves and restores that take as long as loading another emulator (0.3 s)

# Games that ale-py 0.12.1 does not restore completely, found by playing every game with branches and without.
_LOST = {
    "miniature_golf": "the score is saved as a boolean, so rewards after a restore are wrong",
    "tic_tac_toe_3d": "the display is not saved completely, so steps after a restore depend on earlier ones",
}
_LATE_SCREEN = "yars_revenge"  # some pixels of the first frame after a restore belong to another branch
_ROUNDED = "pitfall2"  # a clock is rounded when saved, so every step has to start from the saved state


class EmulatorState:
    """Immutable snapshot of a game, which can be pickled. It is saved, live in an emulator, or consumed."""

    __slots__ = ("__weakref__", "_emulator", "_saved", "kind", "over", "previous", "ram", "screen")

    def __init__(self, kind: Kind, previous: int, over: bool, ram: Bytes, screen: Bytes | None) -> None:
        self.kind = kind
        self.previous = previous  # action of the last frame, in the emulator's numbering
        self.over = over
        self.ram = ram  # [128]
        self.screen = screen  # [210, 160, 3], or [210, 160] in grey; None if the RAM is observed
        self._saved: ale_py.ALEState | None = None
        self._emulator: _Emulator | None = None  # the emulator in which this state is live
        ram.flags.writeable = False
        if screen is not None:
            screen.flags.writeable = False

    def saved(self) -> ale_py.ALEState:
        """The emulator's own snapshot, taken now if it was not saved before."""
        if self._saved is None:
            if self._emulator is None:
                raise SimulatorError("This state was consumed by advance(). Call step() for states needed again.")
            self._saved = self._emulator.ale.cloneState()
        return self._saved

    def leave(self, *, saved: bool) -> None:
        """Detach the state from its emulator; it is consumed unless `saved`."""
        self._saved = self.saved() if saved else None
        if self._emulator is not None:
            self._emulator.holder, self._emulator = _DEAD_REFERENCE, None

    def __getstate__(self) -> tuple[Any, ...]:
        return self.kind, self.previous, self.over, self.ram, self.screen, self.saved()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        EmulatorState.__init__(self, *state[:5])
        self._saved = state[5]


class _Emulator:
    """A running emulator, and a reference to the state that is live in it."""

    def __init__(self, ale: ale_py.ALEInterface, owner: ALESimulator) -> None:
        self.ale = ale
        self.owner = weakref.ref(owner)
        self.holder: Callable[[], EmulatorState | None] = _DEAD_REFERENCE


class ALESimulator(Simulator):
    """Atari 2600 game in the Arcade Learning Environment.

    A step is `frame_skip` frames, fewer if the game ends. In each frame a coin from the shock, the same for all
    actions, decides whether the previous frame's action is repeated instead of the new one, as in ALE's own sticky
    actions. Losing a life does not end an episode. `start` is the first frame after 0 to 30 frames without action, a
    number drawn from the shock. Do not share a simulator between threads.

    Parameters
    ----------
    game
        Name of a game, or path of a ROM file. "pong", "Pong", "ALE/Pong-v5" and "PongNoFrameskip-v4" are the same game;
        other settings are not taken from the name.
    frame_skip, sticky
        Frames per step; probability of repeating the previous frame's action, in [0, 1).
    observation
        Observation of policies: "ram" is uint8 [128], "screen" uint8 [210, 160, 3], "grayscale" uint8 [210, 160].
    full_action_space, mode, difficulty
        Use all 18 actions instead of those with an effect in this game; settings of the game, None for its default.
    clip_rewards
        Replace the points of a step by their sign, −1, 0 or 1, as is usual in deep learning.
    shared_noise, action_noise
        σ and τ in reward + ξ·(σ + τ·ℓ(a)), the reward shock of the paper's Atari diagnostic (Section C): ξ ~ N(0, 1)
        from the shock, loadings ℓ evenly spaced from −1 for the first action to 1 for the last (0 for a single one).
    max_emulators
        Maximum number of emulators, loaded when that saves time. Results do not depend on it.
    """

    actions: Labels

    def __init__(
        self,
        game: str | os.PathLike[str],
        *,
        frame_skip: int = 4,
        sticky: float = 0.25,
        observation: Observation = "ram",
        full_action_space: bool = False,
        mode: int | None = None,
        difficulty: int | None = None,
        clip_rewards: bool = False,
        shared_noise: float = 0.0,
        action_noise: float = 0.0,
        max_emulators: int = 16,
    ) -> None:
        self.frame_skip, self.sticky, self.observation = frame_skip, sticky, observation
        self.full_action_space, self.mode, self.difficulty = full_action_space, mode, difficulty
        self.clip_rewards = clip_rewards
        self.shared_noise, self.action_noise, self.max_emulators = shared_noise, action_noise, max_emulators
        self._rom, self.game = _rom_of(game)
        self._check_settings()
        self._kind: Kind = (self.game, self.mode, self.difficulty, self.observation)
        self._generator = Shock(bytes(16)).generator()  # restarted for every shock
        self._emulators: list[_Emulator] = []  # least recently used first
        self._evictions, self.lanes = 0, self.max_emulators
        ale = self._add_emulator().ale
        self._boot = ale.cloneState()
        moves = ale.getLegalActionSet() if self.full_action_space else ale.getMinimalActionSet()
        self._codes = [int(move.value) for move in moves]
        self.actions = Labels.of("action", len(moves), [move.name for move in moves])
        self._loadings = np.linspace(-1.0, 1.0, len(moves)).tolist() if len(moves) > 1 else [0.0]

    def step(self, state: EmulatorState, action: Label, shock: Shock) -> Step:
        """Outcome of the action, an index or a name, in this state under this shock."""
        return self._step(state, action, shock, use_up=False)

    def advance(self, state: EmulatorState, action: Label, shock: Shock) -> Step:
        """`step` that consumes the state: it can only be observed afterwards."""
        return self._step(state, action, shock, use_up=True)

    def digest(self, state: EmulatorState) -> bytes:
        """Sixteen bytes from all that the emulator saves (frame counter too), and the last action if `sticky` > 0."""
        previous = bytes([state.previous if self.sticky else 0])
        return hashlib.blake2b(state.saved().serialize() + previous, digest_size=16).digest()

    def observe(self, state: EmulatorState) -> Bytes:
        """The RAM or the screen, read-only."""
        return state.ram if state.screen is None else state.screen

    def start(self, shock: Shock) -> EmulatorState:
        """The game's first frame, after 0 to 30 frames without action."""
        generator = shock.restart(self._generator)
        emulator = self._free_emulator()
        emulator.ale.restoreState(self._boot)
        for _ in range(int(generator.integers(31))):
            emulator.ale.act(0)
        return self._snapshot(emulator, 0)

    def frame(self, state: EmulatorState) -> Any:
        """The screen of a state that was reached by a step and is the last one of its emulator; otherwise None."""
        if state.screen is not None and state.screen.ndim == 3:
            return state.screen
        live = state._emulator
        return None if live is None or live.owner() is not self else live.ale.getScreenRGB()

    def generators(self, state: Any) -> dict[str, Any]:
        """Empty: the emulator's own randomness is off, and all draws come from the shock."""
        return {}

    def _step(self, state: EmulatorState, action: Label, shock: Shock, *, use_up: bool) -> Step:
        if not isinstance(state, EmulatorState) or state.kind != self._kind:
            raise SimulatorError(f"This is not a state of {self!r}. Use states returned by its start() and step().")
        a = self.actions.index(action)
        if state.over:
            return Step(0.0, state, True)
        generator = shock.restart(self._generator)  # all draws come before the action is used
        coins = generator.random(self.frame_skip).tolist()
        noise = generator.standard_normal() * (self.shared_noise + self.action_noise * self._loadings[a])
        emulator = self._emulator_at(state, use_up)
        ale, code, played, reward = emulator.ale, self._codes[a], state.previous, 0
        for coin in coins:
            if coin >= self.sticky:
                played = code
            reward += ale.act(played)
            if ale.game_over(with_truncation=False):
                break
        if self.clip_rewards:
            reward = (reward > 0) - (reward < 0)
        following = self._snapshot(emulator, played)
        return Step(reward + noise, following, following.over)

    def _emulator_at(self, state: EmulatorState, use_up: bool) -> _Emulator:
        """An emulator in this state, in which no state is live; the state is saved before, or consumed."""
        emulator = state._emulator
        if emulator is None or emulator.owner() is not self:
            saved = state.saved()
            emulator = self._free_emulator()
            emulator.ale.restoreState(saved)
        state.leave(saved=not use_up)
        return emulator

    def _free_emulator(self) -> _Emulator:
        """An unused emulator, a new one if that saves time, or the least recently used one after saving its state."""
        for emulator in self._emulators:
            if emulator.holder() is None:
                return emulator
        self._evictions += 1
        if len(self._emulators) < (self.lanes if self._evictions > _EVICTIONS_BEFORE_ANOTHER else 1):
            self._evictions = 0
            return self._add_emulator()
        emulator = self._emulators[0]
        if (holder := emulator.holder()) is not None:
            holder.leave(saved=True)
        return emulator

    def _snapshot(self, emulator: _Emulator, played: int) -> EmulatorState:
        """The current state of an emulator, live in it."""
        ale, screen = emulator.ale, None
        if self.observation != "ram":
            screen = ale.getScreenRGB() if self.observation == "screen" else ale.getScreenGrayscale()
        state = EmulatorState(self._kind, played, ale.game_over(with_truncation=False), ale.getRAM(), screen)
        state._emulator, emulator.holder = emulator, weakref.ref(state)
        self._emulators.remove(emulator)
        self._emulators.append(emulator)
        if self.game == _ROUNDED:
            state.leave(saved=True)
        return state

    def _add_emulator(self) -> _Emulator:
        from ale_py import ALEInterface, LoggerMode

        ALEInterface.setLoggerMode(LoggerMode.Error)
        ale = ALEInterface()
        ale.setFloat("repeat_action_probability", 0.0)  # no randomness of its own
        ale.loadROM(self._rom)
        for name, value, known, turn in (
            ("mode", self.mode, ale.getAvailableModes(), ale.setMode),
            ("difficulty", self.difficulty, ale.getAvailableDifficulties(), ale.setDifficulty),
        ):
            if value is not None and value not in known:
                raise SettingsError(f"{name} is {value}. {self.game} supports {', '.join(map(str, known))}.")
            if value is not None:
                turn(value)
                ale.reset_game()  # applies the setting
        # The counter of cycles is large within a long frame (qbert, tetris). restoreState does not support such states
        # and could even write out of bounds.
        while int.from_bytes(ale.cloneState().serialize()[74:78], "little") > 50_000:
            ale.act(0)
        self._emulators.append(_Emulator(ale, self))
        return self._emulators[-1]

    def _check_settings(self) -> None:
        for name, least in (("frame_skip", 1), ("max_emulators", 1), ("mode", 0), ("difficulty", 0)):
            whole(self, name, least, optional=least == 0)
        for name in ("sticky", "shared_noise", "action_noise"):
            nonnegative(self, name)
        boolean(self, "full_action_space")
        boolean(self, "clip_rewards")
        if self.sticky >= 1:
            raise SettingsError(f"sticky is {self.sticky}. Give a probability below 1.")
        if type(self.observation) is not str or self.observation not in get_args(Observation):
            raise SettingsError(f"observation is {short(self.observation)}. Use 'ram', 'screen' or 'grayscale'.")
        if self.game in _LOST:
            raise SettingsError(f"ale-py cannot branch {self.game!r}: {_LOST[self.game]}. Use another game.")
        if self.game == _LATE_SCREEN and self.frame_skip == 1 and self.observation != "ram":
            raise SettingsError(f"Screens of {self.game!r} need frame_skip ≥ 2. Use that, or observation='ram'.")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_emulators": []}

    def __repr__(self) -> str:
        return f"ALESimulator({self.game!r}, frame_skip={self.frame_skip}, sticky={self.sticky})"


def _rom_of(game: str | os.PathLike[str]) -> tuple[Path, str]:
    """Path of a ROM and its name in ale-py. Checked before loading, because an unsupported ROM ends the process."""
    try:
        from ale_py import ALEInterface, roms
    except ImportError:
        raise MissingExtraError('Atari games need ale-py: pip install "jmdp[atari]"') from None
    if not isinstance(game, (str, os.PathLike)):
        raise SettingsError(f"game is {short(game)}. Give a name such as 'pong', or the path of a ROM file.")
    names = {name.replace("_", ""): name for name in roms.get_all_rom_ids()}
    plain = re.sub(r"^ale/|(-ram)?(noframeskip|deterministic)?-v\d+$|_", "", os.fspath(game).lower())
    path = roms.get_rom_path(names[plain]) if plain in names else Path(game)
    if path is None or not os.path.isfile(path):  # False also for a name that is too long
        said = short(os.fspath(game))
        close = " or ".join(repr(names[name]) for name in difflib.get_close_matches(plain, names) or ["pong"])
        raise SettingsError(f"game is {said}, not a game of ale-py or a ROM file. Did you mean {close}?")
    known = ALEInterface.isSupportedROM(path)
    if known is None:
        raise SettingsError(f"game is {os.fspath(game)!r}, a ROM that ale-py does not support. Use another game.")
    return path, known
