"""Figures carry what they should; how they look is for eyes."""

from __future__ import annotations

import dataclasses
import sys
from itertools import pairwise, permutations

import numpy as np
import pytest

import jmdp
from jmdp.base import rounding
from jmdp.errors import MissingExtraError, PolicyError, SettingsError, UnavailableError
from jmdp.results.result import LearningCurve
from jmdp.show.plots import grids
from jmdp.show.plots.gaps import _bound


@pytest.fixture(scope="module")
def world():
    return jmdp.worlds.windy_gridworld(3, 3)


@pytest.fixture(scope="module")
def result(world):
    return jmdp.evaluate(world.model, world.policies["goal_directed"], jmdp.Local())


def test_residual_curve_shows_every_sweep(world, result, tmp_path):
    jipe = jmdp.evaluate(world.model, world.policies["goal_directed"], jmdp.Local(), method=jmdp.JIPE())
    figure = jmdp.plots.residual_curve({"paper": jipe, "pairs": result})
    [axes] = figure.axes
    assert axes.get_yscale() == "log"
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert f"paper ({jipe.residuals.size} sweeps)" in lines
    np.testing.assert_array_equal(
        lines[f"paper ({jipe.residuals.size} sweeps)"].get_ydata(), jipe.residuals[jipe.residuals > 0]
    )
    assert "γ = 0.95 per sweep" in lines
    figure.savefig(tmp_path / "residuals.png")
    assert jmdp.plots.residual_curve(result, title="mine").axes[0].get_title() == "mine"


def test_residual_curve_refuses_what_did_not_sweep(world):
    sampled = jmdp.evaluate(
        world.model, world.policies["uniform"], jmdp.Local(), method=jmdp.MonteCarlo(seed=0, samples=10)
    )
    with pytest.raises(UnavailableError, match="MonteCarlo does not sweep"):
        jmdp.plots.residual_curve(sampled)


def test_correlation_grid_is_laid_out_as_the_grid(world, result, tmp_path):
    figure = jmdp.plots.correlation_grid(result, world.grid, terminal=["0,2"])
    tiles = figure.axes[:9]
    assert [tile.get_title() for tile in tiles] == [f"{r},{c}" for r in range(3) for c in range(3)]
    for s, tile in enumerate(tiles):
        np.testing.assert_array_equal(tile.get_images()[0].get_array().filled(np.nan), result.correlation[s])
    assert [text.get_text() for text in tiles[2].texts] == ["end"]
    figure.savefig(tmp_path / "grid.png")
    with pytest.raises(SettingsError, match=r"grid is \(2, 3\), that is 6 cells, for 9 states"):
        jmdp.plots.correlation_grid(result, (2, 3))
    with pytest.raises(SettingsError, match="not the cells of a grid"):
        jmdp.plots.correlation_grid(result, None)


def test_there_must_be_something_to_show():
    alone = jmdp.TabularJMDP([[1.0]], [[[1.0]]], [[[0]]], 0.5)
    with pytest.raises(SettingsError, match="no gap to show"):
        jmdp.plots.gap_chart(jmdp.evaluate(alone, jmdp.TabularPolicy([[1.0]]), jmdp.Local()), 0)
    evaluation = jmdp.evaluate(alone, jmdp.TabularPolicy([[1.0]]), jmdp.Local())
    with pytest.raises(SettingsError, match="no other to beat"):
        jmdp.plots.superiority_matrix(evaluation, 0)
    with pytest.raises(SettingsError, match="no other to beat it"):
        jmdp.plots.beaten_grid(evaluation, jmdp.TabularPolicy([[1.0]]), (1, 1))
    with pytest.raises(SettingsError, match="no evaluation to show"):
        jmdp.plots.residual_curve({})
    with pytest.raises(SettingsError, match="no evaluation to show"):
        jmdp.plots.td_errors([])


@pytest.mark.parametrize("sampled", [False, True])
def test_gap_chart_shows_each_gap(world, result, tmp_path, sampled):
    if sampled:
        method = jmdp.MonteCarlo(seed=0, samples=100)
        result = jmdp.evaluate(world.model, world.policies["goal_directed"], jmdp.Local(), method=method)
    figure = jmdp.plots.gap_chart(result, "2,0", action="R")
    axes = figure.axes[0]
    order = sorted("UDL", key=lambda b: result.gap("2,0", "R", b).mean)
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"R − {b}" for b in order]
    independent, shared = axes.patches[::2], axes.patches[1::2]
    gaps = [result.gap("2,0", "R", b) for b in order]
    np.testing.assert_allclose([bar.get_width() for bar in shared], [2 * gap.std for gap in gaps])
    variance = dict(zip("URDL", np.diagonal(result.covariance[result.states.index("2,0")]), strict=True))
    np.testing.assert_allclose(
        [bar.get_width() for bar in independent], [2 * np.sqrt(variance["R"] + variance[b]) for b in order]
    )
    figure.savefig(tmp_path / "gaps.png")


@pytest.mark.parametrize(
    ("mean", "bound"), [(1.0, "≤ 0.501"), (0.1, "≤ 0.991"), (0.01, "< 1"), (1e-7, "< 1"), (-1.0, "≤ 1")]
)
def test_a_bound_below_1_is_not_written_as_1(mean, bound):
    exact = jmdp.results.Interval(mean, mean)
    gap = dataclasses.replace(
        a_gap([mean], [1]), mean=mean, mean_interval=exact, variance_interval=jmdp.results.Interval(1.0, 1.0)
    )
    assert _bound(gap) == bound


@pytest.fixture(scope="module", params=["certified", "sampled"])
def with_distributions(request, world):
    methods = {"certified": jmdp.ExactDistribution(tolerance=1e-4), "sampled": jmdp.MonteCarlo(seed=0, samples=400)}
    return jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=methods[request.param])


def a_gap(values, mass, *, slack=0.0, low=None, high=None, support=(-1e3, 1e3), confidence=None):
    """A gap with this distribution, and moments that do not matter."""
    x, m = np.array(values, float), np.array(mass, float)
    low, high = x if low is None else np.array(low, float), x if high is None else np.array(high, float)
    distribution = jmdp.results.GapDistribution(low, high, x, m, slack, jmdp.results.Interval(*support), confidence)
    return jmdp.results.Gap(
        state="s",
        first="a",
        second="b",
        coupling=jmdp.Local(),
        mean=0.0,
        variance=1.0,
        correlation=0.0,
        mean_interval=None,
        variance_interval=None,
        correlation_interval=None,
        find_distribution=lambda tolerance: distribution,
    )


def curve(figure):
    """Steps of the best estimate, and the corners of the band."""
    axes = figure.axes[0]
    [line] = [line for line in axes.get_lines() if line.get_label() == "best estimate"]
    assert line.get_drawstyle() == "steps-post"
    return *line.get_data(), {tuple(corner) for corner in axes.collections[0].get_paths()[0].vertices}


def test_gap_distribution_draws_the_cdf_and_its_band_on_both_sides_of_every_step(with_distributions, tmp_path):
    gap = with_distributions.gap("2,0", "R", "U")
    distribution, figure = gap.distribution(), jmdp.plots.gap_distribution(gap)
    x, y, corners = curve(figure)
    assert x[0] < distribution.quantile(0.001)
    assert x[-1] > distribution.quantile(0.999)
    assert 0.0 in x
    for i, at in enumerate(x):
        after = distribution.cdf(at)
        assert y[i] == after
        assert (at, after.low) in corners
        if i + 1 < x.size:
            assert (at, distribution.below(x[i + 1]).high) in corners
    figure.savefig(tmp_path / "distribution.png")


def test_gap_distribution_keeps_every_step_of_a_small_distribution():
    gap = a_gap([-2, 0, 1], [0.25, 0.25, 0.5], low=[-2.5, 0, 1], high=[-1.5, 0, 1.25], slack=0.01)
    distribution = gap.distribution()
    x, y, corners = curve(jmdp.plots.gap_distribution(gap))
    np.testing.assert_array_equal(x[1:-1], [-2, -1.5, 0, 1])  # −2.5 and 1.25 are beyond the mass
    np.testing.assert_array_equal(y[:-1], [distribution.below(step) for step in x[1:]])
    for at, following in pairwise(x):
        between = distribution.cdf((at + following) / 2)
        assert {(at, between.low), (at, between.high)} <= corners


def test_gap_distribution_of_very_many_steps_encloses_them_all():
    values = np.random.default_rng(0).normal(size=20_000)
    gap = a_gap(values, np.full(values.size, 1 / values.size), slack=0.01, confidence=0.95)
    distribution, figure = gap.distribution(), jmdp.plots.gap_distribution(gap)
    x, y, corners = curve(figure)
    assert x.size < 2100
    np.testing.assert_array_equal(y, [distribution.cdf(at) for at in x])
    # Between two drawn steps, the lower edge is that of the first and the upper edge that of the second.
    for at, following in pairwise(x):
        between = distribution.cdf((at + following) / 2)
        assert distribution.cdf(at).low <= between.low
        assert between.high <= distribution.below(following).high
        assert (at, distribution.below(following).high) in corners


def test_gap_distribution_marks_quantiles_and_says_the_chances(with_distributions):
    gap = with_distributions.gap("2,0", "R", "U")
    distribution, figure = gap.distribution(), jmdp.plots.gap_distribution(gap, p=0.1)
    axes = figure.axes[0]
    marked = {bars.get_label().split("\n")[0]: tuple(bars.lines[0].get_xydata()[0]) for bars in axes.containers}
    assert marked == {
        "90% quantile": (distribution.quantile(0.9), 0.9),
        "median": (distribution.quantile(0.5), 0.5),
        "10% quantile": (distribution.quantile(0.1), 0.1),
        "mean of the worst 10%": (distribution.cvar(0.1), 0.05),
    }
    left, right = axes.get_xlim()
    assert all(left < x < right for x, _ in marked.values())
    assert left > distribution.support.low
    assert right < distribution.support.high
    written = [text.get_text() for text in axes.texts]
    for words, sign, estimate in zip(
        ("R worse", "tie", "R better"),
        "<=>",
        (distribution.inferiority(), distribution.ties(), distribution.superiority()),
        strict=True,
    ):
        [text] = [text for text in written if text.startswith(words)]
        assert f"P(gap {sign} 0) = {estimate:.3f}" in text
        assert ("\nin [" in text) == (distribution.confidence is not None)


def test_gap_distribution_writes_chances_at_one_height():
    figure = jmdp.plots.gap_distribution(a_gap([-1, 0.1, 1], [0.25, 0.25, 0.5], low=[-1, -0.1, 1], high=[-1, 0.2, 1]))
    assert [text.get_text().count("\n") for text in figure.axes[0].texts] == [2, 2, 2]
    figure = jmdp.plots.gap_distribution(a_gap([-1, 1], [0.25, 0.75], slack=1e-5))
    assert [text.get_text().count("\n") for text in figure.axes[0].texts] == [1, 1, 1]


def test_gap_distribution_says_where_and_how_sure(with_distributions):
    sure = (
        "certified" if with_distributions.gap(0, 0, 1).distribution().confidence is None else "band at 95% confidence"
    )
    figure = jmdp.plots.gap_distribution(with_distributions.gap("2,0", "R", "U"))
    assert (
        figure.axes[0].get_title(loc="left")
        == f"Distribution of the gap Z(R) − Z(U) at state 2,0\nLocal coupling, {sure}"
    )
    assert (
        jmdp.plots.gap_distribution(with_distributions.gap(0, 0, 1), title="mine").axes[0].get_title(loc="left")
        == "mine"
    )


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([5.0], 2.5, 7.5), ([0.0], -1.0, 1.0), ([100, 102], 99.88, 102.12), ([1, 3], -0.18, 3.18)],
)
def test_gap_distribution_shows_0_where_it_is_near(values, low, high):
    figure = jmdp.plots.gap_distribution(a_gap(values, np.full(len(values), 1 / len(values))))
    assert figure.axes[0].get_xlim() == pytest.approx((low, high))


def test_gap_distribution_speaks_of_rare_outcomes_far_away():
    figure = jmdp.plots.gap_distribution(a_gap([-900, 0, 1, 800], [0.0006, 0.4, 0.599, 0.0004]))
    written = "\n".join(text.get_text() for text in figure.axes[0].texts)
    assert "0.06% of all outcomes\n    far beyond, down to −900" in written
    assert "0.04% of all outcomes →\nfar beyond, up to 800" in written


def test_gap_distribution_rounds_what_it_writes_outwards():
    figure = jmdp.plots.gap_distribution(a_gap([-1, 1], [0.25, 0.75], slack=0.0104))
    written = "\n".join(text.get_text() for text in figure.axes[0].texts)
    assert "P(gap > 0) = 0.750\nin [0.739, 0.761]" in written
    assert "P(gap = 0) = 0\nin [0, 0.021]" in written


def test_gap_distribution_refuses(result):
    with pytest.raises(UnavailableError, match="does not provide distributions"):
        jmdp.plots.gap_distribution(result.gap(0, 0, 1))
    with pytest.raises(SettingsError, match=r"p is 0\.5\. Give a probability between 0 and ½"):
        jmdp.plots.gap_distribution(a_gap([1], [1]), p=0.5)


def test_superiority_matrix_has_each_chance(with_distributions, tmp_path):
    figure = jmdp.plots.superiority_matrix(with_distributions, "2,0")
    axes, bar = figure.axes
    [image] = axes.get_images()
    shown = image.get_array().filled(np.nan)
    assert np.isnan(np.diag(shown)).all()
    written = {text.get_position(): text.get_text() for text in axes.texts if text.get_text()}
    for a, b in permutations(range(4), 2):
        distribution = with_distributions.gap("2,0", a, b).distribution()
        assert shown[a, b] == pytest.approx(distribution.superiority(), abs=1e-12)
        assert shown[a, b] + shown[b, a] + distribution.ties() == pytest.approx(1)
        here = [text for (x, y), text in written.items() if x == b and abs(y - a) < 0.5]
        assert here == [f"{distribution.superiority():.2f}"[1:], f"tie {distribution.ties():.2f}".replace("0.", ".")]
    assert image.get_clim() == (0, 1)
    assert [label.get_text() for label in axes.get_xticklabels()] == list("URDL")
    assert [label.get_text() for label in axes.get_yticklabels()] == list("URDL")
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("this action …", "… beats this one")
    assert bar.get_ylabel() == "chance that row beats column"
    title = figure.get_suptitle()
    sure = "certified" if distribution.confidence is None else "each pair at 95% confidence"
    assert title.startswith(f"Chance that row beats column at state 2,0\nLocal coupling, {sure},\nerror at most ")
    figure.savefig(tmp_path / "matrix.png")
    assert jmdp.plots.superiority_matrix(with_distributions, 0, title="mine").get_suptitle() == "mine"


class GivenDistributions:
    """The same distribution for each two actions but those that are named."""

    def __init__(self, usual, **others):
        self.usual, self.others = (
            usual.distribution(),
            {tuple(map(int, name[1:])): gap.distribution() for name, gap in others.items()},
        )

    def gap_distribution(self, s, a, b):
        return self.others.get((a, b), self.usual)


def test_cells_have_their_own_intervals_where_one_would_not_do_for_all(result, world):
    sharp, blurred = a_gap([-1, 1], [0.25, 0.75]), a_gap([-1, 1], [0.25, 0.75], low=[-2, -1], high=[2, 1])
    policy = jmdp.TabularPolicy.deterministic(world.model, ["R"] * 9)
    even = dataclasses.replace(result, distributions=GivenDistributions(blurred))
    figure = jmdp.plots.superiority_matrix(even, 0)
    assert not any("[" in text.get_text() for text in figure.axes[0].texts)
    assert figure.get_suptitle().endswith("error at most 0.75")
    uneven = dataclasses.replace(result, distributions=GivenDistributions(sharp, _02=blurred))
    axes = jmdp.plots.superiority_matrix(uneven, 0).axes[0]
    assert sorted(text.get_text() for text in axes.texts if "[" in text.get_text()) == ["[0, 1]", "[0, 1]"]
    mixed = dataclasses.replace(result, distributions=GivenDistributions(sharp, _01=blurred))
    axes = jmdp.plots.beaten_grid(mixed, policy, world.grid).axes[0]
    assert not any("[" in text.get_text() for text in axes.texts)  # all cells alike
    cells = jmdp.TabularPolicy.deterministic(world.model, ["R", *["L"] * 8])
    axes = jmdp.plots.beaten_grid(mixed, cells, world.grid).axes[0]
    assert [text.get_text() for text in axes.texts if "[" in text.get_text()] == [
        "[.74, 1]"
    ]  # .75 less rounding, outwards


def test_beaten_grid_has_the_chance_of_the_worst_rival(with_distributions, world, tmp_path):
    policy = world.policies["careless"]
    figure = jmdp.plots.beaten_grid(with_distributions, policy, world.grid, terminal=["0,2"])
    axes = figure.axes[0]
    [image] = axes.get_images()
    shown = image.get_array().filled(np.nan)
    arrows = dict(zip("URDL", "↑→↓←", strict=True))
    for s in range(9):
        r, c = divmod(s, 3)
        here = [t.get_text() for t in axes.texts if round(t.get_position()[0]) == c and round(t.get_position()[1]) == r]
        assert here[0] == f"{r},{c}"
        if s == 2:
            assert np.isnan(shown[r, c])
            assert here[1:] == ["end"]
            continue
        a = "U" if c == 2 else "R"
        chances = {b: float(with_distributions.gap(s, b, a).distribution().superiority()) for b in "URDL" if b != a}
        most = max(chances.values())
        assert shown[r, c] == most
        by = [arrows[b] for b, chance in chances.items() if chance > most - 1e-9]
        assert here[1:] == [f"{most:.2f}"[1:], arrows[a], "by " + " ".join(by)]
    assert "pairwise" in figure.get_supxlabel()
    sure = "each pair at 95% confidence" if isinstance(with_distributions.method, jmdp.MonteCarlo) else "certified"
    assert figure.get_suptitle().startswith(
        f"Chance that the policy's action is beaten\nLocal coupling, {sure}, error at"
    )
    assert jmdp.plots.beaten_grid(with_distributions, policy, world.grid, title="mine").get_suptitle() == "mine"
    figure.savefig(tmp_path / "beaten.png")


def test_beaten_grid_calls_other_actions_by_name():
    chain = jmdp.worlds.coupled_reward_chain(4)
    policy = chain.policies["first"]
    exact = jmdp.evaluate(chain.model, policy, jmdp.Local(), method=jmdp.ExactDistribution())
    axes = jmdp.plots.beaten_grid(exact, policy, (2, 2), terminal=["s3"]).axes[0]
    written = [text.get_text() for text in axes.texts]
    assert written == [*(word for s in range(3) for word in (f"s{s}", ".50", "a1", "by a2")), "s3", "end"]


def test_beaten_grid_of_many_columns_has_numbers_only():
    grid = jmdp.worlds.windy_gridworld(1, 13)
    policy = grid.policies["careless"]
    result = jmdp.evaluate(grid.model, policy, jmdp.Local())
    given = dataclasses.replace(result, distributions=GivenDistributions(a_gap([-1, 1], [0.25, 0.75])))
    axes = jmdp.plots.beaten_grid(given, policy, grid.grid, terminal=["0,12"]).axes[0]
    assert [text.get_text() for text in axes.texts] == [".75"] * 12 + ["end"]


def test_an_action_that_is_never_beaten_is_beaten_by_none(result, world):
    given = dataclasses.replace(result, distributions=GivenDistributions(a_gap([-1, 0], [0.25, 0.75])))
    axes = jmdp.plots.beaten_grid(given, world.policies["careless"], world.grid).axes[0]
    assert {text.get_text() for text in axes.texts if "," not in text.get_text()} == {"0", "→", "↑"}


def test_beaten_grid_refuses(result, world):
    given = dataclasses.replace(result, distributions=GivenDistributions(a_gap([-1, 1], [0.25, 0.75])))
    policy = world.policies["careless"]
    with pytest.raises(SettingsError, match=r"grid is \(2, 3\), that is 6 cells, for 9 states"):
        jmdp.plots.beaten_grid(given, policy, (2, 3))
    with pytest.raises(SettingsError, match="not the cells of a grid"):
        jmdp.plots.beaten_grid(given, policy, None)
    with pytest.raises(PolicyError, match=r"shape \(1, 2\), the evaluation has 9 states and 4 actions"):
        jmdp.plots.beaten_grid(given, jmdp.TabularPolicy([[0.5, 0.5]]), world.grid)
    with pytest.raises(SettingsError, match="All states are terminal"):
        jmdp.plots.beaten_grid(given, policy, world.grid, terminal=range(9))
    with pytest.raises(UnavailableError, match="does not provide distributions"):
        jmdp.plots.beaten_grid(result, policy, world.grid)
    with pytest.raises(UnavailableError, match="does not provide distributions"):
        jmdp.plots.superiority_matrix(result, 0)


def learned(result, updates, rms, drift, *, blocks=("mean", "diagonal", "same state", "cross")):
    """The evaluation, as if it had been learned so."""
    rms, drift = (np.array(errors, float).reshape(len(updates), len(blocks)) for errors in (rms, drift))
    return dataclasses.replace(result, learning=LearningCurve(blocks, np.array(updates, float), rms, drift))


def bold_and_faint(axes):
    """Lines by their label, and the ones that have none."""
    lines = axes.get_lines()
    bold = {line.get_label(): line for line in lines if not line.get_label().startswith("_")}
    return bold, [line for line in lines if line.get_label() not in bold]


def test_td_errors_are_averages_over_the_last_half_of_updates(result):
    # After 10, 20 and 40 updates only the last window ended within the last half, after 70 the last two did.
    variance = float(np.einsum("saa->sa", result.covariance).max())
    run = learned(result, [10, 20, 40, 70], [4, 2, 3, 1], [2, -1, -3, 0.5], blocks=("mean",))
    left, right = jmdp.plots.td_errors(run).axes
    [size], [drift] = left.get_lines(), right.get_lines()
    for line, expected in (
        (size, [4, 2, 3, np.sqrt((20 * 9 + 30 * 1) / 50)]),
        (drift, [2, 1, 3, (20 * 3 - 30 * 0.5) / 50]),
    ):
        np.testing.assert_array_equal(line.get_xdata(), [10, 20, 40, 70])
        np.testing.assert_allclose(line.get_ydata(), expected / np.sqrt(variance))
    products = learned(result, [10, 20, 40, 70], [4, 2, 3, 1], [2, -1, -3, 0.5], blocks=("cross",))
    [size] = jmdp.plots.td_errors(products).axes[0].get_lines()
    np.testing.assert_allclose(size.get_ydata(), np.array([4, 2, 3, np.sqrt(4.2)]) / variance)


def test_td_errors_leave_out_windows_without_an_update(result):
    nan = np.nan
    run = learned(result, [10, 20, 30, 40], [nan, 4, nan, 2], [nan, 4, nan, -2], blocks=("mean",))
    certain = dataclasses.replace(run, covariance=np.zeros_like(run.covariance))  # so errors are in units of return
    left, right = jmdp.plots.td_errors(certain).axes
    np.testing.assert_allclose(left.get_lines()[0].get_ydata(), [nan, 4, 4, 2])
    np.testing.assert_allclose(right.get_lines()[0].get_ydata(), [nan, 4, 4, 2])


def test_td_errors_of_many_windows_are_drawn_four_times_a_doubling(result):
    updates = np.arange(1, 1025) * 10.0
    wave = 2 + np.sin(updates)
    [size] = jmdp.plots.td_errors(learned(result, updates, wave, wave, blocks=("mean",))).axes[0].get_lines()
    x, y = size.get_data()
    assert (x[0], x[-1]) == (10, 10240)
    np.testing.assert_array_equal(x[-9:-1], 10 * np.ceil(2 ** (np.arange(32, 40) / 4)))
    for n, error in zip(x, y, strict=True):
        inside = (updates > n / 2) & (updates <= n)
        assert error == pytest.approx(np.sqrt(np.mean(wave[inside] ** 2) / result.covariance.max()))


def test_td_errors_of_seeds_have_their_mean_in_bold(world, tmp_path):
    methods = [jmdp.Incremental(seed=seed, updates=400_000) for seed in range(3)]
    runs = [jmdp.evaluate(world.model, world.policies["careless"], jmdp.Local(), method=method) for method in methods]
    figure = jmdp.plots.td_errors(runs)
    assert figure.get_suptitle() == "TD errors, Local coupling\nbold: mean of 3 seeds, faint: single seeds"
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "updates, of all blocks together"
        assert axes.get_ylabel() == "TD error, fraction of the spread"
        bold, faint = bold_and_faint(axes)
        assert [label.split(",")[0] for label in bold] == ["mean", "diagonal", "same state", "cross"]
        assert len(faint) == 12
        for i, line in enumerate(bold.values()):
            each = [other.get_ydata() for other in faint[3 * i : 3 * i + 3]]
            assert {other.get_color() for other in faint[3 * i : 3 * i + 3]} == {line.get_color()}
            np.testing.assert_allclose(line.get_ydata(), np.mean(each, axis=0))
            low, high = axes.get_ylim()
            assert low < line.get_ydata().min()
            assert max(errors.max() for errors in each) < high
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(bold)
    largest = max(run.covariance.max() for run in runs)
    assert (
        f"of a return, {np.sqrt(largest):.3g}; for products its square, {largest:.3g}."
        in legend.get_title().get_text().replace("\n", " ")
    )
    figure.savefig(tmp_path / "td.png")
    alone = jmdp.plots.td_errors(runs[0], title="mine")
    assert alone.get_suptitle() == "mine"
    assert [len(axes.get_lines()) for axes in alone.axes] == [4, 4]


def test_td_errors_say_nothing_of_blocks_that_had_no_update():
    bandit = jmdp.worlds.anti_correlated_bandit()  # one state, so no two
    run = jmdp.evaluate(
        bandit.model, bandit.policies["first"], jmdp.Local(), method=jmdp.Incremental(seed=0, updates=100_000)
    )
    figure = jmdp.plots.td_errors(run)
    written = [text.get_text() for text in figure.legends[0].get_texts()]
    assert written == ["mean, Z(s,a)", "diagonal, Z(s,a)²", "same state, Z(s,a) Z(s,b)"]
    assert [len(axes.get_lines()) for axes in figure.axes] == [3, 3]


def test_td_errors_of_runs_that_stopped_have_a_mean_as_far_as_all_go(result):
    whole = learned(result, [10, 20, 30, 40], [8, 4, 2, 1], [8, 4, 2, 1], blocks=("mean",))
    cut = learned(result, [10, 20, 25], [4, 2, 3], [4, 2, 3], blocks=("mean",))  # in the midst of a window
    bold, faint = bold_and_faint(jmdp.plots.td_errors([whole, cut]).axes[0])
    assert [list(line.get_xdata()) for line in faint] == [[10, 20, 30, 40], [10, 20, 25]]
    [mean] = bold.values()
    np.testing.assert_array_equal(mean.get_xdata(), [10, 20])
    np.testing.assert_allclose(mean.get_ydata(), np.array([6, 3]) / np.sqrt(result.covariance.max()))
    for other in ([11, 20, 30, 40], [11], [5, 10, 15, 20, 25]):
        strange = learned(result, other, [1] * len(other), [1] * len(other), blocks=("mean",))
        with pytest.raises(SettingsError, match="differ in their seed alone"):
            jmdp.plots.td_errors([whole, strange])


def test_td_errors_without_noise_are_in_units_of_return_down_to_rounding():
    model = jmdp.TabularJMDP([[1.0]], [[[1.0, 2.0]]], [[[0, 0]]], 0.5)
    method = jmdp.Incremental(seed=0, updates=100_000)
    run = jmdp.evaluate(model, jmdp.TabularPolicy([[1.0, 0.0]]), jmdp.Local(), method=method)
    figure = jmdp.plots.td_errors(run)
    assert "No return certainly varies" in figure.legends[0].get_title().get_text()
    for axes in figure.axes:
        assert axes.get_ylabel() == "TD error, in units, see below"
        low, high = axes.get_ylim()
        assert 1e-22 < low < high < 1e3
    still = learned(run, [10, 20], [0, 0], [0, 0], blocks=("mean",))
    with pytest.raises(SettingsError, match="All TD errors are 0"):
        jmdp.plots.td_errors(still)


def test_td_errors_are_of_incremental_runs_alone(result):
    with pytest.raises(UnavailableError, match=r"by ExactPairs has no TD errors\. Incremental\(seed=…\) has them"):
        jmdp.plots.td_errors([result])


@pytest.mark.parametrize(
    ("value", "long", "short"),
    [
        (0, "0", "0"),
        (1e-16, "0", "0"),
        (1e-5, "<0.001", "<.01"),
        (0.004, "0.004", "<.01"),
        (0.3116, "0.312", ".31"),
        (0.99999, ">0.999", ">.99"),
        (1 - 1e-16, "1", "1"),
        (1, "1", "1"),
    ],
)
def test_chances_are_0_or_1_only_where_they_are(value, long, short):
    assert rounding.chance(value) == long
    assert grids.short_chance(value) == short


def test_without_matplotlib_the_error_says_what_to_type(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r'pip install "jmdp\[plot\]"'):
        jmdp.plots.gap_chart(result, "2,0")
