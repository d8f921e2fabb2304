"""Pages of reviews: what they say, their pictures and size, and that names of users stay text."""

from __future__ import annotations

import ast
import base64
import io
import math
import re
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import jmdp
from jmdp.base.rounding import significant, typeset
from jmdp.results.text import Written
from jmdp.results.text import shown as shown_number
from jmdp.reviews.trajectory import discounted
from jmdp.show.reports import review_parts
from jmdp.show.reports.page import page_of, render, sentence
from jmdp.show.reports.review_parts import chosen, encoded, futures, short_title
from jmdp.simulators import Simulator, Step, action_labels
from registry.results import Always
from show.plots.made_reviews import made, several
from show.reports.test_pages import HOSTILE, Tree

SECTIONS = ["picture", "numbers", "futures", "timeline", "found", "trust", "again"]


class Walk(Simulator):
    """A walk to place 6 by a fair coin; the second action moves twice as far."""

    discount = 0.9

    def __init__(self, names=("slow", "fast"), title="Walk()", size=None, length=6, broken=None):
        self.actions = action_labels(list(names))
        self.title, self.size, self.length, self.broken = title, size, length, broken
        self.drawn = 0

    def start(self, shock):
        return 0

    def step(self, state, action, shock):
        moved = state + (1 + action) * (1 + int(shock.generator().random() < 0.5))
        return Step(-1.0, moved, moved >= self.length)

    def frame(self, state):
        self.drawn += 1
        if self.broken is not None:
            return self.broken(state)
        if self.size is None:
            return None
        found = np.zeros((*self.size, 3), np.uint8)
        found[:, : max(1, min(state, self.length) * self.size[1] // self.length)] = (200, 80, 0)
        return found

    def __repr__(self):
        return self.title


def reviewed(simulator, policy=None, **settings):
    given = {"seed": 3, "method": jmdp.reviews.RolloutValues(16), "progress": False, "horizon": 40} | settings
    return jmdp.review(simulator, policy or Always(0, "slowly"), **given)


@cache
def walk(**settings):
    return reviewed(Walk(**settings))


def html(result):
    return render(page_of(result))


@cache
def plain_page():
    return Tree.of(html(walk()))


def sources(text, kind="png"):
    return [base64.b64decode(found) for found in re.findall(rf"data:image/{kind};base64,([A-Za-z0-9+/=]+)", text)]


def test_a_page_has_all_parts_and_the_numbers_of_the_review():
    review = walk(size=(30, 40))
    text, tree = html(review), Tree.of(html(review))
    assert [value for tag, name, value in tree.attributes if (tag, name) == ("section", "id")] == SECTIONS
    shown = page_of(review)
    for said in (shown.question, review.answer, shown.sampling, *map(sentence, shown.trust)):
        assert " ".join(said.split()) in tree.text
    assert "n = 16 rollouts of each action from each state, seed 3, 95% confidence" in shown.sampling
    split, table = shown.tables
    assert [row[1] for row in split.rows[:3]] == [review.expectation, review.skill, review.luck]
    assert split.rows[3][1] == Written(typeset(shown_number(review.total)))
    worst = [one.step for one in review.worst()]
    steps = [*worst, *(one.step for one in review.decisions if one.step not in worst)]
    assert [row[0] for row in table.rows] == [str(step) for step in steps]
    regret, earned = (table.columns.index(title) for title in ("regret", "return in this luck"))
    assert [float(row[regret]) for row in table.rows] == [float(review.decisions[step].regret) for step in steps]
    rows = review.rows()
    assert [row[earned].value for row in table.rows] == [f"{rows[step]['return in this luck']:.4g}" for step in steps]
    assert "default-src 'none'" in text
    assert "<script" not in text
    assert all(len(alt) > 5 for alt in tree.values("alt"))
    assert len(text) < 400_000


def test_the_split_adds_up():
    for review in (walk(), reviewed(Walk(), steps=range(1, 3)), made([1.0], [2.0], [-3.0])):
        rows = page_of(review).tables[0].rows
        assert [row[0] for row in rows] == ["expectation", "+ skill", "+ luck", "= return"]
        total = review.earned + float(review.final)
        assert sum(float(row[1]) for row in rows[:3]) == pytest.approx(total)
        end = rows[3][1]
        assert float(end.value.replace("−", "-") if isinstance(end, Written) else end) == pytest.approx(total, rel=1e-4)


def test_pictures_are_those_of_the_states():
    review = walk(size=(30, 40))
    page = page_of(review)
    cards = page.extra["timeline"]
    assert [card.step for card in cards] == [
        *(f"step {t}: {one.action}" for t, one in enumerate(review.decisions)),
        f"after step {len(review) - 1}",
    ]
    for card, frame in zip(cards, review.frames(), strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(card.picture.png)).convert("RGB")), frame)
    assert [card.judgement for card in cards[:-1]] == [one.judgement for one in review.decisions]
    assert {"mistake"} <= {card.judgement for card in cards}


def test_both_futures_share_the_luck():
    review = walk(size=(30, 40))
    for future, one in zip(futures(review), review.worst(3), strict=True):
        other = review.what_if(one.step, one.best)
        (_, went), (_, instead) = future.rows
        assert np.asarray(Image.open(io.BytesIO(went[0].picture.png))).shape == (30, 40)
        assert went[0].picture == instead[0].picture  # before the decision
        last = review.replay.frames(other, review.trajectory)[-1]
        shown = np.asarray(Image.open(io.BytesIO(instead[-1].picture.png)).convert("RGB"))
        np.testing.assert_array_equal(shown, last)
        assert instead[-1].step == f"end, after step {one.step + len(other) - 1}"
        for moment in instead:
            before = int(re.search(r"\d+", moment.step)[0]) + moment.step.startswith("end")
            earned = discounted(other.rewards[: before - one.step], 0.9)
            assert moment.text == f"earned {significant(earned, 3)}"
        assert went[-1].step == f"end, after step {len(review) - 1}"
        i = one.step
        cells = {row[0].removesuffix(" (taken)"): row[3].value for row in future.table.rows}
        earned = {name: float(review.hindsight[i, a]) for a, name in enumerate(review.actions)}
        assert {name: float(value.replace("−", "-")) for name, value in cells.items()} == pytest.approx(
            earned, rel=1e-3
        )


def test_without_pictures_both_futures_are_a_chart():
    review = walk()
    text = html(review)
    assert sources(text) == []
    assert len(sources(text, r"svg\+xml")) == 1 + min(3, len(review.worst()))
    assert "The simulator draws no pictures" in text
    assert "Line above a step" not in text


@pytest.mark.parametrize(
    "frame",
    [
        lambda state: np.zeros((4, 4, 7), np.uint8),
        lambda state: np.full((4, 4, 3), 0.5),
        lambda state: np.zeros((0, 4, 3), np.uint8),
        lambda state: "<script>alert(1)</script>",
        lambda state: 1 / 0,
    ],
)
def test_a_simulator_that_draws_badly_still_has_a_page(frame):
    text = html(reviewed(Walk(broken=frame)))
    assert sources(text) == []
    assert "pictures of the simulator are not arrays" in text or "could not be drawn: ZeroDivisionError" in text


def test_a_saved_review_has_a_page_without_futures():
    text = html(made([0.5, 0.0, 2.0], [1, -1, 0], [1, 2, 3]))
    assert "A saved review cannot be simulated again" in text
    assert 'id="timeline"' in text


def test_an_episode_of_saved_reviews_has_a_page(tmp_path):
    jmdp.review(Walk(), Always(0, "slowly"), seed=5, episodes=5, horizon=40, progress=False).save(tmp_path / "many.nc")
    text = html(jmdp.load(tmp_path / "many.nc")[3])
    assert "A saved review cannot be simulated again." in text
    assert "In the luck of this episode" not in text


def test_values_without_intervals_say_so():
    text = html(made([0.5, 0.0, 2.0], [1, -1, 0], [1, 2, 3], error=math.inf, samples=0))
    assert "estimates, no intervals; seed 7" in text
    assert "∞" not in text
    assert "inf]" not in text
    assert "estimate, no interval" in text


def test_certain_outcomes_say_so():
    page = page_of(made([0.0], [0.5], [0.5], error=0.0, samples=1))
    assert (
        page.sampling == "n = 1 rollout of each action from each state, exact because nothing is random there; seed 7"
    )
    assert "nothing was random" in [row[2] for row in page.tables[0].rows]


def test_a_long_episode_is_thinned_and_its_pictures_are_small(monkeypatch):
    monkeypatch.setattr(review_parts, "MOST_FRAMES", 40)
    simulator = Walk(size=(400, 600), length=900)
    review = reviewed(simulator, horizon=99, method=jmdp.reviews.RolloutValues(2))
    simulator.drawn = 0
    page = page_of(review)
    cards = page.extra["timeline"]
    assert len(cards) == 40
    assert simulator.drawn <= 40 + 3 * 2 * 6  # others are not drawn at all
    steps = [int(re.search(r"\d+", card.step)[0]) for card in cards]
    assert {one.step for one in review.worst(13)} <= set(steps)
    assert max(b - a for a, b in pairwise(steps)) <= 5
    assert "40 of 100 states are shown, evenly spaced, with the worst decisions" in page.extra["timeline_note"]
    assert all(Image.open(io.BytesIO(card.picture.png)).size == (160, 107) for card in cards)
    monkeypatch.setattr(review_parts, "_MOST_BYTES", sum(len(card.picture.png) for card in cards) // 2)
    fewer, found = review_parts.timeline(review)
    assert 15 <= len(fewer) <= 20
    assert found.size <= review_parts._MOST_BYTES * 1.2


def test_noisy_pictures_are_small():
    noise = np.random.default_rng(1).integers(0, 256, (400, 600, 3), np.uint8)
    assert len(encoded(noise).png) < 16_000


@given(st.integers(1, 400), st.lists(st.integers(0, 10_000), max_size=50), st.integers(6, 200))
def test_chosen_steps_have_both_ends_and_the_first_worst_ones(count, kept, most):
    steps = range(7, 7 + count)
    worst = [steps[k % count] for k in kept]
    found = chosen(steps, worst, most)
    assert found == sorted(set(found))
    assert set(found) <= set(steps)
    assert len(found) <= max(most, 0) or len(steps) <= most
    assert {steps[0], steps[-1]} <= set(found)
    assert set(worst[: most // 3]) <= set(found)
    if len(steps) <= most:
        assert found == list(steps)


@pytest.mark.parametrize(
    "first", [pytest.param(i, marks=[pytest.mark.long] * (i % 4 != 0)) for i in range(len(HOSTILE))]
)
def test_names_stay_text(first):
    """Four names at once: on every change each is in one place, in the long run in all four."""
    text, other, title, policy = (HOSTILE[(first + i) % len(HOSTILE)] for i in range(4))
    review = reviewed(Walk(names=(text, other), title=f"Simulator({title})"), Always(0, policy))
    plain, found = plain_page(), html(review)
    tree = Tree.of(found)
    assert set(tree.tags) == set(plain.tags)
    assert {name for _, name, _ in tree.attributes} == {name for _, name, _ in plain.attributes}
    assert all(source.startswith("data:image/") for source in tree.values("src"))
    assert not re.search("[\u202a-\u202e\u2066-\u2069\0\x1b\u2028]", found)
    assert len(found) < 700_000
    many = html(several([made([0.5], [1.0], [1.0], names=(text, other), labels=[title], simulator=policy)] * 3))
    assert set(Tree.of(many).tags) <= {*plain.tags}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\0\x1b\u2028]", many)


def test_the_code_makes_the_same_review():
    review = reviewed(Walk(), steps=range(1, 3), actions=["slow", "fast"], episode=4)
    code = page_of(review).again.code
    ast.parse(code)
    given = {"simulator": Walk(), "policy": Always(0, "slowly")}
    lines = [line for line in code.splitlines() if not re.match(r"(simulator|policy) = |found\.report", line)]
    exec("\n".join(lines), {}, given)
    again = given["found"]
    assert repr(again) == repr(review)
    assert [one.regret.high for one in again.decisions] == [one.regret.high for one in review.decisions]


def test_other_arguments_are_in_the_code():
    simulator = Walk(names=("slow", "fast", "faster"))
    played = reviewed(simulator, played=[0, 1, 0], actions=["slow", "fast"]).trajectory.names
    assert played == ["slow", "fast", "slow"]
    page = page_of(reviewed(simulator, played=[0, 1, 0], actions=["slow", "fast"], starts=[0, 1]))
    for said in (
        "played=played,",
        "starts=starts,",
        "actions=['slow', 'fast'],",
        "method=jmdp.reviews.RolloutValues(16),",
    ):
        assert said in page.again.code
    ast.parse(page.again.code)
    review = reviewed(Walk(), reference=Always(1, "quickly"))
    page = page_of(review)
    assert "reference = ...  # " in page.again.code
    assert f"{review.reference}: values are" in dict(page.found)["Reference"]


def test_several_reviews_have_a_page_with_the_worst_of_all(tmp_path):
    reviews = jmdp.review(Walk(), Always(0, "slowly"), seed=5, episodes=[2, 9, 4, 7, 1, 3], horizon=40, progress=False)
    page = page_of(reviews)
    assert page.verdict == reviews.answer
    assert page.sampling.startswith("n = 6 episodes, seed 5, 95% confidence")
    parts, states, worst = page.tables
    assert parts.rows[0][1] == reviews.mean
    assert parts.rows[1][1] == reviews.corrected
    assert parts.rows[2][1] == reviews.episodes_factor
    assert [row[4] for row in states.rows] == [row["regret per episode"] for row in reviews.rows()]
    every = [(float(one.regret), i) for i, review in enumerate(reviews) for one in review.decisions]
    regret, i = max(every)
    assert worst.rows[0][0] == f"reviews[{i}], episode {reviews[i].episode}"
    assert float(worst.rows[0][4]) == pytest.approx(regret, rel=0.01)
    assert "episodes=[2, 9, 4, 7, 1, 3]," in page.again.code
    reviews.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text == render(page)
    assert "∞" not in text


def test_titles_are_short():
    assert short_title("ALESimulator('pong', frame_skip=4, sticky=0.25)") == "pong"
    assert short_title("GymnasiumSimulator(Blackjack-v1, truncated_ends=True)") == "Blackjack-v1"
    assert short_title("table of 25 states × 4 actions") == "a table of 25 states × 4 actions"
