"""How to build a simulator: what is sent to workers in place of a simulator that cannot be pickled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from jmdp.base.settings import function
from jmdp.errors import SimulatorError
from jmdp.simulators.simulator import Simulator


@dataclass(frozen=True, init=False)
class Recipe:
    """How to build a simulator, for those that cannot be sent to other processes or are large.

    Use it in place of the simulator. ``factory(*args)`` is called once here and once in each worker process that
    simulates; it returns a simulator or an environment, always in the same state:

        jmdp.compare(jmdp.Recipe(make_env, "LunarLander-v3"), …, pool=jmdp.RayPool())

    Parameters
    ----------
    factory
        Function that builds the simulator.
    args
        Its arguments, which must be picklable.
    """

    factory: Callable[..., Any]
    args: tuple[Any, ...]

    def __init__(self, factory: Callable[..., Any], *args: Any) -> None:
        function("factory", factory, SimulatorError)
        object.__setattr__(self, "factory", factory)
        object.__setattr__(self, "args", args)

    def simulator(self, convert: Callable[[Any], Simulator]) -> Simulator:
        """Build the simulator. When it is pickled, this recipe and `convert` are stored instead."""
        made = self.factory(*self.args)
        simulator = convert(made)
        if simulator.recipe is not None:
            raise SimulatorError(
                "The factory of the recipe returned a simulator that was built by another recipe. Give that recipe."
            )
        simulator.recipe = partial(self.simulator, convert)
        return simulator
