"""What a certificate promises: P1 to P5 of the promises in the docs, at the numbers CI runs.

``pytest -m long`` runs P1 on 10,000 models.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter

import numpy as np
import pytest

import jmdp
from jmdp.errors import CertificateError, UnavailableError
from jmdp.testing import check_certificate
from reference import pair_chain
from reference.rationals import Truth, exact, violations
from sample_models import COUPLINGS, random_problem

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 1 - 2**-10, 1 - 2**-20)
BOUNDS = (2.0**-20, 1.0, 255.0, 1e6)


def small_problem(rng, coupling):
    return random_problem(
        rng,
        states=3,
        scenarios=3,
        actions=3,
        discounts=DISCOUNTS,
        bounds=BOUNDS,
        common_prob=coupling.shared_between_states or rng.random() < 0.5,
    )


def hold_intervals_against_rationals(models: int, seed: int) -> Counter:
    """P1: at an ordinary tolerance and run to stagnation, every interval contains the truth."""
    rng = np.random.default_rng(seed)
    outcomes: Counter = Counter()
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = small_problem(rng, coupling)
        truth = Truth(model, policy, coupling)
        for tolerance in (1e-8, 0.0):
            method = jmdp.ExactPairs(tolerance=tolerance)
            result = jmdp.evaluate(model, policy, coupling, method, throw=False)
            outcomes[tolerance, result.outcome.name] += 1
            assert violations(result, truth) == [], f"{model}, {coupling}, {method}"
    return outcomes


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.long)])
def test_p1_certified_intervals_contain_the_truth(seed):
    outcomes = hold_intervals_against_rationals(100, seed)
    print(f"P1: 100 models, 0 violations, {dict(outcomes)}")
    assert outcomes[1e-8, "CONVERGED"] >= 67
    assert outcomes[0.0, "STALLED"] >= 67


@pytest.mark.long
def test_p1_on_ten_thousand_models():
    print(f"P1: 10,000 models, 0 violations, {dict(hold_intervals_against_rationals(10_000, seed=2))}")


@pytest.mark.parametrize("rare", [1e-6, 1e-17, 1e-30])
@pytest.mark.parametrize("coupling", COUPLINGS, ids=repr)
def test_p1_where_all_that_matters_hangs_on_a_rare_action(coupling, rare):
    """The action that earns is so unlikely that it has no length on the unit interval in float64."""
    model = jmdp.TabularJMDP([[1.0]] * 2, [[[0.0, 0.0, 1.0]], [[0.0, 0.0, 1.0]]], [[[0, 1, 1]], [[1, 0, 0]]], 0.9)
    policy = jmdp.TabularPolicy([[0.3, 0.7 - rare, rare]] * 2)
    result = jmdp.evaluate(model, policy, coupling, throw=False)
    assert violations(result, Truth(model, policy, coupling)) == []


@pytest.mark.parametrize("discount", [0.9, 1 - 2**-50, 1 - 2**-53])
def test_p1_where_a_row_of_many_scenarios_is_off_by_all_that_is_allowed(discount):
    K = 2000
    model = jmdp.TabularJMDP(
        np.full((1, K), 1 / K * (1 - (K - 2) * 2.2e-16)), np.ones((1, K, 1)), np.zeros((1, K, 1), int), discount
    )
    result = jmdp.evaluate(model, jmdp.TabularPolicy([[1.0]]), jmdp.Local(), throw=False)
    off = abs(exact(result.mean[0, 0]) - 1 / (1 - exact(discount)))
    assert off <= exact(result.certificate.mean_error[0, 0])


def test_the_default_tolerance_is_met_on_the_worlds_up_to_discount_9999():
    for world in (
        jmdp.worlds.inventory(discount=0.9999),
        jmdp.worlds.windy_gridworld(discount=0.9999),
        jmdp.worlds.coupled_reward_chain(discount=0.9999),
        jmdp.worlds.anti_correlated_bandit(discount=0.9999),
    ):
        for policy in world.policies.values():
            assert jmdp.evaluate(world.model, policy, jmdp.Local()).outcome is jmdp.results.Outcome.CONVERGED


def test_p1_for_jipe():
    rng = np.random.default_rng(11)
    outcomes: Counter = Counter()
    for i in range(60):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = small_problem(rng, coupling)
        result = jmdp.evaluate(model, policy, coupling, jmdp.JIPE(tolerance=1e-9, max_sweeps=400), throw=False)
        outcomes[result.outcome.name] += 1
        assert violations(result, Truth(model, policy, coupling)) == [], f"{model}, {coupling}"
    assert outcomes["CONVERGED"] >= 20
    assert outcomes["SWEEPS_EXHAUSTED"] >= 10


def test_the_rational_truth_is_the_pair_chain():
    """The semantics in exact rationals agree with the system written out in float64."""
    rng = np.random.default_rng(12)
    for i in range(60):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(rng, states=3, scenarios=3, actions=3, discounts=(0.0, 0.5, 0.9))
        truth = Truth(model, policy, coupling)
        mean, covariance = pair_chain.covariances(model, policy, coupling)
        for s, a in truth.coordinates:
            assert float(truth.mean[truth.index[s, a]]) == pytest.approx(mean[s, a], abs=1e-12)
            for t, b in truth.coordinates:
                assert float(truth.covariance(s, a, t, b)) == pytest.approx(covariance[s, a, t, b], abs=1e-11)


def largest_error(result):
    """Of any covariance, within or between states."""
    S, A = result.mean.shape
    pairs = [(s, a, t, b) for s in range(S) for a in range(A) for t in range(s) for b in range(A)]
    between = [result.cross.cross_covariance_error(*pair) for pair in pairs]
    return max(result.certificate.covariance_error.max(), *between, 0.0)


def corrupted(rng, result):
    """One number of a result changed by more than the certificate allows for."""
    certificate = result.certificate
    kind = rng.choice(["mean", "covariance", "pair", "variance", "discount", "bound"])
    grow = float(rng.choice([-1, 1]) * rng.uniform(2.5, 1e6))

    def moved(array, error):
        changed = array.copy()
        at = tuple(rng.integers(0, n) for n in changed.shape)
        changed[at] += grow * error[at] + np.sign(grow) * 4 * np.spacing(abs(changed[at]))
        return changed

    if kind == "mean":
        return dataclasses.replace(result, mean=moved(result.mean, certificate.mean_error))
    if kind == "covariance":
        return dataclasses.replace(result, covariance=moved(result.covariance, certificate.covariance_error))
    if kind in ("pair", "variance"):
        # An entry that some step leads to, moved by more than any covariance one step earlier may be off.
        table, model = result.cross, result.cross.operator.model
        units = table.operator.units.state + table.operator.shaped.scale.exponent
        reached = np.unique(model.next_state[(model.prob > 0) & ~model.terminal[:, None]])
        reached = reached[units[reached] > -500]  # the rest is terminal or never earns
        if not reached.size:
            return corrupted(rng, result)
        s, t = rng.choice(reached, 2)
        t = t if kind == "pair" else s
        step = grow * np.ldexp(largest_error(result), -units[s] - units[t]) / model.discount**2
        if table.refined is not None:  # the second word, where so small a step shows
            refined, low = table.refined, (table.refined.H if kind == "pair" else table.refined.V).low.copy()
            low[(s, t) if kind == "pair" else s] += step
            words = {"H": refined.H._replace(low=low)} if kind == "pair" else {"V": refined.V._replace(low=low)}
            changed = dataclasses.replace(table, refined=dataclasses.replace(refined, **words))
            return dataclasses.replace(result, cross=changed)
        if kind == "pair":
            H = table.H.copy()
            H[s, t] += step
            return dataclasses.replace(result, cross=dataclasses.replace(table, H=H))
        operator = copy.copy(table.operator)
        operator.V = operator.V.copy()
        operator.V[s] += step
        return dataclasses.replace(result, cross=dataclasses.replace(table, operator=operator))
    if kind == "discount":
        changed = {"discount": float(rng.choice([np.nextafter(certificate.discount, 0), certificate.discount / 2]))}
    else:
        changed = {"reward_bound": certificate.reward_bound * float(rng.choice([0.5, 2.0, 1 + 2**-50]))}
    return dataclasses.replace(result, certificate=dataclasses.replace(certificate, **changed))


def test_p2_corrupted_results_are_rejected():
    """1,000 results with one number changed: all rejected; the results themselves: all accepted."""
    rng = np.random.default_rng(21)
    done, wrongly_accepted = 0, []
    while done < 1000:
        coupling = COUPLINGS[done % len(COUPLINGS)]
        model, policy = random_problem(
            rng, states=3, scenarios=2, actions=2, discounts=(0.5, 0.9, 1 - 2**-10), bounds=BOUNDS
        )
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(tolerance=1e-8), throw=False)
        if model.reward_bound == 0 or result.certificate.covariance_error.max() < 1e-25 * model.reward_bound**2:
            continue  # nothing random in it: no residual to be off from
        check_certificate(model, policy, result)
        for _ in range(10):
            broken = corrupted(rng, result)
            done += 1
            try:
                check_certificate(model, policy, broken)
            except CertificateError:
                continue
            wrongly_accepted.append((model, coupling, broken))
    print(f"P2: {done} corrupted results, {len(wrongly_accepted)} accepted")
    assert wrongly_accepted == []


def test_p2_for_another_policy_another_model_and_jipe():
    world = jmdp.worlds.windy_gridworld(2, 2)
    policy, other = world.policies["careless"], world.policies["uniform"]
    for method in (jmdp.ExactPairs(), jmdp.JIPE()):
        result = jmdp.evaluate(world.model, policy, jmdp.Local(), method=method)
        check_certificate(world.model, policy, result)
        with pytest.raises(CertificateError, match="an error of"):
            check_certificate(world.model, other, result)
        with pytest.raises(CertificateError, match="an error of"):
            check_certificate(jmdp.worlds.windy_gridworld(2, 2, gust=0.31).model, policy, result)
        moved = result.covariance + 10 * result.certificate.covariance_error
        with pytest.raises(CertificateError, match="an error of"):
            check_certificate(world.model, policy, dataclasses.replace(result, covariance=moved))
        narrow = dataclasses.replace(result.certificate, gap_variance_error=0.0)
        with pytest.raises(CertificateError, match="errors stated for gaps"):
            check_certificate(world.model, policy, dataclasses.replace(result, certificate=narrow))
        with pytest.raises(CertificateError, match="contains nan"):
            check_certificate(world.model, policy, dataclasses.replace(result, mean=result.mean * np.nan))
    sampled = jmdp.evaluate(world.model, policy, jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=10))
    with pytest.raises(UnavailableError, match="Only exact and certified"):
        check_certificate(world.model, policy, sampled)


@pytest.mark.parametrize("tolerance", [0.0, 1e-300])
@pytest.mark.parametrize("discount", [0.5, 0.99, 1 - 2**-20, 1 - 2**-40, 1 - 2**-52, 1 - 2**-53])
def test_p3_never_hangs_and_never_claims_too_much(tolerance, discount):
    reward = [[[0.1, 0.7], [0.3, -0.2]], [[1.0, 0.0], [0.0, 0.4]]]
    model = jmdp.TabularJMDP([[0.3, 0.7], [0.3, 0.7]], reward, [[[0, 1], [1, 0]], [[0, 0], [1, 1]]], discount)
    policy = jmdp.TabularPolicy([[0.4, 0.6], [0.5, 0.5]])
    for coupling in COUPLINGS:
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(tolerance=tolerance), throw=False)
        assert result.outcome is jmdp.results.Outcome.STALLED
        errors = result.certificate.covariance_error
        assert np.isfinite(errors).all()
        assert errors.max() > 0
        assert violations(result, Truth(model, policy, coupling)) == []


def test_p4_questions_are_answered_in_three_values():
    """Thresholds in the interval: UNKNOWN. Outside: the answer the exact truth gives."""
    rng = np.random.default_rng(41)
    asked = Counter()
    for i in range(60):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = small_problem(rng, coupling)
        S, _, A = model.shape
        if A == 1:
            continue
        result = jmdp.evaluate(model, policy, coupling, jmdp.ExactPairs(tolerance=1e-4), throw=False)
        truth = Truth(model, policy, coupling)
        s = int(rng.integers(S))
        gap = result.gap(s, 0, 1)
        x, y = truth.index[s, 0], truth.index[s, 1]
        cov = truth.covariance
        variance = cov(s, 0, s, 0) + cov(s, 1, s, 1) - 2 * cov(s, 0, s, 1)
        for right, interval in (
            (truth.mean[x] - truth.mean[y], gap.mean_interval),
            (variance, gap.variance_interval),
        ):
            middle, radius = (interval.low + interval.high) / 2, interval.width / 2 or 1.0
            for threshold in middle + radius * np.array([-1e3, -1.5, -1.01, -0.9, 0.0, 0.9, 1.01, 1.5, 1e3]):
                answer = interval.exceeds(threshold)
                asked[answer] += 1
                if interval.low <= threshold < interval.high:
                    assert answer is jmdp.results.Verdict.UNKNOWN
                else:
                    assert bool(answer) == (right > exact(threshold))
    assert min(asked.values()) >= 100


def test_p5_exact_routes_agree():
    """Every exact route on 20 models: intervals intersect pairwise."""
    rng = np.random.default_rng(51)
    routes = (jmdp.ExactPairs(), jmdp.ExactPairs(tolerance=1e-4), jmdp.JIPE(), jmdp.JIPE(tolerance=1e-4))
    for i in range(20):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = random_problem(rng, states=5, scenarios=3, actions=3, discounts=(0.0, 0.5, 0.9, 0.97))
        results = [jmdp.evaluate(model, policy, coupling, route, throw=False) for route in routes]
        S, A = results[0].mean.shape
        for s in range(S):
            for a in range(A):
                assert meet([r.mean_interval(s, a) for r in results])
                for b in range(A):
                    assert meet([r.covariance_interval(s, a, b) for r in results])


def meet(intervals):
    return max(i.low for i in intervals) <= min(i.high for i in intervals)
