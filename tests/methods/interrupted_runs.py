"""Program that is interrupted by Ctrl-C: `python interrupted_runs.py FOLDER FRESH WARM SEED PRESSES CASE…`.

For each case, calls a method or main function, and presses Ctrl-C at random moments: in the first call, which imports
and compiles, within FRESH seconds, and in later ones within WARM seconds, or, if it is 0, within the time of a call
that is not interrupted. After each press the same call is made again, undisturbed. FRESH "import" presses in the middle
of importing a package instead. With PRESSES 0 nothing is pressed. Prints JSON: for each case, what became of each
press, a digest of each undisturbed result, and the times of undisturbed calls.
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

import jmdp
from registry.methods import METHODS, simulator, zero

warnings.simplefilter("ignore")

PACKAGES = ("numba", "scipy", "jax", "tqdm")
"""Packages in whose import Ctrl-C is pressed."""


def one(observation):
    return 1


def walk(luck):
    return float(sum(luck.exponential("step", i, mean=1.0) for i in range(100)))


def slow_walk(luck):
    return float(sum(luck.exponential("step", i, mean=1.1) for i in range(100)))


def comparison(samples, **settings):
    def call(folder):
        return jmdp.compare(
            simulator(), policy=zero, seed=1, discount=0.95, horizon=40, samples=samples,
            progress=False, **settings,
        )  # fmt: skip

    return call


def of_policies(folder):
    return jmdp.compare_policies(
        simulator(), {"zero": zero, "one": one}, seed=1, discount=0.95, horizon=60, samples=600,
        progress=False,
    )  # fmt: skip


def of_runs(pool):
    def call(folder):
        return jmdp.compare_runs({"walk": walk, "slow": slow_walk}, seed=1, samples=1000, pool=pool, progress=False)

    return call


def in_many_states(folder):
    return jmdp.study(
        simulator(),
        zero,
        range(8),
        seed=1,
        path=folder / "run",
        discount=0.95,
        horizon=40,
        max_samples=64,
        progress=False,
    )


def reviewed(folder):
    method = jmdp.reviews.RolloutValues(32)
    return jmdp.review(simulator(), zero, seed=1, discount=0.95, horizon=20, method=method, progress=False)


CASES = {
    **{case: call for method in METHODS.values() for case, call in method.interrupted.items()},
    "compare": comparison(300),
    "compare(pool=…)": comparison(1000, pool=2),
    "compare_policies": of_policies,
    "compare_runs": of_runs(None),
    "compare_runs(pool=…)": of_runs(2),
    "study": in_many_states,
    "review": reviewed,
    "check_simulator": lambda folder: jmdp.testing.check_simulator(simulator(), steps=100, seed=1),
}
"""Calls that are interrupted, by row of the table in docs/howto/resume.md."""


def digest(found):
    if isinstance(found, jmdp.results.Evaluation):
        parts = [found.outcome.name, found.mean.tobytes(), found.covariance.tobytes()]
    elif hasattr(found, "draws"):
        parts = [found.outcome.name, found.summary.samples.returns.tobytes()]
    elif isinstance(found, jmdp.studies.Study):
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
        stopped = getattr(found, "outcome", None) is jmdp.results.Outcome.INTERRUPTED
        return (
            "kept" if stopped or (isinstance(found, jmdp.studies.Study) and not found.progress.complete) else "finished"
        )
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


def run(case, folder, fresh, warm, rng, presses):
    call, found, digests, times = CASES[case], [], [], []
    for i in range(max(presses, 1)):
        files = folder / str(i)
        files.mkdir(parents=True)
        if presses and fresh == "import" and i == 0:
            sys.meta_path.insert(0, PressInImport(rng.randrange(2, 40)))
            found.append(what_became(call, files))
            del sys.meta_path[0]
        elif presses:
            found.append(pressed(call, files, rng.uniform(0, (warm or times[1]) if i else float(fresh))))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        for _ in range(1 if presses and (warm or i) else 2):
            start = time.monotonic()
            digests.append(digest(call(files)))
            times.append(time.monotonic() - start)
            files = folder / "again"
            files.mkdir(exist_ok=True)
    return {"presses": found, "digests": digests, "times": times}


def main(folder, fresh, warm, seed, presses, *cases):
    found = {
        case: run(case, Path(folder) / str(i), fresh, float(warm), random.Random(f"{case} {seed}"), int(presses))
        for i, case in enumerate(cases)
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
