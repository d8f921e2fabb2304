"""Planted bugs of exact methods: moments of pairs, certificates, distributions, projections."""

from __future__ import annotations

from planted.changes import always, instead, never, result, without
from planted.planting import Bug

EXACT = "methods/exact_pairs/test_exact_pairs.py::"
EXACT_FOLDER = "methods/exact_pairs/"
SWEPT = EXACT_FOLDER + "test_higher_moments.py::test_equal_to_jipe_of_the_same_order[Local(policy_luck='independent')]"
CHAIN = EXACT + "test_equal_to_the_pair_chain[Local(policy_luck='independent')]"
CHAIN_SHARED = EXACT + "test_equal_to_the_pair_chain[Local(policy_luck='shared')]"
CHAIN_SYNC = EXACT + "test_equal_to_the_pair_chain[Synchronous(policy_luck='independent')]"
CHAIN_ALONE = EXACT + "test_equal_to_the_pair_chain[Independent(policy_luck='shared')]"
POLICIES = "promises/test_policy_truth.py::"
JIPE = "methods/jipe/test_jipe.py::"
JIPE_LOCAL = (
    JIPE + "test_inside_the_certificate_of_exact_pairs_and_the_other_way_round[Local(policy_luck='independent')-8]"
)
JIPE_JOINT = (
    JIPE + "test_joint_moments_of_any_coordinates_lie_within_their_certificates"
    "[three actions-Local(policy_luck='independent')]"
)
JIPE_WEIGHT = JIPE + "test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed"
REACH = "methods/reachable_pairs/test_reachable_pairs.py::"
INSIDE = REACH + "test_intervals_contain_the_answers_of_exact_pairs"
P1 = "promises/test_certificates.py::test_p1_certified_intervals_contain_the_truth"
P1_RARE = "promises/test_certificates.py::test_p1_where_all_that_matters_hangs_on_a_rare_action"
P2 = "promises/test_certificates.py::test_p2_corrupted_results_are_rejected"
NARROW = "methods/exact_pairs/test_narrow_certificates.py::"
HORIZON = "methods/exact_pairs/test_horizon_covariances.py::"
NEAR_ONE = "methods/exact_pairs/test_near_one.py::"
SCALES = "promises/test_extreme_scales.py::test_intervals_contain_the_truth_at_any_scale"
TIES = "methods/exact_distribution/test_ties.py::"
HORIZONS = "methods/exact_distribution/test_horizons.py::"
DISTRIBUTIONS = "methods/exact_distribution/test_exact_distribution.py::"
P1_DISTRIBUTIONS = DISTRIBUTIONS + "test_p1_distributions_contain_the_truth"
PROJECTED = "methods/linear_projected/test_linear_projected.py::"
ORDER_8 = (
    "methods/exact_pairs/test_higher_moments.py::test_orders_up_to_eight_are_certified"
    "[Local(policy_luck='independent')]"
)
LABELS = "models/test_labels.py::"
PRODUCT = "methods/kernels/test_pair_product.py::"
ORDERED = "methods/kernels/test_ordered_product.py::"
LIMITED = "test_the_number_of_sweeps_is_limited_and_a_press_of_ctrl_c_keeps_what_is_certified"
CONTROL = "control/"

BUGS = [
    # Moments of pairs.
    Bug("the diagonal of the next pair table is missing", "PairOperator.ahead", without("self.V[n]"), CHAIN_ALONE),
    Bug("second moments are discounted by γ, not γ²", "PairOperator.__init__",
        instead("model.discount * model.discount", "model.discount"), CHAIN),
    Bug("independent draws of actions are taken for equal ones", "PairOperator.diagonal",
        always("self.same_state is None"), SWEPT),
    Bug("a pair of actions is counted once, not twice", "_entries", instead("2 * _", "_"), SWEPT),
    Bug("branches that separate are taken for one", "SameState.__init__", instead("pi * pi", "pi"), SWEPT),
    Bug("states share no randomness", "PairOperator.__init__", always("len(self.joint_steps) == 1"), CHAIN_SYNC),
    Bug("branches that only meet are merged", "PairOperator.diagonal",
        instead("self.coupling.shared_in_a_state", "True"), CHAIN_ALONE),
    Bug("a shared uniform number is inverted from the other end", "shared_choices",
        instead("edges[:-1]", "1 - edges[1:]"), CHAIN_SHARED),
    Bug("overlaps belong to the other action", "_given",
        instead("(intervals[a], intervals[b])", "(intervals[b], intervals[a])"), CHAIN_SHARED),
    Bug("terminal states have rewards", "TabularJMDP.__init__", without("r[ends]"),
        "models/test_tabular.py::test_rows_of_terminal_states_are_never_read"),
    Bug("the step into a terminal state has no reward", "td_errors",
        instead("reward[block]", "it * ~model.terminal[n]"), CHAIN),
    Bug("an accelerated step is taken although it is worse", "_jump", never("past.largest(weights) < residual"),
        EXACT + "test_no_accelerated_step_is_worse_than_a_plain_sweep"),
    Bug("the compiled product starts at a later column", "_left_product", instead("starts[_0]", "starts[top]"),
        PRODUCT + "test_equal_to_the_dense_product"),
    Bug("the corner of a group is not mirrored", "_single_entries", without("out[t, s]"),
        PRODUCT + "test_equal_to_the_dense_product"),
    Bug("changes are added to one triangle only", "add_combination", without("mirror * H[s, t]"),
        PRODUCT + "test_changes_are_those_of_the_lower_triangle"),
    Bug("an ordered sweep reads columns that are not filled yet", "_mixed_product",
        instead("max(group.done, left) - left", "width"), ORDERED + "test_equal_to_the_slow_twin"),
    Bug("entries of the block on the diagonal do not reach those after them", "_diagonal_block",
        without("group.within[s - top, r] * difference"), ORDERED + "test_equal_to_the_slow_twin"),
    Bug("ordered sweeps ignore the covariances of branches in one state", "OrderedSweep._in_waves",
        instead("operator.same_state is not None", "False"), ORDERED + "test_the_fixed_point_is_that_of_plain_sweeps"),
    Bug("ordered sweeps end without a certified residual", "ordered_start",
        instead("stopping.max_sweeps - 1", "stopping.max_sweeps"), ORDERED + LIMITED),
    # Labels, and what methods cover.
    Bug("an integer is a position although labels are integers", "Labels.index", never("self.integers"),
        LABELS + "test_an_integer_is_a_label_or_an_error_if_labels_are_integers"),
    Bug("integer labels stay in the order of the file", "_Axis.of", never("is_integer(names[i])"),
        LABELS + "test_integers_are_sorted_on_reading_and_other_names_follow"),
    Bug("lists are used in the order of the file", "refuse_order", always("states.read or actions.read"),
        LABELS + "test_lists_are_refused_for_tables_that_were_read_with_labels"),
    Bug("a method answers for every coupling", "Covers.missing", never("type(coupling) not in self.couplings"),
        "methods/test_covers.py::test_a_method_is_refused_for_questions_that_it_does_not_declare"),
    # Policies.
    Bug("policies in one state draw separate scenarios", "StackedTable.pairs", instead("goes_on", "goes_on[:0]"),
        POLICIES + "test_policies_hold_against_rationals"),
    Bug("policies that share their randomness draw separately in one state", "joint_actions",
        always("coupling.policy_luck == 'independent'"), POLICIES + "test_horizons_hold_against_rationals"),
    Bug("the variance between starts is missing", "StartRow.covariance",
        instead("np.einsum('s,sij->ij', self._weights, products)", "0 * it"),
        POLICIES + "test_policies_hold_against_rationals"),
    Bug("rounding over a horizon is missing", "HorizonStep._error",
        instead("_ + (split * _ + _ / split) ** 2", "0 * it"), POLICIES + "test_horizons_hold_against_rationals"),
    Bug("policies by time are used in reverse order", "recursion", instead("reversed(policies)", "policies"),
        EXACT_FOLDER + "test_horizon_covariances.py::test_covariances_between_states_hold_against_rationals"),
    Bug("gaps of policies in one state have independent scenarios", "PolicySteps._drawn",
        instead("coupling.shared_in_a_state", "False"),
        POLICIES + "test_distributions_of_gaps_hold_against_enumeration"),
    # Joint moments (JIPE).
    Bug("reward and next state are independent", "JointBellman._step",
        instead("_power(reward, m)",
        "np.where((l > 0) & (l < m), (prob[:, None, :, None] * it).sum(axis=2, keepdims=True), it)"), JIPE_LOCAL),
    Bug("the weight λ is half as large", "JointBellman.__init__", instead("2 * bound", "bound"), JIPE_WEIGHT),
    Bug("the weight λ is that of the paper, for rewards up to 1 only", "JointBellman.__init__",
        instead("2 * bound", "2 * 2 ** -self.rewards.scale.exponent"), JIPE_WEIGHT),
    Bug("equal coordinates are not merged at order 3", "JointBellman.sweep",
        instead("self.coupling.shared_in_a_state", "it and len(m) < 3"), JIPE_JOINT),
    Bug("three branches in a state do not share its scenario", "_splits",
        instead("len(split) <= model.shape[0]", "len(split) > 1 or j < 3"), JIPE_JOINT),
    Bug("a higher moment weighs no more than a second moment", "JointBellman.scale", instead("k - 1", "min(it, 1)"),
        JIPE_WEIGHT),
    # Higher moments.
    Bug("moments h_ij are taken to be symmetric", "MomentSources.parts", never("i != j"), ORDER_8),
    Bug("merged branches continue as two", "MomentSources._on_diagonal", without("np.einsum('skaa->ska', distinct)"),
        ORDER_8),
    Bug("moments of all orders are discounted like variances", "MomentSources.parts", instead("i + j", "2"), ORDER_8),
    Bug("odd moments of a gap have the wrong sign", "PairMoments.gap_moments", instead("(-1.0) ** _", "1.0"), ORDER_8),
    # Reachable pairs: what is cut off.
    Bug("what is cut off is missing in the error", "Search._solve", instead("cut.missing_ahead", "0 * it"), INSIDE),
    Bug("what is cut off is squared", "Search._solve", instead("cut.missing_ahead", "it ** 2"), INSIDE),
    Bug("means end where the region is cut off", "Surroundings.of", instead("_discounted_exits(...)", "0 * it"),
        INSIDE),
    Bug("returns do not vary beyond the region", "Surroundings.of", instead("std + cut.missing", "cut.missing"),
        INSIDE),
    Bug("rewards are not divided by their bound", "Explorer.__init__", instead("Scale.above(...)", "Scale(0)"),
        REACH + "test_what_is_cut_off_is_bounded_at_any_scale_of_rewards[1e-200]"),
    Bug("underflow of products is missing", "_no_less", instead("np.where(positive, UNDERFLOW, 0.0)", "0.0"),
        REACH + "test_a_state_whose_mass_underflows_is_still_reached"),
    Bug("actions without probability are followed", "Explorer.outcomes",
        instead("self.probs[states] > 0", "self.probs[states] >= 0"),
        REACH + "test_states_that_only_untaken_actions_lead_to_are_not_asked_for"),
    Bug("unused rows of tables are taken for states", "Explorer.explore", instead("self.reached & _", "_"),
        REACH + "test_a_state_whose_mass_underflows_is_still_reached"),
    Bug("rewards of a lazy model may be twice their bound", "LazyJMDP._checked",
        instead("size > self.reward_bound", "size > 2 * self.reward_bound"),
        REACH + "test_bad_tables_are_refused_where_they_are"),
    # Scales.
    Bug("moments scale with rewards, not with their squares", "PairTable.covariance", instead("2", "1"),
        "promises/test_relations.py::test_scaling_rewards_by_a_power_of_two_scales_moments_bit_for_bit"),
    Bug("errors of means are scaled back without their underflow", "Found.evaluation",
        instead("scale.restore_error(self.mean_error)", "scale.restore(self.mean_error)"),
        REACH + "test_means_of_subnormal_rewards_are_rounded_outwards[1e-320-0.5]"),
    Bug("errors of covariances are scaled back without their underflow", "Found.evaluation",
        instead("scale.restore_error(covariance_error, 2)", "scale.restore(covariance_error, 2)"),
        SCALES + "[reachable_pairs]"),
    Bug("a variance is the square of its rounded root", "correlations",
        instead("np.where(one == other, one, np.sqrt(one) * np.sqrt(other))", "np.sqrt(one) * np.sqrt(other)"),
        "results/gaps/test_equal_returns.py::test_equal_policies_have_correlation_one"),
    Bug("correlations are more accurate than the covariances", "Found.evaluation",
        instead("correlation_error + change + 2.0**-48", "correlation_error"),
        REACH + "test_correlations_of_covariances_that_are_subnormal"),
    Bug("errors of pair tables are scaled back without their underflow", "Scale.restore_error",
        instead("np.where(np.greater(error, 0), _HIDDEN, 0.0)", "0.0"), SCALES + "[exact_pairs]"),
    Bug("the constant β may be infinite", "_joint_contraction", instead("min(_, sys.float_info.max)", "_"),
        PROJECTED + "test_rewards_of_any_scale[second_moment-1e-320]"),
    # Distributions.
    Bug("atoms are not rounded outwards", "_add_atoms", instead("_ROUNDING * _ + _TINY", "0.0"), P1_DISTRIBUTIONS),
    Bug("combined masses are not at the lowest of their points", "_add_points",
        instead("x < row[at, 1]", "row[at, 1] == math.inf"),
        "methods/kernels/test_distributions.py::test_equal_to_the_slow_twin"),
    Bug("mass at zero stays there whatever the reward is", "step_back", always("r == 0.0"), P1_DISTRIBUTIONS),
    Bug("gaps of swapped branches keep their sign", "DistributionSteps._merged",
        instead("-self.discount", "self.discount"), P1_DISTRIBUTIONS),
    Bug("branches that draw the same action stay separate", "DistributionSteps._same_state",
        instead("[self._nothing(_)]",
        "[self._together(i, int(x), int(x), float(pi[x] ** 2)) for x in np.flatnonzero(pi)]"), P1_DISTRIBUTIONS),
    Bug("the mean of the worst outcomes is taken at the upper ends", "Distribution.cvar",
        instead("np.insert(low, ...)", "np.insert(high, 0, self.support.low)"), P1_DISTRIBUTIONS),
    Bug("values after the last step are no atoms of a horizon", "HorizonPass.__call__",
        instead("self._gaps.high == 0", "self._gaps.high == self._gaps.high"),
        HORIZONS + "test_values_after_the_last_step_can_tie"),
    Bug("ties over a horizon ignore the values after the last step", "_TieChain.is_final", result("node.value == 0"),
        HORIZONS + "test_values_after_the_last_step_can_tie"),
    # Ties.
    Bug("rewards are rounded before they are compared", "_TieChain._row", never("tail"),
        TIES + "test_what_rounding_loses_of_a_reward_is_no_tie"),
    Bug("one outcome that ties makes a sure tie", "_TieChain.follow",
        instead("len(edges) == row.count", "len(edges) > 0"), TIES + "test_chances_of_a_random_tie"),
    Bug("pairs that are not followed never tie", "_TieChain.chances", instead("sure | unknown", "sure"),
        TIES + "test_a_limited_number_of_outcomes_is_followed"),
    Bug("a floating-point solution is taken to be exact", "_TieChain._solved", instead("1 + 2.0**-40", "0.0"),
        TIES + "test_branches_that_meet_late[1e-06]"),
    Bug("rare choices of actions are never missed", "DistributionSteps.list_all",
        instead("_exact_choices(...)", "set()"), TIES + "test_an_action_too_rare_for_floats_breaks_a_tie"),
    Bug("outcomes whose probability underflows are dropped", "DistributionSteps._branch",
        instead("np.logical_and.outer(...)", "np.multiply.outer(scenarios[s], choices[s])"),
        TIES + "test_a_chance_that_underflows_breaks_a_tie"),
    Bug("mass left open by rounding counts as known", "DistributionSweep.widths",
        instead("np.maximum(open_mass, 0.0)", "np.maximum(open_mass - rounded, 0.0)"),
        TIES + "test_not_converged_where_nothing_is_as_narrow_as_asked"),
    Bug("ties are taken from the outermost ends", "_without", instead("-ends", "ends"),
        TIES + "test_ties_are_taken_from_the_innermost_ends"),
    Bug("the estimate of the remaining time overflows", "sweep_bar.report",
        instead("math.log(residual) - math.log(aim)", "math.log(residual / aim)"),
        TIES + "test_a_tolerance_out_of_reach[1e-310]"),
    # Certificates.
    Bug("half the error of means is certified", "ExactPairs._evaluation",
        instead("scale.restore_error(shaped.mean_errors)", "it / 2"), P1),
    Bug("rare actions are missing in the bound", "PairOperator._set_error_scales",
        without("squares[self.policy.probs > 0]"), P1_RARE),
    Bug("rounding errors are missing", "PairOperator._rounding_error", instead("self.rounding * ROUNDOFF * _", "0.0"),
        P1),
    Bug("single precision is taken for double", "PairOperator.floor", always("self.precision == 'float64'"),
        EXACT + "test_single_precision_says_so_in_its_certificate"),
    Bug("a residual is not divided by 1 − γ²", "PairOperator.step_error", instead("_ / self.one_minus_square", "_"),
        P1),
    Bug("a residual is divided by 1 − γ⁴", "PairOperator.one_minus_square", result("1 - self.model.discount ** 4"), P1),
    Bug("the error of the value function is missing", "shape_rewards",
        instead("classes.reachable_max(_ + residual_error)", "0 * it"),
        "methods/shared/test_shaping.py::test_a_bad_solver_makes_certificates_wide_and_not_wrong"),
    Bug("the certificate check compares means only", "check_certificate", without("_compare('covariance', ...)"), P2),
    Bug("the certificate check leaves out pairs of different states", "check_certificate",
        without("_check_between_states(...)"), P2),
    # Certificates for each part of a model.
    Bug("errors of a class leave out the classes it reaches", "StateClasses.class_max", without("most[other]"),
        NARROW + "test_a_chain_of_classes_is_certain_in_units_of_what_each_can_reach"),
    Bug("the maximum of a class is the value of its last state", "StateClasses.class_max",
        instead("np.maximum.at(most, self.label, values)", "most.__setitem__(self.label, values)"),
        NARROW + "test_classes_and_what_they_reach"),
    Bug("units depend on the state and not on what it reaches", "StateUnits.of",
        instead("_whole(reachable_max(_))", "_whole(_)"),
        NARROW + "test_a_chain_of_classes_is_certain_in_units_of_what_each_can_reach"),
    Bug("all parts of a model have the same unit", "ExactPairs.on_table",
        instead("StateUnits.of(...)", "StateUnits.equal(model)"),
        NARROW + "test_a_part_that_is_not_reached_changes_no_interval"),
    Bug("the low word of a double-double is missing in its error", "_Refinement.refined",
        instead("np.abs(ahead.low)", "0.0"), NARROW + "test_the_checker_holds_each_part_to_its_own_errors"),
    Bug("the residual of a refinement is missing", "_Refinement.refined", instead("max(left, V_residual)", "0.0"),
        NARROW + "test_what_a_refinement_leaves_is_in_the_error"),
    # Gaps.
    Bug("moments have one error for the whole model", "StateClasses.pair_max",
        result("np.full((self.count, self.count), values.max())"),
        "methods/exact_pairs/test_higher_moments.py::test_a_part_with_large_rewards_does_not_widen_moments_of_another"),
    Bug("second moments are those of the tables of higher orders", "Evaluation._gap_moments",
        instead("known_twice(known, second)", "known"),
        "methods/exact_pairs/test_higher_moments.py::test_second_moments_are_as_narrow_as_without_higher_orders"),
    Bug("means of gaps are differences of rounded means", "differences",
        instead("negative(_)", "it._replace(low=-it.low)"),
        NEAR_ONE + "test_means_of_gaps_are_subtracted_before_they_are_rounded"),
    Bug("gaps from a random start leave out their spread between starts", "StartRow.gaps",
        instead("within + deviation * deviation", "within"),
        "promises/test_policy_truth.py::test_policies_hold_against_rationals"),
    # Finite horizons.
    Bug("covariances between states look ahead on the table of the first step", "HorizonSolver.of_actions",
        instead("ActionsAhead(step, found.before[1, 1], error)", "ActionsAhead(step, found.after[1, 1], error)"),
        HORIZON + "test_shared_luck_in_two_states_by_hand"),
    Bug("a random start is read as a state of the model", "StartRow._refuse_start", never("self._is_start(s) or _"),
        HORIZON + "test_a_random_start_has_no_covariance_with_a_state"),
    # Discounts near 1.
    Bug("relative values are not centred", "_centred", instead("(1 - model.discount) * middle", "0.0"),
        NEAR_ONE + "test_values_are_relative_to_the_gain_of_a_part_that_never_ends"),
    Bug("an antisymmetric part is solved as a symmetric one", "PairSystem.solver",
        instead("np.where(number[n, m] >= 0, 1.0, mirror)", "np.ones(n.size)"),
        NEAR_ONE + "test_the_direct_solution_solves_the_equation_of_a_sweep[False-Local(policy_luck='shared')]"),
    Bug("merged branches count as a pair in a direct solution", "PairSystem._terms",
        instead("np.where(np.eye(model.shape[2], dtype=bool), model.shape[0], n)", "n"),
        NEAR_ONE + "test_the_direct_solution_solves_the_equation_of_a_sweep[False-Local(policy_luck='independent')]"),
    Bug("the diagonal of a refined table is that of float64", "_Refinement.refined",
        without("np.fill_diagonal(word, own)"),
        NEAR_ONE + "test_random_models_converge_at_one_minus_1e_9[Local(policy_luck='shared')]"),
    # Projections and features.
    Bug("restarts are missing in the weights of pairs", "_restart", instead("first + _", "_"),
        PROJECTED + "test_start_pairs_in_different_states"),
    Bug("branches in one state never meet", "PairFeatures._same_state", instead("self._met[one]", "0.0"),
        PROJECTED + "test_start_pairs_in_different_states"),
    Bug("the error of the mean is missing in the bound", "fitted_bounds",
        instead("(2 * spread + slip_largest) * slip_norm", "0.0"),
        PROJECTED + "test_the_error_of_the_mean_is_in_the_bound"),
    Bug("negative eigenvalues are kept", "fit", always("least >= -_ROUNDING"),
        PROJECTED + "test_fits_are_positive_semidefinite"),
    Bug("all tilings have the same offset", "TileCoding._of_states", instead("fine + j", "fine"),
        "methods/linear_projected/test_features.py::test_shifts_are_even"),
    Bug("moments are fitted to too few transitions", "LinearProjected._sampled", never("drawn.complete"),
        "methods/test_interrupted_methods.py::test_a_fit_to_samples_is_kept"),
    # Control.
    Bug("the shadow stays where it is", "ShadowPolicy._follow", instead("problem.next_state[t, k, b]", "t"),
        CONTROL + "test_improve.py::test_the_policy_follows_the_shadow_by_what_it_sees"),
    Bug("falling short costs nothing", "Problem.solve", instead("1 + utility.weight", "1.0"),
        CONTROL + "test_frontier.py::test_equal_to_all_policies_of_the_scenario_history"),
    Bug("the value of the policy is taken for the bound of all", "Problem.upper_value", always("self.exact"),
        CONTROL + "test_frontier.py::test_brackets_contain_the_truth_with_a_discount"),
    Bug("what is observed is not checked", "check_observed", never("i >= 0"),
        CONTROL + "test_improve.py::test_what_is_refused"),
    Bug("sets of changes may exceed the limit", "_Search._first_within", always("self._limit == math.inf"),
        CONTROL + "test_improve.py::test_few_changes_are_those_of_brute_force"),
]  # fmt: skip
