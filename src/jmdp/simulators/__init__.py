"""Simulators: interface, adapters for other libraries, and rollouts. Optional packages are imported when needed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from jmdp.base import on_first_use
from jmdp.base.labels import Labels, SimulatorLike
from jmdp.base.settings import short
from jmdp.errors import SimulatorError
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.adapters.objects.advice import not_a_simulator
from jmdp.simulators.simulator import Recipe, Simulator, Step, action_labels

if TYPE_CHECKING:
    from jmdp.simulators.adapters.ale import ALESimulator
    from jmdp.simulators.adapters.functions import FunctionSimulator, TabularSimulator
    from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
    from jmdp.simulators.adapters.jax.gymnax import GymnaxSimulator
    from jmdp.simulators.adapters.jax.jax_simulator import JaxSimulator
    from jmdp.simulators.adapters.objects.object_simulator import ObjectSimulator
    from jmdp.simulators.rollouts.pair_walks import PairedRollouts, PairWalks, WalkPlan
    from jmdp.simulators.tabulation.tabulate import Tabulation
    from jmdp.simulators.visited import visited_states

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
    "Tabulation",
    "WalkPlan",
    "action_labels",
    "as_simulator",
    "visited_states",
]

__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "ALESimulator": "adapters.ale",
        "FunctionSimulator": "adapters.functions",
        "GymnasiumSimulator": "adapters.gymnasium",
        "GymnaxSimulator": "adapters.jax.gymnax",
        "JaxSimulator": "adapters.jax.jax_simulator",
        "ObjectSimulator": "adapters.objects.object_simulator",
        "PairWalks": "rollouts.pair_walks",
        "PairedRollouts": "rollouts.pair_walks",
        "Tabulation": "tabulation.tabulate",
        "TabularSimulator": "adapters.functions",
        "WalkPlan": "rollouts.pair_walks",
        "visited_states": "visited",
    },
)


def is_gymnax(source: Any) -> bool:
    """Whether this is an environment of gymnax, or the pair (environment, parameters) that ``gymnax.make`` returns."""
    return hasattr(source[0] if isinstance(source, tuple) and len(source) == 2 else source, "step_env")


def as_simulator(source: SimulatorLike) -> Simulator:
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
        from jmdp.simulators.adapters.functions import TabularSimulator

        return TabularSimulator(source if isinstance(source, TabularJMDP) else source.model)
    if is_gymnax(source):
        from jmdp.simulators.adapters.jax.gymnax import GymnaxSimulator

        return GymnaxSimulator(source)
    if hasattr(source, "unwrapped") and hasattr(source, "action_space"):
        from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator

        return GymnasiumSimulator(source)
    raise not_a_simulator(source)


def episode_simulator(source: Any, *, digests: bool) -> Simulator:
    """Simulator of whole episodes. Environments need to support copies only if digests of states are needed."""
    if isinstance(source, Recipe):
        return source.simulator(partial(episode_simulator, digests=digests))
    if isinstance(source, Simulator) or digests or not hasattr(source, "unwrapped"):
        return as_simulator(source)
    from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator

    return GymnasiumSimulator(source, snapshot="replay", check=False)
