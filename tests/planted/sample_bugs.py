"""Planted bugs of methods that sample: kernels, intervals, selection, learning."""

from __future__ import annotations

from planted.changes import always, instead, never, result, without
from planted.planting import Bug

BRANCHES = "methods/kernels/test_branches.py::"
P6 = BRANCHES + "test_p6_the_kernel_realises_the_coupling"
CARLO = "methods/monte_carlo/test_monte_carlo.py::"
COMPARING = "test_comparing.py::"
SEQUENTIAL = "test_sequential.py::"
SELECTION = "results/samples/test_selection_rule.py::"
MARGINS = "results/test_margins.py::"
ANYTIME = "results/test_anytime.py::"
DISTRIBUTIONS = "methods/exact_distribution/test_exact_distribution.py::"
GAPS = "results/gaps/test_gap.py::"
BOUNDS = "results/gaps/test_bounds.py::"
OUTCOMES = "models/test_outcomes.py::"
LEARNING = "methods/incremental/test_incremental.py::"
P8 = LEARNING + "test_p8_it_converges_to_the_right_point[shop]"
UPDATES = "methods/kernels/test_moment_updates.py::"
AFTER = "test_reward_bound.py::test_a_reward_after_the_horizon_of_a_table_is_in_the_interval"
TD = "methods/neural_gram/test_losses.py::"
TD_TWIN = TD + "test_targets_equal_the_slow_twin[sum]"
JUDGEMENT = "results/calibration/test_judgement.py::"

BUGS = [
    # Kernels of rollouts.
    Bug("branches in one state draw separate scenarios", "advance", never("in_state"), P6),
    Bug("returns are discounted one step too much", "sample_returns", instead("1.0", "discount"),
        BRANCHES + "test_returns_equal_those_of_the_slow_twin"),
    Bug("all states share one scenario", "advance", always("state[j] == s"), P6),
    Bug("branches in one state share the next action", "advance", always("action[j] == action[i]"), P6),
    Bug("merged branches separate", "advance", never("coalesced >= 0"), P6),
    Bug("Synchronous draws a scenario for each state", "advance",
        instead("choose(cumulative_prob[s], common)", "choose(cumulative_prob[s], rng.random())"), P6),
    Bug("shared randomness of the policy is not shared", "advance",
        instead("choose(cumulative_policy[n], policy_luck)", "choose(cumulative_policy[n], rng.random())"), P6),
    # Margins.
    Bug("an absolute margin has the wrong sign", "PairMeans.excess", instead("-margin.size", "margin.size"),
        MARGINS + "test_an_unseen_event_may_cost_a_whole_episode"),
    Bug("5% of −100 are −5", "PairMeans._weights", instead("math.copysign(margin.size, ...)", "margin.size"),
        MARGINS + "test_a_relative_margin_is_a_share_of_the_size_of_the_old_mean[-1]"),
    Bug("the sign of a mean is that of its estimate", "PairMeans.excess", always("self._sign"),
        MARGINS + "test_near_zero_a_relative_margin_is_not_known"),
    Bug("unseen losses are missing", "PairMeans._large_sample", instead("math.hypot(seen, _)", "seen"),
        MARGINS + "test_an_unseen_event_may_cost_a_whole_episode"),
    Bug("later rewards of merged branches cancel at any margin", "PairMeans._hidden",
        instead("np.abs(weights.sum())", "0.0"),
        MARGINS + "test_truncated_returns_widen_the_interval_unless_branches_have_merged"),
    Bug("sampling stops by the sign of the gap", "Question.standing",
        instead("summary.gap_limits(reference, active, self.rule.margin)", "summary.gap_limits(reference, active)"),
        MARGINS + "test_each_policy_is_simulated_until_its_verdict"),
    # Moments of samples.
    Bug("intervals of gaps are too narrow", "_moments", instead("rule.mean_errors(...)", "0.6 * it"),
        "test_comparing_policies.py::test_the_interval_of_a_gap_is_that_of_the_rule"),
    Bug("truncated rewards are missing in the interval", "_mean_errors", instead("cut * part", "0 * it"),
        CARLO + "test_truncation_is_inside_the_interval"),
    Bug("intervals shrink with n and not with its root", "_mean_errors",
        instead("math.sqrt(len(returns))", "len(returns)"),
        CARLO + "test_intervals_cover_at_their_confidence[windy_gridworld]"),
    Bug("the variance of a fair coin is taken to be certain", "covariance_of",
        instead("(variances + covariance**2) / _", "0.0"), CARLO + "test_within_five_standard_errors_of_exact"),
    Bug("rewards of a table are bounded by those met", "known_reward_bound", instead("max(bounds)", "given"),
        AFTER + "[66]"),
    Bug("rollouts of a table are as short as those of a simulator", "rollout_horizon",
        instead("isinstance(simulator, TabularSimulator)", "False"), AFTER + "[None]"),
    Bug("an interrupt keeps finished samples and not the first ones", "MonteCarlo._drawn",
        instead("((i, *p) for p in parts for i in range(len(plans)))",
        "((i, *p) for i in range(len(plans)) for p in parts)"),
        "methods/test_interrupted_methods.py::test_samples_of_a_simulator_are_kept_by_number"),
    Bug("a confidence band holds at one point only", "fixed_slack",
        instead("math.log(2 / error) / (2 * n)", "0.25 / n"),
        DISTRIBUTIONS + "test_sampled_bands_cover_at_their_confidence"),
    Bug("truncated branches count as merged", "SampledDistributions.gap_distribution",
        instead("ends[:, b]", "ends[:, a]"), DISTRIBUTIONS + "test_sampled_distributions_know_what_the_cut_can_hide"),
    # Means at any time.
    Bug("unseen events are impossible", "mean_errors", instead("np.maximum(_, spread)", "_"),
        COMPARING + "test_nothing_seen_is_not_nothing"),
    Bug("any noise hides unseen events", "mean_errors",
        instead("np.maximum(_, spread)", "np.where(std > 1e-9 * np.asarray(spread), _, spread)"),
        "promises/test_ever_miss.py::test_compare_itself_is_not_misled_by_rare_losses"),
    Bug("a standard deviation has n for n − 1", "mean_errors",
        instead("(student_radius(...), _)", "(it[0], deviations.std(axis=0))"),
        ANYTIME + "test_what_was_not_seen_is_at_least_one_standard_deviation_and_the_spread"),
    Bug("the radius is that of a known variance", "mean_errors", instead("student_radius", "mean_radius"),
        ANYTIME + "test_what_was_not_seen_is_at_least_one_standard_deviation_and_the_spread"),
    Bug("bets depend on the sample they are placed on", "_bets", instead("np.concatenate(...)", "variance"),
        ANYTIME + "test_bets_know_only_what_was_before"),
    # Selection.
    Bug("every alternative has the whole error probability", "SelectionRule.error", result("1 - self.confidence"),
        COMPARING + "test_gaps_of_one_action_share_the_chance_of_error"),
    Bug("alternatives are eliminated by the estimate", "SelectionRule._settled", instead("low > 0", "low + high > 0"),
        SELECTION + "test_equal_means_are_not_claimed"),
    Bug("an alternative is good enough by the estimate", "SelectionRule.examine",
        instead("ends[i][0]", "sum(ends[i]) / 2"),
        SELECTION + "test_differences_that_do_not_matter_end_the_comparison"),
    Bug("samples of other alternatives count", "DrawnSamples.of",
        instead("set(asked) <= set(stage.alternatives)", "set(asked) & set(stage.alternatives)"),
        SELECTION + "test_samples_in_stages"),
    Bug("blocks in flight count after an elimination", "_Run._look", without("self._cancel()"),
        SEQUENTIAL + "test_the_bad_are_eliminated_and_everything_says_so"),
    Bug("alternatives are eliminated between looks", "Course.look", always("self.scheduled(before)"),
        SEQUENTIAL + "test_looks_do_not_depend_on_the_budget_or_on_going_on"),
    Bug("a deterministic question is taken to be random", "Question.certain", result("False"),
        SEQUENTIAL + "test_a_deterministic_question_takes_one_rollout"),
    Bug("a single sequence of random numbers is not reported", "Question.outcome", without("Outcome.ONE_FUTURE"),
        "test_comparing_policies.py::test_mini_grid"),
    Bug("a few equal samples are taken for one future", "Question.standing", instead("_MANY", "0"),
        SEQUENTIAL + "test_one_future_takes_many_samples"),
    Bug("equal samples end a comparison with a range", "Question.outcome",
        instead("self.settings.return_range is not None", "False"),
        SEQUENTIAL + "test_a_range_decides_between_constant_returns"),
    Bug("means of different samples are compared", "SampleSummary.ranking",
        instead("counts < counts.max()", "counts < 0"),
        "test_comparing_runs.py::test_designs_are_ordered_by_gaps_and_not_by_means_of_different_runs"),
    Bug("rounding counts as a difference", "SampleSummary.superiority", instead("np.where(exact, 0.0, _)", "0.0"),
        COMPARING + "test_a_tie_up_to_rounding_decides_nothing"),
    Bug("the largest is the best although smaller is better", "SampleSummary.gap_limits", always("self.sign > 0"),
        "test_comparing_runs.py::test_smaller_is_better"),
    Bug("actions of a subset are numbered anew", "Comparison._at",
        instead("self.numbers.index", "self.summary.labels.index"),
        COMPARING + "test_actions_keep_their_numbers_in_a_subset"),
    Bug("equal runs are called worse", "_how_often", instead("rounding.percentages(parts)", "[it[0], it[2], it[1]]"),
        "results/test_answer.py::test_shares_of_better_equal_and_worse[False-new]"),
    # Gaps.
    Bug("the variance of a gap subtracts a variance, as in the paper", "Evaluation.gap",
        instead("va + vb - _", "va - vb - _"), GAPS + "test_the_variance_adds_both_variances"),
    Bug("Cantelli's inequality is applied to the estimates", "Gap.inferiority_bound",
        instead("cantelli(mean.low, variance.high)", "cantelli(self.mean, self.variance)"),
        GAPS + "test_cantelli_is_taken_at_the_conservative_end"),
    Bug("an interval exceeds its own end", "Interval.exceeds", instead("self.low > threshold", "self.low >= threshold"),
        GAPS + "test_intervals_answer_in_three_values"),
    Bug("nodes of a touching polynomial may be in any order", "Nodes.are_proper",
        result("len(set(every)) == len(every)"), BOUNDS + "test_nodes_that_prove_nothing_are_refused"),
    Bug("a moment is taken at the wrong end", "MomentBox.worst",
        instead("high if c > 0 else low", "low if c > 0 else high"),
        BOUNDS + "test_intervals_are_taken_at_their_conservative_ends"),
    # One step of several actions.
    Bug("rows are not divided by their sum", "normalised_rows", without("rows[loose]"),
        "models/test_tabular.py::test_rows_off_by_rounding_are_kept_and_rows_in_single_precision_are_divided"),
    Bug("a probability of 1 is taken for certain", "certain",
        instead("np.count_nonzero(probabilities, axis=-1) == 1", "probabilities.max(axis=-1) == 1"),
        "models/test_policy.py::test_returns_of_one_policy_differ_if_an_action_is_rare[None]"),
    Bug("masked entries are accepted", "refuse_masked", never("np.ma.is_masked(value)"),
        "models/test_tabular.py::test_masked_entries_are_refused"),
    Bug("each action has its own scenario", "draw", instead("(*shape, 1)", "(*shape, len(actions))"),
        OUTCOMES + "test_samples_realise_the_joint_distribution"),
    Bug("scenarios are taken for outcomes", "coupling_distance", instead("chances(alone)[first + alone]", "prob"),
        OUTCOMES + "test_distances_are_those_of_all_combinations"),
    Bug("rounding is taken for coupling", "rounding_allowance", result("2.0**-53"),
        OUTCOMES + "test_products_in_floating_point_are_not_coupled_and_a_billionth_is"),
    Bug("couplings may have subclasses", "Coupling.__init_subclass__", never("cls.__module__ != __name__"),
        "models/test_coupling.py::test_couplings_are_a_closed_set"),
    # Incremental learning.
    Bug("a new reference leaves squares unchanged", "StochasticApproximation._begin_stage", without("shift * shift"),
        LEARNING + "test_a_new_reference_changes_no_covariance"),
    Bug("consecutive batches are taken to be independent", "half_widths", instead("max(1.0, 2 * ratio - 1)", "1.0"),
        LEARNING + "test_half_widths_cover_averages_of_correlated_batches"),
    Bug("slow quantities are taken to be as fast as most", "half_widths", instead("np.maximum(1.0, _)", "1.0"),
        LEARNING + "test_a_slow_quantity_among_fast_ones_is_covered"),
    Bug("a correlation is never 1", "clipped", instead("min(1.0, _)", "min(1.0 - 1e-9, _)"),
        LEARNING + "test_intervals_of_correlations_know_of_the_start_and_reach_one"),
    Bug("the influence of the start is missing", "StochasticApproximation.moments",
        instead("found.covariance_error + left", "found.covariance_error"), LEARNING + "test_a_run_too_short_says_so"),
    Bug("learning shares the next action", "draw_outcomes", always("tables.shared_policy_luck"), P8),
    Bug("learning draws separate scenarios in one state", "draw_outcomes", always("tables.shared_in_a_state"), P8),
    Bug("learning does not merge branches", "update", never("rule.branches_merge"), P8),
    Bug("learning shares randomness between states", "draw_outcomes", always("tables.shared_between_states"),
        UPDATES + "test_p6_steps_realise_the_coupling"),
    Bug("the reference of the next coordinate is missing", "update", without("discount * reference[n]"),
        UPDATES + "test_updates_equal_those_of_the_slow_twin[Local(policy_luck='independent')]"),
    # Networks.
    Bug("actions of one state are taken for those of two", "moments_of",
        instead("blocks(x, y, same, _)", "blocks(x, y, False, _)"), TD_TWIN),
    Bug("two walks have twice the variance of one", "targets", instead("_ / jnp.sqrt(2.0)", "_"),
        TD + "test_a_hand_computed_target"),
    Bug("targets have a gradient", "targets",
        instead("jax.lax.stop_gradient(Targets(returns, moments))", "Targets(returns, moments)"),
        TD + "test_p18_targets_carry_no_gradient"),
    Bug("targets are discounted by γⁿ, not γ²ⁿ", "targets", instead("batch.discount**2", "batch.discount"), TD_TWIN),
    Bug("training continues from the checkpoint of another run", "Checkpoints.latest",
        instead("np.array_equal(leaves.pop('checksum'), ...)", "leaves.pop('checksum').size"),
        "methods/neural_gram/test_resume_training.py::test_another_run_is_refused"),
    Bug("every trained network is called useful", "_OUTCOMES", instead("Outcome.NOT_BETTER", "Outcome.TRAINED"),
        "methods/neural_gram/test_neural_gram.py::test_the_outcome_is_the_verdict_of_the_held_out_record[inverted]"),
    # Held-out records.
    Bug("a verdict ignores the interval of the gain", "Judgement.of", instead("gain.low > ROUNDING", "gain > ROUNDING"),
        JUDGEMENT + "test_noise_around_a_constant_is_seldom_called_useful[normal]"),
    Bug("predictions are compared with a constant that is not the best", "Calibration.variance_gain",
        instead("float(self.simulated_variance.mean())", "2 * it"),
        JUDGEMENT + "test_no_constant_is_better_than_the_best_one"),
]  # fmt: skip
