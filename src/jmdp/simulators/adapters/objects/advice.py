"""Errors for objects that are no simulators: they say which part of jmdp fits the object."""

from __future__ import annotations

import types
from typing import Any

from jmdp.base.settings import short
from jmdp.errors import SimulatorError
from jmdp.simulators.simulator import Simulator

_WHOLE_RUN = (
    'Compare whole runs instead: jmdp.compare_runs({"a": f, "b": g}, seed=0), where f(luck) runs one simulation with '
    "the randomness of luck and returns a number."
)


def not_a_simulator(source: Any) -> SimulatorError:
    """Error for an argument that cannot be converted to a simulator, with what fits it."""
    kind = source if isinstance(source, type) else type(source)
    name = kind.__name__
    if _is_simpy(source):
        return SimulatorError(f"SimPy environments cannot be copied, so actions cannot be tried from one. {_WHOLE_RUN}")
    if hasattr(source, "unwrapped") and hasattr(source, "action_space"):
        return SimulatorError("This is a Gymnasium environment. Use jmdp.simulators.GymnasiumSimulator(env).")
    if hasattr(source, "step_env"):
        return SimulatorError("This is a gymnax environment. Use jmdp.simulators.GymnaxSimulator(env).")
    if isinstance(source, type) and issubclass(source, Simulator):
        return SimulatorError(f"This is the class {name}. Give a simulator: {name}(…).")
    if callable(getattr(source, "step", None)):
        live = "" if isinstance(source, type) else f" Its current state is simulator.current({name.lower()})."
        return SimulatorError(
            f"{'The class' if isinstance(source, type) else 'A'} {name} is not a simulator, but has a method step. Use "
            f"jmdp.simulators.ObjectSimulator({name}, actions=…), with the number of actions, their names, or "
            f'{{"name": value}}.{live}'
        )
    if callable(getattr(source, "run", None)):
        return SimulatorError(f"A {name} is not a simulator, but has a method run. {_WHOLE_RUN}")
    if isinstance(source, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
        return SimulatorError(
            f"{source.__name__} is a function, not a simulator. If it makes a Gymnasium environment, call it and give "
            f"the environment. If it makes an object with a method step: jmdp.simulators.ObjectSimulator("
            f"{source.__name__}, actions=…). For a reward and a next state as functions: jmdp.simulators."
            f"FunctionSimulator(reward, next_state, actions). If it simulates a whole run: {_WHOLE_RUN}"
        )
    if isinstance(source, str):
        return SimulatorError(
            f"The simulator is a text, {short(source)}. Give an environment: gymnasium.make({short(source)})."
        )
    return SimulatorError(
        f"An object of type {name} is not a simulator. Give a Gymnasium or gymnax environment, a TabularJMDP, or a "
        "simulator of jmdp.simulators: ObjectSimulator for a class with a method step, FunctionSimulator for plain "
        "functions, or your own subclass of Simulator. For a function or program that simulates a whole run there is "
        "jmdp.compare_runs."
    )


def refuse_object(factory: Any, *, has_step: bool) -> None:
    """Raise if this is not a class or function that makes an object with a method step."""
    if _is_simpy(factory):
        raise not_a_simulator(factory)
    if not callable(factory) or (callable(getattr(factory, "step", None)) and not isinstance(factory, type)):
        name = type(factory).__name__
        raise SimulatorError(
            f"The factory is a {name}. Give the class, or a function that makes a new object each time: "
            f"ObjectSimulator({name}, actions=…). The state of an object of your own is simulator.current(thing)."
        )
    if isinstance(factory, type) and not has_step and not callable(getattr(factory, "step", None)):
        run = f" {_WHOLE_RUN}" if callable(getattr(factory, "run", None)) else ""
        raise SimulatorError(
            f"{factory.__name__} has no method step. Give a function: ObjectSimulator({factory.__name__}, "
            f"step=lambda thing, action: …).{run}"
        )


def _is_simpy(source: Any) -> bool:
    kind = source if isinstance(source, type) else type(source)
    return any(cls.__module__.partition(".")[0] == "simpy" for cls in kind.__mro__)
