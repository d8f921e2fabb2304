"""Means and variances of gaps, and bounds on P(gap ≤ 0), compared with simulation (Section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import beta

import jmdp
from jmdp.experiments.reproduction.experiment import Experiment, Numbers, Work
from jmdp.experiments.reproduction.findings import Claim, Finding, Floats, Measured
from jmdp.plots.style import COLOURS, DASHES, GREY, clear_spines, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class GapValidation(Experiment):
    """Gaps between the policy's action and all others, in every state of a windy gridworld."""

    name = "gap_validation"
    title = "Gaps, predicted and simulated"
    where = "Figure 6"
    ours = (
        "The paper states neither the size of its gridworld nor the number of rollouts. Ours is that of its Figure 2, "
        "5 × 5, with the defaults of the built-in world. Frequencies include ties, as P(gap ≤ 0) does. The paper's "
        "bound assumes a positive mean, so the ratios are those of gaps whose mean is certainly positive."
    )

    side: int = 5
    """Rows and columns of the gridworld."""
    discount: float = 0.95
    samples: int = 200_000
    """Rollouts per state."""
    seed: int = 2026
    family_confidence: float = 0.99
    """Simultaneous confidence of all intervals of one finding (Bonferroni)."""
    moments: int = 8
    """Order of the sharper bounds."""
    distribution_tolerance: float = 0.01
    """Tolerance of certified probabilities."""

    @classmethod
    def quick(cls) -> Self:
        """Fewer rollouts, coarser distributions."""
        return cls(samples=20_000, distribution_tolerance=0.05)

    def run(self, work: Work) -> Numbers:
        """Predict by JIPE-2, simulate, and compute the exact distributions."""
        world = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        policy = world.policies["goal_directed"]
        gaps = [
            (s, int(a), b)
            for s, a in enumerate(policy.probs.argmax(axis=1))
            for b in range(policy.probs.shape[1])
            if b != a and not world.model.terminal[s]
        ]
        each = 1 - (1 - self.family_confidence) / len(gaps)
        sampling = jmdp.MonteCarlo(seed=self.seed, samples=self.samples, confidence=each)
        methods = (
            jmdp.JIPE(),
            sampling,
            jmdp.ExactPairs(order=self.moments),
            jmdp.ExactDistribution(tolerance=self.distribution_tolerance),
        )
        predicted, simulated, sharper, distributions = (
            jmdp.evaluate(world.model, policy, jmdp.Local(), method=method, progress=work.progress)
            for method in methods
        )
        rows = [
            self._row(len(gaps), *(result.gap(*gap) for result in (predicted, simulated, sharper, distributions)))
            for gap in gaps
        ]
        data: dict[str, Any] = {key: [row[key] for row in rows] for key in rows[0]}
        return Numbers(self._judged({key: np.array(values) for key, values in data.items()}), data)

    def _row(
        self, gaps: int, predicted: jmdp.Gap, simulated: jmdp.Gap, sharper: jmdp.Gap, exact: jmdp.Gap
    ) -> dict[str, Any]:
        assert simulated.mean_interval is not None
        assert simulated.variance_interval is not None
        drawn = simulated.distribution()
        chance, sure = float(drawn.cdf(0.0)), exact.distribution().cdf(0.0)
        low, high = self._binomial(round(chance * self.samples), gaps)
        positive = bool(predicted.is_better() is jmdp.Verdict.YES)
        return {
            "gap": f"{predicted.state}: {predicted.first} − {predicted.second}",
            "mean": predicted.mean, "variance": predicted.variance,
            "simulated_mean": simulated.mean, "simulated_variance": simulated.variance,
            "mean_error": simulated.mean_interval.high - simulated.mean,
            "variance_error": simulated.variance_interval.high - simulated.variance,
            "frequency": chance, "frequency_low": low, "frequency_high": high,
            "chance": float(sure), "chance_low": sure.low, "chance_high": sure.high,
            "positive": positive,
            "bound": predicted.inferiority_bound() if positive else 1.0,
            "simulated_bound": _as_if_exact(simulated).inferiority_bound() if positive else 1.0,
            "sharper_bound": sharper.cdf_bounds(0.0).high if positive else 1.0,
        }  # fmt: skip

    def _binomial(self, count: int, gaps: int) -> tuple[float, float]:
        """Clopper-Pearson interval of a probability, at the simultaneous confidence of all gaps."""
        n, error = self.samples, (1 - self.family_confidence) / gaps
        low = 0.0 if count == 0 else float(beta.ppf(error / 2, count, n - count + 1))
        return low, 1.0 if count == n else float(beta.isf(error / 2, count + 1, n - count))

    def _judged(self, d: dict[str, Floats]) -> list[Finding]:
        count = len(d["mean"])
        positive = d["positive"].astype(bool)
        found = []
        for what, plural in (("mean", "means"), ("variance", "variances")):
            off = np.abs(d[what] - d[f"simulated_{what}"])
            share = float((off / np.maximum(d[f"{what}_error"], 1e-12)).max())  # constant gaps have error 0
            found.append(
                Claim(
                    f"Predicted {plural} of gaps agree with simulation.", self.where,
                    f"largest difference of {count} {plural}, in half-widths of the simulation's interval; "
                    f"simultaneous confidence {self.family_confidence:.0%}",
                ).no_contradiction(0.0, self._sampled(share, max(share - 1, 0.0), share + 1))
            )  # fmt: skip
        ratio, low, high = (
            d[key][positive] / d["bound"][positive] for key in ("frequency", "frequency_low", "frequency_high")
        )
        worst = int(low.argmax())
        found.append(
            Claim(
                "The ratio of simulated frequency to bound is at most 1: the bound is not violated.", self.where,
                f"the ratio with the largest lower end of {positive.sum()}; simultaneous confidence "
                f"{self.family_confidence:.0%}",
            ).no_contradiction(1.0, self._sampled(float(ratio[worst]), float(low[worst]), float(high[worst])))
        )  # fmt: skip
        certified = [
            float((d[key][positive] / d["bound"][positive]).max()) for key in ("chance", "chance_low", "chance_high")
        ]
        found.append(
            Claim(
                "(Not in the paper) The same holds for exact probabilities, from certified distributions.", self.where,
                f"the largest of {positive.sum()} ratios of P(gap ≤ 0) to bound",
            ).at_most(1.0, Measured.certified(jmdp.Estimate(*certified), int(positive.sum()), "gaps"), better=True)
        )  # fmt: skip
        return found

    def _sampled(self, value: float, low: float, high: float) -> Measured:
        return Measured(
            value, low, high, "sampled", self.samples, "rollouts per state", (self.seed,), self.family_confidence
        )

    def figure(self, data: dict[str, Any]) -> Figure:
        """Plot means, variances, and three empirical distribution functions of ratios."""
        figure, [axes] = new_figure(1, 3, size=(12.6, 4.3))
        d = {key: np.array(values) for key, values in data.items()}
        for panel, what, name in ((axes[0], "mean", "mean of the gap"), (axes[1], "variance", "variance of the gap")):
            panel.errorbar(d[what], d[f"simulated_{what}"], yerr=d[f"{what}_error"], fmt="o", markersize=3.5,
                           color=COLOURS[0], ecolor=GREY, elinewidth=1, label="a state and two actions")  # fmt: skip
            ends = [min(d[what].min(), d[f"simulated_{what}"].min()), max(d[what].max(), d[f"simulated_{what}"].max())]
            panel.plot(ends, ends, color=COLOURS[1], linewidth=1, label="equal")
            panel.set_xlabel(f"{name}, predicted by JIPE-2")
            panel.set_ylabel(f"{name}, simulated")
            panel.legend(frameon=False)
            clear_spines(panel)
        positive = d["positive"].astype(bool)
        curves = (
            ("bound", "frequency", "Cantelli, moments by JIPE-2"),
            ("simulated_bound", "frequency", "Cantelli, simulated moments"),
            ("sharper_bound", "frequency", f"{self.moments} moments (ours)"),
        )
        for i, (bound, chance, label) in enumerate(curves):
            _ecdf(axes[2], d[chance][positive] / d[bound][positive], COLOURS[i], DASHES[i], label)
        axes[2].axvline(1.0, color=GREY, linewidth=1)
        axes[2].set_xlabel("simulated P(gap ≤ 0) / its upper bound")
        axes[2].set_ylabel("share of the gaps")
        axes[2].set_xlim(0, 1.05)
        axes[2].legend(frameon=False, loc="upper left", fontsize=9)
        clear_spines(axes[2])
        return figure


def _as_if_exact(gap: jmdp.Gap) -> jmdp.Gap:
    """Return the same gap with its mean and variance treated as exact."""
    mean, variance = jmdp.Interval(gap.mean, gap.mean), jmdp.Interval(gap.variance, gap.variance)
    return replace(gap, mean_interval=mean, variance_interval=variance)


def _ecdf(axes: Axes, values: Floats, colour: str, dashes: Any, label: str) -> None:
    seen = np.sort(values)
    axes.step(
        [0, *seen, 1.05],
        [0, *(np.arange(seen.size) + 1) / seen.size, 1],
        where="post",
        color=colour,
        linestyle=dashes,
        label=label,
    )
