"""One game on the authors' settings: networks, our learned method, and simulated gaps, compared in the same states."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import jmdp
from jmdp.base.labels import identity
from jmdp.base.whole_files import whole_file
from jmdp.results import Calibration, Estimate
from reproduction.atari.authors.network import BLOCKS, WINDOW, Reading, Training
from reproduction.atari.authors.queries import (
    DISCOUNT,
    Floats,
    QueriedGame,
    Reference,
    Simulated,
    Starts,
    Walk,
    marked,
    reduced,
    stay,
)

Tell = Callable[[str], None]


def closed_form(length: int) -> float:
    """Gap variance if no points are made and branches part at once: 1 for the query, then ½ for two bits a step."""
    return (1 - DISCOUNT) ** 2 * (1 + 0.5 * float((DISCOUNT ** (2 * np.arange(1, length))).sum()))


@dataclass(frozen=True)
class Game:
    """A game, and how much of it is run."""

    name: str
    seeds: tuple[int, ...]
    """Seeds of networks."""
    updates: int
    minutes: float
    """Processor time of training, for each network."""
    first: tuple[int, int, int, int]
    """Walks, states of each, steps between them, and paired rollouts: the authors' choice of states."""
    more: tuple[int, int, int, int]
    """The same, for states further apart; with 0 rollouts they are not judged."""
    learned_steps: int
    """Simulated steps of our learned method, without those in its own held-out states."""
    segment: int
    """Steps of the walk that are simulated and stored together."""
    length: int
    """Steps of a rollout."""

    def references(self) -> dict[str, Reference]:
        """The sets of states."""
        sizes = {"first": (42, self.first), "more": (43, self.more)}
        return {key: Reference(self.name, seed, *size, self.length) for key, (seed, size) in sizes.items()}

    def starts(self) -> dict[str, Starts]:
        """The states of each set."""
        return {key: reference.starts() for key, reference in self.references().items()}

    def trained(self, folder: Path, tell: Tell, *, further: bool) -> list[Training]:
        """Networks of all seeds, trained until the updates are done or the time is over; or as they are."""
        starts = self.starts().values()
        frames = np.stack([reduced(screen) for part in starts for screen in part.screen])
        pairs = np.concatenate([part.pair for part in starts])
        tell(f"{self.name}: queries of a random walk, and untrained networks")
        walk, seconds = Walk(self.name, 41, self.segment), 60 * self.minutes if further else 0.0
        return [
            Reading(self.name, seed, walk).trained(folder, frames, pairs, self.updates, seconds, tell)
            for seed in self.seeds
        ]

    def learned(self, folder: Path, tell: Tell) -> dict[str, Any] | None:
        """Predictions of `LearnedMoments` in the same states, from the same game and rewards.

        None if nothing is to be trained, and it was not before.
        """
        starts = self.starts()
        screens = np.concatenate([marked(part.screen) for part in starts.values()])
        method = jmdp.LearnedMoments(seed=self.seeds[0], max_steps=self.learned_steps)
        name = identity(self.name, method, screens, DISCOUNT, self.length, version("jmdp")).hex()[:8]
        path = folder / "learned" / f"{self.name}-{name}.npz"
        if not path.exists() and not self.minutes:
            return None
        if not path.exists():
            tell(f"{self.name}: LearnedMoments")
            begun = time.process_time()
            found = jmdp.evaluate(
                QueriedGame(self.name, self.length), stay, jmdp.Synchronous(), method, discount=DISCOUNT, progress=False
            )
            mean, covariance = found.moments(screens)
            about = {
                "states": found.states, "outcome": found.outcome.name, "seconds": time.process_time() - begun,
                "weights": found.weights,
            }  # fmt: skip
            with whole_file(path) as file:
                np.savez(file, mean=mean, covariance=covariance, constant=found.constant, about=json.dumps(about))
        with np.load(path) as file:
            return {**{key: file[key] for key in ("mean", "covariance", "constant")}, **json.loads(str(file["about"]))}

    def compared(self, folder: Path, tell: Tell) -> dict[str, Any]:
        """Numbers of Table 1: ratios to simulated gap variances, for each set of states."""
        networks = self.trained(folder, tell, further=False)
        ours = self.learned(folder, tell)
        found: dict[str, Any] = {
            "game": self.name,
            "updates": [network.updates for network in networks],
            "learned": ours and {key: ours[key] for key in ("states", "outcome", "seconds", "weights")},
            "sets": {},
        }
        begin = 0
        for key, reference in self.references().items():
            starts = reference.starts()
            here = slice(begin, begin + len(starts.pair))
            begin = here.stop
            if not reference.rollouts:
                continue
            simulated = reference.collected(folder, tell)
            found["sets"][key] = self._ratios(reference, starts, simulated, networks, ours, here)
        return found

    def _ratios(
        self,
        reference: Reference,
        starts: Starts,
        simulated: Simulated,
        networks: list[Training],
        ours: dict[str, Any] | None,
        here: slice,
    ) -> dict[str, Any]:
        # States of one walk are resampled together, if there are several walks.
        def record(mean: Floats, variances: Floats, variance: Floats) -> Calibration:
            return Calibration(
                state=starts.walk if reference.walks > 1 else np.arange(len(starts.pair)),
                first=starts.pair[:, 0],
                second=starts.pair[:, 1],
                mean=mean[:, 0] - mean[:, 1],
                variance=variance,
                independent=variances.sum(axis=1),
                returns=simulated.returns,
                seed=reference.seed,
                closed_form=np.full(len(variance), closed_form(self.length)),
            )

        def gap(covariance: Floats) -> Floats:
            return np.asarray(covariance[..., 0, 0] + covariance[..., 1, 1] - 2 * covariance[..., 0, 1])

        ones = np.ones(len(starts.pair))
        of_network = [
            record(look[:, :2], look[:, 2:4], look[:, 4]) for look in (network.looks[-1][here] for network in networks)
        ]
        untrained = [record(look[:, :2], look[:, 2:4], look[:, 4]).ratio for look in
                     (network.looks[0][here] for network in networks)]  # fmt: skip
        learned: dict[str, Any] = {}
        if ours is not None:
            mean, covariance, constant = ours["mean"][here], ours["covariance"][here], ours["constant"]
            of_ours = record(mean, np.diagonal(covariance, axis1=1, axis2=2), gap(covariance))
            of_constant = record(mean, np.tile(np.diag(constant), (len(ones), 1)), gap(constant) * ones)
            learned = {
                "ours": _numbers(of_ours.ratio), "gain": _numbers(of_ours.variance_gain),
                "constant": _numbers(of_constant.ratio),
            }  # fmt: skip
        own = simulated.returns.var(axis=1, ddof=1)
        squares = (simulated.returns**2).mean(axis=1)
        truth = record(simulated.returns.mean(axis=1), own, squares.sum(axis=1))
        assert truth.closed_form_ratio is not None
        return {
            "states": len(ones), "walks": reference.walks, "rollouts": reference.rollouts,
            "together": float(simulated.together.mean()),
            "simulated": float(truth.simulated_variance.mean()),
            "mean_return": float(simulated.returns.mean()),
            "network": [_numbers(part.ratio) for part in of_network],
            "untrained": [_numbers(ratio) for ratio in untrained],
            "network_independent": [_numbers(part.independent_ratio) for part in of_network],
            "looked_at": [network.looked_at for network in networks],
            "curves": [
                [float(look[here, 4].mean() / truth.simulated_variance.mean()) for look in network.looks]
                for network in networks
            ],
            "network_mean": [float(network.looks[-1][here, :2].mean()) for network in networks],
            "closed_form": _numbers(truth.closed_form_ratio), "independent": _numbers(truth.independent_ratio),
            "uncentred": _numbers(truth.ratio), **learned,
        }  # fmt: skip

    def curves(self, folder: Path, tell: Tell) -> dict[str, Any]:
        """Numbers of Figure 7: TD errors of the networks along training, and their predictions."""
        networks = self.trained(folder, tell, further=True)
        windows = min(len(network.squares) for network in networks)
        return {
            "game": self.name,
            "blocks": list(BLOCKS),
            "updates": [network.updates for network in networks],
            "seconds": [network.seconds for network in networks],
            "window": WINDOW,
            "squares": [np.array(network.squares[:windows]).tolist() for network in networks],
            "looked_at": [network.looked_at for network in networks],
            "gap_variance": [[float(look[:, 4].mean()) for look in network.looks] for network in networks],
            "mean_return": [[float(look[:, :2].mean()) for look in network.looks] for network in networks],
        }


def _numbers(value: Estimate) -> list[float | None]:
    """The value and its interval; an end that is not finite is None."""
    return [float(value), *(end if np.isfinite(end) else None for end in (value.low, value.high))]
