"""The argument ENV: the simulator that it names, and the state to start from."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import tyro

from jmdp import worlds
from jmdp.base import optional
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.cli.loading import Loader, label_of, source_and_name, unknown
from jmdp.cli.policy_files import names_a_file, simulator_policy, table_policy
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators import as_simulator
from jmdp.simulators.simulator import Simulator
from jmdp.worlds import World

WORLDS: dict[str, Callable[..., World]] = {
    make.__name__: make
    for make in (
        worlds.windy_gridworld,
        worlds.coupled_reward_chain,
        worlds.inventory,
        worlds.inventory_with_lead_time,
        worlds.queue_admission,
        worlds.anti_correlated_bandit,
    )
}

ENV_HELP = (
    "a Gymnasium id (FrozenLake-v1), an Atari game (ale:pong), a gymnax environment (gymnax:CartPole-v1), a built-in "
    f"table (world:NAME; NAME is one of {', '.join(WORLDS)}), or your own simulator, environment or table, a function "
    "that makes one, or an ordinary class with actions and step(action) (package.module:name or file.py:name)."
)

EnvName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV", help=f"Environment: {ENV_HELP}")]

ACTIONS_HELP = "by name or number; all by default. Continuous actions are given as numbers: 0.5; vectors as 0.5,-1."

_WHOLE = re.compile(r"[+-]?\d+")

GYMNASIUM_ID = re.compile(r".*-v\d+")


@dataclass(frozen=True)
class Environment:
    """The environment that ENV names."""

    source: Any  # any argument of as_simulator
    loader: Loader  # of policies
    world: World | None = None
    truncated_ends: bool = False  # for Gymnasium environments

    @property
    def model(self) -> TabularJMDP | None:
        """The scenario table; None if the environment is not a table."""
        found = getattr(self.source, "model", self.source)
        return found if isinstance(found, TabularJMDP) else None

    @property
    def space(self) -> Any:
        """Action space of a Gymnasium environment; None for others."""
        return getattr(self.source, "action_space", None) if hasattr(self.source, "unwrapped") else None

    def simulator(self, *, checked: bool = True) -> Simulator:
        """Return a simulator; `checked=False` if the caller checks it itself."""
        if self.space is not None:
            from jmdp.simulators import GymnasiumSimulator

            return GymnasiumSimulator(self.source, truncated_ends=self.truncated_ends, check=checked)
        return as_simulator(self.source)

    def episode_simulator(self, *, digests: bool) -> Simulator:
        """Return a simulator for whole episodes, which copies the environment only if digests are needed."""
        if self.space is not None and not digests:
            from jmdp.simulators import GymnasiumSimulator

            return GymnasiumSimulator(self.source, snapshot="replay", truncated_ends=self.truncated_ends, check=False)
        return self.simulator()

    def put(self, state: str | None, reset_seed: int | None, seed: int) -> None:
        """Reset a Gymnasium environment and set its state, before it becomes a simulator."""
        if self.space is None:
            return
        inner = self.source.unwrapped
        never_reset = inner._np_random is None  # otherwise the user may have set its state on purpose
        if never_reset or reset_seed is not None:
            self.source.reset(seed=seed if reset_seed is None else reset_seed)
        if state is not None:
            count = getattr(inner.observation_space, "n", None)
            if count is None or not isinstance(getattr(inner, "s", None), (int, np.integer)):
                raise SettingsError(_NO_STATES)
            if not state.isdecimal() or len(state) > 18 or int(state) >= count:
                raise SettingsError(f"There is no state {short(state)}: states run from 0 to {count - 1}.")
            inner.s = int(state)

    def place(self, simulator: Simulator, state: str | None, after: Sequence[str], reset_seed: int) -> Any:
        """Return the state to compare in: a given state or an episode's start, advanced by the actions `after`."""
        root = Shock.of_sample(reset_seed, 0)
        if self.model is not None and state is not None:
            here: Any = self.model.states.index(label_of(self.model.states, state))
        elif state is not None and self.space is None:
            raise SettingsError(_NO_STATES)
        else:
            here = simulator.start(root)
        for t, action in enumerate(self.actions(simulator, after)):
            _, here, ended = simulator.step(here, action, root.derived(b"after", t))
            if ended:
                raise SettingsError(
                    f"The episode ended after action {t + 1} of --after, {after[t]!r}. Give fewer actions, or another "
                    "--reset-seed."
                )
        return here if self.model is None else self.model.states[here]

    def actions(self, simulator: Simulator, texts: Sequence[str]) -> list[Any]:
        """Return the simulator's actions for these texts."""
        labels = simulator.actions
        if labels is None:
            return [self.read_action(text) for text in texts]
        return [labels[labels.index(label_of(labels, text))] for text in texts]

    def candidates(self, simulator: Simulator, texts: Sequence[str]) -> Any:
        """Return the actions to compare: None for all; continuous ones are labelled as the user wrote them."""
        found = self.actions(simulator, texts)
        return dict(zip(texts, found, strict=True)) if found and simulator.actions is None else found or None

    def read_action(self, text: str) -> Any:
        """Return a continuous action: what the space holds or, without one, a number, or a vector of several."""
        try:
            numbers = np.array([float(part) for part in text.split(",")])
            if self.space is not None:
                return numbers.astype(self.space.dtype).reshape(self.space.shape)
            if len(numbers) == 1:
                return int(text) if _WHOLE.fullmatch(text.strip()) else float(text)
        except ValueError:
            shape = f" of {self.space}" if self.space is not None else ""
            raise SettingsError(f"{short(text)} is not an action{shape}. Give comma-separated numbers.") from None
        return numbers

    def policy(self, simulator: Simulator, text: str) -> Any:
        """Return the policy to follow after the first action."""
        if self.model is not None and not names_a_file(text):
            return table_policy(text, self.model, {} if self.world is None else self.world.policies)
        found = simulator_policy(text, simulator.actions, self.read_action, self.loader)
        if self.loader.greedy and names_a_file(text):
            return as_policy(found, simulator.actions, greedy=True, memory=True, name=text)
        return found


_NO_STATES = (
    "--state is available for tables, and for Gymnasium environments whose state is a number (FrozenLake, "
    "CliffWalking, Taxi). Reach the state by actions, --after …, or set it in a function of your own, file.py:name."
)


def environment(text: str, loader: Loader, *, truncated_ends: bool = False, frames: bool = False) -> Environment:
    """Return the environment that ENV names; with `frames`, one of Gymnasium draws pictures if it can."""
    kind, _, name = text.partition(":")
    if kind == "gymnax":
        try:
            from jmdp.simulators import GymnaxSimulator
        except ImportError:
            raise MissingExtraError('gymnax environments need gymnax: pip install "jmdp[gymnax]"') from None
        return Environment(GymnaxSimulator(name, truncated_ends=truncated_ends), loader)
    found = _other_environment(text, kind, name, loader, frames)
    if truncated_ends and found.space is None:
        raise SettingsError(f"--truncated-ends is available for Gymnasium and gymnax environments only, not {text}.")
    return replace(found, truncated_ends=truncated_ends)


def _other_environment(text: str, kind: str, name: str, loader: Loader, frames: bool) -> Environment:
    if kind == "world":
        if name not in WORLDS:
            raise unknown("world", name, WORLDS)
        world = WORLDS[name]()
        return Environment(world, loader, world)
    if kind == "ale":
        from jmdp.simulators import ALESimulator

        return Environment(ALESimulator(name), loader)
    if name and not GYMNASIUM_ID.fullmatch(name):
        return _own(loader.attribute(text), text, loader)
    if ":" in text:  # module:Env-v0, which Gymnasium imports
        source_and_name(text)
        loader.allow(text, kind)
    return Environment(_gymnasium(text, frames), loader)


def _own(found: Any, text: str, loader: Loader) -> Environment:
    """Return the environment of a user's object, or of the object that a user's function returns."""
    if isinstance(found, type) or (callable(found) and not _is_ready(found)):
        try:
            inspect.signature(found).bind()
        except TypeError as error:
            raise SettingsError(
                f"{short(text)} cannot be called without arguments ({error}). Give an environment, or a class or "
                "function that makes one without arguments."
            ) from None
        except ValueError:  # the signature of a built-in function may be unknown
            pass
        factory, found = found, found()
        if callable(getattr(found, "step", None)) and not _is_ready(found):
            return Environment(_object_simulator(factory, found), loader)
    return Environment(found, loader, found if isinstance(found, World) else None)


def _is_ready(found: Any) -> bool:
    return isinstance(found, (Simulator, TabularJMDP, World)) or any(
        hasattr(found, name) for name in ("unwrapped", "step_env")
    )


def _object_simulator(factory: Any, found: Any) -> Simulator:
    """Simulator of an ordinary object, whose class declares its actions."""
    from jmdp.simulators import ObjectSimulator

    name, actions = type(found).__name__, getattr(found, "actions", None)
    if not isinstance(actions, (int, Sequence, Mapping)):
        raise SettingsError(
            f"The actions of {name} are unknown. Add their number or names to the class, actions = 4 or actions = "
            f'["wait", "order"], or write a function that returns jmdp.simulators.ObjectSimulator({name}, actions=…), '
            "and give its name: file.py:function."
        )
    return ObjectSimulator(factory, actions=actions)


def _gymnasium(name: str, frames: bool) -> Any:
    if name in WORLDS:
        raise SettingsError(f"{name!r} is a built-in world: give world:{name}.")
    gymnasium = optional("gymnasium", f'{name!r} needs Gymnasium: pip install "jmdp[gym]"')
    try:
        made = gymnasium.make(name)
        if frames and "rgb_array" in (made.metadata.get("render_modes") or ()):
            os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # pygame opens it, which prints a lot where there is none
            return gymnasium.make(name, render_mode="rgb_array")
        return made
    except gymnasium.error.DependencyNotInstalled as missing:
        raise MissingExtraError(f"{name}: {missing}") from None
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise SimulatorError(f"Gymnasium cannot make {short(name)}: {error} ENV is {ENV_HELP}") from None
