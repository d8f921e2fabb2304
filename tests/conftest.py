"""What holds for all tests."""

import faulthandler
import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("pieces",)

# On a machine that is busy, drawing an example takes long too.
settings.register_profile("busy machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")

SLOW = (
    "base/test_checkpoint.py",
    "base/test_guard.py",
    "base/test_luck_batch.py",
    "base/test_luck_by_purpose.py",
    "base/test_numba_cache.py",
    "base/test_without_posix.py",
    "benchmarks/test_decisions.py",
    "benchmarks/test_selection.py",
    "cli/test_cli_main.py",
    "cli/test_policy_files.py",
    "cli/test_study_command.py",
    "crosschecks/",
    "distribute/",
    "reproduction/test_reproducing.py",
    "files/test_hostile_files.py",
    "files/test_saving_learned.py",
    "methods/exact_distribution/test_exact_distribution.py",
    "methods/exact_distribution/test_ties.py",
    "methods/exact_pairs/test_exact_pairs.py",
    "methods/exact_pairs/test_higher_moments.py",
    "methods/incremental/",
    "methods/jipe/test_jipe.py",
    "methods/kernels/test_branches.py",
    "methods/kernels/test_pair_product.py",
    "methods/linear_projected/test_linear_projected.py",
    "methods/monte_carlo/test_monte_carlo.py",
    "methods/neural_gram/",
    "methods/reachable_pairs/test_reachable_pairs.py",
    "methods/test_contract.py",
    "methods/test_interrupted_methods.py",
    "models/actors/test_as_policy.py",
    "models/marginals/test_storm_files.py",
    "models/test_couple.py",
    "models/test_couple_truth.py",
    "models/test_outcomes.py",
    "planted/test_planting.py::test_a_process",
    "show/plots/test_calibration_scatter.py",
    "show/plots/test_comparison_chart.py",
    "show/plots/test_plots.py",
    "show/plots/test_review_plots.py",
    "project/test_dependencies.py",
    "project/test_docs.py::test_the_site",
    "project/test_extras.py",
    "project/test_imports.py",
    "project/test_odd_machines.py",
    "project/test_readme.py",
    "promises/test_certificates.py",
    "promises/test_ever_miss.py",
    "promises/test_extreme_scales.py",
    "promises/test_gate.py",
    "promises/test_hostile_calls.py::test_p23",
    "promises/test_planted_bugs.py::test_p7",
    "promises/test_policy_decisions.py",
    "promises/test_policy_truth.py",
    "promises/test_rare_actions.py",
    "promises/test_relations.py",
    "promises/test_sentences.py",
    "promises/test_tabular_truth.py",
    "show/reports/test_pages.py",
    "show/reports/test_review_page.py",
    "results/gaps/test_bounds.py",
    "results/gaps/test_equal_returns.py",
    "statistics/test_anytime.py",
    "reviews/test_review_blunders.py",
    "reviews/test_review_parts.py",
    "simulators/checking/test_clean_simulators.py",
    "simulators/checking/test_planted_desync.py",
    "simulators/checking/test_simulator_check.py",
    "simulators/gymnasium/test_gymnasium_simulator.py",
    "simulators/jax/test_jax_simulator.py",
    "simulators/objects/test_object_simulator.py",
    "simulators/test_ale.py",
    "simulators/test_batched_rollouts.py",
    "studies/test_study.py",
    "studies/test_study_kills.py",
    "comparisons/test_compare.py",
    "comparisons/test_compare_policies.py",
    "simulators/test_tabulate.py",
    "test_training.py",
)
"""Folders, files and tests that ``pytest -m fast`` leaves out, as their ids begin; add here what takes seconds."""

LONG = tuple((Path(__file__).parent / "long.txt").read_text(encoding="utf-8").splitlines()[1:])
"""Tests that run with ``-m long`` only, as their ids begin."""

# A shell that runs the tests in the background has them ignore interrupts, and so would all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONG_LIMIT = 7200
"""Seconds that a test marked ``long`` may take; for all others see ``timeout`` in pyproject.toml."""
STDERR = pytest.StashKey[int]()
COLLECTED = pytest.StashKey[set[str]]()


def pytest_configure(config):
    """What JAX compiles is kept for all processes of this run, and for the next."""
    config.stash[STDERR] = os.dup(2)  # not captured yet
    if hasattr(config, "cache"):
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item, settings):
    """Arm a second limit, of twice the time, for compiled code, where the signal that ends a test has no effect.

    It ends the process with a traceback. pytest-xdist reports the test as failed and continues in a new process.
    """
    faulthandler.dump_traceback_later(2 * settings.timeout, file=item.config.stash[STDERR], exit=True)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item):
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def collected(pytestconfig):
    """Names of all tests in the files of this run, also of those that it leaves out."""
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session")
def two_workers():
    """A pool whose processes are started once for all tests; those that a test kills are replaced."""
    from jmdp.distribute import ProcessPool

    with ProcessPool(2) as made:
        yield made


def pytest_ignore_collect(collection_path, config):
    """What is slow as a whole is not even imported: JAX and torch take seconds."""
    if config.option.markexpr == "fast" and within_tests(collection_path).startswith(SLOW):
        return True
    return None


def within_tests(path):
    """Path below this folder, with a slash at the end if it is a folder; "" for any other."""
    folder = Path(__file__).parent
    return path.relative_to(folder).as_posix() + "/" * path.is_dir() if path.is_relative_to(folder) else ""


def pytest_collection_finish():
    """Leave the objects of imported modules, over a million, out of each search for garbage, and search less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as fast what is neither slow nor long."""
    config.stash[COLLECTED] = {f"{within_tests(item.path)}::{item.nodeid.partition('::')[2]}" for item in items}
    for item in items:
        name = f"{within_tests(item.path)}::{item.name}"
        if name.startswith(LONG):
            item.add_marker("long")
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(LONG_LIMIT))
        elif not name.startswith(SLOW):
            item.add_marker(pytest.mark.fast)
