"""Bad input of `review` and of its results raises errors of jmdp only."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import pytest
from review_worlds import climb, walk

import jmdp

VALUES = [
    math.nan, math.inf, -1, -0.5, 0, 1.5, 10**30, 1e300, True, "", "abc", b"x", [], {}, set(), (), [None], [math.nan],
    ["a", "a"], {"x": 1}, object(), int, range(0), range(5, 2), range(-3, 2), range(0, 9, 2), 1j,
    np.array([]), np.zeros((2, 2)), np.ma.masked, [[1, 2], [3]], iter([1]), float("-inf"), [10**40], "0", [True, False],
]  # fmt: skip
ARGUMENTS = [
    "seed", "reference", "played", "episode", "episodes", "starts", "steps", "actions", "method", "discount", "horizon",
    "confidence", "pool", "progress",
]  # fmt: skip
ERRORS = jmdp.errors.JMDPError


def called(**settings):
    basic = {"seed": 0, "discount": 0.9, "horizon": 3, "method": jmdp.reviews.RolloutValues(2), "progress": False}
    try:
        return jmdp.review(settings.pop("simulator", walk()), settings.pop("policy", climb), **{**basic, **settings})
    except ERRORS:
        return None


@pytest.mark.parametrize("name", ["simulator", "policy", *ARGUMENTS])
@pytest.mark.filterwarnings("ignore")
def test_bad_arguments(name):
    for value in [*VALUES, None]:
        if name == "starts" and isinstance(value, (list, dict, np.ndarray)):
            continue  # states of any kind, which the functions of the simulator must understand
        found = called(**{name: value})
        if found is not None:
            str(found)


@pytest.mark.parametrize("name", ["seed", "confidence", "steps", "method", "episodes", "discount", "horizon", "pool"])
def test_strings_are_refused(name):
    assert called(**{name: "abc"}) is None


def test_bad_settings_of_methods():
    for value in VALUES:
        for make in (
            lambda x: jmdp.reviews.RolloutValues(x),
            lambda x: jmdp.reviews.LookaheadValues(x),
            lambda x: jmdp.reviews.LookaheadValues(samples=x),
            lambda x: jmdp.reviews.LookaheadValues(folds=x),
        ):
            try:
                made = make(value)
            except ERRORS:
                continue
            if isinstance(made, jmdp.reviews.LookaheadValues) and made.values is not None:
                called(method=made)


@pytest.mark.filterwarnings("ignore:Warning. converting a masked element")
def test_bad_values_of_a_function():
    for value in [x for x in VALUES if not isinstance(x, (int, float)) or x != x or math.isinf(x)]:
        assert called(method=jmdp.reviews.LookaheadValues(lambda seen, value=value: value, 1)) is None or isinstance(
            value, (np.ndarray, str)
        )


def test_bad_questions_about_a_review():
    one = called()
    several = called(episodes=3)
    for value in [*VALUES, None]:
        for ask in (
            lambda x: one.worst(x),
            lambda x: one.what_if(x, 0),
            lambda x: one.what_if(0, x),
            lambda x: several[x],
            lambda x: several.by(x),
        ):
            with suppress(ERRORS):
                ask(value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": range(5, 9), "discount": 1.0}, "Give a larger horizon"),
        ({"played": [0], "steps": range(1, 3)}, "Give earlier steps"),
        ({"played": [0, 7]}, "7"),
        ({"played": [0], "episodes": 3}, "episode="),
        ({"episodes": [1, 1]}, "twice"),
        ({"episodes": 3, "method": jmdp.reviews.LookaheadValues()}, "folds"),
        ({"discount": 1.0, "horizon": None}, "horizon"),
        ({"actions": [0]}, "two"),
        ({"confidence": 1.0}, "probability"),
        ({"reference": "best"}, "best"),
    ],
)
def test_messages(settings, message):
    with pytest.raises(ERRORS, match=message):
        jmdp.review(walk(), climb, **{"seed": 0, "discount": 0.9, "horizon": 4, "progress": False, **settings})
