"""Planted bugs of numbers as text, files, studies, reviews, reports, experiments and the command line."""

from __future__ import annotations

from planted.changes import always, argument, instead, never, result, without
from planted.planting import Bug

ROUNDING = "base/test_rounding.py::"
REVIEWS = "reviews/test_review_"
STUDY = "studies/test_study.py::"
SAVING = "files/test_saving.py::"
FINDINGS = "reproduction/test_findings.py::"
AUTHORS = "reproduction/test_authors.py::"
REPRODUCING = "reproduction/test_reproducing.py::"
POLICY_FILES = "cli/test_policy_files.py::"
ONNX = "models/actors/test_onnx_policies.py::"

BUGS = [
    # Numbers as text, and limits.
    Bug("errors are rounded to the nearest, not up", "plus_minus", instead("ROUND_CEILING", "ROUND_HALF_EVEN"),
        ROUNDING + "test_plus_minus_contains_the_interval"),
    Bug("the rounding of a value is missing in its error", "plus_minus",
        instead("_distance(middle, low, high)", "_distance(Decimal(value), low, high)"),
        ROUNDING + "test_plus_minus_contains_the_interval"),
    Bug("errors to both sides are printed as one", "plus_minus", never("fewest == 2"),
        ROUNDING + "test_an_interval_that_is_not_symmetric_is_printed_with_its_ends"),
    Bug("digits are printed that the interval does not support", "supported_digits", result("wanted"),
        ROUNDING + "test_supported_digits_are_those_of_the_whole_interval"),
    Bug("half more than the memory limit may be used", "require", instead("needed > allowed", "needed > 1.5 * allowed"),
        "base/test_machine.py::test_one_byte_too_few_is_refused"),
    Bug("checksums of checkpoints are not compared", "load", never("_digest(found)"),
        "base/test_checkpoint.py::test_p11_every_flip_in_the_numbers_of_a_small_one_is_refused"),
    # Files.
    Bug("a damaged result is loaded", "_verify", never("_checksum(file, length) != digest"),
        SAVING + "test_any_changed_bit_is_noticed"),
    Bug("axes of saved arrays may have different lengths", "_check_shape",
        never("at.sizes.setdefault(letter, length)"), "files/test_hostile_results.py::test_hostile_results"),
    Bug("a loaded comparison continues with any simulator", "Resumption.asked", without("_check_samples(...)"),
        SAVING + "test_what_a_loaded_comparison_must_be_given"),
    Bug("eliminated alternatives return after loading", "Progress.with_samples",
        result("SamplingState(samples, tuple(range(samples.alternatives)), self.paired, (), False)"),
        SAVING + "test_a_loaded_comparison_goes_on[compare three actions]"),
    Bug("a file that is not trusted may hand back any amount", "_Pipe._array", never("self._left"),
        "base/test_guard.py::test_the_sum_of_all_arrays_is_limited"),
    Bug("the texts of errors of a child are printed as they are", "_stated", always("letter.isprintable()"),
        "base/test_guard.py::test_texts_of_errors_are_printable_and_short"),
    Bug("a study that --safe continues is trusted", "RunStudy._study", argument("trusted", "True"),
        "cli/test_study_command.py::test_safe_reads_a_study_in_a_child"),
    # Studies.
    Bug("all states of a study have the same randomness", "state_key", instead("(seed, number)", "(seed, 0)"),
        STUDY + "test_every_state_has_the_result_of_compare[step_many]"),
    Bug("waiting states are dropped", "Driver.run", always("numbers.size"),
        STUDY + "test_states_climb_rungs_of_the_schedule"),
    Bug("parts of a study are not verified", "read_part", never("part.sha256"),
        "studies/test_damaged_studies.py::test_part_that_is_another"),
    Bug("a study continues with another problem", "_check_chunk", never("again.equals(before)"),
        STUDY + "test_another_study_in_the_folder_is_refused"),
    Bug("any damage at the end of a ledger is dropped in silence", "_is_beginning", result("True"),
        "studies/test_damaged_studies.py::test_every_changed_bit_of_the_last_line_is_reported"),
    Bug("a writer does not look whether it is the only one", "Ledger.exclusive", never("self._is_held()"),
        "studies/test_damaged_studies.py::test_a_writer_that_lost_its_lock_writes_no_more"),
    Bug("parts of a study are not looked for", "fault", result("''"),
        "studies/test_damaged_studies.py::test_parts_that_are_missing_or_changed_are_named_and_simulated_again"),
    Bug("states have failed when all workers end", "_Units._without", without("self._check(error)"),
        "studies/test_study_workers.py::test_if_all_workers_end_by_themselves_nothing_has_failed"),
    Bug("the ledger keeps the order in which blocks were finished", "Folder.settle", never("list(self.chunks)"),
        "studies/test_study_workers.py::test_a_state_whose_workers_are_killed_waits_and_the_others_go_on"),
    # Reviews and pages.
    Bug("luck is computed without the discount", "Review._decision",
        instead("self.discount * after.value", "after.value"), REVIEWS + "parts.py::test_parts_add_up_on_tables"),
    Bug("the value of a state is that of one action although another has a tiny chance", "ExactTable.__call__",
        instead("np.flatnonzero(self.probs[s])", "np.flatnonzero(self.probs[s] > 1e-9)"),
        "reviews/test_exact_reviews.py::test_an_action_of_tiny_probability_makes_a_policy_random"),
    Bug("powers of the discount are exact", "Weights.of", never("0 < discount < 1"),
        "reviews/test_exact_reviews.py::test_a_discount_that_underflows_leaves_no_exact_zero"),
    Bug("other actions are followed by other draws of the policy", "Player.totals",
        instead("self.policy_shock(episode, t)", "self.policy_shock(episode, t + 1)"),
        REVIEWS + "replays.py::test_hindsight_is_the_return_of_what_if"),
    Bug("outcomes that no rollout showed are impossible", "_widened", argument("action_errors", "values.action_errors"),
        REVIEWS + "blunders.py::test_a_rare_reward_that_no_rollout_shows_is_possible"),
    Bug("names in pages are not escaped", "render", argument("autoescape", "False"),
        "show/reports/test_pages.py::test_hostile_names_are_only_text"),
    Bug("intervals of samples are left out of tables", "Table.of_rows",
        instead("_cell(row.get(column, ''))", "written(row.get(column, '')).value"),
        "show/reports/test_pages.py::test_rows_become_a_table"),
    # Experiments.
    Bug("a verdict ignores the interval", "Claim.at_most", instead("measured.high", "measured.value"),
        FINDINGS + "test_at_most"),
    Bug("a sampled number may have no seed", "Measured.__post_init__",
        instead("bool(self.seeds)", "(self.basis == 'sampled')"),
        FINDINGS + "test_a_number_without_its_source_is_none"),
    Bug("text in a report of experiments is not escaped", "html", argument("autoescape", "False"),
        REPRODUCING + "test_reports_are_inert"),
    Bug("a record of other settings is used", "saved_record", always("same"),
        REPRODUCING + "test_damaged_or_other_records_are_made_again"),
    Bug("walls do not stop moves before the gust", "grid",
        instead("np.clip(row + down, 0, rows - 1) + gust", "row + down + gust"),
        AUTHORS + "test_the_grid_is_that_of_the_authors"),
    Bug("the paper's operator draws twice on its diagonal", "PaperOperator.__call__", always("self.drawn_twice"),
        AUTHORS + "test_the_operator_is_that_of_the_definition"),
    Bug("a section shows the verdict on an addition", "badge", always("not finding.addition"),
        REPRODUCING + "test_the_badge_is_the_worst_verdict_on_the_papers_setting"),
    Bug("powers are expanded without binomial coefficients", "exact_moments", instead("ways * _", "_"),
        REPRODUCING + "test_higher_moments_in_rationals_are_those_of_the_semantics"),
    # Command line and policies from files.
    Bug("a simulator with faults has the exit code of success", "Check.run", never("faults"),
        "cli/test_cli_check.py::test_faults_are_a_no[Market-out of step]"),
    Bug("files of torch are unpickled", "_torch", argument("weights_only", "False"),
        POLICY_FILES + "test_pickles_are_not_run[object.pt]"),
    Bug("code runs without being announced", "Loader.allow", never("source not in _ANNOUNCED"),
        POLICY_FILES + "test_code_is_announced_before_it_runs"),
    Bug("--safe accepts saved models", "_stable_baselines", without("loader.allow(...)"),
        POLICY_FILES + "test_safe_refuses_what_runs_code"),
    Bug("--safe accepts environments of a module", "_other_environment", without("loader.allow(...)"),
        POLICY_FILES + "test_safe_refuses_what_runs_code"),
    Bug("workers import from the current folder", "_import_installed_packages_only",
        without("os.environ['PYTHONSAFEPATH']"), POLICY_FILES + "test_the_current_folder_is_not_imported"),
    Bug("an ONNX network may draw random numbers", "_Network.__call__", instead("range(3)", "range(0)"),
        ONNX + "test_random_numbers_within_the_network_are_refused"),
    Bug("probabilities of an ONNX network are read as logits", "onnx_network",
        instead("name != 'probabilities'", "True"), ONNX + "test_probabilities_by_name_or_by_argument"),
]  # fmt: skip
