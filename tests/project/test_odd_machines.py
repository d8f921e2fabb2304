"""Programs without a console, terminals without Unicode, and NumPy set to raise: the answers are the ordinary ones."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np

console = sys.stdout
{odd}
import jmdp

world = jmdp.worlds.windy_gridworld(3, 3)
model, policy = world.model, world.policies["careless"]
features = np.random.default_rng(0).normal(size=(model.shape[0] * model.shape[2], 4))
methods = [
    jmdp.ExactPairs(),
    jmdp.ExactDistribution(),
    jmdp.JIPE(order=3),
    jmdp.ReachablePairs(0),
    jmdp.MonteCarlo(seed=0, samples=50),
    jmdp.Incremental(seed=0, updates=10_000),
    jmdp.LinearProjected(features),
]
for method in methods:
    found = jmdp.evaluate(model, policy, jmdp.Local(), method, throw=False)
    print(type(method).__name__, found.gap(0, 0, 1).mean.hex(), file=console)
print(jmdp.compare(model, policy, state=0, seed=0, max_samples=100).gap("U", "D").mean.hex(), file=console)
runs = {{"a": lambda luck: luck.uniform("x"), "b": lambda luck: luck.uniform("x") ** 2}}
print(jmdp.compare_runs(runs, seed=0, max_samples=100).gap("a", "b").mean.hex(), file=console)
"""

ODD = {
    "ordinary": "",
    "no console": "sys.stdout = sys.stderr = sys.stdin = None",
    "closed console": "import io; sys.stderr = io.StringIO(); sys.stderr.close()",
    "NumPy raises": 'np.seterr(all="raise")',
}


@pytest.fixture(scope="module")
def ordinary():
    return _answers("ordinary")


def _answers(kind):
    run = subprocess.run([sys.executable, "-c", SCRIPT.format(odd=ODD[kind])], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 9
    return run.stdout


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "ordinary"])
def test_answers_are_the_ordinary_ones(kind, ordinary):
    assert _answers(kind) == ordinary


def test_assertions_and_docstrings_are_not_needed():
    code = "import jmdp; print(jmdp.worlds.windy_gridworld(3, 3).model.shape)"
    run = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_unicode_shows_codes_of_characters(encoding):
    command = [sys.executable, "-m", "jmdp", "evaluate", "anti_correlated_bandit", "--state", "0"]
    run = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
    assert run.returncode == 0, run.stderr
    assert b"CONVERGED" in run.stdout
    assert (" ±" if encoding == "cp1252" else " \\xb1") in run.stdout.decode(encoding)
