"""The chart of a comparison: its numbers are those of the comparison, and no text is off the page or on another."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import pytest

import jmdp
from jmdp.base.interval import Interval
from jmdp.errors import LabelError
from jmdp.show.plots.comparison_chart import plain
from jmdp.simulators import FunctionSimulator
from jmdp.statistics.sample_summary import SampleSummary

pytest.importorskip("matplotlib")

from matplotlib.text import Text

ALE = ["NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT", "UPFIRE"]
ALE += ["RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE"]
LONG = ["a name much too long to be written beside a bar", "two $x^2$", "[0.123, -0.456,\n 0.789, 1.234]"]


def asked(reward, names, samples=100, **settings):
    """One step, one luck for all actions."""
    simulator = FunctionSimulator(
        reward,
        lambda s, a, u: s + 1,
        names,
        luck=lambda generator: generator.normal(size=3),
        start=0,
        terminal=lambda s: s >= 1,
    )
    return jmdp.compare(simulator, policy="uniform", seed=7, max_samples=samples, **({"discount": 0.9} | settings))


def noisy(names, scale=1.0, samples=100, **settings):
    """The last but three is best; most gaps vary, all returns vary far more."""
    best = max(0, len(names) - 4)
    return asked(lambda s, a, u: scale * (3 * u[0] + u[a % 3] - 0.3 * abs(a - best)), names, samples, **settings)


def with_gap_errors(comparison, error):
    class Summary(SampleSummary):
        def gap_interval(self, a, b):
            mean = float(np.subtract(*self.samples.of(a, b).returns.mean(axis=0)))
            return Interval(mean - error, mean + error)

    fields = [field.name for field in dataclasses.fields(SampleSummary) if field.init]
    summary = Summary(**{name: getattr(comparison.summary, name) for name in fields})
    return dataclasses.replace(comparison, summary=summary, best=None, outcome=jmdp.results.Outcome.BUDGET_EXHAUSTED)


def inventory(policy):
    world = jmdp.worlds.inventory(capacity=10)
    chosen = "uniform" if policy is None else world.policies[policy]
    return jmdp.compare(world.model, chosen, state=3, seed=0, max_samples=80)


def cart_pole():
    env = pytest.importorskip("gymnasium").make("CartPole-v1")
    env.reset(seed=0)
    return jmdp.compare(env, policy="uniform", discount=0.95, seed=0, max_samples=64)


def measured():
    """Three measures, of which one is decided for another design and one is not."""

    def shop(order):
        def run(luck):
            demand = luck.poisson("demand", 0, mean=4)
            sold = min(order, demand)
            return {"profit": 5.0 * sold - 2.0 * order, "left": order - sold, "cost in $": luck.uniform(str(order))}

        return run

    return jmdp.compare_runs({"four": shop(4), "six": shop(6), "eight": shop(8)}, minimize=["left"], seed=0,
                             max_samples=300, progress=False)  # fmt: skip


CASES = {
    "inventory, uniform": lambda: inventory(None),
    "inventory, base stock": lambda: inventory("base_stock"),
    "two actions": cart_pole,
    "18 actions": lambda: noisy(ALE),
    "18 actions, few rollouts": lambda: noisy(ALE, samples=8),
    "two rollouts": lambda: noisy(ALE[:5], samples=2),
    "very small": lambda: noisy(ALE[:4], 1e-6),
    "smaller": lambda: noisy(ALE[:4], 1e-200),
    "very large": lambda: noisy(ALE[:4], 1e6),
    "independent luck": lambda: noisy(ALE[:4], coupling=jmdp.Independent()),
    "undiscounted": lambda: noisy(ALE[:4], discount=1.0, horizon=1),
    "long names": lambda: noisy(LONG),
    "numbered": lambda: noisy(["0", "1", "2", "3"]),
    "no gap ever": lambda: asked(lambda s, a, u: u[0], ALE[:3]),
    "no luck": lambda: asked(lambda s, a, u: 0.1 * a, ALE[:3]),
    "nothing at all": lambda: asked(lambda s, a, u: 0.0, ALE[:3]),
    "some ties": lambda: asked(lambda s, a, u: float(np.floor(u[0]) * (a + 1)), ALE[:3]),
    "rare parts": lambda: asked(lambda s, a, u: 0.0 if abs(u[0]) < 0.05 else a * (1 if u[0] < 2 else -1), ALE[:3], 900),
    "unknown means": lambda: with_gap_errors(noisy(ALE[:5]), np.inf),
    "wide intervals": lambda: with_gap_errors(noisy(ALE[:5]), 1e5),
    "certain means": lambda: with_gap_errors(noisy(ALE[:5]), 0.0),
    "several measures": measured,
}


def texts(figure):
    """All that can be read, with its box in pixels."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    # Ticks beyond the limits are kept, but not drawn.
    hidden = {
        label
        for axes in figure.axes
        for tick in axes.xaxis.get_major_ticks()
        if not min(axes.get_xlim()) <= tick.get_loc() <= max(axes.get_xlim())
        for label in (tick.label1, tick.label2)
    }
    return {text: text.get_window_extent() for text in found if text not in hidden}


@pytest.mark.parametrize("case", CASES)
def test_all_is_on_the_page_and_nothing_on_top_of_another(case, tmp_path):
    figure = jmdp.plots.comparison_chart(CASES[case]())
    boxes, page = texts(figure), figure.bbox
    assert len(boxes) > 12
    for text, box in boxes.items():
        assert box.x0 >= page.x0, text
        assert box.y0 >= page.y0, text
        assert box.x1 <= page.x1, text
        assert box.y1 <= page.y1, text
    for (one, box), (other, beside) in combinations(boxes.items(), 2):
        separate = box.x1 <= beside.x0 or beside.x1 <= box.x0 or box.y1 <= beside.y0 or beside.y1 <= box.y0
        assert separate, (one, other)
    if case == "long names":
        figure.savefig(tmp_path / "chart.png")


def words(figure):
    """All texts, each in one line."""
    return [" ".join(text.get_text().split()) for text in texts(figure)]


def test_bars_dots_and_parts_are_those_of_the_comparison():
    c = asked(lambda s, a, u: 0.7 * u[0] + u[a] - 0.6 * a**2, ALE[:3], 300, precision=1e-6)
    figure = jmdp.plots.comparison_chart(c)
    left, right = figure.axes
    ranked = sorted(c.alternatives, key=lambda a: -float(c.mean_of(a)))
    assert [label.get_text() for label in left.get_yticklabels()] == ranked
    assert ranked[0] == c.leader
    assert left.get_ylim()[0] > left.get_ylim()[1]  # the best on top
    dots = [line for line in left.get_lines() if line.get_marker() == "o"]
    lines = [line for line in left.get_lines() if line.get_linewidth() == 2.2]
    behind = [c.gap(c.leader, action) for action in ranked[1:]]
    np.testing.assert_allclose([dot.get_xdata()[0] for dot in dots], [gap.mean for gap in behind])
    np.testing.assert_allclose(
        [line.get_xdata() for line in lines], [(gap.mean_interval.low, gap.mean_interval.high) for gap in behind]
    )
    for dot, gap in zip(dots, behind, strict=True):
        assert (dot.get_markerfacecolor() != "white") == (gap.mean_interval.low > 0)
    covariance, index = c.evaluation.covariance[0], c.evaluation.actions.index
    own, shared = left.patches[::2], left.patches[1::2]
    variances = [covariance[index(c.leader), index(c.leader)] + covariance[index(b), index(b)] for b in ranked[1:]]
    np.testing.assert_allclose([bar.get_width() for bar in own], 2 * np.sqrt(variances))
    np.testing.assert_allclose([bar.get_width() for bar in shared], [2 * gap.std for gap in behind])
    parts = np.array([bar.get_width() for bar in right.patches]).reshape(-1, 3)
    np.testing.assert_allclose(parts.sum(axis=1), 1)
    np.testing.assert_allclose(parts[:, 0], [c.superiority(c.leader, b) for b in ranked[1:]])
    np.testing.assert_allclose(parts[:, 2], [c.superiority(b, c.leader) for b in ranked[1:]])


def test_the_numbers_are_written():
    c = asked(lambda s, a, u: 0.0 if abs(u[0]) < 0.5 else a * 1.0 if u[0] < 1 else -a, ["stay", "go"], 400)
    figure = jmdp.plots.comparison_chart(c)
    found = words(figure)
    gap = c.gap("go", "stay")
    error = gap.mean_interval.width / 2
    [mean] = [text for text in found if " ± " in text]
    value, off = map(float, mean.split(" ± "))
    assert abs(value - gap.mean) <= 0.0051
    assert error <= off <= error + 0.011
    own = float(np.sqrt(np.trace(c.evaluation.covariance[0])))
    assert f"std {gap.std:.2g} ({own:.2g})" in found
    assert "± 1 std with independent draws (std in brackets)" in found
    better, worse = c.superiority("go", "stay"), c.superiority("stay", "go")
    percents = [int(text[:-1]) for text in found if text.endswith("%") and text not in ("0%", "25%", "75%", "100%")]
    for part in (better, worse, 1 - better - worse):
        assert any(abs(percent - 100 * part) < 1 for percent in percents)
    caption = f"{c.samples} rollouts of each action · seed 7 · 95% confidence, large-sample Synchronous coupling"
    assert f"{caption} · best found" in found
    assert "go is best" in found
    mine = words(jmdp.plots.comparison_chart(c, title="mine"))
    assert "mine" in mine
    assert "go is best" not in mine


def test_the_verdict_says_who_may_be_as_good():
    c = asked(lambda s, a, u: [0.0, 0.001 * u[0], -5.0 + u[1]][a], ["x", "y", "z"])
    assert c.best is None
    other = "y" if c.leader == "x" else "x"
    assert f"Not decided: {c.leader} leads, but {other} may be as good" in words(jmdp.plots.comparison_chart(c))
    c = noisy(ALE[:5], samples=8)
    found = words(jmdp.plots.comparison_chart(c))
    assert f"Not decided, too few rollouts; {c.leader} leads" in found
    assert "mean gap with its interval: may be equal" in found
    assert f"mean gap with its interval: {c.leader} is better" not in found
    c = with_gap_errors(noisy(ALE[:5]), np.inf)
    found = words(jmdp.plots.comparison_chart(c))
    assert f"Not decided: {c.leader} leads, but 4 of the 4 others may be as good" in found
    assert sum(text.endswith("(no error bound)") for text in found) == 4


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_are_named_where_numbers_would_be_long(scale):
    one, other = jmdp.plots.comparison_chart(noisy(ALE[:4])), jmdp.plots.comparison_chart(noisy(ALE[:4], scale))
    unit = {1e-6: ", × 10⁻⁶", 1e6: ", × 10⁶"}[scale]
    assert other.axes[0].get_xlabel() == one.axes[0].get_xlabel() + unit
    plain, scaled = ([text for text in words(figure) if " ± " in text or "std" in text] for figure in (one, other))
    assert plain == scaled


@pytest.mark.parametrize("ties", [False, True])
def test_whiskers_on_the_borders_are_the_intervals_of_the_chances(ties):
    c = asked(lambda s, a, u: a * (np.floor(u[0]) if ties else u[0]), ["x", "y"], 200)
    other = next(action for action in c.alternatives if action != c.leader)
    lower = jmdp.plots.comparison_chart(c).axes[1]
    drawn = [bar.lines[2][0].get_segments()[0][:, 0] for bar in lower.containers if hasattr(bar, "has_xerr")]
    better, worse = c.superiority(c.leader, other), c.superiority(other, c.leader)
    expected = [(better.low, better.high)] + [(1 - worse.high, 1 - worse.low)] * ties
    np.testing.assert_allclose(drawn[::2], expected)
    np.testing.assert_allclose(drawn[1::2], expected)  # each on a white outline


def test_a_far_bar_of_independent_luck_is_cut_and_does_not_press_the_rest_together():
    c = asked(lambda s, a, u: 1e4 * u[0] + (u[1] if a else 0.0), ["x", "y"])
    left = jmdp.plots.comparison_chart(c).axes[0]
    low, high = left.get_xlim()
    assert high - low < 3 * c.gap("x", "y").std
    assert [line.get_marker() for line in left.get_lines() if line.get_marker() in "<>"] == ["<", ">"]


def test_it_grows_with_the_actions():
    assert (
        jmdp.plots.comparison_chart(noisy(ALE)).get_figheight()
        > jmdp.plots.comparison_chart(noisy(ALE[:4])).get_figheight() + 4
    )


def test_a_comparison_draws_itself():
    assert len(noisy(ALE[:4]).plot().axes) == 2


def test_all_measures_are_drawn_one_below_the_other():
    found = measured()
    figure = found.plot()
    assert len(figure.axes) == 6
    tops = []
    for measure, panel in zip(found, figure.subfigs, strict=True):
        alone = found.plot(measure)
        assert [" ".join(t.get_text().split()) for t in panel.findobj(Text)] == [
            " ".join(t.get_text().split()) for t in alone.findobj(Text)
        ]
        assert panel.get_suptitle().startswith(f"{plain(measure)}: ")
        tops.append(panel.bbox.y1)
    assert tops == sorted(tops, reverse=True)
    assert figure.subfigs[1].get_suptitle() == "left: four is best"
    assert found.plot("left").get_suptitle() == "left: four is best"
    titled = jmdp.plots.comparison_chart(found, title="mine")
    assert (titled.get_suptitle(), titled.subfigs[1].get_suptitle()) == ("mine", "left: four is best")
    with pytest.raises(LabelError):
        found.plot("right")


def test_beside_a_baseline_to_the_right_is_better():
    """As in the printed table: gaps are policy less baseline."""
    world = jmdp.worlds.inventory(6)
    policies = {name: world.policies[name] for name in ("never", "base_stock")}
    found = jmdp.compare_policies(world, policies, seed=0, baseline="never")
    left, right = found.plot().axes
    points = [line.get_xdata()[0] for line in left.lines if line.get_marker() == "o"]
    assert points == [pytest.approx(found.gap("base_stock", "never").mean)]
    assert points[0] > 0
    assert left.get_title("left") == "gain over never"
    assert right.get_title("left") == "how often each does better than never"
    assert right.patches[0].get_width() == pytest.approx(float(found.superiority("base_stock", "never")))


def test_with_a_margin_the_verdict_is_about_the_margin():
    old, more = np.random.default_rng(0).normal(size=(2, 200))
    scores = {"old": old, "new": old + 0.1 * more, "bad": old - 3 + 0.1 * more}
    found = jmdp.compare_scores(
        {name: list(values) for name, values in scores.items()}, pair="position", baseline="old", margin=1
    )
    title = " ".join(found.plot().get_suptitle().split())
    assert title == "Beside old, margin 1: new is not worse, bad is worse"
