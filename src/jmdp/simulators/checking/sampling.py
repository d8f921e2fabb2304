"""Checks before and after sampling: the simulator has no fault, and samples are equal when drawn again.

Every sampled result relies on this: a rollout is a function of the seed, its number and its first action, whatever else
is simulated before or beside it. Simulators and policies with a memory of earlier calls violate this.

Likely mistakes in runs, seen when samples are run again: what the runs draw, and from what.

A result is not invalid because of one of them, so they are warnings.
"""

from __future__ import annotations

import contextlib
import copy
import random
import re
import sys
import threading
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import partial
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from jmdp.base.luck import Shock
from jmdp.base.luck_by_purpose import Key, Luck
from jmdp.base.records import Record
from jmdp.base.settings import short
from jmdp.errors import PolicyError, SimulatorError
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.adapters.functions import TabularSimulator
from jmdp.simulators.checking.draw_log import STREAMS, DrawLog, logged, out_of_step, swapped
from jmdp.simulators.checking.visits import quick_check
from jmdp.simulators.digests import digest_of, equal_values
from jmdp.simulators.rollouts.batched_states import has_many_steps
from jmdp.simulators.rollouts.draws import Draws
from jmdp.simulators.rollouts.plan import BranchPlan
from jmdp.simulators.rollouts.python_engine import paired_draws
from jmdp.simulators.simulator import Simulator

_OR_MANY = "; or step_many and step differ in a state that was not checked"
_ALONE = (" without a reset() method", "")
_FIND_IT = " Find the cause with jmdp.testing.check_simulator(simulator, steps=500)."
_OTHER_STEP = " In a state that the quick check did not reach, a step depends on more than state, action and shock"
_OTHER_EPISODE = (
    " again from the same seed. Possible causes: it draws from a generator that is not set to the key of the step (draw"
    " from the shock; in a FunctionSimulator from the argument of luck; in a Gymnasium environment from self.np_random,"
    " or use GymnasiumSimulator(env, global_generators=True) for the global ones); it or a wrapper keeps data from"
    " earlier episodes, such as running means (make the environment without it)"
)

_ASKED_AGAIN = 128
"""Number of observations on which a policy is called again."""

_STEPS, _DRAWS = 50, 500
"""Steps of an episode, and draws of a step, that are logged."""

_SLOW_STEPS = 8
"""Steps of which it is also found out whether they could draw differently, because of the arguments of the draws."""


def check_before_sampling(simulator: Simulator, state: Any, actions: Sequence[Any], coupling: Coupling) -> bool:
    """Raise `SimulatorError` if a few dozen steps show a fault; return whether steps use their randomness.

    Tables and simulators with `check` False are not checked; the result is True for both.
    """
    if isinstance(simulator, TabularSimulator) or not simulator.check:
        return True
    return quick_check(
        simulator,
        state,
        list(actions),
        shared_in_a_state=coupling.shared_in_a_state,
        shared_between_states=coupling.shared_between_states,
    )


def check_repeatable(drawn: Draws, simulator: Simulator, plan: BranchPlan, *, late: bool = False) -> None:
    """Draw the first and the last of these samples again, each alone, and raise unless they are equal.

    Unless it is late, the policy of rollouts is then called again on the same observations, in other orders; and a
    warning tells of policies whose episodes draw different numbers in a step. Compiled programs have no memory and are
    not checked.
    """
    rollouts, arrays = plan.actions is not None, has_many_steps(simulator)  # single samples are simulated step by step
    if (rollouts and not simulator.check) or (not arrays and simulator.program(plan) is not None):
        return
    recorder = _RecordingActor(plan.actors[0])
    if rollouts:
        plan = plan.followed_by(recorder)
    elif not late:
        plan = LoggedPlan(**vars(plan))
    samples = sorted({0, len(drawn.returns) - 1}, reverse=True)
    again = [paired_draws(simulator, plan, sample, 1) for sample in samples]
    if not late:
        recorder.ask_again()
    for sample, single in zip(samples, again, strict=True):
        wrong = np.flatnonzero((single.returns[0] != drawn.returns[sample]) | (single.gains[0] != drawn.gains[sample]))
        if wrong.size:
            i = int(wrong[0])
            first, now = float(drawn.returns[sample, i]), float(single.returns[0, i])
            if rollouts:
                what = f"candidate {i} of sample {sample} returned {first!r}, but {now!r} when simulated again."
                why = _OTHER_STEP
            else:
                what = f"policy {i} ({plan.actors[i]!r}) returned {first!r} in sample {sample}, but {now!r} when run"
                why = _OTHER_EPISODE
            raise SimulatorError(
                f"{simulator!r} is not reproducible: {what}{why}; or the policy has a memory{_ALONE[rollouts]}"
                f"{_OR_MANY * arrays}.{_FIND_IT * rollouts}"
            )
    if isinstance(plan, LoggedPlan):
        plan.warn_if_out_of_step()


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedPlan(BranchPlan):
    """A plan that logs what the first steps of its episodes draw. The samples are the same as without a log."""

    in_order = True
    logs: dict[tuple[int, bytes], list[tuple[int, DrawLog]]] = field(default_factory=dict)  # by step and shock

    @property
    def one_shock(self) -> bool:
        """False: each policy has logs of its own."""
        return False

    def step_shock(self, root: Shock, t: int, digest: bytes, branch: int) -> Shock:
        """Shock that a branch receives in step t."""
        shock = super().step_shock(root, t, digest, branch)
        if t >= _STEPS:
            return shock
        log = DrawLog(_DRAWS)
        self.logs.setdefault((t, shock.peek()), []).append((branch, log))
        return logged(shock, log)

    def warn_if_out_of_step(self) -> None:
        """Warn of the first step in which policies that share its shock draw different numbers for one purpose."""
        for (t, _), logs in sorted(self.logs.items()):
            (first, mine), *others = logs
            for branch, theirs in others:
                if mine.draws == theirs.draws:
                    continue
                spot = out_of_step(mine, theirs, could=t < _SLOW_STEPS) or swapped(mine, theirs)
                if spot is not None:
                    warnings.warn(
                        f"Policies {self.actors[first]!r} and {self.actors[branch]!r} do not share all random numbers: "
                        f"in step {t} their actions or states use different amounts of the shock's numbers, or in "
                        f"another order, before {spot}, so this draw differs between them. Intervals are valid, but "
                        "wider than they need to be. Make the same draws in the same order in every step, before the "
                        f"action is used, or {STREAMS}.",
                        stacklevel=2,
                    )
                    return


def policy_draws(simulator: Simulator, state: Any, action: Any, actor: Actor) -> bool:
    """True if the policy takes different actions under different shocks, in a few states after this action."""
    return simulator.in_block(partial(_policy_draws, simulator, state, action, actor))


def _policy_draws(simulator: Simulator, state: Any, action: Any, actor: Actor) -> bool:
    root = Shock.of_sample(0, 0)
    for t in range(8):
        _, state, terminated = simulator.step(state, action, root.derived(b"environment", t))
        if terminated:
            break
        shocks = [root.derived(b"policy", t, bytes([k])) for k in range(8)]
        actions = actor.act([simulator.observe(state)] * len(shocks), shocks)
        if len({digest_of(taken) for taken in actions}) > 1:
            return True
        action = actions[0]
    return False


class _RecordingActor(Actor):
    """A policy that records its calls."""

    def __init__(self, actor: Actor) -> None:
        self._actor, self.needs_luck = actor, actor.needs_luck
        self._asked: list[tuple[Any, Shock, Any]] = []

    def act(self, observations: Sequence[Any], shocks: Sequence[Shock]) -> list[Any]:
        actions = self._actor.act(observations, shocks)
        left = _ASKED_AGAIN - len(self._asked)
        if left > 0:  # copies, because some environments overwrite observations
            seen = copy.deepcopy(list(observations[:left]))
            self._asked += zip(seen, shocks[:left], actions[:left], strict=True)
        return actions

    def ask_again(self) -> None:
        """Raise `PolicyError` unless actions are the same in other orders, one observation at a time."""
        mixed = np.random.Generator(np.random.Philox(key=0)).permutation(len(self._asked))
        for observation, shock, action in (*reversed(self._asked), *map(self._asked.__getitem__, mixed)):
            (found,) = self._actor.act([observation], [shock])
            if not equal_values(found, action):
                raise PolicyError(
                    f"The policy, {self._actor!r}, returned {action!r}, but {found!r} for the same observation after "
                    "other calls. It has a memory, or draws from a generator of its own. Many rollouts call one policy "
                    "in turn, so actions must depend on the observation alone, or for f(obs, rng) on both arguments. "
                    "Put the memory into the observation, e.g. with gymnasium.wrappers.FrameStackObservation, or into "
                    "the simulator's state."
                )


_CLOSE = 0.8
"""Similarity of two words, from 0 to 1, from which on one may be the other misspelt."""

_MANY = 20
"""Purposes of one design only, up to which they are compared with those of another."""

Purpose = tuple[str, ...]
"""Kind of a draw, and the words of its key without numbers."""


class RunNotes:
    """What the runs of several designs draw."""

    def __init__(self) -> None:
        self._runs: list[tuple[str, _NotingLuck]] = []

    def luck(self, design: str, shock: Shock) -> Luck:
        """Randomness of the next run, which notes what is drawn."""
        luck = _NotingLuck(shock)
        self._runs.append((design, luck))
        return luck

    @contextlib.contextmanager
    def then_warned(self) -> Iterator[None]:
        """Note what runs draw, also the seeds of other generators. Then warn of likely mistakes, of each kind once."""
        with _noted_seeds(lambda seed: self._runs[-1][1].seeds.add(seed) if self._runs else None):
            yield
        for found in (self._nothing(), self._again(), self._same_seeds(), self._near_purposes()):
            for text in islice(found, 1):
                warnings.warn(text, stacklevel=2)

    def _nothing(self) -> Iterator[str]:
        for design, luck in self._runs:
            recorded = luck.shock.recorded
            if not luck.used and not (isinstance(recorded, Record) and recorded.used):
                yield (
                    f"Design {short(design)} drew nothing from `luck`, so all its runs are equal. If the simulation is "
                    'random, its seed is fixed: pass it luck.seed("model"), or draw from luck.'
                )

    def _again(self) -> Iterator[str]:
        for design, luck in self._runs:
            for (kind, key), count in luck.noted.items():
                if kind == "number" and count > 1:
                    said = ", ".join(map(repr, key))
                    yield (
                        f"Design {short(design)} used the random number ({said}) {count} times in one run, and it is "
                        "the same number each time. If the draws should differ, add what they are for: "
                        f"({said}, customer); or use a generator: luck[{said}]. If they should not, draw it once."
                    )

    def _same_seeds(self) -> Iterator[str]:
        seeds: defaultdict[str, list[set[str]]] = defaultdict(list)
        for design, luck in self._runs:
            seeds[design].append(luck.seeds)
        for design, samples in seeds.items():
            for seed in sorted(set.intersection(*samples) if len(samples) > 1 else ()):
                yield (
                    f"Design {short(design)} makes a generator with the same seed in every run: {seed}. It draws the "
                    'same numbers each time. If they should vary, use luck["purpose"], or seed it with '
                    'luck.seed("purpose").'
                )

    def _near_purposes(self) -> Iterator[str]:
        used: defaultdict[str, set[Purpose]] = defaultdict(set)
        for design, luck in self._runs:
            used[design] |= {(kind, *_words(key)) for kind, key in luck.noted}
        for one, other in combinations(used, 2):
            mine, theirs = sorted(used[one] - used[other]), sorted(used[other] - used[one])
            if max(len(mine), len(theirs)) > _MANY:  # names of things, not purposes
                continue
            for p, q in product(mine, theirs):
                if _is_close(p, q):
                    yield (
                        f"Only design {short(one)} uses {_said(p)}, and only design {short(other)} {_said(q)}. If this "
                        "is one purpose, use the same key in the same way: different keys give different random "
                        "numbers."
                    )


class _NotingLuck(Luck):
    """Randomness that notes how often each key is used, and for what."""

    __slots__ = ("noted", "seeds")

    def __init__(self, shock: Shock) -> None:
        super().__init__(shock)
        self.noted: Counter[tuple[str, Key]] = Counter()
        self.seeds: set[str] = set()  # that other generators were given

    @property
    def used(self) -> bool:
        return self._usage is not None and self._usage.used

    def __getitem__(self, key: Key) -> np.random.Generator:
        self.noted["generator", key] += 1
        return super().__getitem__(key)

    def seed(self, *key: Key) -> int:
        self.noted["seed", key] += 1
        return super().seed(*key)

    def uniform(self, *key: Key, **limits: float) -> float:
        self.noted["number", key] += 1
        return super().uniform(*key, **limits)


def _words(key: Key) -> tuple[str, ...]:
    """Strings of a key without their numbers; those that have letters."""
    if isinstance(key, tuple):
        return tuple(word for part in key for word in _words(part))
    word = re.sub(r"[-+.,]*\d[\d.,]*", "", key) if isinstance(key, str) else ""
    return (word,) if re.search(r"[^\W\d_]", word) else ()


def _is_close(one: Purpose, other: Purpose) -> bool:
    """Whether the keys have nearly the same words, in upper or lower case; the kinds of draws may differ."""
    mine, theirs = (re.findall(r"[^\W_]+", " ".join(purpose[1:]).casefold()) for purpose in (one, other))
    alike = (SequenceMatcher(None, x, y).ratio() >= _CLOSE for x, y in zip(mine, theirs, strict=False))
    return len(mine) == len(theirs) > 0 and all(alike)


def _said(purpose: Purpose) -> str:
    return f"the {purpose[0]} {', '.join(map(repr, purpose[1:]))}"


_WATCHING = threading.Lock()


@contextlib.contextmanager
def _noted_seeds(note: Callable[[str], None]) -> Iterator[None]:
    """Note the calls that seed a generator of NumPy or Python. Nothing is noted if another thread does so."""
    if not _WATCHING.acquire(blocking=False):
        yield
        return
    method = random.Random.seed  # which random.Random(0) calls
    own = {"np.random.default_rng": np.random.default_rng, "np.random.seed": np.random.seed, "random.seed": random.seed}
    noting = {name: _noting(function, name, note) for name, function in own.items()}
    try:
        random.Random.seed = _noting(method, "random.Random", note)  # type: ignore[method-assign]
        _replace(own, noting)
        yield
    finally:
        _replace(noting, own)
        random.Random.seed = method  # type: ignore[method-assign]
        _WATCHING.release()


def _replace(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Replace functions in all modules, since some import them by name."""
    for module in list(sys.modules.values()):
        known = getattr(module, "__dict__", {})
        for full, function in old.items():
            name = full.rpartition(".")[2]
            if known.get(name) is function:
                known[name] = new[full]


def _noting(function: Any, name: str, note: Callable[[str], None]) -> Any:
    """The same function, which notes the seeds that it is given."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for seed in (*args, *kwargs.values()):
            if isinstance(seed, (int, np.integer, str, list, tuple)):
                note(f"{name}({short(seed)})")
        return function(*args, **kwargs)

    return call
