"""From walks to a network: the loop, with what people expect of one: a bar, curves, checkpoints, an early stop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.luck import Shock
from jmdp.errors import SettingsError
from jmdp.methods.neural_gram.checkpoints import Checkpoints
from jmdp.methods.neural_gram.losses import NAMES, Scales, compiled_moments, compiled_targets
from jmdp.methods.neural_gram.network import GramNetwork
from jmdp.methods.neural_gram.replay import PairReplay
from jmdp.methods.neural_gram.tracking import Tracker
from jmdp.methods.neural_gram.trainer import Learning, Plan, Trainer, begun
from jmdp.results.learning_curve import LearningCurve
from jmdp.simulators.pair_walks import PairWalks

if TYPE_CHECKING:
    from jmdp.methods.neural_gram.neural_gram import NeuralGram

CHUNK = 50
"""Updates of one call: a second or less."""

_LOOKS = 20
"""Chunks, at most, between two looks at the held-out walks and two checkpoints."""


@dataclass(frozen=True)
class Learned:
    """What came of it."""

    network: GramNetwork
    curve: LearningCurve
    scores: Floats  # [looks], held-out scores, less is better
    interrupted: bool


class Progress(NamedTuple):
    """All that a run needs to go on as if it had not stopped."""

    learning: Learning
    best: GramNetwork
    best_score: Any
    scores: Any  # [looks]
    errors: Any  # [chunks, 2, blocks]
    chunk: Any


def learn(
    settings: NeuralGram,
    walks: PairWalks,
    held_out: PairWalks | None,
    actions: int,
    discount: float,
    *,
    report: Callable[[int], None] = lambda updates: None,
    checkpoints: Checkpoints | None = None,
    tracker: Tracker | None = None,
    devices: list[jax.Device] | None = None,
) -> Learned:
    """Train on walks; stop early where the held-out ones say so; then set the scale of gaps right."""
    root = Shock.of_sample(settings.seed, 0)
    replay = PairReplay(walks, discount, settings.steps, root)
    mean, scales = replay.scales()
    observations = walks.observation.reshape(-1, *walks.observation.shape[3:])
    network = GramNetwork(
        settings.encoder,
        observations[:: max(1, len(observations) // 20_000)],
        actions,
        settings.kernel,
        settings.rank,
        (mean, scales.variance**0.5, scales.gap_variance**0.5),
        root.derived(b"network").key(),
    )
    plan = Plan(
        settings.updates, settings.learning_rate, settings.weight_decay, settings.dropout,
        settings.target_averaging, settings.mean_rate, scales,
    )  # fmt: skip
    several = len(devices or jax.devices())
    if settings.batch % several:
        raise SettingsError(
            f"batch is {settings.batch}, and there are {several} devices to spread it over. Give a multiple of "
            f"{math.lcm(4, several)}."
        )
    trainer = Trainer(plan, devices)
    chunks = -(-settings.updates // CHUNK)
    every = max(1, min(_LOOKS, chunks // 10))
    judge = None if held_out is None else _Judge(held_out, discount, scales)
    now = Progress(
        begun(network, plan), network, jnp.array(jnp.inf), jnp.full(chunks // every, jnp.nan),
        jnp.full((chunks, 2, len(NAMES)), jnp.nan), jnp.array(0),
    )  # fmt: skip
    if checkpoints is not None:
        now = checkpoints.latest(now)
    if tracker is not None:
        tracker.begin(int(now.chunk) * CHUNK)
    interrupted = False
    try:
        while int(now.chunk) < chunks and not _given_up(now, settings.patience):
            i = int(now.chunk)
            count = min(CHUNK, settings.updates - i * CHUNK)
            learning, errors = trainer.many(
                now.learning, replay.batches(i, count, settings.batch), root.derived(b"updates", i).key()
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of a block that was never met: it stays nan
                square, drift = np.nanmean(np.asarray(errors), axis=0)
            after = now._replace(
                learning=learning, errors=now.errors.at[i].set(np.stack([square, drift])), chunk=now.chunk + 1
            )
            done = i * CHUNK + count
            if tracker is not None:
                tracker.write(done, {f"td error/{n}": e**0.5 for n, e in zip(NAMES, square.tolist(), strict=True)})
            looking = (i + 1) % every == 0 or i + 1 == chunks
            now = _look(after, judge, i // every, done, tracker) if looking else after  # all or nothing if interrupted
            if looking and checkpoints is not None:
                checkpoints.save(now)
            report(done)
    except KeyboardInterrupt:
        interrupted = True
        if checkpoints is not None:
            checkpoints.save(now)
    best = now.best if judge is not None and np.isfinite(now.best_score) else now.learning.target
    best = tempered(best, replay)
    return Learned(best, _curve(now, settings.updates, noise_floor(best, replay)), np.asarray(now.scores), interrupted)


def _look(now: Progress, judge: _Judge | None, look: int, done: int, tracker: Tracker | None) -> Progress:
    """Is the averaged network the best so far?"""
    if judge is None or look >= len(now.scores):
        return now
    score, ratio = judge(now.learning.target)
    if tracker is not None:
        tracker.write(done, {"held out/score": score, "held out/ratio": ratio})
    now = now._replace(scores=now.scores.at[look].set(score))
    return now._replace(best=now.learning.target, best_score=jnp.array(score)) if score < now.best_score else now


def _given_up(now: Progress, patience: int | None) -> bool:
    seen = np.asarray(now.scores)
    seen = seen[~np.isnan(seen)]
    return patience is not None and seen.size > 0 and seen.size - 1 - int(seen.argmin()) >= patience


class _Judge:
    """Held-out calibration: how likely simulated variances of gaps are, given the learned ones."""

    def __init__(self, walks: PairWalks, discount: float, scales: Scales) -> None:
        returns = walks.returns(discount)
        self._simulated = (returns[..., 0] - returns[..., 1]).var(axis=1, ddof=1)
        every = returns.shape[1]
        self._observation, self._action = walks.observation[::every, 0], walks.action[::every, 0]
        self._floor = 1e-3 * scales.gap_variance

    def __call__(self, network: GramNetwork) -> tuple[float, float]:
        """The score, mean of log k + simulated/k, and the ratio of sums."""
        same = np.ones(len(self._action), np.bool_)
        gap = np.asarray(compiled_moments(network, self._observation, self._action, same).gap, np.float64)
        k = gap + self._floor
        total = float(self._simulated.sum())
        ratio = float(gap.sum()) / total if total > 0 else math.nan
        return float((np.log(k) + (self._simulated + self._floor) / k).mean()), ratio


def tempered(network: GramNetwork, replay: PairReplay) -> GramNetwork:
    """The network with all gaps scaled by one number, so that together they are what pairs of whole walks say.

    Short targets teach best where variance is, long ones how much of it there is: ½(G − G̃)² of two walks that share
    no luck is unbiased whatever was learned. The number is moved towards 1 by as much as it is uncertain.
    """
    whole = replay.pairs(replay.length)
    if whole is None:
        return network
    aim = np.asarray(compiled_targets(network, whole).moments.gap, np.float64)[::2]
    found = np.asarray(compiled_moments(network, whole.observation, whole.action, whole.same).gap, np.float64)[::2]
    if not found.sum() > 0 or not aim.sum() > 0:
        return network
    factor = aim.sum() / found.sum()
    noise = ((aim - factor * found) ** 2).sum() / found.sum() ** 2
    factor = 1 + (factor - 1) * (factor - 1) ** 2 / ((factor - 1) ** 2 + noise)
    return network.tempered(float(factor))


def noise_floor(network: GramNetwork, replay: PairReplay) -> Floats:
    """[blocks], rms of the noise in targets where walks begin, ½(T − T̃)² of two, luck apart: no network goes below."""
    whole = replay.pairs()
    if whole is None:
        return np.full(len(NAMES), np.nan)
    one = whole._replace(doubled=np.zeros_like(whole.doubled))
    aim = compiled_targets(network, one)
    blocks = aim.moments
    columns = [
        aim.mean, jnp.stack([blocks.first, blocks.second], axis=1), blocks.covariance, None,
        aim.mean[:, 0] - aim.mean[:, 1], blocks.gap,
    ]  # fmt: skip
    return np.array(
        [np.nan if c is None else float(np.sqrt(((c[::2] - c[1::2]) ** 2).mean() / 2)) for c in columns], np.float64
    )


def _curve(now: Progress, updates: int, floor: Floats) -> LearningCurve:
    done = int(now.chunk)
    square, drift = np.asarray(now.errors[:done], np.float64).transpose(1, 0, 2)
    counts = np.minimum(np.arange(1, done + 1) * CHUNK, updates).astype(np.float64)
    return LearningCurve(NAMES, counts, np.sqrt(square), drift, floor)
