"""ENV of a command line: which simulator is meant, and where in it one stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import tyro

from jmdp import worlds
from jmdp.base.luck import Shock
from jmdp.cli.choices import attribute, label_of, unknown
from jmdp.cli.policies import simulator_policy, table_policy
from jmdp.errors import MissingExtraError, SettingsError, SimulatorError
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
    "FrozenLake-v1 or any other id of Gymnasium; ale:pong, an Atari game; gymnax:CartPole-v1; world:inventory, a "
    f"built-in table ({', '.join(WORLDS)}); or your own simulator, environment, table, or a function that makes one: "
    "package.module:name, file.py:name."
)

EnvName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV", help=ENV_HELP)]

ACTIONS_HELP = "by name or number; all by default. Where actions are not numbered, numbers: 0.5,-1."

_GYMNASIUM_ID = re.compile(r".*-v\d+")


@dataclass(frozen=True)
class Environment:
    """What ENV names."""

    source: Any  # what as_simulator takes
    world: World | None = None
    truncated_ends: bool = False  # of a Gymnasium environment

    @property
    def model(self) -> TabularJMDP | None:
        """The table, where it is one."""
        found = getattr(self.source, "model", self.source)
        return found if isinstance(found, TabularJMDP) else None

    @property
    def space(self) -> Any:
        """Of actions, in Gymnasium's sense; None elsewhere."""
        return getattr(self.source, "action_space", None) if hasattr(self.source, "unwrapped") else None

    def simulator(self, *, checked: bool = True) -> Simulator:
        """As a simulator; not checked where one is about to be."""
        if self.space is not None:
            from jmdp.simulators import GymnasiumSimulator

            return GymnasiumSimulator(self.source, truncated_ends=self.truncated_ends, check=checked)
        return as_simulator(self.source)

    def episode_simulator(self, *, digests: bool) -> Simulator:
        """As a simulator for whole episodes, which need no copies of the environment unless digests are needed."""
        if self.space is not None and not digests:
            from jmdp.simulators import GymnasiumSimulator

            return GymnasiumSimulator(self.source, snapshot="replay", truncated_ends=self.truncated_ends, check=False)
        return self.simulator()

    def put(self, state: str | None, reset_seed: int | None, seed: int) -> None:
        """Let a Gymnasium environment stand where the user says, before it becomes a simulator."""
        if self.space is None:
            return
        inner = self.source.unwrapped
        never_reset = inner._np_random is None  # else it may have been put somewhere on purpose
        if never_reset or reset_seed is not None:
            self.source.reset(seed=seed if reset_seed is None else reset_seed)
        if state is not None:
            count = getattr(inner.observation_space, "n", None)
            if count is None or not isinstance(getattr(inner, "s", None), (int, np.integer)):
                raise SettingsError(_NO_STATES)
            if not state.isdecimal() or int(state) >= count:
                raise SettingsError(f"There is no state {state!r}: they run from 0 to {count - 1}.")
            inner.s = int(state)

    def place(self, simulator: Simulator, state: str | None, after: Sequence[str], reset_seed: int) -> Any:
        """The state to compare in: a given one or where an episode begins, and some actions later."""
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
                    f"The episode was over after action {t + 1} of --after, {after[t]!r}. Give fewer, or another "
                    "--reset-seed."
                )
        return here

    def actions(self, simulator: Simulator, texts: Sequence[str]) -> list[Any]:
        """What the simulator is given for each."""
        labels = simulator.actions
        if labels is None:
            return [self.read_action(text) for text in texts]
        return [labels.index(label_of(labels, text)) for text in texts]

    def read_action(self, text: str) -> Any:
        """An action that is not numbered: numbers with commas between them."""
        try:
            numbers = np.array([float(part) for part in text.split(",")])
            if self.space is not None:
                numbers = numbers.astype(self.space.dtype).reshape(self.space.shape)
        except ValueError:
            shape = f" of {self.space}" if self.space is not None else ""
            raise SettingsError(f"{text!r} is no action{shape}. Give numbers with commas between them.") from None
        return numbers

    def policy(self, simulator: Simulator, text: str) -> Any:
        """What is followed after the first action."""
        if self.model is not None and ":" not in text:
            return table_policy(text, self.model, {} if self.world is None else self.world.policies)
        return simulator_policy(text, simulator.actions, self.read_action)


_NO_STATES = (
    "--state is for tables, and for Gymnasium environments whose state is a number (FrozenLake, CliffWalking, "
    "Taxi). Go there by actions instead, --after …; or put it there in a function of your own, file.py:name."
)


def environment(text: str, *, truncated_ends: bool = False) -> Environment:
    """What ENV means."""
    kind, _, name = text.partition(":")
    if kind == "gymnax":
        try:
            from jmdp.simulators import GymnaxSimulator
        except ImportError:
            raise MissingExtraError('Environments of gymnax need it: pip install "jmdp[gymnax]"') from None
        return Environment(GymnaxSimulator(name, truncated_ends=truncated_ends))
    found = _other_environment(text, kind, name)
    if truncated_ends and found.space is None:
        raise SettingsError(f"--truncated-ends is for environments of Gymnasium and gymnax:NAME, and this is {text}.")
    return replace(found, truncated_ends=truncated_ends)


def _other_environment(text: str, kind: str, name: str) -> Environment:
    if kind == "world":
        if name not in WORLDS:
            raise unknown("world", name, WORLDS)
        world = WORLDS[name]()
        return Environment(world, world)
    if kind == "ale":
        from jmdp.simulators import ALESimulator

        return Environment(ALESimulator(name))
    if name and not _GYMNASIUM_ID.fullmatch(name):
        return _own(attribute(text))
    return Environment(_gymnasium(text))


def _own(found: Any) -> Environment:
    """What a user has written, or what it makes."""
    ready = isinstance(found, (Simulator, TabularJMDP, World)) or any(
        hasattr(found, name) for name in ("unwrapped", "step_env")
    )
    if isinstance(found, type) or (callable(found) and not ready):
        found = found()
    return Environment(found, found if isinstance(found, World) else None)


def _gymnasium(name: str) -> Any:
    if name in WORLDS:
        raise SettingsError(f"{name!r} is a built-in world: say world:{name}.")
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError(f'{name!r}: Gymnasium environments need it: pip install "jmdp[gym]"') from None
    try:
        return gymnasium.make(name)
    except gymnasium.error.DependencyNotInstalled as missing:
        raise MissingExtraError(f"{name}: {missing}") from None
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise SimulatorError(f"Gymnasium does not make {name!r}: {error}\nENV is {ENV_HELP}") from None
