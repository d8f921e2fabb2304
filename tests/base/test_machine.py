"""The memory plan: refused before anything is allocated, kept to when not; and interrupts that lose nothing."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys

import numpy as np
import pytest

import jmdp
from jmdp.base import machine as memory
from jmdp.errors import MemoryBudgetError, NotConvergedError
from registry.methods import METHODS


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "memory_budget" in method.settings])
def test_too_small_a_budget_is_refused_with_the_mend(name):
    """A method that needs no table ends with what it has."""
    world, method = jmdp.worlds.windy_gridworld(), METHODS[name]
    given = world.model, world.policies["uniform"], jmdp.Local()
    if method.memory is None:
        one_byte = dataclasses.replace(method.contract, state="2,2", memory_budget=1)
        assert jmdp.evaluate(*given, one_byte, throw=False).outcome is jmdp.results.Outcome.BUDGET_EXHAUSTED
        return
    budget, message = method.memory
    with pytest.raises(MemoryBudgetError, match=message):
        jmdp.evaluate(*given, dataclasses.replace(method.contract, memory_budget=budget))


def test_one_byte_too_few_is_refused():
    memory.require(1000, 1000, "The table", "Use a smaller one")
    with pytest.raises(MemoryBudgetError, match=r"The table needs 1e\+03 bytes.*Use a smaller one"):
        memory.require(1001, 1000, "The table", "Use a smaller one")


def test_a_model_too_large_for_the_machine_is_refused_at_once():
    """200,000 states would need 640 GB; the refusal allocates none of it."""
    world = jmdp.worlds.coupled_reward_chain(200_000)
    with pytest.raises(MemoryBudgetError, match=r"ExactPairs on 200000 states needs 596 GiB"):
        jmdp.evaluate(world.model, world.policies["first"], jmdp.Local())


def test_the_plan_is_kept():
    """Peak memory, in a process of its own, stays within the budget, and a tight budget changes no answer.

    Budgets grow, so that the peak of a run is not hidden by that of the run before.
    """
    S, budgets = 900, (2.1, 3.1, 40)
    code = f"""
import resource, jmdp
world = jmdp.worlds.windy_gridworld(30, 30, discount=0.9)
policy = world.policies["goal_directed"]
small = jmdp.worlds.windy_gridworld(25, 25)
jmdp.evaluate(small.model, small.policies["uniform"], jmdp.Local())   # loads everything that is loaded once
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for tables in {budgets}:
    method = jmdp.ExactPairs(memory_budget=int(tables * 8 * {S} * {S}))
    total = jmdp.evaluate(world.model, policy, jmdp.Local(), method).covariance.sum()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, total)
print(0, jmdp.evaluate(world.model, policy, jmdp.Local()).covariance.sum())
"""
    printed = subprocess.check_output([sys.executable, "-c", code], text=True).splitlines()
    *runs, (_, unlimited) = [map(float, line.split()) for line in printed]
    for tables, (used, total) in zip(budgets, runs, strict=True):
        assert used <= tables * 8 * S * S + 16e6
        assert total == pytest.approx(unlimited, rel=1e-8)


def test_free_memory_is_known_here_and_sizes_read_well():
    assert 1e6 < memory.free_bytes() < 1e14
    assert memory.in_words(512) == "512 bytes"
    assert memory.in_words(3 * 2**30) == "3 GiB"
    assert memory.in_words(5e15) == "4547 TiB"


def test_an_interrupt_keeps_the_best_certified_answer(monkeypatch):
    from jmdp.methods.exact_pairs.pair_sweep import PairSweep

    world = jmdp.worlds.windy_gridworld()
    policy = world.policies["uniform"]
    truth = jmdp.evaluate(world.model, policy, jmdp.Local())
    sweep, calls, presses = PairSweep.measured, [], 1

    def interrupted(self, point, out, change=None):
        calls.append(1)
        if len(calls) >= 13:
            for _ in range(presses):
                signal.raise_signal(signal.SIGINT)
        return sweep(self, point, out, change)

    monkeypatch.setattr(PairSweep, "measured", interrupted)
    with pytest.raises(NotConvergedError, match="interrupted by the user") as caught:
        jmdp.evaluate(world.model, policy, jmdp.Local())
    kept = caught.value.evaluation
    assert kept.outcome is jmdp.results.Outcome.INTERRUPTED
    assert kept.residuals.size == 13
    assert 1e-8 < kept.certificate.covariance_error.max() < 10
    assert (np.abs(kept.covariance - truth.covariance) <= kept.certificate.covariance_error).all()
    calls[:] = []
    presses = 2  # the second Ctrl-C interrupts at once
    with pytest.raises(KeyboardInterrupt):
        jmdp.evaluate(world.model, policy, jmdp.Local())
