"""Means and variances of gaps, and bounds on P(gap ≤ 0), compared with simulation (Section 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy.stats import beta

import jmdp
from jmdp.show.plots.style import COLOURS, DASHES, GREY, SMALL, WIDTH, clear_spines, new_figure
from reproduction.experiment import Experiment, Numbers, Work
from reproduction.findings import Claim, Finding, Floats, Measured, Setting
from reproduction.paper import authors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Case(NamedTuple):
    """Gaps of a model, and how they are predicted and simulated."""

    model: jmdp.TabularJMDP
    policy: jmdp.TabularPolicy
    still: int  # the goal, where nothing varies
    samples: int
    horizon: int | None
    predicted: Callable[[tuple[int, int, int]], tuple[float, float]]  # mean and variance of a gap


@dataclass(frozen=True, kw_only=True)
class GapValidation(Experiment):
    """Gaps between the policy's action and all others, in every state of a windy gridworld."""

    name = "gap_validation"
    title = "Gaps, predicted and simulated"
    where = "Figure 6"
    described = (
        "three panels: predicted against simulated means of gaps, the same for variances, and the empirical "
        "distribution functions of the ratios of P(gap ≤ 0) to its bound, with predicted and with simulated moments. "
        "The text says that means and variances agree and that all ratios are at most 1."
    )
    theirs = (
        "Grid of 10 × 7 cells, γ = 0.99, gusts down with probability 0.2, the goal absorbing with reward 1 in each "
        "step; right until the goal's column, then up; this action against each other one in all states but the goal; "
        "moments after 250 sweeps from N(0, 0.1²); 500 paired rollouts of 300 steps."
    )
    ours = (
        "The built-in world: 5 × 5 cells, γ = 0.95, gusts to the left with probability 0.3; 200,000 paired rollouts; "
        "moments by JIPE. On both settings frequencies include ties, as P(gap ≤ 0) does, and ratios are those of gaps "
        "whose mean is certainly positive, which the bound assumes."
    )

    side: int = 5
    """Rows and columns of our gridworld."""
    discount: float = 0.95
    """Discount on our settings."""
    samples: int = 200_000
    """Rollouts per state on our settings."""
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

    def cases(self, progress: bool) -> dict[Setting, Case]:
        """Both settings."""
        grid = authors.grid()
        policy = authors.right_then_up(grid)
        operator = authors.PaperOperator(grid, policy)
        mean, second = operator.iterates(self.seed)[-1]
        covariance, mean = operator.covariances(mean, second), mean.reshape(grid.states.size, -1)
        world = jmdp.worlds.windy_gridworld(self.side, self.side, discount=self.discount)
        directed = world.policies["goal_directed"]
        found = jmdp.evaluate(world.model, directed, jmdp.Local(), jmdp.JIPE(), progress=progress)

        def after_sweeps(gap: tuple[int, int, int]) -> tuple[float, float]:
            s, a, b = gap
            own = covariance[s, a, a] + covariance[s, b, b]
            return float(mean[s, a] - mean[s, b]), float(own - 2 * covariance[s, a, b])

        def by_jipe(gap: tuple[int, int, int]) -> tuple[float, float]:
            return found.gap(*gap).mean, found.gap(*gap).variance

        return {
            Setting.AUTHORS: Case(
                grid, policy, authors.COLUMNS - 1, authors.PAIRS, authors.HORIZON, after_sweeps
            ),
            Setting.OURS: Case(world.model, directed, self.side - 1, self.samples, None, by_jipe),
        }  # fmt: skip

    def run(self, work: Work) -> Numbers:
        """Predict, simulate, and compute the exact distributions, on both settings."""
        data: dict[str, Any] = {}
        for setting, case in self.cases(work.progress).items():
            gaps = [
                (s, int(a), b)
                for s, a in enumerate(case.policy.probs.argmax(axis=1))
                for b in range(case.policy.probs.shape[1])
                if b != a and s != case.still
            ]
            each = 1 - (1 - self.family_confidence) / len(gaps)
            methods = (
                jmdp.MonteCarlo(seed=self.seed, samples=case.samples, confidence=each, horizon=case.horizon),
                jmdp.ExactPairs(order=self.moments),
                jmdp.ExactDistribution(tolerance=self.distribution_tolerance),
            )
            simulated, sharper, distributions = (
                jmdp.evaluate(case.model, case.policy, jmdp.Local(), method=method, progress=work.progress)
                for method in methods
            )
            rows = [
                self._row(case, len(gaps), gap, *(found.gap(*gap) for found in (simulated, sharper, distributions)))
                for gap in gaps
            ]
            data[setting.name] = {key: [row[key] for row in rows] for key in rows[0]}
        return Numbers(self._judged(data), data)

    def _row(
        self,
        case: Case,
        gaps: int,
        gap: tuple[int, int, int],
        simulated: jmdp.results.Gap,
        sharper: jmdp.results.Gap,
        exact: jmdp.results.Gap,
    ) -> dict[str, Any]:
        assert simulated.mean_interval is not None
        assert simulated.variance_interval is not None
        mean, variance = case.predicted(gap)
        drawn = simulated.distribution()
        chance, sure = float(drawn.cdf(0.0)), exact.distribution().cdf(0.0)
        low, high = self._binomial(round(chance * case.samples), gaps, case.samples)
        positive = bool(sharper.is_better() is jmdp.results.Verdict.YES)
        return {
            "gap": f"{sharper.state}: {sharper.first} − {sharper.second}",
            "mean": mean, "variance": variance,
            "simulated_mean": simulated.mean, "simulated_variance": simulated.variance,
            "mean_error": simulated.mean_interval.high - simulated.mean,
            "variance_error": simulated.variance_interval.high - simulated.variance,
            "frequency": chance, "frequency_low": low, "frequency_high": high,
            "chance": float(sure), "chance_low": sure.low, "chance_high": sure.high,
            "positive": positive,
            "bound": cantelli(mean, variance) if positive else 1.0,
            "simulated_bound": cantelli(simulated.mean, simulated.variance) if positive else 1.0,
            "sharper_bound": sharper.cdf_bounds(0.0).high if positive else 1.0,
        }  # fmt: skip

    def _binomial(self, count: int, gaps: int, n: int) -> tuple[float, float]:
        """Clopper-Pearson interval of a probability, at the simultaneous confidence of all gaps."""
        error = (1 - self.family_confidence) / gaps
        low = 0.0 if count == 0 else float(beta.ppf(error / 2, count, n - count + 1))
        return low, 1.0 if count == n else float(beta.isf(error / 2, count + 1, n - count))

    def _judged(self, data: dict[str, Any]) -> list[Finding]:
        found = []
        for name, columns in data.items():
            samples = authors.PAIRS if name == Setting.AUTHORS.name else self.samples
            found += self._judged_on(Setting[name], {key: np.array(of) for key, of in columns.items()}, samples)
        return found

    def _judged_on(self, setting: Setting, d: dict[str, Floats], samples: int) -> list[Finding]:
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
                    f"simultaneous confidence {self.family_confidence:.0%}", setting=setting,
                ).no_contradiction(0.0, self._sampled(share, max(share - 1, 0.0), share + 1, samples))
            )  # fmt: skip
        ratio, low, high = (
            d[key][positive] / d["bound"][positive] for key in ("frequency", "frequency_low", "frequency_high")
        )
        worst = int(low.argmax())
        found.append(
            Claim(
                "The ratio of simulated frequency to bound is at most 1: the bound is not violated.", self.where,
                f"the ratio with the largest lower end of {positive.sum()}; simultaneous confidence "
                f"{self.family_confidence:.0%}", setting=setting,
            ).no_contradiction(1.0, self._sampled(float(ratio[worst]), float(low[worst]), float(high[worst]), samples))
        )  # fmt: skip
        chances = ("chance", "chance_low", "chance_high")
        estimate = jmdp.results.Estimate(*(float((d[key][positive] / d["bound"][positive]).max()) for key in chances))
        found.append(
            Claim(
                "The same holds for exact probabilities, from certified distributions.", self.where,
                f"the largest of {positive.sum()} ratios of P(gap ≤ 0) to bound", setting=setting, addition=True,
            ).at_most(1.0, Measured.certified(estimate, int(positive.sum()), "gaps"), better=True)
        )  # fmt: skip
        return found

    def _sampled(self, value: float, low: float, high: float, samples: int) -> Measured:
        return Measured(
            value, low, high, "sampled", samples, "rollouts per state", (self.seed,), self.family_confidence
        )  # fmt: skip

    def figure(self, data: dict[str, Any]) -> Figure:
        """Means, variances and distribution functions: the authors' settings on the left, ours on the right."""
        figure, grid = new_figure(3, 2, size=(WIDTH, 8.8))
        for column, (name, columns) in enumerate(data.items()):
            d = {key: np.array(values) for key, values in columns.items()}
            for row, what, unit in zip(grid, ("mean", "variance"), ("return", "return²"), strict=False):
                _draw_gaps(row[column], d, what)
                row[column].set_title(f"{Setting[name]}: {what} ({unit})", fontsize=SMALL)
            self._draw_ratios(grid[2][column], d)
        for row, label in zip(grid, ("simulated, with its interval",) * 2 + ("fraction of the gaps",), strict=True):
            row[0].set_ylabel(label)
        handles, labels = grid[2][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", frameon=False, fontsize=SMALL)
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
        axes.set_xlabel("simulated P(gap ≤ 0) / bound")
        axes.set_xlim(0, max(1.05, 1.05 * float((d["frequency"][positive] / d["simulated_bound"][positive]).max())))
        axes.set_ylim(-0.02, 1.02)
        clear_spines(axes)


def _draw_gaps(panel: Axes, d: dict[str, Floats], what: str) -> None:
    """Simulated against predicted numbers of all gaps."""
    panel.errorbar(d[what], d[f"simulated_{what}"], yerr=d[f"{what}_error"], fmt="o", markersize=3.5,
                   color=COLOURS[0], ecolor=GREY, elinewidth=1, label="one gap")  # fmt: skip
    ends = [min(d[what].min(), d[f"simulated_{what}"].min()), max(d[what].max(), d[f"simulated_{what}"].max())]
    panel.plot(ends, ends, color="black", linewidth=1, label="equal")
    panel.set_xlabel("predicted by JIPE-2")
    panel.locator_params(nbins=5)
    panel.legend(frameon=False, loc="upper left", fontsize=SMALL)
    clear_spines(panel)


def cantelli(mean: float, variance: float) -> float:
    """Upper bound on P(gap ≤ 0) for a positive mean, σ²/(σ² + μ²)."""
    return variance / (variance + mean**2)


def _ecdf(axes: Axes, values: Floats, colour: str, dashes: Any, label: str, width: float) -> None:
    seen = np.sort(values)
    axes.step(
        [0, *seen, max(1.05, 1.1 * seen[-1])],
        [0, *(np.arange(seen.size) + 1) / seen.size, 1],
        where="post",
        color=colour,
        linestyle=dashes,
        linewidth=width,
        label=label,
    )
