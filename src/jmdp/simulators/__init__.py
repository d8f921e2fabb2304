"""Where simulators come in, a file each. Packages of others load at their own door."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jmdp.errors import SimulatorError
from jmdp.model import TabularJMDP
from jmdp.simulator import Simulator, Step, action_labels

if TYPE_CHECKING:
    from jmdp.simulators.ale_emulator import ALESimulator
    from jmdp.simulators.gymnasium_env import GymnasiumSimulator
    from jmdp.simulators.gymnax_env import GymnaxSimulator
    from jmdp.simulators.jax_functional import JaxSimulator
    from jmdp.simulators.python_function import FunctionSimulator, TabularSimulator

__all__ = [
    "ALESimulator",
    "FunctionSimulator",
    "GymnasiumSimulator",
    "GymnaxSimulator",
    "JaxSimulator",
    "Simulator",
    "Step",
    "TabularSimulator",
    "action_labels",
    "as_simulator",
]

_DOORS = {
    "ALESimulator": "ale_emulator",
    "FunctionSimulator": "python_function",
    "GymnasiumSimulator": "gymnasium_env",
    "GymnaxSimulator": "gymnax_env",
    "JaxSimulator": "jax_functional",
    "TabularSimulator": "python_function",
}


def __getattr__(name: str) -> object:
    """Load a door when it is first asked for."""
    if name in _DOORS:
        return getattr(import_module(f"jmdp.simulators.{_DOORS[name]}"), name)
    raise AttributeError(f"module 'jmdp.simulators' has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, loaded or not."""
    return sorted({*globals(), *__all__})


def as_simulator(source: Any) -> Simulator:
    """A simulator from what people hold: a table, a Gymnasium or gymnax environment, or a simulator."""
    if isinstance(source, Simulator):
        return source
    if isinstance(source, TabularJMDP) or isinstance(getattr(source, "model", None), TabularJMDP):
        from jmdp.simulators.python_function import TabularSimulator

        return TabularSimulator(source if isinstance(source, TabularJMDP) else source.model)
    if hasattr(source, "step_env"):
        from jmdp.simulators.gymnax_env import GymnaxSimulator

        return GymnaxSimulator(source)
    if hasattr(source, "unwrapped") and hasattr(source, "action_space"):
        from jmdp.simulators.gymnasium_env import GymnasiumSimulator

        return GymnasiumSimulator(source)
    raise SimulatorError(
        f"A {type(source).__name__} is not a simulator. Give a Gymnasium environment, a gymnax one, a TabularJMDP, or "
        "one of jmdp.simulators: FunctionSimulator for plain functions, Simulator to build your own on."
    )
