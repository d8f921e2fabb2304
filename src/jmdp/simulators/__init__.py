"""Simulators: interface, adapters for other libraries, and rollouts. Optional packages are imported when needed."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmdp.base.labels import Labels
from jmdp.base.settings import short
from jmdp.errors import SimulatorError
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.candidates import action_labels
from jmdp.simulators.objects.advice import not_a_simulator
from jmdp.simulators.recipe import Recipe
from jmdp.simulators.simulator import Simulator, Step

if TYPE_CHECKING:
    from jmdp.simulators.ale import ALESimulator
    from jmdp.simulators.functions import FunctionSimulator, TabularSimulator
    from jmdp.simulators.gymnasium.gymnasium_simulator import GymnasiumSimulator
    from jmdp.simulators.jax.gymnax import GymnaxSimulator
    from jmdp.simulators.jax.jax_simulator import JaxSimulator
    from jmdp.simulators.objects.object_simulator import ObjectSimulator
    from jmdp.simulators.pair_walks import PairWalks, WalkPlan
    from jmdp.simulators.paired_rollouts import PairedRollouts

__all__ = [
    "ALESimulator",
    "FunctionSimulator",
    "GymnasiumSimulator",
    "GymnaxSimulator",
    "JaxSimulator",
    "ObjectSimulator",
    "PairWalks",
    "PairedRollouts",
    "Simulator",
    "Step",
    "TabularSimulator",
    "WalkPlan",
    "action_labels",
    "as_simulator",
]

_LOADED_LATER = {
    "ALESimulator": "ale",
    "FunctionSimulator": "functions",
    "GymnasiumSimulator": "gymnasium",
    "GymnaxSimulator": "jax.gymnax",
    "JaxSimulator": "jax.jax_simulator",
    "ObjectSimulator": "objects.object_simulator",
    "PairWalks": "pair_walks",
    "PairedRollouts": "paired_rollouts",
    "TabularSimulator": "functions",
    "WalkPlan": "pair_walks",
}


def __getattr__(name: str) -> object:
    """Import adapters and paired rollouts on first access."""
    if name in _LOADED_LATER:
        return getattr(import_module(f"jmdp.simulators.{_LOADED_LATER[name]}"), name)
    raise AttributeError(f"module 'jmdp.simulators' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *__all__})


def is_gymnax(source: Any) -> bool:
    """Whether this is an environment of gymnax, or the pair (environment, parameters) that ``gymnax.make`` returns."""
    return hasattr(source[0] if isinstance(source, tuple) and len(source) == 2 else source, "step_env")


def as_simulator(source: Any) -> Simulator:
    """Convert a table, a Gymnasium environment, a gymnax environment or a `Recipe` to a simulator."""
    if isinstance(source, Recipe):
        return source.simulator(as_simulator)
    if isinstance(source, Simulator):
        if source.actions is not None and not isinstance(source.actions, Labels):
            raise SimulatorError(
                f"actions of {type(source).__name__} is {short(source.actions)}. Use "
                f"jmdp.simulators.action_labels({short(source.actions)})."
            )
        return source
    if isinstance(source, TabularJMDP) or isinstance(getattr(source, "model", None), TabularJMDP):
        from jmdp.simulators.functions import TabularSimulator

        return TabularSimulator(source if isinstance(source, TabularJMDP) else source.model)
    if is_gymnax(source):
        from jmdp.simulators.jax.gymnax import GymnaxSimulator

        return GymnaxSimulator(source)
    if hasattr(source, "unwrapped") and hasattr(source, "action_space"):
        from jmdp.simulators.gymnasium.gymnasium_simulator import GymnasiumSimulator

        return GymnasiumSimulator(source)
    raise not_a_simulator(source)


def episode_simulator(source: Any, *, digests: bool) -> Simulator:
    """Simulator of whole episodes. Environments need to support copies only if digests of states are needed."""
    if isinstance(source, Recipe):
        return source.simulator(partial(episode_simulator, digests=digests))
    if isinstance(source, Simulator) or digests or not hasattr(source, "unwrapped"):
        return as_simulator(source)
    from jmdp.simulators.gymnasium.gymnasium_simulator import GymnasiumSimulator

    return GymnasiumSimulator(source, snapshot="replay", check=False)
