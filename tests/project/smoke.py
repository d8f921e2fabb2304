"""Does it run with the packages that are installed? ``python tests/project/smoke.py io cli`` uses these extras once.

It needs nothing but the package: no pytest, no other file of the tests. ``--only`` leaves the core out. ``--lowest``
asks in addition that each direct dependency is installed in the lowest version that pyproject.toml allows, as ``uv pip
install --resolution lowest-direct`` does it; a minimum that other packages do not leave in reach is then no longer
claimed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import requires, version
from pathlib import Path

import numpy as np

import jmdp
from jmdp.methods.linear_projected import features

SHARED = jmdp.Synchronous()
WORLD = jmdp.worlds.inventory(3, most_ordered=2, mean_demand=1.0, discount=0.8)
POLICY = WORLD.policies["uniform"]


def shop():
    """Needs the core alone."""
    return jmdp.simulators.FunctionSimulator(
        reward=lambda stock, order, demand: 3.0 * min(stock[0] + 3 * order, demand) - 6.0 * order,
        next_state=lambda stock, order, demand: np.maximum(0.0, np.minimum(9.0, stock + 3 * order) - demand),
        actions=["none", "three"],
        luck=lambda rng: int(rng.poisson(3)),
        start=np.array([4.0]),
    )


def filled_up(stock):
    return int(stock[0] < 4)


def core():
    """Every method that takes a table, and one that samples a simulator."""
    exact = jmdp.evaluate(WORLD.model, POLICY, SHARED)
    near = [
        (jmdp.ExactDistribution(), 1e-6),
        (jmdp.JIPE(), 1e-6),
        (jmdp.LinearProjected(features.OneHot()), 1e-6),
        (jmdp.MonteCarlo(seed=5, samples=2000), 0.5),
        (jmdp.Incremental(seed=5, updates=400_000), 0.5),
    ]
    for method, error in near:
        found = jmdp.evaluate(WORLD.model, POLICY, SHARED, method)
        np.testing.assert_allclose(found.mean, exact.mean, atol=error)
    reached = jmdp.evaluate(WORLD.model, POLICY, SHARED, jmdp.ReachablePairs("2"))
    np.testing.assert_allclose(reached.mean[0], exact.mean[2], atol=1e-2)
    jmdp.compare(shop(), policy=filled_up, discount=0.8, seed=0)
    every_verb()
    blas_on_one_thread()
    a_checkpoint_has_one_user()


class Queue:
    """An ordinary class with its own generator."""

    def reset(self, seed=None):
        self.rng, self.length = np.random.default_rng(seed), 2
        return self.length

    def step(self, action):
        self.length = max(0, self.length + int(self.rng.poisson(1.0)) - action)
        return self.length, -float(self.length) - 0.5 * action, False


def every_verb():
    """Main functions on a table, on functions, on an ordinary class and on whole runs."""
    rules = {"all": 1, "none": 0}
    policies = {name: (lambda observation, action=action: action) for name, action in rules.items()}
    given = {"seed": 0, "discount": 0.8, "horizon": 10}
    for simulator in (shop(), jmdp.simulators.ObjectSimulator(Queue, {"idle": 0, "serve": 1})):
        jmdp.compare_policies(simulator, policies, max_samples=64, **given)
        jmdp.review(simulator, policies["all"], method=jmdp.reviews.RolloutValues(8), **given)
        jmdp.simulators.visited_states(simulator, policies["all"], seed=0, count=3)
    assert jmdp.review(WORLD.model, POLICY, seed=0, horizon=10, starts=[2]).exact
    jmdp.compare_runs(
        {"a": lambda luck: luck.uniform("x"), "b": lambda luck: luck.uniform("x") ** 2}, seed=0, max_samples=64
    )


def a_checkpoint_has_one_user():
    """What filelock is for."""
    from jmdp.base.whole_files import reserved

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.npz")
        method = jmdp.Incremental(seed=5, updates=1_000, path=path)
        first, again = (jmdp.evaluate(WORLD.model, POLICY, SHARED, method) for _ in range(2))
        assert np.array_equal(first.mean, again.mean)
        with reserved(path):
            try:
                jmdp.evaluate(WORLD.model, POLICY, SHARED, method)
            except jmdp.errors.CheckpointError as error:
                said = str(error)
            else:
                said = "two runs use one checkpoint"
        assert "in use by process" in said, said


def blas_on_one_thread():
    """What threadpoolctl is for: it has to find the BLAS in NumPy's wheel, or workers would compute on all cores."""
    from threadpoolctl import threadpool_info, threadpool_limits

    with threadpool_limits(1):
        pools = threadpool_info()
    assert any("numpy" in pool["filepath"] for pool in pools), pools
    assert all(pool["num_threads"] == 1 for pool in pools), pools


def io():
    import xarray

    found = jmdp.evaluate(WORLD.model, POLICY, SHARED).to_xarray()
    with tempfile.TemporaryDirectory() as folder:
        found.to_netcdf(Path(folder, "found.nc"), engine="h5netcdf")
        with xarray.open_dataset(Path(folder, "found.nc"), engine="h5netcdf") as read:
            xarray.testing.assert_identical(read.load(), found)
    compared = jmdp.compare(shop(), policy=filled_up, discount=0.8, seed=0)
    assert list(compared.to_dataframe().index) == ["none", "three"]
    with tempfile.TemporaryDirectory() as folder:
        for result in (WORLD.model, compared):
            result.save(Path(folder, "saved.nc"))
            assert repr(jmdp.load(Path(folder, "saved.nc"))) == repr(result)


def cli():
    for line in (
        "--help",
        "evaluate --help",
        "evaluate inventory --state 3 --coupling synchronous",
        "evaluate anti_correlated_bandit --method monte-carlo --samples 1000 --seed 7 --json",
        "check world:inventory",
    ):
        script = Path(sys.executable).with_name("jmdp")
        run = subprocess.run([script, *line.split()], capture_output=True, text=True)
        assert run.returncode == 0, f"jmdp {line}:\n{run.stderr}"


def gym():
    import gymnasium

    for name in ("FrozenLake-v1", "CartPole-v1"):
        env = gymnasium.make(name)
        env.reset(seed=0)
        jmdp.compare(env, policy="uniform", discount=0.8, seed=0, max_samples=100)


def atari():
    pong = jmdp.simulators.ALESimulator("pong", sticky=0.25)
    state = pong.start(jmdp.Shock.of_sample(0, 0))
    jmdp.compare(pong, "uniform", state=state, actions=["NOOP", "RIGHT"], discount=0.5, seed=0, max_samples=20)


def jax():
    import jax.numpy as jnp

    walk = jmdp.simulators.JaxSimulator(
        lambda key, state, action: (jnp.sin(state), state + action, state > 3),
        ["stay", "go"],
        start=lambda key: jnp.zeros(()),
    )
    jmdp.compare(walk, policy="uniform", discount=0.8, seed=0, max_samples=50)


def gymnax():
    import gymnax

    jmdp.compare(gymnax.make("CartPole-v1")[0], policy="uniform", discount=0.8, seed=0, max_samples=50)


def learn():
    method = jmdp.LearnedMoments(seed=0, max_steps=4_000)
    learned = jmdp.evaluate(shop(), filled_up, SHARED, method, discount=0.8, throw=False, progress=False)
    assert np.isfinite(learned.at(np.array([4.0])).covariance).all()


def nn():
    """The second run finds the first one's last checkpoint, and has nothing left to do."""
    with tempfile.TemporaryDirectory() as folder:
        settings = jmdp.NeuralGram(seed=0, visits=30, updates=20, held_out=None, path=folder)
        first, again = (jmdp.evaluate(shop(), filled_up, SHARED, settings, discount=0.5) for _ in range(2))
    state = np.array([4.0])
    assert first.at(state).gap(0, 0, 1).std == again.at(state).gap(0, 0, 1).std


def onnx():
    """A network without weights."""
    from onnx import TensorProto, helper

    from jmdp.models.actors.trained_policies import onnx_session

    both = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in ("obs", "logits")]
    graph = helper.make_graph([helper.make_node("Tanh", ["obs"], ["logits"])], "policy", both[:1], both[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    policy = jmdp.as_policy(onnx_session(model), None)
    np.testing.assert_allclose(policy.act([np.array([1.0, -1.0])], [])[0], np.tanh([1, -1]), rtol=1e-5)


def tracking():
    """As `NeuralGram` writes its curves where the package is installed."""
    from tensorboardX import SummaryWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        writer.add_scalar("gap", 0.5, 1)
        writer.close()


def ray():
    """The same answer as without a pool."""
    with jmdp.distribute.RayPool(workers=1) as pool:
        one, other = (jmdp.compare(shop(), policy=filled_up, discount=0.8, seed=0, pool=p) for p in (None, pool))
    assert repr(one) == repr(other)


def study():
    """Results are read as they were written, also after a second call."""
    with tempfile.TemporaryDirectory() as folder:
        states = [np.array([float(stock)]) for stock in range(4)]
        given = {"discount": 0.8, "seed": 0, "path": folder, "max_samples": 64, "progress": False}
        first, again = (jmdp.study(shop(), filled_up, states, **given).to_dataframe() for _ in range(2))
        assert len(first) == 8
        assert first.equals(again)


def storm():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.prism")
        path.write_text("mdp\nmodule m\ns : [0..1] init 0;\n[a] true -> 0.5 : (s'=0) + 0.5 : (s'=1);\nendmodule\n")
        path.write_text(path.read_text() + "rewards\n[a] true : 1;\nendrewards\n")
        assert jmdp.Marginals.from_storm(path, 0.5).shape == (2, 1)


def plot():
    from matplotlib import pyplot

    assert jmdp.compare(shop(), policy=filled_up, discount=0.8, seed=0).plot().axes
    pyplot.close("all")


def report():
    from jmdp.show.reports.page import html_of

    assert "<html" in html_of(jmdp.compare(shop(), policy=filled_up, discount=0.8, seed=0))


CHECKS = {
    check.__name__: check
    for check in (core, io, cli, gym, atari, jax, gymnax, learn, nn, onnx, tracking, ray, study, storm, plot, report)
}


def above_their_minimum(extras):
    """Direct dependencies of these extras that are installed in a higher version than the lowest one allowed."""
    for line in requires("jmdp") or []:
        needed, _, condition = line.partition(";")
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
        least = re.search(r">=([\w.]+)", needed)
        if (extra is None or extra[1] in extras) and least:
            name = re.match(r"[\w.-]+", needed)[0]
            if trimmed(version(name)) != trimmed(least[1]):
                yield f"{name} {version(name)}, not {least[1]}"


def trimmed(text):
    return re.sub(r"(\.0)+$", "", text)


def main(arguments):
    extras = [name for name in arguments if not name.startswith("--")]
    if "--lowest" in arguments:
        assert not (higher := list(above_their_minimum(extras))), higher
    for name in extras if "--only" in arguments else ["core", *extras]:
        start = time.process_time()
        CHECKS[name]()
        print(f"{name}: {time.process_time() - start:.1f} s of a core", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
