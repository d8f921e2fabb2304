"""Program that is interrupted by Ctrl-C: `python interrupted_runs.py CASE FOLDER FRESH WARM SEED PRESSES`.

Calls a method or main function, and presses Ctrl-C at random moments: in the first call of the process, which imports
and compiles, within FRESH seconds, and in later ones within WARM seconds. After each press the same call is made again,
undisturbed. FRESH "import" presses in the middle of importing a package instead. With PRESSES 0 nothing is pressed.
Prints JSON: what became of each press, a digest of each undisturbed result, and the times of undisturbed calls.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import jmdp

warnings.simplefilter("ignore")

PACKAGES = ("numba", "scipy", "jax", "tqdm")
"""Packages in whose import Ctrl-C is pressed."""


def table(S, discount=0.9, K=3, A=3):
    rng = np.random.default_rng(0)
    model = jmdp.TabularJMDP(
        rng.dirichlet(np.ones(K), S), rng.normal(size=(S, K, A)), rng.integers(0, S, (S, K, A)), discount
    )
    return model, jmdp.TabularPolicy.uniform(model)


def reward(state, action, shock):
    return action * shock


def following(state, action, shock):
    return (state + 1 + action + int(3 * shock)) % 7


def observe(state):
    return np.array([float(state)])


def zero(observation):
    return 0


def one(observation):
    return 1


def walk(luck):
    return float(sum(luck.exponential("step", i, mean=1.0) for i in range(100)))


def slow_walk(luck):
    return float(sum(luck.exponential("step", i, mean=1.1) for i in range(100)))


def simulator():
    return jmdp.simulators.FunctionSimulator(reward, following, 2, start=0, observe=observe)


def on_table(S, discount, method):
    """Call of evaluate on a table, given a folder for files."""

    def call(folder):
        made = method(folder) if callable(method) else method
        return jmdp.evaluate(*table(S, discount), jmdp.Local(), made, throw=False, progress=False)

    return call


def neural(pool=None, saved=False):
    def call(folder):
        method = jmdp.NeuralGram(
            seed=1, updates=300, visits=100, length=4, spacing=2, held_out=8, rank=4, batch=32, pool=pool,
            folder=folder / "run" if saved else None,
        )  # fmt: skip
        return jmdp.evaluate(simulator(), zero, jmdp.Synchronous(), method, discount=0.5, throw=False, progress=False)

    return call


def comparison(samples, **settings):
    def call(folder):
        return jmdp.compare(
            simulator(), policy=zero, seed=1, discount=0.95, horizon=40, samples=samples, precision=1e-9,
            progress=False, **settings,
        )  # fmt: skip

    return call


def of_policies(folder):
    return jmdp.compare_policies(
        simulator(), {"zero": zero, "one": one}, seed=1, discount=0.95, horizon=60, samples=600, precision=1e-9,
        progress=False,
    )  # fmt: skip


def of_runs(pool):
    def call(folder):
        return jmdp.compare_runs(
            {"walk": walk, "slow": slow_walk}, seed=1, samples=1000, precision=1e-9, pool=pool, progress=False
        )

    return call


def in_many_states(folder):
    return jmdp.study(
        simulator(), zero, range(8), seed=1, path=folder / "run", discount=0.95, horizon=40, budget=64, progress=False
    )


def reviewed(folder):
    method = jmdp.RolloutValues(64)
    return jmdp.review(simulator(), zero, seed=1, discount=0.95, horizon=40, method=method, progress=False)


def sampled(folder):
    method = jmdp.MonteCarlo(seed=1, samples=1000, horizon=40)
    return jmdp.evaluate(simulator(), zero, jmdp.Local(), method, discount=0.95, throw=False, progress=False)


def reachable(folder):
    world = jmdp.worlds.windy_gridworld(14, 14)
    method = jmdp.ReachablePairs("6,6", tolerance=1e-4)
    return jmdp.evaluate(world.model, world.policies["uniform"], jmdp.Local(), method, throw=False, progress=False)


FEATURES = np.random.default_rng(0).normal(size=(120, 8))

CASES = {
    "ExactPairs": on_table(420, 0.9999, jmdp.ExactPairs(tolerance=0)),
    "ExactPairs(order=4)": on_table(60, 0.999, jmdp.ExactPairs(order=4)),
    "JIPE": on_table(20, 0.98, jmdp.JIPE()),
    "ExactDistribution": on_table(6, 0.8, jmdp.ExactDistribution()),
    "ReachablePairs": reachable,
    "MonteCarlo": on_table(6, 0.9, jmdp.MonteCarlo(seed=1, samples=8000)),
    "MonteCarlo on a simulator": sampled,
    "Incremental": on_table(20, 0.9, jmdp.Incremental(seed=1, updates=4_000_000)),
    "Incremental(checkpoint=…)": on_table(
        20, 0.9,
        lambda folder: jmdp.Incremental(
            seed=1, updates=4_000_000, checkpoint=folder / "run.npz", checkpoint_seconds=0.1
        ),
    ),
    "LinearProjected": on_table(
        40, 0.99, jmdp.LinearProjected(FEATURES, same_state=True, tolerance=0, max_sweeps=6000)
    ),
    "LinearProjected(samples=…)": on_table(
        40, 0.99, jmdp.LinearProjected(FEATURES, samples=10_000, seed=1, max_sweeps=500)
    ),
    "NeuralGram": neural(),
    "NeuralGram(folder=…)": neural(pool=2, saved=True),
    "compare": comparison(300),
    "compare(pool=…)": comparison(1000, pool=2),
    "compare_policies": of_policies,
    "compare_runs": of_runs(None),
    "compare_runs(pool=…)": of_runs(2),
    "study": in_many_states,
    "review": reviewed,
    "check_simulator": lambda folder: jmdp.testing.check_simulator(simulator(), steps=100, seed=1),
}  # fmt: skip


def digest(found):
    if isinstance(found, jmdp.Evaluation):
        parts = [found.outcome.name, found.mean.tobytes(), found.covariance.tobytes()]
    elif hasattr(found, "draws"):
        parts = [found.outcome.name, found.draws.returns.tobytes()]
    elif isinstance(found, jmdp.Study):
        parts = found.to_arrow().to_pylist()
    elif hasattr(found, "at"):
        parts = [found.outcome.name, found.at(3).mean.tobytes(), found.at(3).covariance.tobytes()]
    else:
        parts = [repr(found)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class PressInImport:
    """Finder that presses Ctrl-C when the n-th module of heavy packages is looked up, and finds nothing."""

    def __init__(self, n):
        self.left = n

    def find_spec(self, name, path=None, target=None):
        if name.startswith(PACKAGES):
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)


def what_became(call, folder):
    """What a call that is interrupted at some time returns or raises."""
    try:
        found = call(folder)
        stopped = getattr(found, "outcome", None) is jmdp.Outcome.INTERRUPTED
        return "kept" if stopped or (isinstance(found, jmdp.Study) and not found.progress.complete) else "finished"
    except KeyboardInterrupt:
        return "KeyboardInterrupt"


def pressed(call, folder, delay):
    ended = threading.Event()

    def press():
        if not ended.wait(delay):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    found = "late"
    try:
        found = what_became(call, folder)
        ended.set()
        presser.join()
    except KeyboardInterrupt:  # between the end of the call and that of the thread
        presser.join()
    return found


def main(case, folder, fresh, warm, seed, presses):
    call, rng = CASES[case], random.Random(f"{case} {seed}")
    found, digests, times = [], [], []
    for i in range(max(int(presses), 1)):
        files = Path(folder) / str(i)
        files.mkdir()
        if int(presses) and fresh == "import" and i == 0:
            sys.meta_path.insert(0, PressInImport(rng.randrange(2, 40)))
            found.append(what_became(call, files))
            del sys.meta_path[0]
        elif int(presses):
            found.append(pressed(call, files, rng.uniform(0, float(warm if i else fresh))))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for _ in range(1 if int(presses) else 2):
            start = time.monotonic()
            digests.append(digest(call(files)))
            times.append(time.monotonic() - start)
            files = Path(folder) / "again"
            files.mkdir(exist_ok=True)
    print(json.dumps({"presses": found, "digests": digests, "times": times}))


if __name__ == "__main__":
    main(*sys.argv[1:])
