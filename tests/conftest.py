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

LONG = (
    "base/test_without_posix.py",
    "benchmarks/test_decisions.py",
    "cli/test_study_command.py::test_killed_and_resumed",
    "comparisons/test_compare.py::test_a_tie_is_seldom_called[5]",
    "comparisons/test_compare_runs.py::test_wrong_claims_are_rare",
    "distribute/test_pools.py::test_a_block_beyond_the_time_limit_is_ended_and_its_stack_shown[import time",
    "distribute/test_ray_pool.py::test_a_task_that_fails_is_sent_again_block_by_block",
    "distribute/test_ray_pool.py::test_p17_results_do_not_depend_on_workers[4]",
    "distribute/test_ray_pool.py::test_p25_a_block_that_ends_its_process_by_itself_is_told_from_one_that_is_killed[segf",
    "files/test_saving_learned.py::test_a_learned_evaluation_values_the_steps_of_reviews[gram",
    "files/test_saving_learned.py::test_round_trip[gram",
    "methods/exact_distribution/test_exact_distribution.py::test_it_stops_where_it_is_told_and_what_it_has_holds",
    "methods/exact_distribution/test_exact_distribution.py::test_sampled_bands_cover_at_their_confidence",
    "methods/exact_distribution/test_exact_distribution.py::test_few_cells_are_enough_for_two_rules_of_an_inventory[0.01",
    "methods/exact_distribution/test_one_gap.py::test_gaps_of_actions_need_only_the_pairs_that_can_follow",
    "methods/exact_distribution/test_one_gap.py::test_gaps_of_policies_and_of_their_start[12",
    "methods/exact_distribution/test_ties.py::test_ties_at_any_scale_and_tolerance",
    "methods/exact_pairs/test_exact_pairs.py::test_single_precision_says_so_in_its_certificate",
    "methods/exact_pairs/test_higher_moments.py::test_orders_up_to_eight_are_certified",
    "methods/incremental/test_incremental.py::test_a_sampler_can_stand_in_for_the_table",
    "methods/incremental/test_incremental.py::test_errors_fall_like_one_over_the_root_of_updates",
    "methods/incremental/test_incremental.py::test_intervals_cover_at_their_confidence",
    "methods/incremental/test_incremental.py::test_intervals_cover_where_the_start_is_hardly_forgotten[0.99",
    "methods/incremental/test_resume.py::test_p10_killed_within_a_save_it_gives_the_same_bits",
    "methods/kernels/test_branches.py::test_draws_are_those_of_the_python_rollouts_in_distribution[Independent",
    "methods/kernels/test_branches.py::test_draws_are_those_of_the_python_rollouts_in_distribution[Synchronous",
    "project/test_readme.py::test_pages_print_what_they_say[docs/choose.md",
    "project/test_readme.py::test_pages_print_what_they_say[docs/howto/own_policy.md",
    "project/test_readme.py::test_pages_print_what_they_say[docs/howto/review.md",
    "project/test_readme.py::test_pages_print_what_they_say[docs/howto/study.md",
    "project/test_readme.py::test_pages_print_what_they_say[docs/howto/whole_runs.md",
    "project/test_readme.py::test_pages_print_what_they_say[docs/tables.md",
    "promises/test_extreme_scales.py::test_intervals_contain_the_truth_at_any_scale[exact_pairs_order_4]",
    "promises/test_policy_decisions.py::test_intervals_cover_the_truth_at_every_look[True]",
    "promises/test_relations.py::test_scaling_rewards_by_a_power_of_two_scales_moments_bit_for_bit[JIPE]",
    "results/gaps/test_equal_returns.py::test_equal_policies_have_correlation_one[exact distribution]",
    "reviews/test_review_blunders.py::test_a_planted_blunder_is_ranked_first[inventory]",
    "reviews/test_review_blunders.py::test_intervals_of_averages_contain_the_truth",
    "reviews/test_review_replays.py::test_a_replay_with_the_taken_action_is_the_episode[taxi",
    "simulators/gymnasium/test_gymnasium_simulator.py::test_digests_are_equal_exactly_for_equal_states[Taxi",
    "simulators/objects/test_new_generators.py::test_bit_generators_are_keyed[NestedBitShop]",
    "simulators/test_ale.py::test_any_order_of_calls_gives_what_a_replay_gives[tetris",
    "statistics/test_selection_rule.py::test_intervals_after_elimination_hold[60]",
    "studies/test_study_workers.py::test_a_state_that_had_failed_may_wait_for_later_rungs",
    "studies/test_study_workers.py::test_if_the_machine_does_not_recover_the_same_call_finishes[hopeless0",
    "studies/test_study_workers.py::test_if_the_machine_does_not_recover_the_same_call_finishes[hopeless3",
    "studies/test_study_workers.py::test_states_that_end_their_workers_have_failed_if_others_finish[bad1",
    "studies/test_study_workers.py::test_states_that_end_their_workers_have_failed_if_others_finish[bad3",
    "studies/test_study_workers.py::test_workers_that_cannot_be_started_raise",
)
"""Tests that take seconds, and beside which faster ones of the gate test the same; they run with ``-m long``."""

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


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark as fast what is neither slow nor long. In each half of those that run, slow tests come first."""
    config.stash[COLLECTED] = {f"{within_tests(item.path)}::{item.nodeid.partition('::')[2]}" for item in items}
    for item in items:
        name = f"{within_tests(item.path)}::{item.name}"
        if name.startswith(LONG):
            item.add_marker("long")
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(LONG_LIMIT))
        elif not name.startswith(SLOW):
            item.add_marker(pytest.mark.fast)
    yield
    items[:] = slow_first(items)


def slow_first(items):
    """Order of tests for two workers, each of which begins with one half and takes over what the other has left.

    If slow tests came last, one worker would wait for the other. All slow tests of a file are in the same half, for the
    sake of their fixtures; the slowest test comes first.
    """
    slow, fast, by_file = ([], []), [], {}
    for item in items:
        if item.get_closest_marker("fast") is not None:
            fast.append(item)
        else:
            slow[by_file.setdefault(item.path, len(by_file) % 2)].append(item)
    for half in slow:
        half.sort(key=lambda item: item.name != "test_the_site")
    middle = max(0, len(items) // 2 - len(slow[0]))
    return [*slow[0], *fast[:middle], *slow[1], *fast[middle:]]
