"""Adapter that makes a simulator of a gymnax environment, with the key of a step as its shock."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import jax

from jmdp.base.settings import boolean_value, cut, short
from jmdp.errors import MissingExtraError, SimulatorError
from jmdp.simulators.adapters.jax.jax_simulator import JaxSimulator


class GymnaxSimulator(JaxSimulator):
    """Simulator of a gymnax environment, or of an object with the same methods.

    It uses ``step_env`` and ``reset_env``, which do not reset automatically. By default time limits do not end an
    episode: from gymnax 1.0 on, ``step_env`` does not report them; in earlier versions `done` includes them, so
    ``max_steps_in_episode`` is set to 2³⁰. Observations use a fixed key, so that they are a function of the state:
    noise in them (UmbrellaChain's distractors) is constant.

    Parameters
    ----------
    environment
        Name, e.g. "CartPole-v1"; pair (environment, parameters) as returned by ``gymnax.make``; or an environment.
    truncated_ends
        Treat the environment's time limit as the end of the episode.
    ignore, lanes
        As in `JaxSimulator`. A gymnax state contains the time, so branches can merge only at equal times.
    """

    NO_LIMIT: ClassVar[int] = 2**30

    def __init__(
        self, environment: Any, *, truncated_ends: bool = False, ignore: Sequence[str] = (), lanes: int = 4096
    ) -> None:
        self._truncated_ends = truncated_ends = boolean_value("truncated_ends", truncated_ends)
        env, params = _environment(environment)
        self._limit = getattr(params, "max_steps_in_episode", None)
        separates_truncation = hasattr(env, "is_truncated")
        if not (truncated_ends or separates_truncation) and hasattr(params, "max_steps_in_episode"):
            params = params.replace(max_steps_in_episode=self.NO_LIMIT)
        size = getattr(env.action_space(params), "n", None)
        if size is None:
            raise SimulatorError(
                f"{env.name} has no discrete actions. Choose n actions and give a step function of their index: "
                "JaxSimulator(lambda key, state, a: …, actions=n)."
            )
        self.environment, self.params = env, params
        start, observe = partial(_start, env, params), partial(_observe, env, params)
        step = partial(_step_to_limit if truncated_ends and separates_truncation else _step, env, params)
        super().__init__(step, operator.index(size), start=start, observe=observe, ignore=ignore, lanes=lanes)

    @property
    def episode_limit(self) -> int | None:
        """Time limit ``max_steps_in_episode`` of the environment; None if unavailable."""
        return None if self._limit is None else int(self._limit)

    def __repr__(self) -> str:
        return f"GymnaxSimulator({self.environment.name}{', truncated_ends=True' * self._truncated_ends})"


def _step(env: Any, params: Any, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
    _, after, reward, terminated, _ = env.step_env(key, state, action, params)
    return reward, after, terminated


def _step_to_limit(env: Any, params: Any, key: Any, state: Any, action: Any) -> tuple[Any, Any, Any]:
    reward, after, terminated = _step(env, params, key, state, action)
    return reward, after, terminated | env.is_truncated(after, params)


def _start(env: Any, params: Any, key: Any) -> Any:
    return env.reset_env(key, params)[1]


def _observe(env: Any, params: Any, state: Any) -> Any:
    key = jax.random.key(0)
    if hasattr(env, "observe"):
        return env.observe(key, state, None, params)
    takes = inspect.signature(env.get_obs).parameters
    return env.get_obs(state, **{k: v for k, v in (("params", params), ("key", key)) if k in takes})


def _environment(given: Any) -> tuple[Any, Any]:
    """Environment and its parameters, from any of the accepted forms."""
    if isinstance(given, str):
        given = _made(given)
    env, *params = given if isinstance(given, tuple) and len(given) == 2 else (given,)
    if not all(hasattr(env, name) for name in ("step_env", "reset_env", "default_params")):
        raise SimulatorError(
            f"environment is {short(given)}. Give the name of a gymnax environment, an environment, or the pair that "
            "gymnax.make returns."
        )
    return env, params[0] if params else env.default_params


def _made(name: str) -> Any:
    try:
        import gymnax
    except ImportError:
        raise MissingExtraError('gymnax environments require gymnax: pip install "jmdp[gymnax]"') from None
    try:
        return gymnax.make(name)[0]
    except ValueError as error:
        raise SimulatorError(
            f"gymnax has no environment {short(name)}: {cut(str(error))}. Give the name of one."
        ) from None
