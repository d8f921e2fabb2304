"""Ctrl-C at random moments, and in the middle of imports, of every method and main function, in processes of their own.

A press is answered by a result with the outcome INTERRUPTED, by KeyboardInterrupt, or, if it came too late, by the
complete result. In every case the same call made again gives the undisturbed result, bit for bit, the handler of SIGINT
is the one before, and no process is left. The table of docs/howto/resume.md has a row for each.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import interrupted_runs
import numpy as np
import pytest
from interrupted_runs import CASES

import jmdp
from jmdp.methods.method import Method
from registry.methods import simulator, table, zero

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at processes in /proc")

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "howto" / "resume.md"
HANGS = 300
"""Seconds after which a process hangs, on a machine however busy."""


def rows():
    """Names in the first column of the table, and what the second column says is kept."""
    text = TABLE.read_text(encoding="utf-8").split("| call |")[1].split("\n\n")[0]
    cells = [line.split("|")[1:3] for line in text.splitlines()[2:]]
    return {re.sub("`", "", name).strip(): kept.strip() for name, kept in cells}


def test_every_method_and_main_function_is_in_the_table():
    methods = {
        name for name in jmdp.__all__ if isinstance(found := getattr(jmdp, name), type) and issubclass(found, Method)
    }
    assert methods == {re.match(r"\w+", name)[0] for name in rows()} - VERBS
    assert {name for name in rows() if name in VERBS} == VERBS
    assert set(CASES) == set(rows())


VERBS = {"compare", "compare_policies", "compare_runs", "study", "review", "check_simulator"}


def run(folder, fresh, warm, seed, presses, *cases):
    """What the program says of its cases; a process that hangs, or leaves others behind, fails."""
    folder.mkdir(parents=True)
    started = subprocess.Popen(
        [sys.executable, HERE / "interrupted_runs.py", *map(str, (folder, fresh, warm, seed, presses)), *cases],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    try:
        out, err = started.communicate(timeout=HANGS * max(1, presses))
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
    assert started.returncode == 0, f"{cases}, seed {seed}:\n{err}"
    assert "Traceback" not in err, err
    assert nothing_left(started.pid), cases
    return json.loads(out.splitlines()[-1])


def nothing_left(session):
    """Whether all processes of a session end; that of multiprocessing which ends with its parent needs a moment."""
    deadline = time.monotonic() + 60
    while any(belongs(path, session) for path in Path("/proc").glob("[0-9]*")):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def belongs(path, session):
    try:
        state, _, _, its_session = (path / "stat").read_text().rsplit(")", 1)[1].split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(its_session) == session and state != "Z"


def check(case, found, right):
    """Count what became of presses, after which results are right."""
    assert set(found["digests"]) == {right}, found
    counts = Counter(found["presses"])
    if rows()[case] == "nothing":
        assert counts["kept"] == 0
    print(f"{case}: {dict(counts)}")


@pytest.mark.filterwarnings("ignore")
def test_a_press_leaves_everything_right(tmp_path):
    """Of one kind of loop one case: worker processes.

    In one process, a press in an import of the first call and one at a random moment of a later call. Right is the
    result of this process, where nothing is pressed.
    """
    cases = ["compare(pool=…)"]
    found = run(tmp_path / "pressed", "import", 0, 0, 2, *cases)
    for i, case in enumerate(cases):
        (tmp_path / str(i)).mkdir()
        check(case, found[case], interrupted_runs.digest(CASES[case](tmp_path / str(i))))
        assert len(found[case]["presses"]) == 2


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_presses_leave_everything_right(case, tmp_path):
    """One in an import; in each of five processes one in its first call, which imports, and three in later ones."""
    undisturbed = run(tmp_path / "undisturbed", 0, 0, 0, 0, case)[case]
    right, (fresh, warm) = undisturbed["digests"][0], undisturbed["times"]
    check(case, undisturbed, right)
    for i in range(6):
        presses = (fresh, 4) if i else ("import", 1)
        check(case, run(tmp_path / str(i), presses[0], warm, 100 + i, presses[1], case)[case], right)


# ------------------------------------------------------------------------------------------------ what is kept


def pressed_in(monkeypatch, owner, name, at):
    """Press Ctrl-C in the call with this number of a function."""
    real, calls = getattr(owner, name), []

    def call(*arguments, **settings):
        calls.append(1)
        if len(calls) == at:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments, **settings)

    monkeypatch.setattr(owner, name, call)


def test_samples_of_a_simulator_are_kept_by_number(monkeypatch):
    """Those of the blocks before the press, of every state: bit for bit the result of fewer samples."""
    import jmdp.methods.monte_carlo.samples as blocks

    def evaluate(samples, throw=False):
        method = jmdp.MonteCarlo(seed=1, samples=samples, horizon=20, states=[0, 3])
        return jmdp.evaluate(simulator(), zero, jmdp.Local(), method, discount=0.9, throw=throw)

    few = evaluate(3 * 512)
    with monkeypatch.context() as patch:
        pressed_in(patch, blocks, "paired_draws", 8)  # the fourth block of 512 samples of the second state
        kept = evaluate(4000)
    assert kept.outcome is jmdp.results.Outcome.INTERRUPTED
    assert kept.method.samples == 1536
    for name in ("mean", "covariance"):
        assert np.array_equal(getattr(kept, name), getattr(few, name))
    assert np.array_equal(kept.certificate.mean_error, few.certificate.mean_error)
    with monkeypatch.context() as patch:
        pressed_in(patch, blocks, "paired_draws", 8)
        with pytest.raises(jmdp.errors.NotConvergedError, match="MonteCarlo stopped after 1536 samples: interrupted"):
            evaluate(4000, throw=True)
    with monkeypatch.context() as patch:
        pressed_in(patch, blocks, "paired_draws", 2)
        with pytest.raises(KeyboardInterrupt):
            evaluate(4000)


@pytest.mark.parametrize("several", [False, True])
def test_samples_of_a_table_are_kept_round_by_round(monkeypatch, several):
    """2048 samples in two rounds, of 64 and of all: states of the second round so far, the others of the first."""
    import jmdp.methods.monte_carlo.monte_carlo as monte_carlo

    model, policy = table(4)
    other = jmdp.TabularPolicy.deterministic(model, [0] * 4)
    policies = {"old": policy, "new": other} if several else policy

    def evaluate(samples):
        method = jmdp.MonteCarlo(seed=1, samples=samples, horizon=50)
        return jmdp.evaluate(model, policies, jmdp.Local(), method, throw=False)

    few, all_samples = evaluate(64), evaluate(2048)
    with monkeypatch.context() as patch:
        pressed_in(patch, monte_carlo, "sample_moments", 4 + 3)
        kept = evaluate(2048)
    assert kept.outcome is jmdp.results.Outcome.INTERRUPTED
    assert kept.method.samples == 64
    assert np.array_equal(kept.covariance[:2], all_samples.covariance[:2])
    assert np.array_equal(kept.covariance[2:], few.covariance[2:])
    assert np.array_equal(kept.certificate.mean_error[2:], few.certificate.mean_error[2:])
    assert kept.return_distribution(0, 0).cdf(1e9).low <= 1
    with monkeypatch.context() as patch:
        pressed_in(patch, monte_carlo, "sample_moments", 2)
        with pytest.raises(KeyboardInterrupt):
            evaluate(2048)


def test_a_projected_fit_is_kept_with_its_bounds(monkeypatch):
    from jmdp.methods.linear_projected.psd_fit import Cone

    model, policy = table(6)
    features = np.random.default_rng(1).normal(size=(18, 3))
    truth = jmdp.evaluate(model, policy, jmdp.Local())
    pressed_in(monkeypatch, Cone, "nearest", 12)
    method = jmdp.LinearProjected(features, same_state=True, tolerance=0)
    kept = jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    assert kept.outcome is jmdp.results.Outcome.INTERRUPTED
    assert 1 <= kept.residuals.size <= 12
    assert (np.abs(kept.mean - truth.mean) <= kept.certificate.mean_error + 1e-9).all()
    assert (np.abs(kept.covariance - truth.covariance) <= kept.certificate.covariance_error + 1e-9).all()


def test_a_fit_to_samples_is_kept(monkeypatch):
    from jmdp.methods.linear_projected.pair_features import PairProcess

    model, policy = table(6)
    features = np.eye(18)
    method = jmdp.LinearProjected(features, samples=20_000, seed=1)
    whole = jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    moves = []
    with monkeypatch.context() as patch:
        patch.setattr(PairProcess, "_move", lambda self, real=PairProcess._move: moves.append(1) or real(self))
        jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    pressed_in(monkeypatch, PairProcess, "_move", len(moves) - 10)  # in the last pass of three
    kept = jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    assert kept.outcome is jmdp.results.Outcome.INTERRUPTED
    assert np.array_equal(kept.mean, whole.mean)
    assert not np.array_equal(kept.covariance, whole.covariance)
    assert np.abs(kept.covariance - whole.covariance).max() < 0.5 * np.abs(whole.covariance).max()
