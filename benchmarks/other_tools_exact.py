"""Examples for QuantEcon and Storm, whose answers are computed from a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

import jmdp
from benchmarks.interleave import interleave
from benchmarks.other_tools_rows import SEED, interval, row
from benchmarks.report import Row, agree
from jmdp.errors import MemoryBudgetError

# QuantEcon


def quantecon(quick: bool) -> list[Row]:
    """An inventory: QuantEcon finds the best policy, and both evaluate it and a base-stock rule."""
    from quantecon.markov import DiscreteDP

    world = jmdp.worlds.inventory(20 if quick else 300)
    model, coupling = world.model, jmdp.Synchronous()
    S, K, A = model.shape
    R = np.einsum("sk,ska->sa", model.prob, model.reward)
    Q = np.zeros((S, A, S))
    s, _, a = np.indices((S, K, A))
    np.add.at(Q, (s, a, model.next_state), np.broadcast_to(model.prob[:, :, None], (S, K, A)))
    process = DiscreteDP(R, Q, model.discount)
    best = process.solve(method="policy_iteration").sigma
    base = world.policies["base_stock"].probs.argmax(axis=1)
    rules = {"base stock": world.policies["base_stock"], "best": jmdp.TabularPolicy.deterministic(model, best)}
    result = jmdp.evaluate(model, rules, coupling, progress=False)
    values = np.stack([process.evaluate_policy(base), process.evaluate_policy(best)], axis=1)
    agree("inventory, values", float(np.abs(values - result.mean).max()), 1e-9 * float(np.abs(values).max()))
    timings = interleave(
        {
            "solve": partial(process.solve, method="policy_iteration"),
            "values": lambda: (process.evaluate_policy(base), process.evaluate_policy(best)),
            "jmdp": lambda: jmdp.evaluate(model, rules, coupling, progress=False),
        }
    )
    gap = result.gap("10", "best", "base stock")
    coupled = jmdp.couple(jmdp.Marginals.from_quantecon(process), by=jmdp.models.CommonUniform(across_states=True))
    averaged = jmdp.evaluate(coupled, rules, coupling, progress=False).gap(10, "best", "base stock")
    slower = timings.ratio("jmdp", "values")
    return [
        row(f"best policy, {S} states, {A} actions", f"{1e3 * timings.best('solve'):.3g} ms", "–"),
        row("mean gap to base stock, stock 10", f"{values[10, 1] - values[10, 0]:.6f}", f"{gap.mean:.6f}"),
        row("std of the gap, same demand", "–", f"{gap.std:.6f}"),
        row("– from R, Q by `couple`", "–", f"{averaged.std:.6f}"),
        row(
            "time of both evaluations",
            f"{1e3 * timings.best('values'):.3g} ms, values",
            f"{slower.best:.0f} × ({slower.spread()}), values and covariances",
        ),
    ]


# Storm


def storm(quick: bool) -> list[Row]:
    """Gap of two policies by a product model, and a chain of a million states."""
    return [*_storm_gap(3 if quick else 20), *_storm_large(30 if quick else 1000, 10 if quick else 1000)]


def _storm_gap(days: int) -> list[Row]:
    """Gap of two rules of an inventory with the same demand: in Storm, a product of two copies and the gap so far."""
    import stormpy

    world = jmdp.worlds.inventory(
        10, price=25.0, unit_cost=10.0, order_cost=5.0, holding_cost=1.0, shortage_cost=5.0  # all rewards are integers
    )  # fmt: skip
    rules = {"old": world.policies["base_stock"], "new": world.policies["reorder"]}
    program = _storm_program(pair_program(world.model, *rules.values(), start=3, days=days))
    queries = stormpy.parse_properties(f'R{{"gap"}}=? [C<={days}]; P=? [F[{days},{days}] gap>0]', program)

    product = stormpy.build_model(program, queries)

    def checked() -> list[float]:
        first = product.initial_states[0]
        return [stormpy.model_checking(product, query).get_value_vector()[first] for query in queries]

    def ours() -> Any:
        return jmdp.evaluate(
            world.model, rules, jmdp.Synchronous(), horizon=days, discount=1.0, progress=False
        ).gap("3", "new", "old")  # fmt: skip

    (mean, chance), gap = checked(), ours()
    agree("inventory, mean gap", abs(mean - gap.mean), 1e-6 * abs(gap.mean))
    timings = interleave(
        {"build": partial(stormpy.build_model, program, queries), "check": checked, "ours": ours}
    )  # fmt: skip
    found = jmdp.compare_runs(
        {name: partial(_days, world.model, rule.probs.argmax(axis=1), 3, days) for name, rule in rules.items()},
        seed=SEED,
        samples=100 if days < 20 else 2000,
        progress=False,
    )
    assert isinstance(found, jmdp.comparisons.RunComparison)
    sampled = found.superiority("new", "old")
    build, check = timings.ratio("build", "ours"), timings.ratio("check", "ours")
    return [
        row(f"mean gap, {days} days", f"{mean:.6f}", f"{gap.mean:.6f}"),
        row("– states", f"{product.nr_states:,} of the product", f"{world.model.shape[0]} of the table"),
        row("– std", "not asked", f"{gap.std:.6f}"),
        row(
            "– P(gap > 0)",
            f"{chance:.6f}",
            f"{interval(float(sampled), sampled.low, sampled.high)}, sampled, n = {found.samples}",
        ),
        row(
            "– time",
            f"build {build.best:.2g} × ({build.spread()}), check {check.best:.2g} × ({check.spread()})",
            f"1 = {1e3 * timings.best('ours'):.0f} ms: mean and std",
        ),
    ]


def _days(model: jmdp.TabularJMDP, act: Any, start: int, days: int, luck: jmdp.Luck) -> float:
    """Reward of one run, with the demand of each day drawn by its name."""
    state, total, cumulative = start, 0.0, model.prob[0].cumsum()
    for day in range(days):
        k = min(int(np.searchsorted(cumulative, luck.uniform("demand", day), side="right")), len(cumulative) - 1)
        total += float(model.reward[state, k, act[state]])
        state = int(model.next_state[state, k, act[state]])
    return total


def pair_program(
    model: jmdp.TabularJMDP, old: jmdp.TabularPolicy, new: jmdp.TabularPolicy, *, start: int, days: int
) -> str:
    """Return PRISM code of two copies that receive the same scenario, with a counter of the gap (rewards: integers)."""
    acts = old.probs.argmax(axis=1), new.probs.argmax(axis=1)
    pairs, steps = [(start, start)], {}
    for pair in pairs:  # grows
        after = [model.next_state[s, :, act[s]].tolist() for s, act in zip(pair, acts, strict=True)]
        earned = [model.reward[s, :, act[s]] for s, act in zip(pair, acts, strict=True)]
        steps[pair] = list(zip(model.prob[0].tolist(), *after, (earned[1] - earned[0]).tolist(), strict=True))
        pairs += {(x, y) for _, x, y, _ in steps[pair]} - set(pairs)
    most = days * round(max(abs(gap) for step in steps.values() for *_, gap in step))
    commands, rewards = [], []
    for (x, y), step in steps.items():
        updates = [
            f"{p!r}:(x'={x2})&(y'={y2})&(gap'=max(-{most},min({most},gap+({round(gap)}))))" for p, x2, y2, gap in step
        ]
        commands.append(f"[] x={x}&y={y} -> {' + '.join(updates)};")
        rewards.append(f"x={x}&y={y} : {sum(p * gap for p, _, _, gap in step)!r};")
    highest = model.shape[0] - 1
    variables = [f"{name}:[0..{highest}] init {start};" for name in "xy"] + [f"gap:[-{most}..{most}] init 0;"]
    lines = ["dtmc", "module pair", *variables, *commands, "endmodule", 'rewards "gap"', *rewards, "endrewards"]
    return "\n".join(lines)


def _storm_program(text: str) -> Any:
    import stormpy

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.prism"
        path.write_text(text, encoding="utf-8")
        return stormpy.parse_prism_program(str(path))


def _storm_large(side: int, steps: int) -> list[Row]:
    """Two queues in a row with `side` places each: mean cost, and the chance of a long queue."""
    import stormpy

    full, long = side - 1, 3 * side // 20
    program = _storm_program(
        f"""dtmc
module tandem
a:[0..{full}] init 0; b:[0..{full}] init 0;
[] true -> 0.35:(a'=min({full},a+1)) + 0.3:(a'=a>0 & b<{full} ? a-1 : a)&(b'=a>0 & b<{full} ? b+1 : b)
  + 0.25:(b'=max(0,b-1)) + 0.1:true;
endmodule
rewards "cost" true : a+b; endrewards"""
    )
    queries = stormpy.parse_properties(f'R{{"cost"}}=? [C<={steps}]; P=? [F<={steps} a+b>={long}]', program)

    def theirs() -> tuple[int, list[float]]:
        chain = stormpy.build_model(program, queries)
        first = chain.initial_states[0]
        return chain.nr_states, [stormpy.model_checking(chain, query).get_value_vector()[first] for query in queries]

    begin = process_time()
    states, (cost, chance) = theirs()
    seconds = process_time() - begin
    return [
        row(f"{states:,} states, {steps:,} steps: mean cost", f"{cost:.2f}", _refusal(side)),
        row(f"– P(≥ {long} in the queues)", f"{chance:.5f}", "–"),
        row("– CPU time, one run", f"{seconds:.0f} s", "–"),
    ]


def _refusal(side: int) -> str:
    """What `ExactPairs` says of a table with as many states."""
    S = side * side
    here = np.arange(S).reshape(S, 1, 1)
    table = jmdp.TabularJMDP(np.ones((S, 1)), np.zeros((S, 1, 1)), here, 0.5)
    try:
        jmdp.evaluate(table, "uniform", jmdp.Synchronous(), progress=False)
    except MemoryBudgetError:
        return f"`ExactPairs` refuses: {8 * S**2 / 1e12:.0f} TB for each array of pairs"
    return "–"
