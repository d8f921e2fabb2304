"""Atari games: a step depends on state, action and shock alone, whatever ran before and wherever it runs."""

from __future__ import annotations

import copy
import gc
import hashlib
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jmdp
from jmdp.base.luck import Shock
from jmdp.errors import LabelError, MissingExtraError, SettingsError, SimulatorError
from jmdp.simulators.adapters import ale as ale_emulator
from jmdp.simulators.adapters.ale import ALESimulator

ale_py = pytest.importorskip("ale_py")

GAMES = ["pong", "boxing", "seaquest", "qbert", "pitfall2"]  # one begins amid a frame, saving another rounds a clock
REFUSED = ["miniature_golf", "tic_tac_toe_3d"]


class Replay:
    """Slow twin: knows no snapshots, and plays the whole history of a state again from the first frame."""

    def __init__(self, game: str, *, sticky: float = 0.25, frame_skip: int = 4) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path(game))
        if game in ("qbert", "tetris"):  # they begin amid a frame, which is not restored
            self.ale.act(0)
            self.ale.act(0)
        self.first = self.ale.cloneState()
        self.codes = [move.value for move in self.ale.getMinimalActionSet()]
        self.sticky, self.frame_skip = sticky, frame_skip

    def play(self, root: Shock, history: tuple[tuple[int, Shock], ...]) -> tuple[float, bytes, bytes]:
        """Last reward, RAM and digest."""
        self.ale.restoreState(self.first)
        for _ in range(root.generator().integers(31)):
            self.ale.act(0)
        played, reward = 0, 0.0
        for a, shock in history:
            reward = 0.0
            for coin in shock.generator().random(self.frame_skip):
                played = played if coin < self.sticky else self.codes[a]
                reward += self.ale.act(played)  # nothing, once the game is over
        full = self.ale.cloneState().serialize() + bytes([played])
        return reward, self.ale.getRAM().tobytes(), hashlib.blake2b(full, digest_size=16).digest()


class Counting:
    """An emulator that counts what is asked of it."""

    def __init__(self, ale) -> None:
        self.ale, self.calls = ale, []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self.ale, name)


@pytest.fixture(scope="module")
def simulators():
    """Simulators by their settings: loading a game takes a third of a second."""
    known: dict[str, ALESimulator] = {}

    def simulator(game: str = "pong", **settings) -> ALESimulator:
        key = f"{game} {settings}"
        if key not in known:
            known[key] = ALESimulator(game, **settings)
        return known[key]

    return simulator


@pytest.fixture
def eager(monkeypatch):
    """Load another emulator at once wherever one is missed."""
    monkeypatch.setattr(ale_emulator, "_EVICTIONS_BEFORE_ANOTHER", 0)


def shock(*numbers: int) -> Shock:
    return Shock.of_sample(numbers[0], sum(1000**i * n for i, n in enumerate(numbers[1:])))


def outcome(sim: ALESimulator, step) -> tuple[float, bool, bytes, bytes]:
    return step.reward, step.terminated, step.state.ram.tobytes(), sim.digest(step.state)


def walk(sim: ALESimulator, steps: int, seed: int = 0):
    """A state some random actions after the start."""
    rng = np.random.default_rng(seed)
    state = sim.start(shock(seed))
    for t in range(steps):
        state = sim.advance(state, int(rng.integers(sim.actions.size)), shock(seed, 1, t)).state
    return state


@pytest.mark.parametrize("game", GAMES)
def test_a_step_can_be_repeated_whatever_ran_in_between(game, simulators):
    sim = simulators(game)
    rng = np.random.default_rng(1)
    states = [walk(sim, steps) for steps in (0, 25, 60)]
    questions = [(i, a, shock(2, n)) for i in range(3) for a in range(min(sim.actions.size, 6)) for n in range(3)]
    digests = [sim.digest(state) for state in states]
    first = [outcome(sim, sim.step(states[i], a, luck)) for i, a, luck in questions]
    for n in rng.permutation(len(questions)):
        i, a, luck = questions[n]
        assert outcome(sim, sim.step(states[i], a, luck)) == first[n]
    assert [sim.digest(state) for state in states] == digests
    assert len({found[3] for found in first}) > 3  # the actions do something


@pytest.mark.parametrize("game", GAMES)
def test_advance_gives_what_step_gives(game, simulators, eager):
    sim = simulators(game)
    rng = np.random.default_rng(3)
    kept, used = sim.start(shock(3)), sim.start(shock(3))
    for t in range(40):
        a, luck = int(rng.integers(sim.actions.size)), shock(3, t)
        for other in range(2):  # branches that are left lying
            sim.step(kept, other, luck)
        one, two = sim.step(kept, a, luck), sim.advance(used, a, luck)
        assert one.reward == two.reward
        kept, used = one.state, two.state
        assert np.array_equal(kept.ram, used.ram)
        assert t % 5 or sim.digest(kept) == sim.digest(used)


def test_a_game_that_begins_amid_a_frame_starts_alike(simulators):
    sim, luck = simulators("qbert"), shock(24)
    fresh = ALESimulator("qbert")
    assert [fresh.digest(fresh.start(luck)) for _ in range(3)] == [sim.digest(sim.start(luck))] * 3


@pytest.mark.parametrize(("game", "max_emulators"), [("pong", 1), ("seaquest", 2), ("tetris", 5)])
def test_any_order_of_calls_gives_what_a_replay_gives(game, max_emulators, eager):
    sim, other = ALESimulator(game, max_emulators=max_emulators), ALESimulator(game, max_emulators=1)
    twin = Replay(game)
    rng = np.random.default_rng(max_emulators)
    known = [(sim.start(shock(4, n)), shock(4, n), ()) for n in range(3)]
    for n in range(150):
        i = int(rng.integers(len(known)))
        state, root, history = known[i]
        kind = rng.choice(["step", "advance", "digest", "pickle", "drop"], p=[0.35, 0.35, 0.1, 0.1, 0.1])
        if kind in ("step", "advance"):
            a, luck = int(rng.integers(sim.actions.size)), shock(5, n % 7)
            who = other if rng.random() < 0.2 else sim
            found = getattr(who, kind)(state, a, luck)
            history = (*history, (a, luck))
            reward, ram, _ = twin.play(root, history)
            assert (found.reward, found.state.ram.tobytes()) == (reward, ram)
            known.append((found.state, root, history))
        elif kind == "digest":
            assert sim.digest(state) == twin.play(root, history)[2]
        elif kind == "pickle":
            known[i] = (pickle.loads(pickle.dumps(state)), root, history)
        if kind == "advance" or (kind == "drop" and len(known) > 5):
            del known[i]
        del state
    assert 1 <= len(sim._emulators) <= max_emulators
    assert len(known) > 5
    for state, root, history in known:
        assert (state.ram.tobytes(), sim.digest(state)) == twin.play(root, history)[1:]


def test_another_process_finds_the_same(simulators):
    sim = simulators()
    state = walk(sim, 30)
    expected = [outcome(sim, sim.step(state, a, shock(6))) for a in range(6)]
    expected.append(sim.digest(sim.start(shock(7))))
    program = """
import pickle, sys
from jmdp.base.luck import Shock
sim, state = pickle.load(sys.stdin.buffer)
found = []
for a in reversed(range(6)):
    step = sim.step(state, a, Shock.of_sample(6, 0))
    found.insert(0, (step.reward, step.terminated, step.state.ram.tobytes(), sim.digest(step.state)))
found.append(sim.digest(sim.start(Shock.of_sample(7, 0))))
sys.stdout.buffer.write(pickle.dumps(found))
"""
    source = str(Path(jmdp.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        input=pickle.dumps((sim, state)),
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert pickle.loads(done.stdout) == expected
    assert done.stderr == b""


def test_the_order_of_branches_does_not_matter_though_actions_stick(simulators):
    sim = simulators("boxing", sticky=0.6)
    rng = np.random.default_rng(8)
    for n in range(10):
        state = walk(sim, 5 + n, seed=n)
        orders = [list(range(sim.actions.size)), *(rng.permutation(sim.actions.size).tolist() for _ in range(2))]
        found = [{a: outcome(sim, sim.step(state, a, shock(8, n))) for a in order} for order in orders]
        assert found[0] == found[1] == found[2]


def test_what_was_played_before_is_part_of_the_state_where_actions_stick(simulators):
    sim, plain = simulators(full_action_space=True), simulators(full_action_space=True, sticky=0.0)
    start = sim.start(shock(0))
    noop, up = (plain.step(start, name, shock(0)).state for name in ("NOOP", "UP"))
    assert (noop.previous, up.previous) == (0, 2)
    assert plain.digest(noop) == plain.digest(up)  # a paddle knows no up
    assert sim.digest(noop) != sim.digest(up)


@pytest.mark.parametrize("sticky", [0.25, 0.7])
def test_actions_stick_as_often_as_they_should(sticky, simulators):
    """Beyond five standard errors: by chance once in 1.7 million runs. The action always differs from the last one."""
    sim = simulators(sticky=sticky, frame_skip=1)
    state, n = sim.start(shock(9)), 3000
    stuck = 0
    for t in range(n):
        before = state.previous
        a = 1 if before == 0 else 0
        state = sim.advance(state, a, shock(9, t)).state
        assert state.previous in (before, sim._codes[a])
        stuck += state.previous == before
    assert abs(stuck - n * sticky) < 5 * math.sqrt(n * sticky * (1 - sticky))


def test_an_action_that_never_sticks_is_played(simulators):
    sim = simulators(sticky=0.0)
    state = walk(sim, 3)
    assert [sim.step(state, a, shock(a)).state.previous for a in range(6)] == sim._codes


def test_reward_noise_is_shared_as_stated(simulators):
    plain, noisy = simulators("boxing"), ALESimulator("boxing", shared_noise=0.5, action_noise=2.0)
    state = walk(plain, 12)
    for n in range(4):
        generator = shock(10, n).generator()
        generator.random(4)
        xi = generator.standard_normal()
        for a, loading in enumerate(np.linspace(-1, 1, 18)):
            with_noise, without = noisy.step(state, a, shock(10, n)), plain.step(state, a, shock(10, n))
            assert with_noise.reward == without.reward + xi * (0.5 + 2.0 * loading)
            assert noisy.digest(with_noise.state) == plain.digest(without.state)


def test_noise_of_all_actions_alike_cancels(simulators):
    plain, noisy = simulators("boxing"), ALESimulator("boxing", shared_noise=3.0)
    state = walk(plain, 12)
    added = {noisy.step(state, a, shock(11)).reward - plain.step(state, a, shock(11)).reward for a in range(18)}
    assert max(added) - min(added) < 1e-14
    assert max(added) != 0


def test_clipped_rewards_are_signs_of_points(simulators):
    """Of a whole step; noise is added to the sign. In a round of boxing some blows land."""
    plain, clipped = simulators("boxing", frame_skip=30), simulators("boxing", frame_skip=30, clip_rewards=True)
    noisy = ALESimulator("boxing", frame_skip=30, clip_rewards=True, shared_noise=0.5)
    state, seen = plain.start(shock(25)), set()
    for t in range(60):
        a, luck = t % 18, shock(25, t)
        one, other = plain.step(state, a, luck), clipped.step(state, a, luck)
        assert other.reward == np.sign(one.reward)
        assert clipped.digest(other.state) == plain.digest(one.state)
        generator = luck.generator()
        generator.random(30)
        assert noisy.step(state, a, luck).reward == other.reward + 0.5 * generator.standard_normal()
        state = one.state
        seen.add(one.reward)
    assert max(seen) > 1 or min(seen) < -1
    assert min(seen) < 0 < max(seen)
    with pytest.raises(SettingsError, match="clip_rewards is 'sign'"):
        ALESimulator("pong", clip_rewards="sign")


def test_a_live_state_goes_on_without_copies(simulators):
    sim = ALESimulator("pong")
    emulator = sim._emulators[0]
    emulator.ale = counting = Counting(emulator.ale)
    state = sim.start(shock(12))
    for t in range(10):
        state = sim.advance(state, t % 6, shock(12, t)).state
    assert counting.calls.count("restoreState") == 1  # to the first frame
    assert "cloneState" not in counting.calls
    sim.step(state, 0, shock(13))  # saved before, for it may be asked again
    assert counting.calls.count("cloneState") == 1
    sim.step(state, 1, shock(13))  # the step before is gone, and never was saved
    assert (counting.calls.count("cloneState"), counting.calls.count("restoreState")) == (1, 2)


def test_emulators_are_loaded_when_that_pays(monkeypatch):
    monkeypatch.setattr(ale_emulator, "_EVICTIONS_BEFORE_ANOTHER", 3)
    sim = ALESimulator("pong", max_emulators=2)
    held = [sim.start(shock(n)) for n in range(4)]
    assert len(sim._emulators) == 1
    held += [sim.start(shock(n)) for n in range(4, 12)]
    assert len(sim._emulators) == sim.lanes == 2
    del held
    gc.collect()
    assert all(emulator.holder() is None for emulator in sim._emulators)


def test_a_state_given_to_advance_is_used_up(simulators):
    sim, other = simulators(), simulators(max_emulators=3)
    for save in (False, True):
        for who in (sim, other):
            state = walk(sim, 4)
            if save:
                sim.digest(state)
            with pytest.raises(LabelError):
                who.advance(state, "JUMP", shock(0))
            following = who.advance(state, 0, shock(0)).state  # a wrong action used nothing up
            for use, *more in (
                (sim.step, 0, shock(0)),
                (other.advance, 0, shock(0)),
                (sim.digest,),
                (pickle.dumps,),
            ):
                with pytest.raises(SimulatorError, match=r"consumed by advance\(\)\. Call step\(\)"):
                    use(state, *more)
            assert sim.observe(state).shape == (128,)
            assert sim.digest(following) == other.digest(following)


def test_states_and_simulators_can_be_copied(simulators):
    sim = simulators()
    state = walk(sim, 6)
    copies = [pickle.loads(pickle.dumps(state)), copy.deepcopy(state), copy.copy(state)]
    anew = [pickle.loads(pickle.dumps(sim)), copy.deepcopy(sim)]
    expected = outcome(sim, sim.step(state, 2, shock(14)))
    for who in (sim, *anew):
        for one in copies:
            assert outcome(who, who.step(one, 2, shock(14))) == expected
            assert not one.ram.flags.writeable
    assert sim.advance(copies[0], 2, shock(14)).reward == expected[0]
    assert outcome(sim, sim.step(copies[1], 2, shock(14))) == expected


def test_a_live_state_outlives_its_simulator():
    sim, other = ALESimulator("pong"), ALESimulator("pong")
    state = walk(sim, 6)
    expected = walk(other, 6)
    del sim
    gc.collect()
    assert other.digest(state) == other.digest(expected)
    assert outcome(other, other.step(state, 1, shock(0))) == outcome(other, other.step(expected, 1, shock(0)))


def test_states_of_another_game_are_refused(simulators):
    with pytest.raises(SimulatorError, match="not a state of ALESimulator"):
        simulators("pong").step(simulators("boxing").start(shock(0)), 0, shock(0))
    with pytest.raises(SimulatorError, match="not a state of ALESimulator"):
        simulators("pong").step(None, 0, shock(0))


@pytest.mark.parametrize(("observation", "shape"), [("screen", (210, 160, 3)), ("grayscale", (210, 160))])
def test_screens_are_those_of_the_state(observation, shape, simulators):
    sim = simulators("breakout", observation=observation)
    live, kept = sim.start(shock(15)), sim.start(shock(15))
    for t in range(30):
        for a in range(4):
            sim.step(kept, a, shock(16, t, a))
        kept, live = sim.step(kept, t % 4, shock(15, t)).state, sim.advance(live, t % 4, shock(15, t)).state
        assert np.array_equal(sim.observe(kept), sim.observe(live))
    assert sim.observe(kept).shape == shape
    assert not sim.observe(kept).flags.writeable
    assert np.array_equal(sim.observe(pickle.loads(pickle.dumps(kept))), sim.observe(kept))


def test_ram_is_read_only_and_names_are_those_of_the_emulator(simulators):
    sim = simulators()
    state = sim.start(shock(0))
    assert sim.observe(state) is state.ram
    with pytest.raises(ValueError, match="read-only"):
        state.ram[0] = 1
    assert sim.actions.names == ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
    assert sim.generators(state) == {}
    assert repr(sim) == "ALESimulator('pong', frame_skip=4, sticky=0.25)"
    assert outcome(sim, sim.step(state, "LEFT", shock(0))) == outcome(sim, sim.step(state, 3, shock(0)))


def test_starts_differ_by_frames_without_action(simulators):
    sim = simulators()
    frames = [sim.start(shock(17, n)).saved().getFrameNumber() for n in range(200)]
    assert (min(frames), max(frames)) == (0, 30)
    assert sim.digest(sim.start(shock(17))) == sim.digest(sim.start(shock(17)))


def test_the_end_of_a_game_is_an_end(simulators):
    sim, noisy = simulators(sticky=0.0), ALESimulator("pong", sticky=0.0, shared_noise=1.0)
    state, total = sim.start(shock(18)), 0.0
    for t in range(2000):
        found = sim.advance(state, 0, shock(18, t))
        state, total = found.state, total + found.reward
        if found.terminated:
            break
    assert total == -21
    assert state.over
    for who in (sim, noisy):  # nothing more is earned, noise neither
        for go in (who.step, who.advance):
            assert go(state, 2, shock(0)) == (0.0, state, True)


def test_losing_a_life_is_no_end(simulators):
    sim = simulators("breakout")
    state, lives = sim.start(shock(19)), set()
    for t in range(120):
        found = sim.advance(state, "FIRE" if t % 10 == 0 else "NOOP", shock(19, t))
        state = found.state
        lives.add(int(state.ram[57]))
        assert not found.terminated
        if len(lives) > 1:
            break
    assert lives == {5, 4}


def test_mode_difficulty_and_all_actions():
    sim = ALESimulator("pong", mode=1, difficulty=1, full_action_space=True)
    state = sim.start(shock(0))
    assert sim.actions.size == 18
    assert (state.saved().getCurrentMode(), state.saved().getDifficulty()) == (1, 1)
    assert sim.digest(state) != sim.digest(ALESimulator("pong").start(shock(0)))
    later = walk(sim, 10)
    assert sim.digest(later) == sim.digest(walk(pickle.loads(pickle.dumps(sim)), 10))
    with pytest.raises(SettingsError, match=r"mode is 77\. pong supports 0, 1\."):
        ALESimulator("pong", mode=77)
    with pytest.raises(SettingsError, match=r"difficulty is 5\. pong supports 0, 1"):
        ALESimulator("pong", difficulty=5)


@pytest.mark.parametrize("name", ["pong", "Pong", "ALE/Pong-v5", "PongNoFrameskip-v4", "Pong-ramDeterministic-v0"])
def test_names_of_a_game(name):
    assert ale_emulator._rom_of(name)[1] == "pong"


def test_names_of_more_words_and_paths():
    path, name = ale_emulator._rom_of("ALE/SpaceInvaders-v5")
    assert name == ale_emulator._rom_of("space_invaders")[1] == "space_invaders"
    assert ale_emulator._rom_of(path) == ale_emulator._rom_of(str(path)) == (path, name)


def test_roms_that_would_end_the_process_are_refused(tmp_path):
    with pytest.raises(SettingsError, match="'combat', a ROM that ale-py does not support"):
        ALESimulator("combat")
    rom = tmp_path / "own.bin"
    rom.write_bytes(bytes(4096))
    with pytest.raises(SettingsError, match="does not support"):
        ALESimulator(rom)
    with pytest.raises(SettingsError, match="not a game of ale-py or a ROM file"):
        ALESimulator(tmp_path / "none.bin")
    with pytest.raises(SettingsError, match="Did you mean 'seaquest'"):
        ALESimulator("SeaQuests-v5")
    with pytest.raises(SettingsError, match=r"game is 3\. Give a name"):
        ALESimulator(3)


@pytest.mark.parametrize("game", REFUSED)
def test_games_that_do_not_come_back_are_refused(game):
    with pytest.raises(SettingsError, match=f"cannot branch '{game}'"):
        ALESimulator(game)


def test_screens_that_do_not_come_back_are_refused():
    with pytest.raises(SettingsError, match="frame_skip ≥ 2"):
        ALESimulator("yars_revenge", frame_skip=1, observation="screen")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frame_skip": 0}, "frame_skip is 0"),
        ({"max_emulators": 0}, "max_emulators is 0"),
        ({"sticky": 1}, "sticky is 1.0. Give a probability below 1"),
        ({"sticky": -0.1}, "sticky is -0.1"),
        ({"observation": "sound"}, "observation is 'sound'"),
        ({"full_action_space": "no"}, "full_action_space is 'no'"),
        ({"shared_noise": -1}, "shared_noise is -1"),
        ({"action_noise": math.inf}, "action_noise is inf"),
        ({"mode": -1}, "mode is -1"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        ALESimulator("pong", **settings)


def test_without_ale_py_the_door_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingExtraError, match=r'pip install "jmdp\[atari\]"'):
        ALESimulator("pong")


@pytest.mark.long
def test_every_game_comes_back():
    """Each game at three points, 60 frames: live, by snapshots with branches between, and replayed from the start."""
    names = [name for name in ale_py.roms.get_all_rom_ids() if name not in REFUSED]
    played = 0
    for name in names:
        if ale_py.ALEInterface.isSupportedROM(ale_py.roms.get_rom_path(name)) is None:
            continue
        played += 1
        sim, twin = ALESimulator(name), Replay(name)
        rng = np.random.default_rng(20)
        root, history = shock(20), ()
        assert not sim.start(root).over
        state = sim.start(root)
        for _ in range(3):
            for _ in range(20):  # on to the next point
                history += ((int(rng.integers(sim.actions.size)), shock(21, len(history))),)
                state = sim.advance(state, *history[-1]).state
            live, kept = pickle.loads(pickle.dumps(state)), pickle.loads(pickle.dumps(state))
            future = history
            for t in range(15):
                future += ((int(rng.integers(sim.actions.size)), shock(22, t)),)
                branch = sim.step(kept, int(rng.integers(sim.actions.size)), shock(23, t)).state
                one, two = sim.step(kept, *future[-1]), sim.advance(live, *future[-1])
                assert outcome(sim, one) == outcome(sim, two), name
                live, kept = two.state, one.state
                del branch
            reward, ram, digest = twin.play(root, future)
            assert (one.reward if not live.over else reward, kept.ram.tobytes()) == (reward, ram), name
            assert name == "pitfall2" or sim.digest(kept) == digest, name
    assert played == 102
