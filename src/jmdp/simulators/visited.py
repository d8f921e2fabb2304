"""States that a policy visits: decision points for `compare` and `study`, from any simulator."""

from __future__ import annotations

from typing import Any

from jmdp.base.labels import PolicyLike, SimulatorLike
from jmdp.base.luck import Shock
from jmdp.base.settings import asks_for_seed, whole_number
from jmdp.errors import SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.actors.as_policy import as_policy
from jmdp.simulators import as_simulator
from jmdp.simulators.adapters.functions import table_of
from jmdp.simulators.adapters.gymnasium.gymnasium_simulator import GymnasiumSimulator
from jmdp.simulators.simulator import Simulator, finite_step

_FRUITLESS = 1000
"""Episodes in a row without a new state after which the search ends."""


@asks_for_seed
def visited_states(simulator: SimulatorLike, policy: PolicyLike, *, seed: int, count: int, every: int = 1) -> list[Any]:
    """States that a policy visits: every `every`-th state of as many episodes as are needed for `count` states.

    States 0, `every`, 2·`every`, … of each episode are taken, in the order in which they are visited; state 0 is the
    start. An episode ends when it terminates, or at the simulator's time limit. Terminal states are never taken. A
    start state that was taken in an earlier episode is not taken again; other states may occur more than once. The
    result is a function of the arguments.

    Parameters
    ----------
    simulator
        What `compare` accepts. In a Gymnasium environment each episode starts with a reset, of a copy: its current
        state is neither used nor changed.
    policy
        The policy that is followed; see `as_policy`.
    seed
        Random seed of the episodes.
    count
        Number of states.
    every
        Number of steps between two states of an episode. Successive states are similar; a larger number gives more
        different ones.

    Returns
    -------
    list
        The states, which `compare` and `study` accept.

    Raises
    ------
    SimulatorError
        If 1000 episodes in a row have no other state to take than a start state that was taken before.
    """
    seed, count, every = whole_number("seed", seed, 0), whole_number("count", count, 1), whole_number("every", every, 1)
    source = as_simulator(simulator)
    table = table_of(source)
    actor = as_policy(policy, source.actions, table=table)
    starts: set[bytes] = set()
    found: list[Any] = []
    episode = fruitless = 0
    while len(found) < count:
        new = _episode(source, actor, Shock.of_sample(seed, episode), count - len(found), every, starts)
        found += new
        episode, fruitless = episode + 1, 0 if new else fruitless + 1
        if fruitless == _FRUITLESS:
            raise SimulatorError(
                f"count is {count} and every is {every}, but only {len(found)} states of {source!r} were found: "
                f"{_FRUITLESS:,} episodes in a row ended within {every} step{'s' * (every > 1)}. Give "
                f"{'a smaller every' if every > 1 else 'a smaller count'}, or a policy whose episodes are longer."
            )
    return found if table is None else [table.states.label(state) for state in found]


def _episode(simulator: Simulator, actor: Actor, root: Shock, most: int, every: int, starts: set[bytes]) -> list[Any]:
    """The states of one episode that are taken, at most this many; its start is added to `starts`."""
    actor, limit = actor.for_episode(), simulator.episode_limit
    found: list[Any] = []
    state, t, ended = _start(simulator, root), 0, False
    digest = simulator.digest(state)
    new_start = digest not in starts
    starts.add(digest)
    while not ended and (limit is None or t < limit):
        taken = t % every == 0 and (t > 0 or new_start) and len(found) < most
        if taken:
            found.append(state)
        if len(found) == most and t > 0:  # one step shows whether the start is terminal
            break
        go = simulator.step if taken or t == 0 else simulator.advance  # a start may be used again
        action = actor.act([simulator.observe(state)], [root.derived(b"policy", t)])[0]
        reward, after, ended = finite_step(simulator, go, state, action, root.derived(b"environment", t), t)
        if t == 0 and ended and reward == 0 and simulator.same_state(state, after):
            return []  # the start is a terminal state, in which steps change nothing
        state, t = after, t + 1
    return found


def _start(simulator: Simulator, root: Shock) -> Any:
    """Start of an episode. `start` of an environment that has been reset would be a state without an observation."""
    if isinstance(simulator, GymnasiumSimulator):
        return simulator.reset(int.from_bytes(root.words[:4], "little"))
    return simulator.start(root)
