"""Training loop: progress bar, learning curves, checkpoints and early stopping."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jmdp.base.arrays import Floats
from jmdp.base.luck import Shock
from jmdp.base.machine import deferred_interrupts
from jmdp.errors import SettingsError
from jmdp.methods.neural_gram.checkpoints import Checkpoints, Tracker
from jmdp.methods.neural_gram.lookahead_rollouts import PairReplay
from jmdp.methods.neural_gram.losses import NAMES, Scales, compiled_moments, compiled_targets
from jmdp.methods.neural_gram.network import GramNetwork
from jmdp.methods.neural_gram.trainer import Trainer, TrainingPlan, TrainingProgress, initial_state
from jmdp.results.result import LearningCurve
from jmdp.simulators.rollouts.pair_walks import PairWalks

if TYPE_CHECKING:
    from jmdp.methods.neural_gram.neural_gram import NeuralGram

CHUNK = 50
"""Updates per compiled call, which takes a second or less."""

_LOOKS = 20
"""Largest number of chunks between two held-out evaluations and checkpoints."""


@dataclass(frozen=True)
class TrainingData:
    """Training data, and the number of actions and discount of their problem."""

    walks: PairWalks
    held_out: PairWalks | None  # for early stopping
    actions: int
    discount: float


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run."""

    network: GramNetwork
    curve: LearningCurve
    scores: Floats  # [evaluations], held-out scores; lower is better
    interrupted: bool


def train(
    settings: NeuralGram,
    data: TrainingData,
    *,
    report: Callable[[int], None] = lambda updates: None,
    checkpoints: Checkpoints | None = None,
    tracker: Tracker | None = None,
    devices: list[jax.Device] | None = None,
) -> TrainingResult:
    """Train a network on paired rollouts, with early stopping, and rescale its gap variances at the end."""
    run = _TrainingRun(settings, data, tracker, devices)
    if checkpoints is not None:
        run.progress = checkpoints.latest(run.progress)
    if tracker is not None:
        tracker.begin(run.updates_done)
    interrupted = False
    try:
        while not run.finished:
            looked = run.train_chunk()
            if looked and checkpoints is not None:
                with deferred_interrupts():
                    checkpoints.save(run.progress)
            report(run.updates_done)
    except KeyboardInterrupt:
        if run.updates_done == 0:
            raise
        interrupted = True
        if checkpoints is not None:
            checkpoints.save(run.progress)
    return run.result(interrupted)


class _TrainingRun:
    """Training run, chunk by chunk. Only `progress` changes."""

    def __init__(
        self,
        settings: NeuralGram,
        data: TrainingData,
        tracker: Tracker | None,
        devices: list[jax.Device] | None,
    ) -> None:
        self._settings, self._tracker = settings, tracker
        self._root = Shock.of_sample(settings.seed, 0)
        self._replay = PairReplay(data.walks, data.discount, settings.steps, self._root)
        mean, scales = self._replay.scales()
        network = _new_network(settings, data, mean, scales, self._root.derived(b"network").key())
        plan = _plan(settings, scales)
        _check_devices(settings.batch, len(devices or jax.devices()))
        self._trainer = Trainer(plan, devices)
        self._chunks = -(-settings.updates // CHUNK)
        self._every = max(1, min(_LOOKS, self._chunks // 10))
        self._score = None if data.held_out is None else HeldOutScore(data.held_out, data.discount, scales)
        self.progress = TrainingProgress(
            state=initial_state(network, plan),
            best=network,
            best_score=jnp.array(jnp.inf),
            scores=jnp.full(self._chunks // self._every, jnp.nan),
            errors=jnp.full((self._chunks, 2, len(NAMES)), jnp.nan),
            chunk=jnp.array(0),
        )

    @property
    def updates_done(self) -> int:
        return min(int(self.progress.chunk) * CHUNK, self._settings.updates)

    @property
    def finished(self) -> bool:
        """True if all updates are done, or if held-out scores have not improved for `patience` evaluations."""
        if int(self.progress.chunk) >= self._chunks:
            return True
        scores, patience = np.asarray(self.progress.scores), self._settings.patience
        scores = scores[~np.isnan(scores)]
        return patience is not None and scores.size > 0 and scores.size - 1 - int(scores.argmin()) >= patience

    def train_chunk(self) -> bool:
        """Perform the next updates; return True if the network was evaluated. An interrupt leaves `progress` as is."""
        now, i = self.progress, int(self.progress.chunk)
        count = min(CHUNK, self._settings.updates - i * CHUNK)
        batches = self._replay.batches(i, count, self._settings.batch)
        state, errors = self._trainer.update(now.state, batches, self._root.derived(b"updates", i).key())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a block without data stays nan
            square, drift = np.nanmean(np.asarray(errors), axis=0)
        after = now._replace(state=state, errors=now.errors.at[i].set(np.stack([square, drift])), chunk=now.chunk + 1)
        done = i * CHUNK + count
        if self._tracker is not None:
            named = zip(NAMES, square.tolist(), strict=True)
            self._tracker.write(done, {f"td error/{name}": error**0.5 for name, error in named})
        looking = (i + 1) % self._every == 0 or i + 1 == self._chunks
        self.progress = self._judged(after, i // self._every, done) if looking else after
        return looking

    def _judged(self, now: TrainingProgress, look: int, done: int) -> TrainingProgress:
        """Evaluate the averaged network on held-out states and keep it if it is the best so far."""
        if self._score is None or look >= len(now.scores):
            return now
        score, ratio = self._score(now.state.target)
        if self._tracker is not None:
            self._tracker.write(done, {"held out/score": score, "held out/ratio": ratio})
        now = now._replace(scores=now.scores.at[look].set(score))
        return now._replace(best=now.state.target, best_score=jnp.array(score)) if score < now.best_score else now

    def result(self, interrupted: bool) -> TrainingResult:
        now = self.progress
        judged = self._score is not None and bool(np.isfinite(now.best_score))
        best = rescaled_gaps(now.best if judged else now.state.target, self._replay)
        curve = _curve(now, self._settings.updates, noise_floor(best, self._replay))
        return TrainingResult(best, curve, np.asarray(now.scores), interrupted)


def _new_network(settings: NeuralGram, data: TrainingData, mean: float, scales: Scales, key: jax.Array) -> GramNetwork:
    seen = data.walks.observation
    observations = seen.reshape(-1, *seen.shape[3:])
    return GramNetwork(
        settings.encoder,
        observations[:: max(1, len(observations) // 20_000)],
        data.actions,
        settings.kernel,
        settings.rank,
        (mean, scales.variance**0.5, scales.gap_variance**0.5),
        key,
    )


def _plan(settings: NeuralGram, scales: Scales) -> TrainingPlan:
    return TrainingPlan(
        updates=settings.updates,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        dropout=settings.dropout,
        target_averaging=settings.target_averaging,
        mean_rate=settings.mean_rate,
        scales=scales,
    )


def _check_devices(batch: int, devices: int) -> None:
    if batch % devices:
        raise SettingsError(
            f"batch is {batch}, which cannot be split across {devices} devices. Give a multiple of "
            f"{math.lcm(4, devices)}."
        )


class HeldOutScore:
    """Held-out score: quasi-likelihood of simulated gap variances, given the learned ones."""

    def __init__(self, walks: PairWalks, discount: float, scales: Scales) -> None:
        returns = walks.returns(discount)
        self._simulated = (returns[..., 0] - returns[..., 1]).var(axis=1, ddof=1)
        every = returns.shape[1]
        self._observation, self._action = walks.observation[::every, 0], walks.action[::every, 0]
        self._floor = 1e-3 * scales.gap_variance

    def __call__(self, network: GramNetwork) -> tuple[float, float]:
        """Return the score, mean of log k + simulated/k, and the ratio of the sums, learned over simulated."""
        same = np.ones(len(self._action), np.bool_)
        gap = np.asarray(compiled_moments(network, self._observation, self._action, same).gap, np.float64)
        k = gap + self._floor
        total = float(self._simulated.sum())
        ratio = float(gap.sum()) / total if total > 0 else math.nan
        return float((np.log(k) + (self._simulated + self._floor) / k).mean()), ratio


def rescaled_gaps(network: GramNetwork, replay: PairReplay) -> GramNetwork:
    """Return the network with all gap variances scaled by one factor, so that their sum matches whole rollouts.

    Short targets are best for the pattern of the variance across states, long ones for its total: ½(G − G̃)² of two
    independent rollouts is unbiased whatever the network. The factor is shrunk towards 1 by its uncertainty.
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
    return network.with_gap_variances_scaled(float(factor))


def noise_floor(network: GramNetwork, replay: PairReplay) -> Floats:
    """Root mean square noise of targets, [blocks], from ½(T − T̃)² of independent rollouts: a bound on TD errors."""
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


def _curve(now: TrainingProgress, updates: int, floor: Floats) -> LearningCurve:
    done = int(now.chunk)
    square, drift = np.asarray(now.errors[:done], np.float64).transpose(1, 0, 2)
    counts = np.minimum(np.arange(1, done + 1) * CHUNK, updates).astype(np.float64)
    return LearningCurve(NAMES, counts, np.sqrt(square), drift, floor)
