"""First sentences of comparisons, as a whole: which share belongs to which word."""

from __future__ import annotations

import re

import numpy as np
import pytest

import jmdp


def draws(luck):
    return luck.uniform("x")


RUNS = {  # of 100: better in about 60, equal in 30, worse in 10
    "old": lambda luck: 0.0 * draws(luck),
    "new": lambda luck: 5.0 if draws(luck) < 0.6 else 0.0 if draws(luck) < 0.9 else -1.0,
}


@pytest.mark.parametrize(("minimize", "word"), [(False, "new"), (True, "old")])
def test_shares_of_better_equal_and_worse(minimize, word):
    found = jmdp.compare_runs(RUNS, minimize=minimize, seed=0, max_samples=100)
    first, second = (word, "old" if word == "new" else "new")
    old, new = found.summary.samples.returns.T
    gaps = found.summary.sign * (new - old) * (1 if word == "new" else -1)
    shares = [100 * np.mean(sign) for sign in (gaps > 0, gaps == 0, gaps < 0)]
    assert min(np.diff(sorted(shares))) > 5
    often = rf"{first} is better in (\d+)% of runs, the same in (\d+)% and worse in (\d+)%"
    sentence = rf"{first} is better than {second} by .*; {often}\. This reverses only if .* on average"
    printed = re.fullmatch(sentence, found.answer)
    assert printed, found.answer
    assert np.abs(np.array(printed.groups(), float) - shares).max() <= 1
