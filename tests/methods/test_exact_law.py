"""ExactLaw: certified laws of returns and gaps."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import jmdp
from models import COUPLINGS
from reference import enumeration
from reference.enumeration import Enumeration

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 1 - 2**-10)
PROBABILITIES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def ending_problem(rng):
    """A model that ends within three steps, with atoms that coincide now and then, and a policy."""
    S, K, A = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(2, 4))
    prob = np.broadcast_to(rng.dirichlet(np.ones(K)), (S, K))
    reward = rng.integers(-2, 3, size=(S, K, A)).astype(float) if rng.random() < 0.5 else rng.normal(size=(S, K, A))
    reward *= rng.choice([2.0**-20, 1.0, 255.0, 1e6])
    later = [rng.integers(s + 1, S, size=(K, A)) if s < S - 1 else np.full((K, A), s) for s in range(S)]
    terminal = np.arange(S) == S - 1
    model = jmdp.TabularJMDP(prob, reward, np.array(later), float(rng.choice(DISCOUNTS)), terminal)
    if rng.random() < 0.3:
        return model, jmdp.TabularPolicy.deterministic(model, rng.integers(0, A, S))
    return model, jmdp.TabularPolicy(rng.dirichlet(np.ones(A), size=S))


def around(law):
    """Thresholds at which a wrong law shows: at each of the largest atoms, beside it, and at 0."""
    atoms = sorted(law, key=law.get, reverse=True)[:8]
    for atom in atoms:
        x = float(atom)
        yield from (x, math.nextafter(x, -math.inf), math.nextafter(x, math.inf))
    yield 0.0


def law_violations(law, truth, name):
    """Every stated interval that does not contain the truth."""

    def check(what, estimate, right):
        if (
            not Fraction(estimate.low) <= right <= Fraction(estimate.high)
            or not estimate.low <= estimate <= estimate.high
        ):
            found.append(f"{what} of {name}: {estimate!r} for {float(right)!r}")

    found = []
    for x in around(truth):
        check(f"cdf({x!r})", law.cdf(x), enumeration.cdf(truth, Fraction(x)))
        check(f"below({x!r})", law.below(x), enumeration.cdf(truth, Fraction(x), strictly=True))
    for p in PROBABILITIES:
        check(f"quantile({p})", law.quantile(p), enumeration.quantile(truth, Fraction(p)))
        check(f"cvar({p})", law.cvar(p), enumeration.cvar(truth, Fraction(p)))
    if isinstance(law, jmdp.GapLaw):
        check("superiority", law.superiority(), 1 - enumeration.cdf(truth, 0))
        check("ties", law.ties(), truth.get(Fraction(0), Fraction(0)))
        check("inferiority", law.inferiority(), enumeration.cdf(truth, 0, strictly=True))
    return found


def hold_laws_against_enumeration(models, seed):
    """P1 for laws: every interval of cdf, quantile, CVaR and superiority contains the truth."""
    rng = np.random.default_rng(seed)
    widths = []
    for i in range(models):
        coupling = COUPLINGS[i % len(COUPLINGS)]
        model, policy = ending_problem(rng)
        method = jmdp.ExactLaw(tolerance=float(rng.choice([0.3, 0.01])), max_cells=int(rng.choice([256, 4096])))
        result = jmdp.evaluate(model, policy, coupling, method, throw=False)
        truth = Enumeration(model, policy, coupling)
        for s in range(model.shape[0]):
            for a in range(model.shape[2]):
                name = f"{s, a}, model {i}, {coupling}"
                assert law_violations(result.return_law(s, a), truth.return_law((s, a)), name) == []
                for b in range(model.shape[2]):
                    if b != a:
                        law = result.gap(s, a, b).law()
                        assert law_violations(law, truth.gap_law((s, a), (s, b)), f"{s, a, b}, {name}") == []
                        widths.append(law.superiority().interval.width)
    return widths


def test_p1_laws_contain_the_truth():
    widths = hold_laws_against_enumeration(200, seed=3)
    print(f"P1 for laws: 200 models, {len(widths)} gaps, 0 violations, median width {np.median(widths):.1e}")
    assert np.median(widths) < 1e-9


@pytest.mark.long
def test_p1_laws_on_three_thousand_models():
    hold_laws_against_enumeration(3000, seed=4)
