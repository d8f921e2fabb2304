"""Planted bugs of randomness, simulators, their checks, and pools of workers."""

from __future__ import annotations

from planted.changes import first, instead, never, result, without
from planted.planting import Bug

PURPOSE = "base/test_luck_by_purpose.py::"
TWIN = "simulators/test_rollouts.py::test_equal_to_the_slow_twin"
ARRAYS = "simulators/test_batched_rollouts.py::test_rollouts_are_those_step_by_step"
WALKS = "simulators/test_pair_walks.py::"
WALKS_TWIN = WALKS + "test_equal_to_the_slow_twin"
COMPARING = "comparisons/test_compare.py::"
RUNS = "comparisons/test_compare_runs.py::"
SAMPLING = "simulators/checking/test_sampling.py::"
DESYNC = "simulators/checking/test_planted_desync.py::"
TRUNCATION = "simulators/test_truncation.py::"
OBJECTS = "simulators/objects/test_object_simulator.py::"
TRIAL = "simulators/objects/test_object_trial.py::"
POOLS = "distribute/test_pools.py::"
RAY = "distribute/test_ray_pool.py::"
INTERRUPTED = "base/test_ctrl_c.py::"
CACHE = "base/test_numba_cache.py::"

BUGS = [
    # Randomness by purpose.
    Bug("parts of a key are joined without a separator of their own", "_encoded",
        result("' '.join(map(str, key)).encode()"), PURPOSE + "test_keys_that_look_alike_differ"),
    Bug("keys are hashed by Python", "_encoded", result("b'%d' % hash(key)"),
        PURPOSE + "test_processes_with_other_hash_seeds_agree"),
    Bug("durations are accepted as integers", "_plain_part", instead("isinstance(part, np.timedelta64)", "False"),
        PURPOSE + "test_other_parts_are_refused_by_name[timedelta64]"),
    Bug("streams start again at each use", "Luck.__getitem__", instead("self._streams.get(...)", "None"),
        PURPOSE + "test_streams_continue_and_do_not_touch_each_other"),
    Bug("Poisson numbers are one too large", "_inverse_poisson", result("it + 1"), PURPOSE + "test_poisson[12.5]"),
    Bug("Poisson numbers are drawn by NumPy, not by inversion", "Luck.poisson",
        result("int(np.random.default_rng(int(u * 2**52)).poisson(mean))"),
        PURPOSE + "test_inversion_keeps_designs_coupled_and_numpy_does_not"),
    Bug("later numbers of a shock repeat the first", "Shocks.uniforms", instead("j // 2", "0"),
        "base/test_luck_batch.py::test_numbers_are_those_of_the_single_shocks[5]"),
    # Whole runs.
    Bug("designs do not share randomness", "RunBlocks.__call__", never("paired"),
        RUNS + "test_the_gap_and_the_gain_agree_with_the_closed_form"),
    Bug("each measure has the whole error probability", "RunQuestion.parts",
        instead("1 - (1 - self.settings.confidence) / len(names)", "self.settings.confidence"),
        RUNS + "test_several_measures_hold_jointly"),
    Bug("samples are not run again at the end", "Course.answer", never("self.n > self._checked"),
        RUNS + "test_memory_that_starts_late_is_noticed"),
    Bug("a misspelt key is another purpose", "_is_close", result("False"), RUNS + "test_a_misspelt_key_is_reported"),
    Bug("seeds of generators made in a run are not noted", "_replace", first("return"),
        RUNS + "test_a_generator_with_a_fixed_seed_is_reported"),
    # Rollouts.
    Bug("randomness of a state does not depend on the state", "Coupling.environment_shock", instead("state", "b''"),
        TWIN),
    Bug("randomness of the policy does not depend on the coordinate", "Coupling.policy_shock",
        instead("coordinate", "b''"), TWIN),
    Bug("branches with equal actions are taken for one", "LockstepRollouts._is_same",
        instead("equal_values(actions[j], actions[i]) and _", "equal_values(actions[j], actions[i])"),
        "simulators/test_rollouts.py"),
    Bug("rollouts change the start state", "LockstepRollouts._step", never("t == 0"), "simulators/test_rollouts.py"),
    Bug("rewards are identified by Python's hash", "_mixed",
        instead("rewards.view(np.uint64)",
        "np.vectorize(lambda reward: np.uint64(hash(float(reward)) % 2**61))(rewards)"),
        COMPARING + "test_rewards_minus_one_and_minus_two_are_no_tie"),
    Bug("equal sums of rewards at other steps differ", "BranchSums.gains", result("self._gains.view(np.int64)"),
        COMPARING + "test_bit_equal_returns_are_ties_at_discount_1[parts0-3]"),
    Bug("rounded sums count as exact", "BranchSums.add", instead("is_exact_sum(...)", "True"),
        COMPARING + "test_returns_equal_by_rounding_are_not_called_ties"),
    Bug("states are sent to workers unpacked", "ActionBlocks.__getstate__",
        instead("self.plan.packed(...)", "self.plan"),
        "simulators/test_recipe.py::test_states_of_own_simulators_are_packed"),
    Bug("branches in one state draw their own randomness in batched rollouts", "_RolloutKeys.environment",
        instead("crowd.first_in_state()", "crowd.branches"),
        ARRAYS + "[inventory, uniform-Local(policy_luck='independent')]"),
    Bug("branches with different actions merge in batched rollouts", "merge",
        instead("actions[v] == actions[w]", "True"),
        ARRAYS + "[inventory, uniform-Synchronous(policy_luck='independent')]"),
    Bug("states simulated together have the samples of the first", "joint_draws",
        instead("drawn.rows(...)", "drawn.rows(0, count)"),
        "studies/test_study.py::test_rollouts_of_several_states_together_are_those_of_each[coupling1]"),
    # Walks of pairs.
    Bug("walks of one visit share their randomness", "_BlockOfWalks._walk",
        instead("self._root.derived(b'walk', _)", "self._root.derived(b'walk', _ // self._plan.repeats)"),
        WALKS + "test_rows_of_a_visit_share_no_luck"),
    Bug("branches of a pair in one state are taken for one", "_BlockOfWalks._step",
        instead("self.action[n, t, 0] == self.action[n, t, 1]", "t > 0"), WALKS_TWIN),
    Bug("branches of a pair share randomness in all states", "_BlockOfWalks._step",
        instead("0 if self.same[n, t] else b", "0"), WALKS_TWIN),
    Bug("branches of a pair share no randomness", "_BlockOfWalks._step", instead("0 if self.same[n, t] else b", "b"),
        WALKS + "test_discounted_sums_have_the_exact_moments[Local(policy_luck='independent')]"),
    Bug("walks change their start state", "_BlockOfWalks._starts", instead("simulator.step", "simulator.advance"),
        WALKS_TWIN),
    # Checks of simulators.
    Bug("simulators of users are not checked", "check_before_sampling", result("True"),
        SAMPLING + "test_draws_that_differ_are_refused_where_they_matter"),
    Bug("policies are not asked again", "check_repeatable", without("recorder.ask_again()"),
        SAMPLING + "test_a_policy_with_memory_is_refused"),
    Bug("draws of policies are not compared", "LoggedPlan.warn_if_out_of_step", first("return"),
        SAMPLING + "test_policies_whose_steps_draw_differently_are_reported_once"),
    Bug("samples are not drawn again", "check_repeatable", instead("again.items()", "()"),
        SAMPLING + "test_what_the_quick_check_does_not_reach_is_noticed_when_drawn_again"),
    Bug("draws are compared between actions only, not between states", "DrawProbe.compare_states", first("return"),
        DESYNC + "test_check_simulator[DrawsByState]"),
    Bug("arguments of draws are not compared", "_by_arguments", never("consume_alike(...)"),
        SAMPLING + "test_draws_that_differ_are_refused_where_they_matter"),
    Bug("the order of draws is not compared", "DrawProbe._draw_differently", instead("swapped(one, other)", "None"),
        DESYNC + "test_check_simulator[SwappedOrder]"),
    Bug("starts are not compared", "check_simulator", without("check.compare_starts()"),
        DESYNC + "test_check_simulator[TapeInReset]"),
    Bug("rare states are not searched", "check_simulator", without("_explore(...)"),
        DESYNC + "test_rare_states_are_found_by_a_longer_check"),
    # Gymnasium.
    Bug("the user's environment is not restored", "SavedEnvs._borrowed", without("self._restore(before)"),
        "simulators/gymnasium/test_snapshots.py::test_the_users_environment_is_left_where_it_stood"),
    Bug("a time limit ends an episode", "GymnasiumSimulator._step", instead("self._truncated_ends", "True"),
        "simulators/gymnasium/test_gymnasium_simulator.py::test_truncation_is_no_end"),
    Bug("a truncation never ends an episode", "GymnasiumSimulator._step", instead("self._truncated_ends", "False"),
        TRUNCATION + "test_the_end_of_a_finite_tape_is_an_end[its own signal-replayed]"),
    Bug("a truncation never ends episodes that are advanced together", "GymnasiumSimulator.advance_all",
        instead("self._truncated_ends", "False"),
        TRUNCATION + "test_the_end_of_a_finite_tape_is_an_end[its own signal-copied]"),
    Bug("steps towards a time limit are not part of the state", "GymnasiumSimulator.__init__",
        without("self._snapshots.time_counts"),
        TRUNCATION + "test_the_steps_that_a_time_limit_has_counted_are_state_if_it_is_an_end[copied]"),
    # Objects as simulators.
    Bug("every step of an object has the same key", "_set", instead("shock.peek()", "bytes(16)"),
        OBJECTS + "test_returns_are_those_of_a_loop_by_hand[Shop]"),
    Bug("draws of a generator seeded in place go unnoticed", "KeyedStep._moved",
        instead("bool(_twister_position(generator) != _SEEDED)", "False"),
        OBJECTS + "test_draws_of_generators_seeded_in_place_are_noted[PythonShop]"),
    Bug("a shared log grows", "SharedAttributes.attach", never("len(value) != len(contents)"),
        OBJECTS + "test_a_shared_log_changes_nothing_and_does_not_grow"),
    Bug("copies of an object are not compared", "_fault_after", never("run.continued(thing, _CONTINUED) != expected"),
        TRIAL + "test_sound_objects_are_accepted[WronglySavingShop]"),
    Bug("hidden generators that move are accepted", "_second_run", never("moved"),
        TRIAL + "test_hidden_randomness_is_refused_by_name[InGeneratorObject]"),
    # Pools.
    Bug("blocks use all threads", "one_thread",
        instead("_thread_limits().limit(limits=1)", "__import__('contextlib').nullcontext()"),
        POOLS + "test_blocks_have_one_thread"),
    Bug("the block of a dead worker is lost", "ProcessPool._lose",
        instead("block.call.unsent.append(block)", "setattr(block, 'answer', (True, b'N.'))"),
        POOLS + "test_blocks_of_dead_workers_are_run_again"),
    Bug("results are in the order in which blocks finish", "ProcessPool._next_block",
        instead("call.blocks[0].answered",
        "call.blocks.rotate(-next((i for i, b in enumerate(call.blocks) if b.answered), 0)) or it"),
        POOLS + "test_results_wait_for_their_turn"),
    Bug("a long cancelled block delays the next call", "ProcessPool._replace_stale", never("now - since >= _PATIENCE"),
        POOLS + "test_a_long_cancelled_block_does_not_delay_the_next_call"),
    Bug("after a death a result counts for the next block too", "ProcessPool._receive",
        instead("(succeeded, payload)",
        "(it, [setattr(b, 'answer', it) for b in worker.held[number].call.blocks if b.call.deaths"
            " and b.number == number + 1 and not b.answered])[0]"),
        POOLS + "test_blocks_of_dead_workers_are_run_again"),
    Bug("workers outlive their parent", "_read", without("os._exit(1)"),
        "distribute/test_interrupts.py::test_no_worker_is_left_behind[kill-pool]"),
    Bug("a block of a failed Ray task is lost", "_Call.results", instead("reversed(again)", "reversed(again[1:])"),
        RAY + "test_a_task_that_fails_is_sent_again_block_by_block"),
    Bug("a block of a failed Ray task counts twice", "_Call.results",
        instead("reversed(again)", "reversed([*again[:1], *again])"),
        RAY + "test_a_task_that_fails_is_sent_again_block_by_block"),
    Bug("blocks after an interrupt of a Ray worker are lost", "_Call.results", never("rest and answer.error is None"),
        RAY + "test_a_signal_to_a_worker_loses_nothing"),
    Bug("a block that hangs is run again and again", "_Watch.block", never("number == self._hung"),
        RAY + "test_a_hung_block_is_ended_and_named[False]"),
    Bug("a block of Ray that is killed counts as one that ends its process", "run_alone", instead("any(...)", "False"),
        RAY + "test_p25_a_block_that_ends_its_process_by_itself_is_told_from_one_that_is_killed[SIGKILL]"),
    Bug("a Ray cluster is joined before it is probed", "RayPool._ray", without("_probe(joined)"),
        RAY + "test_an_address_where_no_ray_answers[False]"),
    # Interrupts and the cache of kernels.
    Bug("Ctrl-C interrupts an import", "_Handler.__call__", never("self._must_wait(frame)"),
        INTERRUPTED + "test_an_import_is_completed"),
    Bug("a deferred Ctrl-C is lost", "deferred_interrupts", never("handler.waiting"),
        INTERRUPTED + "test_one_that_a_block_did_not_see_is_raised_after_it"),
    Bug("damaged files of compiled code are used", "_check", never("hashlib.sha256(...)"),
        CACHE + "test_damaged_files_are_not_used[*.nbc-damages3]"),
    Bug("compiled code is found by the name of its file only", "_CheckedFiles.load", instead("found[0] == key", "True"),
        CACHE + "test_entries_under_the_name_of_another_are_not_used"),
]  # fmt: skip
