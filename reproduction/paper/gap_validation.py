"""Means and variances of gaps, and bounds on P(gap ≤ 0), compared with simulation (Section 5.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.stats import beta

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure, span_row
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured

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
        self,
        gaps: int,
        predicted: jmdp.results.Gap,
        simulated: jmdp.results.Gap,
        sharper: jmdp.results.Gap,
        exact: jmdp.results.Gap,
    ) -> dict[str, Any]:
        assert simulated.mean_interval is not None
        assert simulated.variance_interval is not None
        drawn = simulated.distribution()
        chance, sure = float(drawn.cdf(0.0)), exact.distribution().cdf(0.0)
        low, high = self._binomial(round(chance * self.samples), gaps)
        positive = bool(predicted.is_better() is jmdp.results.Verdict.YES)
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
        chances = ("chance", "chance_low", "chance_high")
        estimate = jmdp.results.Estimate(*(float((d[key][positive] / d["bound"][positive]).max()) for key in chances))
        found.append(
            Claim(
                "(Not in the paper) The same holds for exact probabilities, from certified distributions.", self.where,
                f"the largest of {positive.sum()} ratios of P(gap ≤ 0) to bound",
            ).at_most(1.0, Measured.certified(estimate, int(positive.sum()), "gaps"), better=True)
        )  # fmt: skip
        return found

    def _sampled(self, value: float, low: float, high: float) -> Measured:
        return Measured(
            value, low, high, "sampled", self.samples, "rollouts per state", (self.seed,), self.family_confidence
        )

    def figure(self, data: dict[str, Any]) -> Figure:
        """Means, variances, and the three ECDFs."""
        figure, [upper, lower] = new_figure(2, 2, size=(WIDTH, 6.2))
        d = {key: np.array(values) for key, values in data.items()}
        for panel, what, unit in zip(upper, ("mean", "variance"), ("return", "return²"), strict=True):
            panel.errorbar(d[what], d[f"simulated_{what}"], yerr=d[f"{what}_error"], fmt="o", markersize=3.5,
                           color=COLOURS[0], ecolor=GREY, elinewidth=1, label="one gap")  # fmt: skip
            ends = [min(d[what].min(), d[f"simulated_{what}"].min()), max(d[what].max(), d[f"simulated_{what}"].max())]
            panel.plot(ends, ends, color="black", linewidth=1, zorder=0, label="equal")
            panel.set_title(f"{what} of the gap ({unit})", fontsize=10)
            panel.set_xlabel("predicted by JIPE-2")
            panel.locator_params(nbins=5)
            panel.legend(frameon=False, loc="upper left")
            clear_spines(panel)
        upper[0].set_ylabel("simulated, with its interval")
        self._draw_ratios(span_row(lower), d)
        return figure

    def _draw_ratios(self, axes: Axes, d: dict[str, Floats]) -> None:
        """Distribution functions of the ratios for three bounds; the first two nearly coincide, so one is wider."""
        positive = d["positive"].astype(bool)
        curves = (
            ("bound", "Cantelli bound, moments by JIPE-2", "#8FC1E0", "-", 5.0),
            ("simulated_bound", "Cantelli bound, simulated moments", "black", DASHES[1], 1.4),
            ("sharper_bound", f"bound from {self.moments} moments (ours)", COLOURS[2], DASHES[2], 1.8),
        )
        for bound, label, colour, dashes, width in curves:
            _ecdf(axes, d["frequency"][positive] / d[bound][positive], colour, dashes, label, width)
        axes.axvline(1.0, color=GREY, linewidth=1)
        axes.set_title("a valid bound has no ratio above 1", fontsize=10)
        axes.set_xlabel("simulated P(gap ≤ 0) / its upper bound")
        axes.set_ylabel("fraction of the gaps")
        axes.set_xlim(0, 1.05)
        axes.set_ylim(-0.02, 1.02)
        axes.legend(frameon=False, loc="upper left", fontsize=SMALL)
        clear_spines(axes)


def _as_if_exact(gap: jmdp.results.Gap) -> jmdp.results.Gap:
    """Return the same gap with its mean and variance treated as exact."""
    mean, variance = jmdp.results.Interval(gap.mean, gap.mean), jmdp.results.Interval(gap.variance, gap.variance)
    return replace(gap, mean_interval=mean, variance_interval=variance)


def _ecdf(axes: Axes, values: Floats, colour: str, dashes: Any, label: str, width: float) -> None:
    seen = np.sort(values)
    axes.step(
        [0, *seen, 1.05],
        [0, *(np.arange(seen.size) + 1) / seen.size, 1],
        where="post",
        color=colour,
        linestyle=dashes,
        linewidth=width,
        label=label,
    )
