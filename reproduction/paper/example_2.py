"""Example 2 of the paper: two worlds with equal marginals whose next states are coupled in opposite ways."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, SMALL, WIDTH, clear_spines, ink, new_figure, span_row
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("(2.1): both next states are U", "(2.2): next states are U and 1 − U")


@dataclass(frozen=True, kw_only=True)
class Example2(Experiment):
    """Joint distribution of two actions' next states, which marginals do not show, and its effect on their gap."""

    name = "example_2"
    title = "Equal marginals, different couplings"
    where = "Example 2"
    ours = (
        "The example has next states only, and the paper has no experiment of it. Ours has reward 1 for each step that "
        "starts in state 1, so that returns depend on the states; γ = 0.95, the uniform policy."
    )

    discount: float = 0.95
    tolerance: float = 1e-10
    """Tolerance of evaluations, as a fraction of the largest return."""

    def run(self, work: Work) -> Numbers:
        """Compare tables, marginals and evaluations of the two worlds."""
        models = [example(opposite, self.discount) for opposite in (False, True)]
        mdps = [model.marginal_mdp() for model in models]
        marginal = np.abs(mdps[0].transition.toarray() - mdps[1].transition.toarray())
        uniform = np.abs(mdps[0].transition.toarray() - 0.5)
        rewards = np.abs(mdps[0].reward - mdps[1].reward)
        off = float(max(marginal.max(), uniform.max(), rewards.max()))
        joint = np.array([[joint_next_states(model, s) for s in (0, 1)] for model in models])  # [model, s, S', S']
        wanted = np.array([np.diag([0.5, 0.5]), np.diag([0.5, 0.5])[::-1]])
        from_wanted = float(np.abs(joint - wanted[:, None]).max())
        method = jmdp.ExactPairs(tolerance=self.tolerance)
        results = [
            jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local(), method, progress=work.progress)
            for model in models
        ]
        gaps = [interval_of(result) for result in results]
        truth = float(gap_variance(Fraction(self.discount)))
        found = [
            Claim(
                "Each action's transition distribution is uniform on the states, in both models.", self.where,
                "largest difference of transition probabilities from ½, and of these and mean rewards between models",
            ).at_most(0.0, Measured(off, 0.0, off, "computed", 2 * marginal.size + rewards.size, "numbers")),
            Claim(
                "The next states of the two actions are equal in (2.1) and opposite in (2.2).", self.where,
                "largest difference of the joint probabilities from ½ on the diagonal (2.1) or antidiagonal (2.2)",
            ).at_most(0.0, Measured(from_wanted, 0.0, from_wanted, "computed", joint.size, "probabilities")),
            Claim(
                "Identical marginals conceal different joint structures.", self.where,
                "variance of the gap under (2.2) minus that under (2.1)",
            ).above(0.0, Measured.certified(less(gaps[1], gaps[0]), 2, "gaps")),
            Claim(
                "The distribution of a single return does not show it.", self.where,
                "largest difference of a mean or variance of a return between the models",
            ).no_contradiction(0.0, Measured.certified(_singles(*results), 8, "means and variances")),
            Claim(
                "The variance under (2.2) is γ²/(1 − γ²/2 − γ⁴/4).", self.where,
                "distance of the evaluation from the closed form", addition=True,
            ).no_contradiction(0.0, Measured.certified(_distance(gaps[1], truth), 1, "gap")),
        ]  # fmt: skip
        return Numbers(found, {"joint": joint[:, 0].tolist(), **self._over_discounts()})

    def _over_discounts(self) -> dict[str, Any]:
        discounts = np.linspace(0.05, 0.95, 19)
        variances = [
            [
                float(interval_of(jmdp.evaluate(model, jmdp.TabularPolicy.uniform(model), jmdp.Local())))
                for model in (example(opposite, float(discount)) for discount in discounts)
            ]
            for opposite in (False, True)
        ]
        return {"discounts": discounts.tolist(), "variances": variances}

    def figure(self, data: dict[str, Any]) -> Figure:
        """The two joint distributions of next states, and the variance of the gap against the discount."""
        figure, [axes, lower] = new_figure(2, 2, size=(WIDTH, 5.6))
        curves = span_row(lower)
        for panel, name, table in zip(axes, NAMES, data["joint"], strict=True):
            image = panel.imshow(table, cmap="Blues", vmin=0, vmax=1)
            for i, j in np.ndindex(2, 2):
                panel.text(j, i, f"{table[i][j]:g}", ha="center", va="center", color=ink(image, table[i][j]))
            panel.set_xticks([0, 1])
            panel.set_yticks([0, 1])
            panel.set_xlabel("next state of action 2")
            panel.set_ylabel("next state of action 1")
            panel.set_title(name, fontsize=SMALL)
        for i, (name, variances) in enumerate(zip(NAMES, data["variances"], strict=True)):
            curves.plot(
                data["discounts"],
                variances,
                color=COLOURS[i],
                linestyle=DASHES[i],
                marker="os"[i],
                markersize=4,
                label=name,
            )
        curves.set_xlabel("discount γ")
        curves.set_ylabel("variance of the gap (return²)")
        curves.set_title("gap: return of action 1 − return of action 2", fontsize=10)
        curves.legend(frameon=False)
        clear_spines(curves)
        return figure


def example(opposite: bool, discount: float) -> jmdp.TabularJMDP:
    """Two states, two actions, a fair coin U: next states are U and U, or U and 1 − U; reward 1 in state 1."""
    after = [[0, 1], [1, 0]] if opposite else [[0, 0], [1, 1]]
    return jmdp.TabularJMDP([[0.5, 0.5]] * 2, [[[0.0, 0.0]] * 2, [[1.0, 1.0]] * 2], [after, after], discount)


def joint_next_states(model: jmdp.TabularJMDP, state: int) -> np.ndarray:
    """Joint probabilities of both actions' next states, [2, 2]."""
    distribution, table = model.outcome_distribution(state), np.zeros((2, 2))
    np.add.at(table, tuple(distribution.next_state.T), distribution.prob)
    return table


def interval_of(result: jmdp.results.Evaluation) -> jmdp.results.Estimate:
    """Return the variance of the gap of the two actions in state 0, with its certified interval."""
    interval = result.gap(0, 0, 1).variance_interval
    assert interval is not None
    return jmdp.results.Estimate(result.gap(0, 0, 1).variance, interval.low, interval.high)


def gap_variance(g: Fraction) -> Fraction:
    """Return Var G under (2.2).

    One step brings the branches into different states, where their expected squared gap is V = 1 + γ²(V/2 + H/2): with
    probability ½ they reach the same state. There they draw the same action with probability ½ and merge; otherwise
    they are in the initial situation: H = γ²V/2. So V = 1/(1 − γ²/2 − γ⁴/4), and Var G = γ²V, as E[G] = 0 by symmetry.
    """
    return g**2 / (1 - g**2 / 2 - g**4 / 4)


def less(one: jmdp.results.Estimate, other: jmdp.results.Estimate) -> jmdp.results.Estimate:
    """Return the difference of two estimates, with its interval."""
    return jmdp.results.Estimate(one - other, one.low - other.high, one.high - other.low)


def _distance(found: jmdp.results.Estimate, truth: float) -> jmdp.results.Estimate:
    ends = [abs(found.low - truth), abs(found.high - truth)]
    return jmdp.results.Estimate(abs(found - truth), 0.0 if found.low <= truth <= found.high else min(ends), max(ends))


def _singles(one: jmdp.results.Evaluation, other: jmdp.results.Evaluation) -> jmdp.results.Estimate:
    """Return the largest difference of means and variances, with its certified interval."""
    assert one.certificate is not None
    assert other.certificate is not None
    found = []
    for name, error in (("mean", "mean_error"), ("covariance", "covariance_error")):
        values = [getattr(result, name) for result in (one, other)]
        errors = [np.broadcast_to(getattr(r.certificate, error), values[0].shape) for r in (one, other)]
        off, allowed = np.abs(values[0] - values[1]), errors[0] + errors[1]
        if name == "covariance":
            off, allowed = (np.einsum("saa->sa", table) for table in (off, allowed))
        found.append((off.ravel(), allowed.ravel()))
    off, allowed = (np.concatenate(part) for part in zip(*found, strict=True))
    return jmdp.results.Estimate(float(off.max()), max(0.0, float((off - allowed).max())), float((off + allowed).max()))
