"""Parts of walks: pure functions of a key, with the right sums, and two walks of a visit side by side."""

from __future__ import annotations

import numpy as np
import pytest

from jmdp.base.luck import Shock
from jmdp.methods.neural_gram.lookahead_rollouts import PairReplay
from methods.neural_gram.gram_cases import walks

ROOT = Shock.of_sample(3, 0)
DISCOUNT = 0.7


def equal(one, other) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(one, other, strict=True))


def test_batches_are_pure_functions_of_the_root_and_a_number():
    found = walks()
    first, again = (PairReplay(found, DISCOUNT, 3, ROOT) for _ in range(2))
    later = first.batches(5, 2, 16)
    assert equal(later, again.batches(5, 2, 16))
    assert equal(first.batches(0, 2, 16), again.batches(0, 2, 16))  # whatever was asked before
    assert not equal(later, first.batches(6, 2, 16))
    assert not equal(later, PairReplay(found, DISCOUNT, 3, Shock.of_sample(4, 0)).batches(5, 2, 16))


@pytest.mark.parametrize("steps", [1, 3, 6, 9])
@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_parts_are_what_plain_python_adds_up(steps, repeats):
    """Of every walk and every step: sums, γⁿ, where it ends, also where a walk ends sooner or a branch has."""
    found = walks(20, repeats)
    assert found.ended.any()
    N, L = found.reward.shape[:2]
    rows, t = (part.ravel() for part in np.meshgrid(np.arange(N), np.arange(L), indexing="ij"))
    part = PairReplay(found, DISCOUNT, steps, ROOT).parts(rows, t, np.zeros(rows.size, bool))
    for i, (n, start) in enumerate(zip(rows, t, strict=True)):
        end = min(start + steps, L)
        for b in (0, 1):
            expected = sum(DISCOUNT ** (k - start) * found.reward[n, k, b] for k in range(start, end))
            assert part.reward[i, b] == pytest.approx(expected, abs=1e-5)
            assert part.live[i, b] == (not found.ended[n, start, b])
            if not part.live[i, b]:
                assert part.reward[i, b] == pytest.approx(0, abs=1e-6)
                assert part.ended[i, b]
        assert part.discount[i] == pytest.approx(DISCOUNT ** (end - start), rel=1e-6)
        for name, at in (("", start), ("end_", end)):
            assert np.array_equal(getattr(part, f"{name}observation")[i], found.observation[n, at])
            assert np.array_equal(getattr(part, f"{name}action")[i], found.action[n, at])
            assert getattr(part, f"{name}same")[i] == found.same[n, at]
        assert np.array_equal(part.ended[i], found.ended[n, end])


def identified(found):
    """The walks with rewards that tell which they are: number of the row in step 0, nothing later."""
    from dataclasses import replace

    reward = np.zeros_like(found.reward)
    reward[:, 0] = np.arange(len(found))[:, None]
    return replace(found, reward=reward)


@pytest.mark.parametrize("repeats", [2, 3])
def test_doubled_rows_are_two_walks_of_one_visit(repeats):
    found = identified(walks(30, repeats))
    batch = PairReplay(found, DISCOUNT, 1, ROOT).batches(0, 8, 24)
    assert np.array_equal(batch.doubled, np.tile(np.arange(24) < 12, (8, 1)))
    rows = batch.reward[:, :12, 0].astype(int).reshape(-1, 2)
    assert (found.visit[rows[:, 0]] == found.visit[rows[:, 1]]).all()
    assert (rows[:, 0] != rows[:, 1]).all()
    begin = batch.observation[:, :12].reshape(-1, 2, 2)
    assert np.array_equal(begin[:, 0], begin[:, 1])
    assert batch.same[:, :12].all()
    # The repeats (repeats − 1) ordered pairs are equally likely: 48 draws miss one of six with probability
    # 6 (5/6)⁴⁸ < 10⁻³.
    assert len(set(zip(*(rows % repeats).T.tolist(), strict=True))) == repeats * (repeats - 1)
    anywhere = PairReplay(found, DISCOUNT, 1, ROOT).batches(0, 40, 24)
    assert len(np.unique(anywhere.reward[:, 12:][anywhere.reward[:, 12:] > 0])) > 20


def test_one_walk_of_a_visit_has_no_mate():
    replay = PairReplay(walks(30, 1), DISCOUNT, 1, ROOT)
    assert not replay.batches(0, 4, 16).doubled.any()
    assert replay.pairs() is None
    assert replay.pairs(6) is None
    mean, scales = replay.scales()
    assert np.isfinite([mean, *scales]).all()


def test_whole_walks_and_their_returns():
    found = walks(10, 3)
    replay = PairReplay(found, DISCOUNT, 2, ROOT)
    expected = (found.reward * DISCOUNT ** np.arange(6)[:, None]).sum(axis=1)
    assert np.allclose(found.returns(DISCOUNT).reshape(-1, 2), expected)
    pairs = replay.pairs(replay.length)
    rows = np.array([[3 * i, 3 * i + 1] for i in range(10)]).ravel()
    assert np.allclose(pairs.reward, expected[rows], atol=1e-5)
    assert pairs.doubled.all()


def test_scales_are_the_moments_of_returns():
    """4,000 visits against moments from the definition, with the mate of each row written out."""
    found = walks(4_000, 2, 6)
    mean, scales = PairReplay(found, DISCOUNT, 2, ROOT).scales()
    returns = (found.reward * DISCOUNT ** np.arange(6)[:, None]).sum(axis=1)
    rest = 1 - DISCOUNT**12
    one, other = returns[::2], returns[1::2]
    assert mean == pytest.approx(returns.mean() / (1 - DISCOUNT**6))
    assert scales.variance == pytest.approx(((one - other) ** 2).mean() / 2 / rest)
    gaps = (one - other) @ [1, -1]
    assert scales.gap_variance == pytest.approx((gaps**2).mean() / 2 / rest)
    assert scales.mean_gap == pytest.approx(((returns @ [1, -1]) ** 2).mean() / rest)


def test_nothing_that_varies_has_a_scale_all_the_same():
    from dataclasses import replace

    found = walks(5, 2)
    _, scales = PairReplay(replace(found, reward=np.zeros_like(found.reward)), DISCOUNT, 2, ROOT).scales()
    assert tuple(scales) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("discount", [0.0, 1e-3, 0.03])
def test_late_parts_of_walks_with_a_small_discount_keep_their_digits(discount):
    """γᵗ is 10⁻³⁰ and less there: sums up to t cannot be subtracted and divided by it."""
    found = walks(10, 2, 20)
    rows, t = np.arange(20).repeat(20), np.tile(np.arange(20), 20)
    part = PairReplay(found, discount, 2, ROOT).parts(rows, t, np.zeros(400, bool))
    later = np.where((t < 19)[:, None], found.reward[rows, np.minimum(t + 1, 19)], 0.0)
    assert np.allclose(part.reward, found.reward[rows, t] + discount * later, rtol=1e-5)
