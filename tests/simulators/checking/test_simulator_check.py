"""Faults planted in small simulators are found and called by their names; sound simulators are left in peace."""

from __future__ import annotations

import copy
import pickle
import random
import time
from itertools import count

import numpy as np
import pytest

from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError, SimulatorError, UnavailableError
from jmdp.simulators.checking.draw_log import draws_of, out_of_step
from jmdp.simulators.checking.visits import quick_check
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import Simulator, Step
from jmdp.testing import Finding, check_simulator


class Toy(Simulator):
    """A walk on 0..8 with a velocity: a state is (place, velocity). Sound."""

    actions = Labels.of("action", 3, ["left", "stay", "right"])

    def luck(self, shock, action):
        return shock.generator().normal()

    def step(self, state, action, shock):
        x, v = state
        luck = self.luck(shock, action)
        v = max(-2, min(2, v + action - 1))
        y = x + v + (luck > 0.5)
        return Step(float(v + luck), (y, v), not 0 <= y <= 8)

    def start(self, shock):
        return (4, 0)


class Table(Toy):
    """Luck without a generator."""

    def luck(self, shock, action):
        return shock.uniform()


class Deterministic(Toy):
    def luck(self, shock, action):
        return 0.0


class RandomTail(Toy):
    """Each action draws as much as it likes, after what all draw."""

    def luck(self, shock, action):
        generator = shock.generator()
        found = generator.normal()
        for _ in range(action):
            found += generator.poisson(3 * action)
        return found


class Restarted(Toy):
    """Keeps a generator, which every shock sets anew."""

    def __init__(self):
        self.generator = Shock(bytes(16)).generator()

    def luck(self, shock, action):
        return shock.restart(self.generator).normal()


class OnePerPurpose(Toy):
    def luck(self, shock, action):
        extra = shock.derived(b"extra").generator().normal(size=1 + action).sum()
        return extra + shock.derived(b"noise").generator().normal()


class SeedsGlobals(Toy):
    """Global generators that follow from the shock."""

    def luck(self, shock, action):
        np.random.seed(int.from_bytes(shock.words[:4], "little"))  # noqa: NPY002
        return np.random.normal()  # noqa: NPY002


class UnusedGenerator(Toy):
    """A state that carries a generator which nobody asks."""

    def step(self, state, action, shock):
        reward, after, terminated = super().step(state[0], action, shock)
        return Step(reward, (after, copy.deepcopy(state[1])), terminated)

    def start(self, shock):
        return ((4, 0), np.random.default_rng(0))


class Cards(Simulator):
    """Like Blackjack: actions draw from one helper, called from different places, and stand draws to the end."""

    actions = Labels.of("action", 2, ["hit", "stand"])

    def card(self, generator):
        return min(10, int(generator.integers(1, 14)))

    def step(self, state, action, shock):
        generator = shock.generator()
        if action == 0:
            total = state + self.card(generator)
            return Step(-1.0 if total > 21 else 0.0, total, total > 21)
        dealer = 5
        while dealer < 17:
            dealer += self.card(generator)
        return Step(float(np.sign(state - dealer)) if dealer <= 21 else 1.0, state, True)

    def start(self, shock):
        return 2 + shock.generator().integers(10)


class Copied(Toy):
    """States are objects that `advance` moves in place."""

    class State:
        def __init__(self):
            self.x, self.path = 4, [4]

    def move(self, state, action, shock):
        state.x += action - 1 + int(shock.generator().integers(2))
        state.path.append(state.x)
        return Step(float(state.x), state, not 0 <= state.x <= 8)

    def step(self, state, action, shock):
        return self.move(copy.deepcopy(state), action, shock)

    def advance(self, state, action, shock):
        return self.move(state, action, shock)

    def observe(self, state):
        return np.array([state.x])

    def start(self, shock):
        return self.State()


class NoFinalState(Toy):
    """Where all is over there is nothing to see."""

    def step(self, state, action, shock):
        reward, after, terminated = super().step(state, action, shock)
        return Step(reward, None if terminated else after, terminated)

    def digest(self, state):
        return b"%d %d" % state


CLEAN = [
    Toy,
    Table,
    Deterministic,
    RandomTail,
    Restarted,
    OnePerPurpose,
    SeedsGlobals,
    UnusedGenerator,
    Cards,
    Copied,
    NoFinalState,
]


# ------------------------------------------------------------------------------------------ faults of luck


class GlobalNumpy(Toy):
    def luck(self, shock, action):
        return np.random.normal()  # noqa: NPY002


class GlobalPython(Toy):
    def luck(self, shock, action):
        return random.gauss(0, 1)


class GlobalForOneAction(Toy):
    def luck(self, shock, action):
        return shock.uniform() + (random.random() if action == 2 else 0)


class GlobalInObserve(Toy):
    def observe(self, state):
        np.random.random()  # noqa: NPY002
        return state


class ExtraDraw(Toy):
    def luck(self, shock, action):
        generator = shock.generator()
        extra = generator.normal() if action == 2 else 0.0
        return extra + generator.normal()


class ExtraDrawOnOneLine(Toy):
    def luck(self, shock, action):
        generator = shock.generator()
        return (generator.normal() if action == 2 else 0.0) + generator.normal()


class Poisson(Toy):
    def luck(self, shock, action):
        generator = shock.generator()
        arrivals = generator.poisson((1, 5, 20)[action])
        return arrivals + generator.random()


class RestartedExtraDraw(Restarted):
    def luck(self, shock, action):
        generator = shock.restart(self.generator)
        if action == 0:
            generator.integers(5)
        return generator.normal()


class HelperAfterExtraDraw(Toy):
    """The shared draw is in a helper that is called from different lines."""

    def noise(self, generator):
        return generator.normal()

    def luck(self, shock, action):
        generator = shock.generator()
        generator.random()
        if action == 0:
            generator.random(3)
            return self.noise(generator)
        return self.noise(generator)


class OwnGenerator(Toy):
    def __init__(self):
        self.generator = np.random.default_rng(3)

    def luck(self, shock, action):
        return self.generator.normal()


class OwnPythonGenerator(Toy):
    def __init__(self):
        self.generator = random.Random(3)

    def luck(self, shock, action):
        return self.generator.random()


class OwnOldGenerator(Toy):
    def __init__(self):
        self.generator = np.random.RandomState(3)

    def luck(self, shock, action):
        return self.generator.normal()


class GeneratorInState(Toy):
    """Copied with the state, and continued: pure, but blind to the shock."""

    def step(self, state, action, shock):
        inner, generator = copy.deepcopy(state)
        self.drawn = generator.normal()
        reward, after, terminated = super().step(inner, action, shock)
        return Step(reward, (after, generator), terminated)

    def luck(self, shock, action):
        return self.drawn

    def start(self, shock):
        return ((4, 0), shock.generator())


class EarlierShock(Toy):
    """Goes on with the generator that the shock before gave."""

    def step(self, state, action, shock):
        (x, v), generator = state
        self.drawn = generator.normal()
        reward, after, terminated = super().step((x, v), action, shock)
        return Step(reward, (after, shock.generator()), terminated)

    def luck(self, shock, action):
        return self.drawn

    def start(self, shock):
        return ((4, 0), shock.generator())


class PutsGlobalsBack(Toy):
    """Draws from the global generator and leaves it as it was."""

    def luck(self, shock, action):
        before = random.getstate()
        found = random.gauss(0, 1)
        random.setstate(before)
        return found


class WallClock(Toy):
    def luck(self, shock, action):
        return time.perf_counter_ns() % 1000003


class LuckById(Toy):
    def step(self, state, action, shock):
        reward, after, terminated = super().step(state, action, shock)
        return Step(reward + hash(id(state)) % 9973, after, terminated)


# ------------------------------------------------------------------------------------------ faults of states


class PreviousAction(Toy):
    previous = 0

    def luck(self, shock, action):
        played = self.previous if shock.uniform() < 0.5 else action
        self.previous = action
        return float(played)


class Counter(Toy):
    calls = 0

    def luck(self, shock, action):
        self.calls += 1
        return shock.uniform() + (self.calls % 7 == 0)


class Toggle(Toy):
    calls = 0

    def luck(self, shock, action):
        self.calls += 1
        return float(self.calls % 2)


class AutoReset(Toy):
    def step(self, state, action, shock):
        reward, after, terminated = super().step(state, action, shock)
        return Step(reward, self.start(shock) if terminated else after, terminated)


class MutatedArray(Toy):
    def step(self, state, action, shock):
        state[0] += 1
        return Step(0.0, state.copy(), False)

    def start(self, shock):
        return np.zeros(2)


class SameObject(Toy):
    def step(self, state, action, shock):
        state.append(action)
        return Step(0.0, state, False)

    def start(self, shock):
        return []


class SharedBuffer(Toy):
    """All next states are one object."""

    def __init__(self):
        self.buffer = np.zeros(2)

    def step(self, state, action, shock):
        self.buffer[:] = state[0] + 1, action
        return Step(0.0, self.buffer, False)

    def start(self, shock):
        return np.zeros(2)


class ObserveMutates(Toy):
    def observe(self, state):
        state.append(1)
        return len(state)

    def step(self, state, action, shock):
        return Step(0.0, list(state), False)

    def start(self, shock):
        return []


class ObserveCounts(Toy):
    calls = 0

    def observe(self, state):
        self.calls += 1
        return self.calls


class ConstantDigest(Toy):
    def digest(self, state):
        return b"here"


class CoarseDigest(Toy):
    """Forgets the velocity, which a policy does not see either."""

    def digest(self, state):
        return digest_of(state[0])

    def observe(self, state):
        return state[0]


class ForgetsPrevious(Toy):
    """The action that may be repeated is in the state, but not in its digest."""

    def step(self, state, action, shock):
        played = state[1] if shock.uniform() < 0.5 else action
        return Step(float(played), (0, action), False)

    def digest(self, state):
        return digest_of(state[0])

    def observe(self, state):
        return state[0]


class DigestById(Toy):
    def digest(self, state):
        return str((id(state), state)).encode()

    def step(self, state, action, shock):
        self.kept = [*getattr(self, "kept", []), state]  # so that no id is used twice
        return super().step(state, action, shock)


class DigestWithCounter(Toy):
    calls = count()

    def digest(self, state):
        return digest_of((state, next(self.calls)))


class DigestWithLuck(Toy):
    def digest(self, state):
        return digest_of((state, random.random()))


class DigestWithGenerator(UnusedGenerator):
    def digest(self, state):
        return pickle.dumps((state[0], state[1].bit_generator.state))


class DigestIsText(Toy):
    def digest(self, state):
        return str(state)


class NanReward(Toy):
    def luck(self, shock, action):
        return float("nan") if action == 1 else 0.0


class ArrayReward(Toy):
    def step(self, state, action, shock):
        reward, after, terminated = super().step(state, action, shock)
        return Step(np.array([reward]), after, terminated)


class NoReward(Toy):
    def step(self, state, action, shock):
        return super().step(state, action, shock)._replace(reward=None)


class NoTermination(Toy):
    def step(self, state, action, shock):
        return super().step(state, action, shock)._replace(terminated=None)


class AdvanceDiffers(Toy):
    def advance(self, state, action, shock):
        reward, after, terminated = self.step(state, action, shock)
        return Step(reward + 1, after, terminated)


class AdvanceDisturbs(Toy):
    """Copies are shallow, so states share what `advance` changes in place."""

    def step(self, state, action, shock):
        return Step(0.0, [state[0] + 1, state[1]], False)

    def advance(self, state, action, shock):
        state[1].append(0)
        state[0] += 1
        return Step(0.0, [state[0], state[1][:-1]], False)

    def start(self, shock):
        return [0, []]


class CacheOfLastState(Toy):
    """Knows the state it was asked about last, but not the action."""

    last = None

    def step(self, state, action, shock):
        if self.last is None or self.last[0] != (state, shock):
            self.last = ((state, shock), super().step(state, action, shock))
        return self.last[1]


class CacheByObject(Toy):
    def __init__(self):
        self.cache, self.kept = {}, []

    def step(self, state, action, shock):
        self.kept.append(state)
        key = (id(state), shock)
        if key not in self.cache:
            x, v = state
            reward, after, terminated = super().step((x, v), action, shock)
            self.cache[key] = Step(reward, tuple(after), terminated)
        return self.cache[key]


class HiddenStart(Toy):
    starts = count()

    def start(self, shock):
        return (next(self.starts) % 8, 0)


FAULTS = {
    GlobalNumpy: "global generator",
    GlobalPython: "global generator",
    GlobalForOneAction: "global generator",
    PutsGlobalsBack: "global generator",
    GlobalInObserve: "global generator",
    ExtraDraw: "out of step",
    ExtraDrawOnOneLine: "out of step",
    Poisson: "out of step",
    RestartedExtraDraw: "out of step",
    HelperAfterExtraDraw: "out of step",
    OwnGenerator: "own generator",
    OwnPythonGenerator: "own generator",
    OwnOldGenerator: "own generator",
    GeneratorInState: "own generator",
    EarlierShock: "own generator",
    WallClock: "hidden state",
    LuckById: "hidden state",
    PreviousAction: "hidden state",
    Counter: "hidden state",
    Toggle: "hidden state",
    ObserveCounts: "hidden state",
    CacheOfLastState: "hidden state",
    CacheByObject: "hidden state",
    HiddenStart: "hidden state",
    AutoReset: "auto-reset",
    MutatedArray: "mutated state",
    SameObject: "mutated state",
    SharedBuffer: "mutated state",
    ObserveMutates: "mutated state",
    AdvanceDisturbs: "mutated state",
    AdvanceDiffers: "advance differs",
    ConstantDigest: "wrong digest",
    CoarseDigest: "wrong digest",
    ForgetsPrevious: "wrong digest",
    DigestById: "wrong digest",
    DigestWithCounter: "wrong digest",
    DigestWithLuck: "global generator",
    DigestWithGenerator: "wrong digest",
    DigestIsText: "wrong digest",
    NanReward: "bad reward",
    ArrayReward: "bad reward",
    NoReward: "bad reward",
    NoTermination: "bad termination",
}


def only(found):
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: planted.__name__)
def test_planted_faults_are_found(planted):
    finding = only(check_simulator(planted(), steps=25))  # nothing is blamed that is sound
    assert (finding.kind, finding.fault) == (FAULTS[planted], True)
    assert "of 25 states visited" in finding.message or "1 of 1 states visited" in finding.message


@pytest.mark.parametrize("clean", CLEAN, ids=lambda clean: clean.__name__)
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 20), marks=pytest.mark.long)])
def test_sound_simulators_are_left_in_peace(clean, seeds):
    for seed in seeds:
        assert check_simulator(clean(), seed=seed, steps=5) == []
        quick_check(clean(), clean().start(Shock.of_sample(seed, 0)), range(clean.actions.size))


# What takes a start, an end, luck in meeting or an equal state of other identity to be seen.
BEYOND_A_GLANCE = {HiddenStart, AutoReset, CoarseDigest, CacheByObject}


@pytest.mark.parametrize(
    "planted", [planted for planted in FAULTS if planted not in BEYOND_A_GLANCE], ids=lambda planted: planted.__name__
)
def test_a_glance_finds_the_worst(planted):
    simulator = planted()
    state = simulator.start(Shock(bytes(16)))
    with pytest.raises(SimulatorError, match=FAULTS[planted]):
        quick_check(simulator, state, range(3))


@pytest.mark.parametrize("actions", [2, 4, 18])
def test_a_glance_is_cheap(actions):
    class Counted(Toy):
        calls = 0

        def step(self, state, action, shock):
            type(self).calls += 1
            return super().step(state, action % 3, shock)

    Counted.actions = Labels.of("action", actions, None)
    quick_check(Counted(), (4, 0), range(actions))
    assert Counted.calls <= 3 * min(actions, 6) + 7
    Counted.calls = 0
    quick_check(Counted(), (4, 0), range(actions), shared_between_states=True)
    assert Counted.calls <= 3 * min(actions, 6) + 16


# -------------------------------------------------------------------------------------------------- what is said


def test_where_actions_fall_out_of_step():
    finding = only(check_simulator(ExtraDraw(), steps=10))
    line = ExtraDraw.luck.__code__.co_firstlineno + 3
    assert f"test_simulator_check.py:{line} in luck" in finding.message
    assert "10 of 10 states" in finding.message
    assert "right" in finding.message
    assert "/" not in finding.message  # names of files, not where they are
    assert "shock.derived" in finding.message
    assert str(finding).startswith("out of step: ")


def test_branches_that_forget_what_an_episode_remembers_are_found():
    """Only `advance` counts steps, and only a large count matters: no single step shows it."""

    class Ageing(Toy):
        class Place:
            def __init__(self, x, age=0):
                self.x, self.age = x, age

        def start(self, shock):
            return self.Place(4)

        def digest(self, state):
            return digest_of(state.x)

        def observe(self, state):
            return state.x

        def step(self, state, action, shock):
            x = (state.x + action - 1) % 9
            return Step(shock.uniform() + x + (state.age > 4), self.Place(x), False)

        def advance(self, state, action, shock):
            reward, after, terminated = self.step(state, action, shock)
            after.age = state.age + 1
            return Step(reward, after, terminated)

    finding = only(check_simulator(Ageing(), steps=10))
    assert (finding.kind, finding.fault) == ("branches differ", True)
    assert "a branch continues differently from the episode itself" in finding.message


def test_uneven_luck_in_separate_code_is_a_notice():
    class Apart(Toy):
        def luck(self, shock, action):
            generator = shock.generator()
            if action == 0:
                return generator.normal()
            return generator.random() + generator.random()

    finding = only(check_simulator(Apart(), actions=["left", "right"], steps=10))
    assert (finding.kind, finding.fault) == ("uneven luck", False)
    quick_check(Apart(), (4, 0), [0, 2])


def test_cache_that_forgets_the_action_looks_like_actions_that_do_nothing():
    class Cached(Toy):
        def __init__(self):
            self.cache = {}

        def step(self, state, action, shock):
            return self.cache.setdefault((state, shock), super().step(state, action, shock))

    finding = only(check_simulator(Cached(), steps=10))
    assert (finding.kind, finding.fault) == ("equal actions", False)


def test_an_end_that_only_looks_like_a_start_is_a_notice():
    class Tour(Toy):
        """Out and home again; only its place is seen."""

        def step(self, state, action, shock):
            x, turned = state
            turned = turned or x == 2
            x += -1 if turned else 1
            return Step(float(action), (x, turned), turned and x == 0)

        def observe(self, state):
            return state[0]

        def start(self, shock):
            return (0, False)

    finding = only(check_simulator(Tour()))
    assert (finding.kind, finding.fault) == ("auto-reset", False)


def test_draws_are_told_apart_by_call_and_not_by_line():
    shock = Shock(bytes(16))
    logs = [draws_of(ExtraDrawOnOneLine(), (4, 0), action, shock) for action in range(3)]
    assert [len(log.draws) for log in logs] == [1, 1, 2]
    assert out_of_step(logs[0], logs[1]) is None
    assert out_of_step(logs[0], logs[2]) is not None


def test_a_logged_shock_gives_the_same_luck():
    class Everything(Toy):
        def luck(self, shock, action):
            generator = copy.deepcopy(shock.generator())
            numbers = [generator.choice(9, 3, replace=False), generator.integers(5), generator.permutation(4)]
            numbers += [generator.normal(size=2), generator.poisson(40), shock.derived(b"x").generator().random()]
            self.seen = digest_of(numbers)
            return 0.0

    simulator, shock = Everything(), Shock.of_sample(1, 2)
    simulator.step((4, 0), 0, shock)
    seen = simulator.seen
    log = draws_of(simulator, (4, 0), 0, shock)
    assert simulator.seen == seen
    assert len(log.draws) == 6  # choice draws by other methods of its own
    assert [draw.position[1] for draw in log.draws][::5] == [0, 0]


# ------------------------------------------------------------------------------------------------- at the door


def test_global_generators_are_left_as_they_were():
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    for planted in (GlobalNumpy, GlobalPython, GlobalInObserve, DigestWithLuck, SeedsGlobals):
        check_simulator(planted(), steps=5)
    assert np.array_equal(before[0], np.random.get_state()[1])  # noqa: NPY002
    assert before[1] == random.getstate()


def test_actions_that_are_not_numbered_must_be_given():
    class Steered(Toy):
        actions = None

        def step(self, state, action, shock):
            return Step(float(action[0] * shock.uniform()), state, False)

    with pytest.raises(SimulatorError, match=r"check_simulator\(simulator, actions="):
        check_simulator(Steered())
    with pytest.raises(SimulatorError, match="no actions"):
        check_simulator(Steered(), actions=[])
    assert check_simulator(Steered(), actions=[np.array([0.5]), np.array([-1.0])], steps=5) == []


def test_a_start_must_be_had_from_somewhere():
    class Nowhere(Toy):
        def start(self, shock):
            return Simulator.start(self, shock)

    with pytest.raises(UnavailableError, match="Give a state"):
        check_simulator(Nowhere())
    assert check_simulator(Nowhere(), (4, 0), steps=5) == []
    with pytest.raises(SettingsError, match="steps"):
        check_simulator(Toy(), steps=0)


def test_what_cannot_be_seen_is_not_compared():
    class Unseen(Toy):
        def observe(self, state):
            raise UnavailableError("not known")

    assert check_simulator(Unseen(), steps=5) == []


def test_a_step_must_be_a_step():
    class Five(Toy):
        def step(self, state, action, shock):
            return state, 0.0, False, False, {}

    with pytest.raises(SimulatorError, match="Return Step"):
        check_simulator(Five())


def test_findings_are_notices_unless_said():
    assert not Finding("kind", "message").fault
