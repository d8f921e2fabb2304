"""P7: the tests have power. Each bug is planted in a copy of the package, and a named test must fail on it.

A bug is one change of the source text. That the text to change stands there exactly once is checked, so that this list
cannot fall behind the code. Only a failing assertion or error inside the test counts: a copy that does not even import
does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import jmdp

TESTS = Path(__file__).parents[1]
SOURCE = Path(jmdp.__file__).parent


@dataclass(frozen=True)
class Bug:
    name: str
    file: str
    old: str
    new: str
    caught_by: str

    @property
    def test_file(self) -> str:
        return self.caught_by.split("::")[0]


EXACT = "methods/exact_pairs/test_exact_pairs.py::"
CHAIN = EXACT + "test_equal_to_the_pair_chain[Local(policy_luck='independent')]"
CHAIN_SHARED = EXACT + "test_equal_to_the_pair_chain[Local(policy_luck='shared')]"
CHAIN_SYNC = EXACT + "test_equal_to_the_pair_chain[Synchronous(policy_luck='independent')]"
CHAIN_ALONE = EXACT + "test_equal_to_the_pair_chain[Independent(policy_luck='shared')]"
POLICIES = "promises/test_policy_truth.py::"
JIPE = "methods/jipe/test_jipe.py::"
JIPE_LOCAL = (
    JIPE + "test_inside_the_certificate_of_exact_pairs_and_the_other_way_round[Local(policy_luck='independent')]"
)
JIPE_JOINT = (
    JIPE + "test_joint_moments_of_any_coordinates_lie_within_their_certificates"
    "[three actions-Local(policy_luck='independent')]"
)
REACHABLE = "methods/reachable_pairs/test_reachable_pairs.py::test_intervals_contain_the_answers_of_exact_pairs"
P1 = "promises/test_certificates.py::test_p1_certified_intervals_contain_the_truth"
NARROW = "methods/exact_pairs/test_narrow_certificates.py::"
P2 = "promises/test_certificates.py::test_p2_corrupted_results_are_rejected"
P6 = "methods/kernels/test_branches.py::test_p6_the_kernel_realises_the_coupling"
CARLO = "methods/monte_carlo/test_monte_carlo.py::"

OBJECTS = "simulators/objects/test_object_"
P8 = "methods/incremental/test_incremental.py::test_p8_it_converges_to_the_right_point[shop]"
SCALES = "promises/test_extreme_scales.py::test_intervals_contain_the_truth_at_any_scale"
TIES = "methods/exact_distribution/test_ties.py::"
P1_DISTRIBUTIONS = "methods/exact_distribution/test_exact_distribution.py::test_p1_distributions_contain_the_truth"
PROJECTED = "methods/linear_projected/test_linear_projected.py::"
ORDER_8 = "methods/exact_pairs/test_higher_moments.py::test_orders_up_to_eight_are_certified[Local(policy_luck='independent')]"
TWIN = "simulators/test_rollouts.py::test_equal_to_the_slow_twin"
ARRAYS = "simulators/test_batched_rollouts.py::test_rollouts_are_those_step_by_step"
WALKS = "simulators/test_pair_walks.py::test_equal_to_the_slow_twin"
SELECTION = "results/samples/test_selection_rule.py::"
MARGINS = "results/test_margins.py::"
SAMPLING = "simulators/checking/test_sampling.py::"
RUNS = "test_comparing_runs.py::"
PURPOSE = "base/test_luck_by_purpose.py::"
DESYNC = "simulators/checking/test_planted_desync.py::"
TD = "methods/neural_gram/test_losses.py::"
TRUNCATION = "simulators/test_truncation.py::"
FILES = "cli/test_policy_files.py::"
ONNX = "models/actors/test_onnx_policies.py::"
REVIEWS = "reviews/test_review_"
AFTER = "test_reward_bound.py::test_a_reward_after_the_horizon_of_a_table_is_in_the_interval"
TD_TWIN = TD + "test_targets_equal_the_slow_twin[sum]"
BUGS = [
    # Reviews and pages.
    Bug("intervals of gaps are too narrow", "results/samples/sample_moments.py",
        "else rule.mean_errors(gaps, gap_spreads(std, size, a, rounding))",
        "else 0.6 * rule.mean_errors(gaps, gap_spreads(std, size, a, rounding))",
        "test_comparing_policies.py::test_the_interval_of_a_gap_is_that_of_the_rule"),
    Bug("equal runs are called worse", "results/answer.py", "the same in {same} and {c.wording.less} in {less}",
        "the same in {less} and {c.wording.less} in {same}",
        "results/test_answer.py::test_shares_of_better_equal_and_worse[False-new]"),
    Bug("luck without the discount", "reviews/review.py", "reward + self.discount * after.value - float(q[a]),",
        "reward + after.value - float(q[a]),", REVIEWS + "parts.py::test_parts_add_up_on_tables"),
    Bug("another action is followed by other draws of the policy", "reviews/trajectory.py",
        "[self.policy_shock(episode, t)] * len(branches)", "[self.policy_shock(episode, t + 1)] * len(branches)",
        REVIEWS + "replays.py::test_hindsight_is_the_return_of_what_if"),
    Bug("outcomes that no rollout showed are impossible", "reviews/rollout_values.py",
        "action_errors=np.hypot(values.action_errors, one),", "action_errors=values.action_errors,",
        REVIEWS + "blunders.py::test_a_rare_reward_that_no_rollout_shows_is_possible"),
    Bug("names in pages are not escaped", "reports/page.py", "autoescape=True,", "autoescape=False,",
        "reports/test_pages.py::test_hostile_names_are_only_text"),
    # Whole runs.
    Bug("designs do not share randomness", "simulators/runs.py",
        "Luck(shock if paired else shock.derived", "Luck(shock.derived",
        RUNS + "test_the_gap_and_the_gain_agree_with_the_closed_form"),
    Bug("the largest is the best although smaller is better", "results/samples/sample_summary.py",
        "return (low, high) if self.sign > 0 else (-high, -low)", "return low, high",
        RUNS + "test_smaller_is_better"),
    Bug("each measure has the whole error probability", "comparing_runs.py",
        "confidence = 1 - (1 - self.settings.confidence) / len(names)", "confidence = self.settings.confidence",
        RUNS + "test_several_measures_hold_jointly"),
    # Randomness by purpose.
    Bug("keys are joined", "base/luck_by_purpose.py", 'return b"%a" % (key,)', 'return " ".join(map(str, key)).encode()',
        PURPOSE + "test_keys_that_look_alike_differ"),
    Bug("keys are hashed by Python", "base/luck_by_purpose.py", 'return b"%a" % (key,)', 'return b"%d" % hash(key)',
        PURPOSE + "test_processes_with_other_hash_seeds_agree"),
    Bug("durations are integers", "base/luck_by_purpose.py", "and not isinstance(part, np.timedelta64)", "",
        PURPOSE + "test_other_parts_are_refused_by_name[timedelta64]"),
    Bug("streams start again", "base/luck_by_purpose.py", "found = self._streams[name] = ", "found = ",
        PURPOSE + "test_streams_continue_and_do_not_touch_each_other"),
    Bug("Poisson numbers are one too large", "base/luck_by_purpose.py",
        "return k - 1 if k > 0 and special.pdtr(k - 1, mean) >= u else k", "return k + 1",
        PURPOSE + "test_poisson[12.5]"),
    Bug("Poisson draws by NumPy", "base/luck_by_purpose.py",
        "return _summed_poisson(u, mean) if mean <= _SUMMED else _inverse_poisson(u, mean)",
        "return int(np.random.default_rng(int(u * 2**52)).poisson(mean))",
        PURPOSE + "test_inversion_keeps_designs_coupled_and_numpy_does_not"),
    # Numbers as text, and what is refused.
    Bug("errors are rounded to the nearest", "base/rounding.py",
        "_leading(_distance(middle, low, high), digits, ROUND_CEILING)",
        "_leading(_distance(middle, low, high), digits, ROUND_HALF_EVEN)",
        "base/test_rounding.py::test_plus_minus_contains_the_interval"),
    Bug("the rounding of a value is not in its error", "base/rounding.py",
        "_distance(middle, low, high), digits", "_distance(Decimal(value), low, high), digits",
        "base/test_rounding.py::test_plus_minus_contains_the_interval"),
    Bug("subclasses of couplings are taken", "models/coupling.py", "if cls.__module__ != __name__:", "if False:",
        "models/test_coupling.py::test_couplings_are_a_closed_set"),
    Bug("masks are dropped", "base/arrays.py", "and np.ma.is_masked(value)", "and False",
        "models/test_tabular.py::test_masked_entries_are_refused"),
    Bug("half more than the budget may be used", "base/machine.py", "if needed > allowed:", "if needed > 1.5 * allowed:",
        "base/test_machine.py::test_one_byte_too_few_is_refused"),
    Bug("checksums of checkpoints are not compared", "base/checkpoint.py",
        "if not np.array_equal(digest, _digest(found)):", "if False:",
        "base/test_checkpoint.py::test_p11_every_flip_in_the_numbers_of_a_small_one_is_refused"),
    Bug("rewards of a lazy model may be twice their bound", "models/lazy.py",
        "if size > self.reward_bound:", "if size > 2 * self.reward_bound:",
        "methods/reachable_pairs/test_reachable_pairs.py::test_bad_tables_are_refused_where_they_are"),
    Bug("half the error of means is certified", "methods/exact_pairs/exact_pairs.py",
        "mean_errors = scale.restore_error(shaped.mean_errors)", "mean_errors = scale.restore_error(shaped.mean_errors) / 2",
        P1),
    # The sampler.
    Bug("one scenario for all states", "methods/kernels/branches.py", "if state[j] == s:", "if True:", P6),
    Bug("product coupling within a state", "methods/kernels/branches.py", "        if in_state:\n", "        if False:\n", P6),
    Bug("A' shared in a state", "methods/kernels/branches.py",
        "                    if action[j] == action[i]:\n", "                    if True:\n", P6),
    Bug("coalesced branches part", "methods/kernels/branches.py", "if coalesced >= 0:", "if False:", P6),
    Bug("Synchronous draws anew for each state", "methods/kernels/branches.py",
        "k = choose(cumulative_prob[s], common)", "k = choose(cumulative_prob[s], rng.random())", P6),
    Bug("shared policy luck is not shared", "methods/kernels/branches.py",
        "new_action[i] = choose(cumulative_policy[n], policy_luck)",
        "new_action[i] = choose(cumulative_policy[n], rng.random())", P6),
    Bug("discount off by one step", "methods/kernels/branches.py", "weight = 1.0", "weight = discount",
        "methods/kernels/test_branches.py::test_returns_equal_those_of_the_slow_twin"),
    Bug("truncation is forgotten", "results/samples/sample_moments.py", "np.asarray(off + cut * part + rounding)", "np.asarray(off + rounding)",
        CARLO + "test_truncation_is_inside_the_interval"),
    Bug("intervals shrink with n and not with its root", "results/samples/sample_moments.py",
        "rule.quantile * std / math.sqrt(len(returns))", "rule.quantile * std / len(returns)",
        CARLO + "test_intervals_cover_at_their_confidence[windy_gridworld]"),
    Bug("a coin's variance is thought certain", "results/samples/sample_moments.py",
        " + (variances + covariance**2) / (n * (n - 1))", "",
        CARLO + "test_within_five_standard_errors_of_exact"),
    # The exact routes.
    Bug("dropped diagonal", "methods/shared/pair_operator.py",
        'np.einsum("skaa->ska", following)[...] = self.V[n]', "pass", CHAIN_ALONE),
    Bug("γ for γ²", "methods/shared/pair_operator.py", "self.square = model.discount * model.discount",
        "self.square = model.discount", CHAIN),
    Bug("the compiled product looks too few columns far", "methods/kernels/pair_product.py",
        "for i in range(starts[_0], starts[last]):", "for i in range(starts[top], starts[last]):",
        "methods/kernels/test_pair_product.py::test_equal_to_the_dense_product"),
    Bug("policies at one place draw scenarios apart", "models/policy_blocks.py",
        "one, other = (goes_on + self.block * of[:, None] for of in (later, earlier))",
        "one, other = (goes_on[:0] + self.block * of[:, None] for of in (later, earlier))",
        POLICIES + "test_policies_hold_against_rationals"),
    Bug("policies that share their number draw apart at one place", "methods/shared/same_place.py",
        'if coupling.policy_luck == "independent":', "if True:", POLICIES + "test_policies_hold_against_rationals"),
    Bug("the variance between starts is forgotten", "results/start.py",
        'return np.asarray(within + np.einsum("s,si,sj->ij", self._weights, deviation, deviation))',
        "return np.asarray(within)", POLICIES + "test_policies_hold_against_rationals"),
    Bug("policies of time are taken in the order of steps to go", "methods/exact_pairs/finite_horizon.py",
        "for count, policy in enumerate(reversed(policies), 1):", "for count, policy in enumerate(policies, 1):",
        POLICIES + "test_horizons_hold_against_rationals"),
    Bug("rounding over a horizon is forgotten", "methods/exact_pairs/horizon_step.py",
        "own = self.rounding * ROUNDOFF * spread + (_SPLIT * rms + slip / _SPLIT) ** 2", "own = 0 * spread",
        POLICIES + "test_horizons_hold_against_rationals"),
    Bug("gaps of policies at one place are of independent scenarios", "methods/exact_distribution/policy_steps.py",
        "within = coupling.shared_in_a_state and not coupling.shared_between_states", "within = False",
        POLICIES + "test_distributions_of_gaps_hold_against_enumeration"),
    Bug("the corner of a group is not mirrored", "methods/kernels/pair_product.py",
        "            out[t, s] = mirror * entry\n", "",
        "methods/kernels/test_pair_product.py::test_equal_to_the_dense_product"),
    Bug("changes are added to one triangle", "methods/kernels/changes.py", "H[t, s] = mirror * H[s, t]", "pass",
        "methods/kernels/test_pair_product.py::test_changes_are_those_of_the_lower_triangle"),
    Bug("independent draws taken for equal ones", "methods/shared/pair_operator.py",
        "return self.V if self.same_state is None else self.same_state.diagonal(H)", "return self.V", CHAIN),
    Bug("a pair of actions is counted once and not twice", "methods/shared/same_state.py",
        "chances = 2 * prob", "chances = prob", CHAIN),
    Bug("branches that part are taken for one", "methods/shared/same_state.py", "V[model.next_state], pi * pi)",
        "V[model.next_state], pi)", CHAIN),
    Bug("no common source between states", "methods/shared/pair_operator.py", "if len(self.joint_steps) == 1:", "if True:",
        CHAIN_SYNC),
    Bug("branches that only meet are merged", "methods/shared/pair_operator.py",
        "if self.blocks is not None or not self.coupling.shared_in_a_state:\n            return None",
        "if self.blocks is not None:\n            return None", CHAIN_ALONE),
    Bug("one uniform, inverted from the other end", "methods/shared/shared_randomness.py",
        'np.searchsorted(row, edges[:-1], side="right")', 'np.searchsorted(row, 1 - edges[1:], side="right")',
        CHAIN_SHARED),
    Bug("overlaps of the wrong action", "methods/shared/shared_randomness.py",
        "JointStep(weight, always[a], always[b], (intervals[a], intervals[b]))",
        "JointStep(weight, always[a], always[b], (intervals[b], intervals[a]))", CHAIN_SHARED),
    Bug("rare actions have no part in the bound", "methods/shared/pair_operator.py",
        "own = max(own, float(squares[self.policy.probs > 0].max()))", "pass",
        "promises/test_certificates.py::test_p1_where_all_that_matters_hangs_on_a_rare_action"),
    Bug("terminal states earn", "models/tabular.py", "        r[ends] = 0.0\n", "",
        "models/test_tabular.py::test_rows_of_terminal_states_are_never_read"),
    Bug("the step into a terminal state earns nothing", "methods/shared/shaping.py",
        "dd.negative(here)), reward[block])", "dd.negative(here)), reward[block] * ~model.terminal[n])", CHAIN),
    Bug("R ⊥ S'", "methods/jipe/joint_bellman.py", "one = discounts * _power(reward, m)[..., ::-1]",
        "r = _power(reward, m); mean = (prob[:, None, :, None] * r).sum(axis=2, keepdims=True); "
        "one = discounts * np.where((l > 0) & (l < m), mean, r)[..., ::-1]", JIPE_LOCAL),
    Bug("wrong λ", "methods/jipe/joint_bellman.py", "self.weight = 2 * bound /", "self.weight = bound /",
        JIPE + "test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed"),
    Bug("λ of the paper, for rewards up to 1 only", "methods/jipe/joint_bellman.py", "self.weight = 2 * bound /",
        "self.weight = 2 * 2**-self.rewards.scale.exponent /",
        JIPE + "test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed"),
    Bug("coordinates are not deduplicated at order 3", "methods/jipe/joint_bellman.py",
        "if self.coupling.shared_in_a_state:\n", "if self.coupling.shared_in_a_state and len(m) < 3:\n", JIPE_JOINT),
    Bug("three branches in a state do not share its scenario", "methods/jipe/joint_bellman.py",
        "if len(split) <= model.shape[0])", "if len(split) > 1 or j < 3)", JIPE_JOINT),
    Bug("a higher moment weighs no more than a second", "methods/jipe/joint_bellman.py",
        "self.weight ** (k - 1)", "self.weight ** min(k - 1, 1)",
        JIPE + "test_the_operator_contracts_with_gamma_in_the_norm_and_the_weight_is_no_larger_than_needed"),
    Bug("combinations are taken unseen", "methods/shared/fixed_point.py",
        "if not past.largest(weights) < residual:", "if False:",
        EXACT + "test_no_accelerated_step_is_worse_than_a_plain_sweep"),
    Bug("moments scale with rewards and not with their squares", "methods/exact_pairs/pair_table.py",
        "self._scale.restore(found, 2, self._units())", "self._scale.restore(found, 1, self._units())",
        "promises/test_relations.py::test_scaling_rewards_by_a_power_of_two_scales_moments_bit_for_bit"),
    # What is cut off.
    Bug("what is cut off is forgotten", "methods/reachable_pairs/search.py",
        "result.covariance[origin], cut.missing_ahead", "result.covariance[origin], 0 * cut.missing_ahead", REACHABLE),
    Bug("what is cut off counts as a mean square", "methods/reachable_pairs/search.py",
        "result.covariance[origin], cut.missing_ahead", "result.covariance[origin], cut.missing_ahead**2", REACHABLE),
    Bug("means end at the edge", "methods/reachable_pairs/region.py", "(bound * _discounted_exits(cut, origin) + mean_error)",
        "(0 * _discounted_exits(cut, origin) + mean_error)", REACHABLE),
    Bug("returns do not vary beyond the edge", "methods/reachable_pairs/region.py", "std + cut.missing + value_error",
        "cut.missing + value_error", REACHABLE),
    # Scales.
    Bug("means are scaled back without their underflow", "methods/reachable_pairs/search.py",
        "mean_error = scale.restore_error(self.mean_error)", "mean_error = scale.restore(self.mean_error)",
        "methods/reachable_pairs/test_reachable_pairs.py::test_means_of_subnormal_rewards_are_rounded_outwards[1e-320-0.5]"),
    Bug("covariances are scaled back without their underflow", "methods/reachable_pairs/search.py",
        "scale.restore_error(covariance_error, 2)[None]", "scale.restore(covariance_error, 2)[None]",
        SCALES + "[reachable_pairs]"),
    Bug("correlations keep the digits that covariances lose", "methods/reachable_pairs/search.py",
        "correlation_error + change + 2.0**-48", "correlation_error",
        "methods/reachable_pairs/test_reachable_pairs.py::test_correlations_of_covariances_that_are_subnormal"),
    Bug("rewards are not divided by their bound", "methods/reachable_pairs/region.py",
        "self.scale = Scale.above(model.reward_bound)", "self.scale = Scale(0)",
        "methods/reachable_pairs/test_reachable_pairs.py::test_what_is_cut_off_is_bounded_at_any_scale_of_rewards[1e-200]"),
    Bug("products do not underflow", "methods/reachable_pairs/region.py", "products + np.where(positive, UNDERFLOW, 0.0)", "products",
        "methods/reachable_pairs/test_reachable_pairs.py::test_a_state_whose_mass_underflows_is_still_reached"),
    Bug("actions that are never taken lead on", "methods/reachable_pairs/region.py",
        "taken = (self.probs[states] > 0) | (states == self.origin)[:, None]",
        "taken = np.ones((states.size, self.probs.shape[1]), bool)",
        "methods/reachable_pairs/test_reachable_pairs.py::test_states_that_only_untaken_actions_lead_to_are_not_asked_for"),
    Bug("room for states is taken for states", "methods/reachable_pairs/region.py", "self.reached & ~self.asked & (self.mass",
        "~self.asked & (self.mass",
        "methods/reachable_pairs/test_reachable_pairs.py::test_a_state_whose_mass_underflows_is_still_reached"),
    Bug("β is any number", "methods/linear_projected/bounds.py",
        "return kappa, min(scale.divide(beta), sys.float_info.max)", "return kappa, scale.divide(beta)",
        PROJECTED + "test_rewards_of_any_scale[second_moment-1e-320]"),
    Bug("tables of pairs are scaled back without their underflow", "base/scale.py",
        "np.where(np.greater(error, 0), _HIDDEN, 0.0)", "0.0", SCALES + "[exact_pairs]"),
    # Distributions.
    Bug("intervals are not rounded outwards", "methods/kernels/distributions.py",
        "rounding = _ROUNDING * (abs(r) + max(abs(least), abs(most))) + _TINY", "rounding = 0.0", P1_DISTRIBUTIONS),
    Bug("masses are taken to be at their means", "methods/kernels/distributions.py",
        "        row_low[at] = min(row_low[at], least)\n",
        "        row_low[at] = min(row_low[at], x)\n",
        "methods/exact_distribution/test_exact_distribution.py::test_a_triangular_distribution"),
    Bug("what was zero stays zero whatever is gained", "methods/kernels/distributions.py", "if r == 0.0:", "if True:", P1_DISTRIBUTIONS),
    Bug("gaps the other way round are not turned", "methods/exact_distribution/steps.py",
        "np.where(outcomes.one <= outcomes.other, self.discount, -self.discount)",
        "np.full(outcomes.one.size, self.discount)", P1_DISTRIBUTIONS),
    Bug("branches that draw one action go on apart", "methods/exact_distribution/steps.py",
        "parts = [self._nothing(float((pi * pi).sum()))]",
        "parts = [self._together(i, int(x), int(x), float(pi[x] ** 2)) for x in np.flatnonzero(pi)]", P1_DISTRIBUTIONS),
    Bug("the worst are the best", "results/gaps/distribution.py", "least = _tail(np.insert(low, 0, self.support.low)",
        "least = _tail(np.insert(high, 0, self.support.low)", P1_DISTRIBUTIONS),
    Bug("gains are rounded before they are compared", "methods/exact_distribution/ties.py",
        " + (self._whole_number(tail) if tail else 0)", "", TIES + "test_what_rounding_loses_of_a_reward_is_no_tie"),
    Bug("one outcome that ties settles a tie", "methods/exact_distribution/ties.py",
        "self._whole.append(len(edges) == row.count)", "self._whole.append(len(edges) > 0)",
        TIES + "test_chances_of_a_random_tie"),
    Bug("what is not followed never ties", "methods/exact_distribution/ties.py", "_reaching(before, sure | unknown)",
        "_reaching(before, sure)", TIES + "test_a_limited_number_of_outcomes_is_followed"),
    Bug("a solution in floats is taken to be exact", "methods/exact_distribution/ties.py",
        "/ down * (1 + 2.0**-40) * w", "* 0.0 * w", TIES + "test_branches_that_meet_late[1e-06]"),
    Bug("rare actions are never lost", "methods/exact_distribution/steps.py", "return _exact_choices(self._policy) <= ",
        "return set() <= ", TIES + "test_an_action_too_rare_for_floats_breaks_a_tie"),
    Bug("outcomes whose chance underflows are dropped", "methods/exact_distribution/steps.py",
        "np.logical_and.outer(scenarios[s] > 0, choices[s] > 0)", "np.multiply.outer(scenarios[s], choices[s])",
        TIES + "test_a_chance_that_underflows_breaks_a_tie"),
    Bug("what rounding leaves open counts as known", "methods/exact_distribution/sweep.py", "np.maximum(open_mass, 0.0) + rounding",
        "np.maximum(open_ - atoms, 0.0) + rounding",
        TIES + "test_not_converged_where_nothing_is_as_narrow_as_asked"),
    Bug("ties are taken from the outer ends", "methods/exact_distribution/exact_distribution.py", "order = np.argsort(-ends,",
        "order = np.argsort(ends,", TIES + "test_ties_are_taken_from_the_innermost_ends"),
    Bug("time left overflows", "base/progress.py", "math.log(residual) - math.log(aim)", "math.log(residual / aim)",
        TIES + "test_a_tolerance_out_of_reach[1e-310]"),
    Bug("a band for one point and not for all", "results/samples/interval_rules.py",
        "math.sqrt(math.log(2 / error) / (2 * n))", "math.sqrt(0.25 / n)",
        "methods/exact_distribution/test_exact_distribution.py::test_sampled_bands_cover_at_their_confidence"),
    Bug("branches that were cut count as met", "results/samples/sampled_distributions.py", "settled = (ends[:, a] == ends[:, b]) |",
        "settled = (ends[:, a] == ends[:, a]) |",
        "methods/exact_distribution/test_exact_distribution.py::test_sampled_distributions_know_what_the_cut_can_hide"),
    # Higher moments.
    Bug("h_ij is taken to be symmetric", "methods/exact_pairs/moment_operator.py", "        if i != j:\n            parts.append((-1.0",
        "        if False:\n            parts.append((-1.0", ORDER_8),
    Bug("what has become one goes on as two", "methods/exact_pairs/moment_operator.py",
        'np.einsum("skaa->ska", distinct)[...] = 0.0', "one *= 0.0", ORDER_8),
    Bug("moments of all orders shrink like variances", "methods/exact_pairs/moment_operator.py",
        "rate = self._model.discount ** (i + j)", "rate = self._model.discount**2", ORDER_8),
    Bug("a gap's moments have one sign", "methods/exact_pairs/pair_moments.py", "math.comb(o, p) * (-1.0) ** (o - p)",
        "math.comb(o, p)", ORDER_8),
    # Certificates.
    Bug("rounding is left out", "methods/shared/pair_operator.py", "self.rounding * ROUNDOFF * (source + self.square * entry)",
        "0.0", P1),
    Bug("single precision is thought double", "methods/shared/pair_operator.py",
        'stored = 0.0 if self.precision == "float64" else times', "stored = 0.0 * times",
        EXACT + "test_single_precision_says_so_in_its_certificate"),
    Bug("residual over 1 and not over 1 − γ²", "methods/shared/pair_operator.py",
        "below = (max(residual, self.V_residual) + self.floor(entry)) / self.one_minus_square",
        "below = max(residual, self.V_residual) + self.floor(entry)", P1),
    Bug("residual over 1 − γ² with γ² forgotten", "methods/shared/pair_operator.py",
        "return (1 - self.model.discount) * (1 + self.model.discount)", "return 1 - self.model.discount**4", P1),
    Bug("the error of v is left out", "methods/shared/shaping.py",
        "value_error = classes.reachable_max(best_change * rows * (1 + 2.0**-40) + drawn) / (1 - model.discount)",
        "value_error = 0 * best_change",
        "methods/shared/test_shaping.py::test_a_bad_solver_makes_certificates_wide_and_not_wrong"),
    Bug("the checker looks at means only", "testing/certificate_check.py",
        '_compare("covariance", evaluation, (*x, b), off, covariance_error[*x, b])', "pass", P2),
    Bug("the checker does not look between states", "testing/certificate_check.py",
        "_check_between_states(evaluation, checker, x, (t, b))", "pass", P2),
    # Errors for each part of a model.
    Bug("errors of a class leave out the classes it reaches", "methods/shared/state_classes.py",
        "np.maximum.at(most, one, most[other])", "pass",
        NARROW + "test_a_chain_of_classes_is_certain_in_units_of_what_each_can_reach"),
    Bug("the maximum of a class is that of its last state", "methods/shared/state_classes.py",
        "np.maximum.at(most, self.label, values)", "most[self.label] = values",
        NARROW + "test_classes_and_what_they_reach"),
    Bug("units are those of the state and not of what it reaches", "methods/shared/state_units.py",
        "state = _whole(reachable_max(np.maximum(rough", "state = _whole((np.maximum(rough",
        NARROW + "test_a_chain_of_classes_is_certain_in_units_of_what_each_can_reach"),
    Bug("one unit for all parts", "methods/exact_pairs/exact_pairs.py", "self.precision, StateUnits.of(model, policy, shaped))",
        "self.precision, StateUnits.equal(model))", NARROW + "test_a_part_that_is_not_reached_changes_no_interval"),
    Bug("the second word of an answer is not in its error", "methods/exact_pairs/pair_refinement.py",
        " + np.abs(ahead.low) + noise", " + noise", NARROW + "test_the_checker_holds_each_part_to_its_own_errors"),
    Bug("what a refinement leaves is forgotten", "methods/exact_pairs/pair_refinement.py",
        "(max(left, V_residual) + noise)", "noise", NARROW + "test_what_a_refinement_leaves_is_in_the_error"),
    # Projections.
    Bug("restarts are forgotten", "methods/linear_projected/pair_weights.py", "first + alpha * next_same", "alpha * next_same",
        PROJECTED + "test_start_pairs_in_different_states"),
    Bug("two in one state never meet", "methods/linear_projected/pair_features.py",
        "step[:, ~alike, d:] = np.where((one == other)[:, :, None], self._met[one], 0.0)", "step[:, ~alike, d:] = 0.0",
        PROJECTED + "test_start_pairs_in_different_states"),
    Bug("the mean's error is forgotten", "methods/linear_projected/bounds.py",
        "from_mean = (2 * spread + slip_largest) * slip_norm", "from_mean = 0.0",
        PROJECTED + "test_the_error_of_the_mean_is_in_the_bound"),
    Bug("negative eigenvalues stay", "methods/linear_projected/psd_fit.py", "if least >= -_ROUNDING:", "if True:",
        PROJECTED + "test_fits_are_positive_semidefinite"),
    # Gaps.
    Bug("the paper's sign", "results/evaluation.py", "variance = max(0.0, va + vb - 2 * cab)",
        "variance = max(0.0, va - vb - 2 * cab)", "results/gaps/test_gap.py::test_the_variance_adds_both_variances"),
    Bug("Cantelli at the middle", "results/gaps/gap.py", "return cantelli(mean.low, variance.high)",
        "return cantelli(self.mean, self.variance)", "results/gaps/test_gap.py::test_cantelli_is_taken_at_the_conservative_end"),
    Bug("the edge answers", "base/interval.py", "if self.low > threshold:", "if self.low >= threshold:",
        "results/gaps/test_gap.py::test_intervals_answer_in_three_values"),
    Bug("rows are not divided by their sum", "base/arrays.py", "rows[loose] /= sums[loose, None]", "pass",
        "models/test_tabular.py::test_rows_off_by_rounding_are_kept_and_rows_in_single_precision_are_divided"),
    Bug("touching polynomials are not proven", "results/gaps/touching.py", "return all(s < t for s, t in pairwise(every))",
        "return len(set(every)) == len(every)", "results/gaps/test_bounds.py::test_nodes_that_prove_nothing_are_refused"),
    Bug("the moment's wrong end", "results/gaps/moment_box.py", "[high if c > 0 else low for", "[low if c > 0 else high for",
        "results/gaps/test_bounds.py::test_intervals_are_taken_at_their_conservative_ends"),
    # One step of several actions; features.
    Bug("a scenario for each action", "models/outcomes.py", "luck = rng.random((*shape, 1))",
        "luck = rng.random((*shape, len(actions)))", "models/test_outcomes.py::test_samples_realise_the_joint_distribution"),
    Bug("scenarios are taken for outcomes", "models/outcomes.py", "product *= chances(alone)[first + alone]",
        "product *= prob", "models/test_outcomes.py::test_distances_are_those_of_all_combinations"),
    Bug("rounding is taken for coupling", "models/outcomes.py",
        "return 4 * (scenarios + actions) * (actions + 1) * 2.0**-53", "return 2.0**-53",
        "models/test_outcomes.py::test_products_in_floating_point_are_not_coupled_and_a_billionth_is"),
    Bug("all tilings lie on one another", "methods/linear_projected/features.py", "np.floor((fine + j) / self.tilings)",
        "np.floor(fine / self.tilings)", "methods/linear_projected/test_features.py::test_shifts_are_even"),
    # Learning from samples.
    Bug("learning with A' shared", "methods/kernels/moment_updates.py", "luck = uniform[1 if tables.shared_policy_luck else 3, k]",
        "luck = uniform[1, k]", P8),
    Bug("learning with a product coupling", "methods/kernels/moment_updates.py", "if not (tables.shared_in_a_state and s == t):", "if True:", P8),
    Bug("learning without the diagonal case", "methods/kernels/moment_updates.py", "X + n if n == m and rule.branches_merge else", "", P8),
    Bug("learning with one luck for two states", "methods/kernels/moment_updates.py", "uniform[0 if tables.shared_between_states else 2, k]",
        "uniform[0, k]", "methods/kernels/test_moment_updates.py::test_p6_steps_realise_the_coupling"),
    Bug("the reference of the next coordinate is forgotten", "methods/kernels/moment_updates.py",
        "            gain += discount * reference[n]\n", "",
        "methods/kernels/test_moment_updates.py::test_updates_equal_those_of_the_slow_twin[Local(policy_luck='independent')]"),
    Bug("a new reference leaves squares behind", "methods/incremental/stochastic_approximation.py",
        "self.table[X : 2 * X, 0] -= shift * shift", "pass",
        "methods/incremental/test_incremental.py::test_a_new_reference_changes_no_covariance"),
    Bug("neighbouring batches are thought independent", "methods/incremental/batch_means.py", "max(1.0, 2 * ratio - 1)", "1.0",
        "methods/incremental/test_incremental.py::test_half_widths_cover_averages_of_correlated_batches"),
    Bug("slow quantities are thought as fast as most", "methods/incremental/batch_means.py",
        "np.maximum(1.0, excess / usual if usual < np.inf else 1.0)", "1.0",
        "methods/incremental/test_incremental.py::test_a_slow_quantity_among_fast_ones_is_covered"),
    Bug("a correlation is thought never to be 1", "results/gaps/correlation.py",
        "return Interval(max(-1.0, wide.low), min(1.0, wide.high))",
        "return Interval(max(-1.0, wide.low), min(1.0 - 1e-9, wide.high))",
        "methods/incremental/test_incremental.py::test_intervals_of_correlations_know_of_the_start_and_reach_one"),
    Bug("the start is thought forgotten", "methods/incremental/stochastic_approximation.py",
        "covariance_error=found.covariance_error + left", "covariance_error=found.covariance_error",
        "methods/incremental/test_incremental.py::test_a_run_too_short_says_so"),
    # Simulators.
    Bug("arrays: branches with other actions merge", "simulators/batched_kernel.py",
        "if same[v] == v and actions[v] == actions[w] and", "if same[v] == v and",
        ARRAYS + "[inventory, uniform-Synchronous(policy_luck='independent')]"),
    Bug("arrays: branches in one state draw their own luck in Local", "simulators/batched_rollouts.py",
        "branches = crowd.first_in_state() if", "branches = crowd.branches if",
        ARRAYS + "[inventory, uniform-Local(policy_luck='independent')]"),
    Bug("arrays: a later number of a shock is its first", "base/luck_batch.py",
        'each.derived(b"uniforms", j // 2)', 'each.derived(b"uniforms", 0)',
        "base/test_luck_batch.py::test_numbers_are_those_of_the_single_shocks[5]"),
    Bug("Local luck does not ask where a branch is", "models/coupling.py",
        "step, state if self.shared_in_a_state else branch", "step, b'' if self.shared_in_a_state else branch", TWIN),
    Bug("the policy's luck does not ask for the coordinate", "models/coupling.py",
        "place = coordinate if self.shared_in_a_state", "place = b'' if self.shared_in_a_state", TWIN),
    Bug("branches that look alike are taken for one", "simulators/lockstep_rollouts.py",
        "return equal_values(actions[j], actions[i]) and self._simulator.same_state(states[j], states[i])",
        "return equal_values(actions[j], actions[i])", "simulators/test_rollouts.py"),
    Bug("the start is used up", "simulators/lockstep_rollouts.py", "if t == 0:", "if False:",
        "simulators/test_rollouts.py"),
    Bug("equal hashes are equal rewards", "simulators/reward_sums.py", "z = z ^ rewards.view(np.uint64)",
        "z = z ^ np.vectorize(lambda reward: np.uint64(hash(float(reward)) % 2**61))(rewards)",
        "test_comparing.py::test_rewards_minus_one_and_minus_two_are_no_tie"),
    Bug("what never happened cannot", "results/anytime.py", "np.maximum(np.maximum(tail, std), spread)",
        "np.maximum(tail, std)",
        "test_comparing.py::test_nothing_seen_is_not_nothing"),
    # Checks of simulators.
    Bug("the user's environment is not put back", "simulators/gymnasium/saved.py", "            self._restore(before)\n",
        "            pass\n", "simulators/gymnasium/test_snapshots.py::test_the_users_environment_is_left_where_it_stood"),
    Bug("simulators of users are not checked", "simulators/checking/sampling.py",
        "if isinstance(simulator, TabularSimulator) or not simulator.check:\n        return True", "return True",
        SAMPLING + "test_draws_that_differ_are_refused_where_they_matter"),
    Bug("policies are not asked again", "simulators/checking/sampling.py", "    recorder.ask_again()\n", "",
        SAMPLING + "test_a_policy_with_memory_is_refused"),
    Bug("samples are not drawn again", "simulators/checking/sampling.py",
        "    for sample, single in again.items():\n", "    for sample, single in ():\n",
        SAMPLING + "test_what_the_quick_check_does_not_reach_is_noticed_when_drawn_again"),
    Bug("draws are compared among actions alone", "simulators/checking/shared_draws.py",
        "        known = self.patterns[i]\n", "        return\n",
        DESYNC + "test_check_simulator[DrawsByState]"),
    Bug("what a call may use does not count", "simulators/checking/draw_log.py",
        "if not consume_alike(_calls_before(one, mine), _calls_before(other, theirs)):", "if False:",
        SAMPLING + "test_draws_that_differ_are_refused_where_they_matter"),
    Bug("the order of draws does not count", "simulators/checking/shared_draws.py", "spot = swapped(one, other)", "spot = None",
        DESYNC + "test_check_simulator[SwappedOrder]"),
    Bug("rare states are not looked for", "testing/simulator_check.py",
        "        _explore(check, starts, more, length, reached)\n", "",
        DESYNC + "test_rare_states_are_found_by_a_longer_check"),
    Bug("one future is enough", "sequential.py", "            return Outcome.ONE_FUTURE\n", "            pass\n",
        DESYNC + "test_compare_says_that_one_future_was_seen"),
    Bug("starts are not compared", "testing/simulator_check.py", "        check.compare_starts()\n", "",
        DESYNC + "test_check_simulator[TapeInReset]"),
    Bug("noise of any size hides what was not seen", "results/anytime.py", "np.maximum(np.maximum(tail, std), spread)",
        "np.where(std > 1e-9 * np.asarray(spread), np.maximum(tail, std), spread)",
        "promises/test_ever_miss.py::test_compare_itself_is_not_misled_by_rare_losses"),
    Bug("a standard deviation with n for n − 1", "results/anytime.py", "deviations.std(axis=0, ddof=1)",
        "deviations.std(axis=0)",
        "results/test_anytime.py::test_what_was_not_seen_is_at_least_one_standard_deviation_and_the_spread"),
    Bug("bets know the sample they are laid on", "results/anytime.py",
        "np.concatenate([np.full((1, x.shape[1]), 0.25), variance[:-1]])", "variance",
        "results/test_anytime.py::test_bets_know_only_what_was_before"),
    Bug("every alternative has the whole chance of error", "results/samples/selection.py",
        "(1 - self.confidence) / max(1, self.alternatives - 1)", "1 - self.confidence",
        "test_comparing.py::test_gaps_of_one_action_share_the_chance_of_error"),
    Bug("the radius of a known variance", "results/anytime.py", "radius, std = student_radius(n, error)",
        "radius, std = mean_radius(n, error)",
        "results/test_anytime.py::test_what_was_not_seen_is_at_least_one_standard_deviation_and_the_spread"),
    Bug("the estimate eliminates", "results/samples/selection.py", "        if low > 0:\n", "        if low + high > 0:\n",
        SELECTION + "test_equal_means_are_not_claimed"),
    Bug("good enough by the estimate", "results/samples/selection.py", "ends[i][0] > -self.indifference",
        "sum(ends[i]) / 2 > -self.indifference", SELECTION + "test_differences_that_do_not_matter_end_the_comparison"),
    Bug("an absolute margin of the wrong sign", "results/samples/pair_means.py", "self.error, -margin.size)",
        "self.error, margin.size)", MARGINS + "test_an_unseen_event_may_cost_a_whole_episode"),
    Bug("5% of −100 are −5", "results/samples/pair_means.py", "math.copysign(margin.size, float(self.old))",
        "margin.size", MARGINS + "test_a_relative_margin_is_a_share_of_the_size_of_the_old_mean[-1]"),
    Bug("the sign of a mean is that of its estimate", "results/samples/pair_means.py",
        "return found if self._sign else", "return found if True else",
        MARGINS + "test_near_zero_a_relative_margin_is_not_known"),
    Bug("unseen losses are forgotten", "results/samples/pair_means.py",
        "math.hypot(seen, loss * math.log(2 / error) / n)", "seen",
        MARGINS + "test_an_unseen_event_may_cost_a_whole_episode"),
    Bug("later rewards of merged branches cancel at any margin", "results/samples/pair_means.py",
        "np.abs(weights.sum()) * (ends[:, 0] != ENDED)", "0.0",
        MARGINS + "test_truncated_returns_widen_the_interval_unless_branches_have_merged"),
    Bug("sampling stops by the sign of the gap", "sequential.py", "summary.gap_limits(reference, active, self.rule.margin)",
        "summary.gap_limits(reference, active)", MARGINS + "test_each_policy_is_simulated_until_its_verdict"),
    Bug("samples of others are common", "results/samples/drawn_samples.py",
        "if set(asked) <= set(stage.alternatives)", "if set(asked) & set(stage.alternatives)",
        SELECTION + "test_samples_in_stages"),
    Bug("blocks in flight are admitted after an elimination", "sequential.py",
        "            self._cancel()  # blocks in flight have other alternatives\n", "            pass\n",
        "test_sequential.py::test_the_bad_are_eliminated_and_everything_says_so"),
    Bug("eliminations between looks", "course.py", "elif n == self.scheduled(before):", "else:",
        "test_sequential.py::test_looks_do_not_depend_on_the_budget_or_on_going_on"),
    Bug("randomness is not looked for", "sequential.py",
        "return self.checked and not any(stage.draws.drew for stage in samples.stages)", "return False",
        "test_sequential.py::test_a_deterministic_question_takes_one_rollout"),
    Bug("equal sums of other steps differ", "simulators/reward_sums.py",
        "return exact_gains(self._gains.view(np.int64), self.returns, self._exact)", "return self._gains.view(np.int64)",
        "test_comparing.py::test_bit_equal_returns_are_ties_at_discount_1[parts0-3]"),
    Bug("sums that were rounded are exact", "simulators/reward_sums.py",
        "is_exact_sum(sums[:whole], rewards[:whole], sums[1 : whole + 1])", "True",
        "test_comparing.py::test_returns_equal_by_rounding_are_not_called_ties"),
    Bug("rounding is a difference", "results/samples/sample_summary.py", "slack + np.where(exact, 0.0, 2 * self.limits.rounding)", "slack",
        "test_comparing.py::test_a_tie_up_to_rounding_decides_nothing"),
    Bug("numbers of a subset are counted anew", "results/comparison.py", "return self.numbers.index(number)",
        "return self.summary.labels.index(number)",
        "test_comparing.py::test_actions_keep_their_numbers_in_a_subset"),
    Bug("walks of a visit share their luck", "simulators/pair_walks.py", 'self._root.derived(b"walk", first + i)',
        'self._root.derived(b"walk", (first + i) // self._plan.repeats)', "simulators/test_pair_walks.py::test_rows_of_a_visit"
        "_share_no_luck"),
    Bug("branches in one state are taken for one", "simulators/pair_walks.py",
        "self.same[n, t] and self.action[n, t, 0] == self.action[n, t, 1]", "self.same[n, t] and t > 0", WALKS),
    Bug("Local luck of a pair does not ask for places", "simulators/pair_walks.py",
        "bytes([0 if self.same[n, t] else b])", "bytes([0])", WALKS),
    Bug("branches of a pair share nothing", "simulators/pair_walks.py", "bytes([0 if self.same[n, t] else b])", "bytes([b])",
        "simulators/test_pair_walks.py::test_discounted_sums_have_the_exact_moments[Local(policy_luck='independent')]"),
    Bug("a start is used up", "simulators/pair_walks.py", "go = simulator.step  # rollouts start in this state", "pass", WALKS),
    # Pools.
    Bug("a block of a dead worker is lost", "distribute/process_pool.py", "block.call.unsent.append(block)",
        'block.answer = True, b"N."',
        "distribute/test_pools.py::test_blocks_of_dead_workers_are_run_again"),
    Bug("results come as they finish", "distribute/process_pool.py", "if call.blocks[0].answered:",
        "call.blocks = type(call.blocks)(sorted(call.blocks, key=lambda block: not block.answered))\n"
        "            if call.blocks[0].answered:",
        "distribute/test_pools.py::test_results_wait_for_their_turn"),
    Bug("a long cancelled block is waited for", "distribute/process_pool.py", "if now - since >= _PATIENCE:", "if False:",
        "distribute/test_pools.py::test_a_long_cancelled_block_does_not_delay_the_next_call"),
    Bug("a block counts for the next one too after a death", "distribute/process_pool.py",
        "                worker.held[number].answer = succeeded, payload\n",
        "                worker.held[number].answer = succeeded, payload\n"
        "                call = worker.held[number].call\n"
        "                for later in call.blocks:\n"
        "                    if call.deaths and later.number == number + 1 and not later.answered:\n"
        "                        later.answer = succeeded, payload\n",
        "distribute/test_pools.py::test_blocks_of_dead_workers_are_run_again"),
    Bug("a block of a failed Ray task is lost", "distribute/ray_pool.py", "for i, given in enumerate(sent.arguments)]",
        "for i, given in enumerate(sent.arguments) if i]",
        "distribute/test_ray_pool.py::test_a_task_that_fails_is_sent_again_block_by_block"),
    Bug("a block of a failed Ray task counts twice", "distribute/ray_pool.py", "extendleft(reversed(again))",
        "extendleft(reversed([*again[:1], *again]))",
        "distribute/test_ray_pool.py::test_a_task_that_fails_is_sent_again_block_by_block"),
    Bug("blocks after an interrupt of a Ray worker are lost", "distribute/ray_pool.py", "if rest and answer.error is None:", "if False:",
        "distribute/test_ray_pool.py::test_a_signal_to_a_worker_loses_nothing"),
    Bug("a hung block is run again and again", "distribute/ray_worker.py", "if number == self._hung:", "if False:",
        "distribute/test_ray_pool.py::test_a_hung_block_is_ended_and_named[False]"),
    Bug("states are sent as they are", "comparing.py", "self.plan.packed(self.simulator.pack)", "self.plan",
        "simulators/test_recipe.py::test_states_of_own_simulators_are_packed"),
    Bug("all states of a study have the same randomness", "studies/points.py", '% (seed, number)', '% (seed, 0)',
        "studies/test_study.py::test_every_state_has_the_result_of_compare[step_many]"),
    Bug("states that wait are forgotten", "studies/driver.py", "if not numbers.size:", "if True:",
        "studies/test_study.py::test_states_climb_rungs_of_the_schedule"),
    Bug("parts of a study are not verified", "studies/parts.py", "if hashlib.sha256(content).hexdigest() != part.sha256:",
        "if False:", "studies/test_damaged_studies.py::test_part_that_is_missing_or_another"),
    Bug("a changed problem is continued", "studying.py", "if not again.equals(before):", "if False:",
        "studies/test_study.py::test_another_study_in_the_folder_is_refused"),
    Bug("a damaged result is loaded", "files/netcdf.py", "if _checksum(file, length) != digest:", "if False:",
        "files/test_saving.py::test_any_changed_bit_is_noticed"),
    Bug("axes of saved arrays may disagree", "files/types.py", "if sizes.setdefault(letter, length) != length:",
        "if False:", "files/test_hostile_results.py::test_hostile_results"),
    Bug("a loaded comparison takes any simulator", "files/continuing.py",
        "        _check_samples(question, sampled.samples.complete.one_coupling)\n", "",
        "files/test_saving.py::test_what_a_loaded_comparison_must_be_given"),
    Bug("a loaded comparison has forgotten who was eliminated", "files/continuing.py",
        "return Sampled(samples, self.active, self.paired, self.worse_than, self.decided)",
        "return Sampled(samples, tuple(range(samples.alternatives)), self.paired, (), False)",
        "files/test_saving.py::test_a_loaded_comparison_goes_on[compare three actions]"),
    Bug("states simulated together have each other's samples", "simulators/batched_rollouts.py",
        "drawn.rows(i * count, (i + 1) * count)", "drawn.rows(0, count)",
        "studies/test_study.py::test_rollouts_of_several_states_together_are_those_of_each[coupling1]"),
    Bug("workers outlive their parent", "distribute/worker_process.py",
        "    finally:  # the pipe is closed, or a message is incomplete\n        os._exit(1)", "    finally:\n        pass",
        "distribute/test_interrupts.py::test_no_worker_is_left_behind[kill-pool]"),
    Bug("blocks use all threads", "distribute/pools.py", "with _thread_limits().limit(limits=1):", "if True:",
        "distribute/test_pools.py::test_blocks_have_one_thread"),
    Bug("a time limit is an end", "simulators/gymnasium/gymnasium_simulator.py", "(truncated and self._truncated_ends)", "truncated",
        "simulators/gymnasium/test_gymnasium_simulator.py::test_truncation_is_no_end"),
    Bug("a truncation never is an end", "simulators/gymnasium/gymnasium_simulator.py", "(truncated and self._truncated_ends)", "False",
        TRUNCATION + "test_the_end_of_a_finite_tape_is_an_end[its own signal-copied]"),
    Bug("a time limit that is an end is not counted", "simulators/gymnasium/gymnasium_simulator.py",
        "self._snapshots.time_counts = truncated_ends", "pass",
        TRUNCATION + "test_the_steps_that_a_time_limit_has_counted_are_state_if_it_is_an_end[copied]"),
    # What comes after the horizon.
    Bug("a table's rewards are bounded by those met", "results/samples/limits.py",
        "    return max(bounds)\n", "    return given\n", AFTER + "[66]"),
    Bug("a table's rollouts are as short as a simulator's", "methods/monte_carlo/monte_carlo.py",
        "table = isinstance(simulator, TabularSimulator)", "table = False", AFTER + "[None]"),
    # Networks.
    Bug("two walks have twice the variance of one", "methods/neural_gram/losses.py", "(returns - swapped) / jnp.sqrt(2.0)",
        "(returns - swapped)", TD + "test_a_hand_computed_target"),
    Bug("targets are learned too", "methods/neural_gram/losses.py", "return jax.lax.stop_gradient(Targets(returns, moments))",
        "return Targets(returns, moments)", TD + "test_p18_targets_carry_no_gradient"),
    Bug("γⁿ for γ²ⁿ", "methods/neural_gram/losses.py", "batch.discount**2 * y", "batch.discount * y", TD_TWIN),
    Bug("actions of a state are taken for those of two", "methods/neural_gram/losses.py",
        "return blocks(x, y, same, same &", "return blocks(x, y, False, same &", TD_TWIN),
    Bug("any checkpoint will do", "methods/neural_gram/checkpoints.py",
        'if np.array_equal(leaves.pop("checksum"), self._checksum(leaves)):', 'if leaves.pop("checksum").size:',
        "methods/neural_gram/test_resume_training.py::test_another_run_is_refused"),
    # What a held-out record says.
    Bug("a verdict by the gain alone, without its interval", "results/calibration/judgement.py", "gain.low > ROUNDING",
        "gain > ROUNDING", "results/calibration/test_judgement.py::test_noise_around_a_constant_is_seldom_called_useful[normal]"),
    Bug("learned beats a constant that is not the best", "results/calibration/record.py",
        "best = float(self.simulated_variance.mean())", "best = 2 * float(self.simulated_variance.mean())",
        "results/calibration/test_judgement.py::test_no_constant_is_better_than_the_best_one"),
    Bug("every network that was trained is useful", "methods/neural_gram/learned_evaluation.py",
        "Judgement.NOT_BETTER: Outcome.NOT_BETTER", "Judgement.NOT_BETTER: Outcome.TRAINED",
        "methods/neural_gram/test_neural_gram.py::test_the_outcome_is_the_verdict_of_the_held_out_record[inverted]"),
    # Reports.
    Bug("a verdict by the value alone", "experiments/reproduction/findings.py", "measured.high <= most",
        "measured.value <= most", "experiments/test_findings.py::test_at_most"),
    Bug("a number without a seed", "experiments/reproduction/findings.py", "== bool(self.seeds) ==", "==",
        "experiments/test_findings.py::test_a_number_without_its_source_is_none"),
    Bug("text is taken for HTML", "experiments/reproduction/report.py", "autoescape=True", "autoescape=False",
        "experiments/test_reproducing.py::test_reports_are_inert"),
    Bug("any numbers will do", "experiments/reproduction/records.py",
        "return record if same else None", "return record",
        "experiments/test_reproducing.py::test_damaged_or_other_records_are_made_again"),
    Bug("an absorbing goal that pays nothing", "experiments/paper/residuals.py", "_going_on(grid.model, goal, 1.0)",
        "_going_on(grid.model, goal, 0.0)",
        "experiments/test_reproducing.py::test_the_residual_is_a_straight_line_where_no_state_is_terminal"),
    Bug("powers without binomials", "experiments/paper/jipe_n.py", "weight = ways * g", "weight = g",
        "experiments/test_reproducing.py::test_higher_moments_in_rationals_are_those_of_the_semantics"),
    # Policies from files.
    Bug("code that runs without a word", "cli/loading.py",
        "if source not in _ANNOUNCED:", "if source in _ANNOUNCED:",
        FILES + "test_code_is_announced_before_it_runs"),
    Bug("saved models that --safe lets pass", "cli/policy_files.py",
        "    loader.allow(text, str(path))\n", "",
        FILES + "test_safe_refuses_what_runs_code"),
    Bug("environments of a module that --safe lets pass", "cli/environments.py",
        "loader.allow(text, kind)", "pass",
        FILES + "test_safe_refuses_what_runs_code"),
    Bug("files of torch that are unpickled", "cli/policy_files.py",
        "weights_only=True)\n", "weights_only=False)\n",
        FILES + "test_pickles_are_not_run[object.pt]"),
    Bug("workers that import from the current folder", "cli/loading.py",
        'os.environ["PYTHONSAFEPATH"] = "1"', "pass",
        FILES + "test_the_current_folder_is_not_imported"),
    Bug("an ONNX network that draws", "models/actors/onnx_policies.py",
        "for _ in range(3)", "for _ in range(0)",
        ONNX + "test_random_numbers_within_the_network_are_refused"),
    Bug("probabilities of an ONNX network read as logits", "models/actors/onnx_policies.py",
        'logits=name != "probabilities" if', "logits=True if",
        ONNX + "test_probabilities_by_name_or_by_argument"),
    Bug("every step of an object has the same key", "simulators/objects/generators.py",
        "keyed.restart(shock.peek())", "keyed.restart(bytes(16))",
        OBJECTS + "simulator.py::test_returns_are_those_of_a_loop_by_hand[Shop]"),
    Bug("draws of a generator seeded in place go unnoticed", "simulators/objects/generators.py",
        "return bool(_twister_position(generator) != _SEEDED)", "return False",
        OBJECTS + "simulator.py::test_draws_of_generators_seeded_in_place_are_noted[PythonShop]"),
    Bug("a shared log grows", "simulators/objects/shared_attributes.py", "if len(value) != len(contents):", "if False:",
        OBJECTS + "simulator.py::test_a_shared_log_changes_nothing_and_does_not_grow"),
    Bug("copies are not compared", "simulators/objects/copy_choice.py",
        "if run.continued(thing, _CONTINUED) != expected:", "if False:",
        OBJECTS + "trial.py::test_sound_objects_are_accepted[WronglySavingShop]"),
    Bug("generators that move are not refused", "simulators/objects/trial.py", "            if moved:\n", "            if False:\n",
        OBJECTS + "trial.py::test_hidden_randomness_is_refused_by_name[InGeneratorObject]"),
    # Interrupts and the cache of kernels.
    Bug("Ctrl-C in the middle of an import", "base/interrupts.py", "if first and self._must_wait(frame):", "if False:",
        "base/test_ctrl_c.py::test_an_import_is_completed"),
    Bug("a Ctrl-C that is lost", "base/interrupts.py", "if handler.waiting and not handler.deferred:", "if False:",
        "base/test_ctrl_c.py::test_one_that_a_block_did_not_see_is_raised_after_it"),
    Bug("finished samples, not the first ones", "methods/monte_carlo/monte_carlo.py",
        "((i, *p) for p in parts for i in range(len(plans)))", "((i, *p) for i in range(len(plans)) for p in parts)",
        "methods/test_interrupted_methods.py::test_samples_of_a_simulator_are_kept_by_number"),
    Bug("moments of too few transitions", "methods/linear_projected/linear_projected.py", "if not drawn.complete:",
        "if False:", "methods/test_interrupted_methods.py::test_a_fit_to_samples_is_kept"),
    Bug("caches are trusted", "base/compiled_kernel.py", "!= content[-_DIGEST:]", "== b''",
        "base/test_numba_cache.py::test_damaged_files_are_not_used[*.nbc-damages3]"),
    Bug("entries are taken by name", "base/compiled_kernel.py", "and found[0] == key", "",
        "base/test_numba_cache.py::test_entries_under_the_name_of_another_are_not_used"),
]  # fmt: skip


@pytest.fixture(scope="session")
def copy(tmp_path_factory):
    """One for all bugs of a process, with the kernels that are compiled already."""
    return copied(tmp_path_factory.mktemp("copy"), "*.pyc*", "*.tmp.*")


def copied(folder, *left_out):
    return Path(shutil.copytree(SOURCE, folder / "jmdp", ignore=shutil.ignore_patterns(*left_out)))


@contextmanager
def planted(bug, copy):
    """Change the text, and change it back."""
    file = copy / bug.file
    text = file.read_text()
    assert text.count(bug.old) == 1, f"the text to change stands in {bug.file} {text.count(bug.old)} times"
    rewrite(file, text.replace(bug.old, bug.new))
    try:
        yield
    finally:
        rewrite(file, text)


def rewrite(file, text):
    """Bytecode goes by whole seconds, so what there is of it is not trusted."""
    file.write_text(text)
    for stale in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        stale.unlink()


LATER = ("cli/", "distribute/test_interrupts.py", "experiments/", "methods/neural_gram/", "models/actors/",
         "simulators/test_batched_rollouts.py")  # fmt: skip
"""Tests that need many seconds to load JAX or PyTorch, or that wait for their time limit."""
FIRST = [
    *{
        bug.test_file: bug.name
        for bug in reversed(BUGS)
        if "kernels/" not in bug.file and not bug.test_file.startswith(LATER)
    }.values()
][::2]
"""On every change one bug is planted for every second of the other files, none where all kernels would be compiled
anew; ``pytest -m long`` plants the others."""


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=[pytest.mark.long] * (bug.name not in FIRST)) for bug in BUGS],
)
def test_p7_planted_bugs_are_caught(bug, copy, tmp_path):
    if bug.file.startswith("methods/kernels/"):  # what was compiled does not know that a kernel it calls has changed
        copy = copied(tmp_path, "__pycache__")
    with planted(bug, copy):
        run = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-x",
                "-q",
                "-m",
                "",
                "-p",
                "no:cacheprovider",
                str(TESTS / bug.caught_by),
            ],
            cwd=TESTS.parent,
            env={**os.environ, "PYTHONPATH": str(copy.parent)},
            capture_output=True,
            text=True,
        )
    failed = run.returncode == 1 and "1 failed" in run.stdout
    assert failed, f"not caught by {bug.caught_by}:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"


def test_every_text_to_change_stands_once():
    """All are checked on every change, also those that are planted in the long run only."""
    wrong = [bug.name for bug in BUGS if (SOURCE / bug.file).read_text().count(bug.old) != 1]
    assert wrong == []


def test_there_are_at_least_twenty():
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len(FIRST) >= 20
