"""Callback for stable-baselines3 that compares the policy in training with the best so far, in paired episodes."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jmdp.base.luck import Shock
from jmdp.base.settings import boolean, nonnegative, probability, short, whole, whole_number
from jmdp.comparisons.compare_policies import compare_policies
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.methods.monte_carlo.monte_carlo import LONGEST
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.tabular import problem_discount
from jmdp.simulators import episode_simulator

if TYPE_CHECKING:

    class BaseCallback:
        """Members of the stable-baselines3 class used here; the package itself is not type-checked."""

        logger: Any
        model: Any
        n_calls: int
        num_timesteps: int
        verbose: int

        def __init__(self, verbose: int = 0) -> None: ...

else:
    try:
        from stable_baselines3.common.callbacks import BaseCallback
    except ImportError:

        class BaseCallback:
            """Placeholder if stable-baselines3 is not installed."""

            def __init__(self, verbose: int = 0) -> None:
                raise MissingExtraError("This callback requires stable-baselines3: pip install stable-baselines3")


class PairedEvalCallback(BaseCallback):
    """Compare the current policy with the best so far every `eval_freq` calls, under shared randomness (luck).

    The current policy becomes the best and is saved if the lower confidence limit of the mean gap (now − best) is above
    −`tolerance`. With tolerance 0 it must be known to be better, otherwise to be worse by less than the tolerance. The
    limit of a gap that was the same in all episodes is its value. The first best policy is that before training. The
    limit is valid with `confidence` for each evaluation separately, at all its looks. Evaluations use independent
    random numbers.

    The callback logs ``jmdp/gap``, ``jmdp/gap_low``, ``jmdp/gap_high``, ``jmdp/chance_better``, ``jmdp/mean_return``,
    ``jmdp/best_mean_return``, ``jmdp/episodes``, ``jmdp/pairing_gain`` and ``jmdp/new_best`` to the model's logger.

    Parameters
    ----------
    eval_env
        A single Gymnasium environment (not a vector environment), or any `jmdp.simulators.Simulator`.
    eval_freq
        Number of calls of the callback between evaluations; with n training environments a call is n steps.
    episodes
        Largest number of episodes of each policy per evaluation, which stops when one is known to be better.
    best_model_save_path
        Folder for ``best_model.zip``; None saves nothing. The attribute `best_policy` is set in either case.
    deterministic
        Use the most likely actions instead of random ones. An untrained network may then perform well by chance and
        stay the best for long; False compares the random policy that is being trained.
    tolerance, confidence
        Parameters of the rule above.
    seed
        Random seed of all draws.
    discount, horizon
        As in `compare_policies`. Default: whole episodes, up to the environment's time limit.
    """

    def __init__(
        self,
        eval_env: Any,
        *,
        eval_freq: int = 10_000,
        episodes: int = 256,
        best_model_save_path: str | Path | None = None,
        deterministic: bool = True,
        tolerance: float = 0.0,
        confidence: float = 0.95,
        seed: int = 0,
        discount: float = 1.0,
        horizon: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(whole_number("verbose", verbose, 0))
        self.simulator = episode_simulator(eval_env, digests=False)
        self.eval_freq, self.episodes, self.tolerance, self.confidence = eval_freq, episodes, tolerance, confidence
        self.seed, self.discount, self.horizon, self.deterministic = seed, discount, horizon, deterministic
        for name, least in (("eval_freq", 1), ("episodes", 2), ("seed", 0)):
            whole(self, name, least)
        whole(self, "horizon", 1, LONGEST, optional=True)
        boolean(self, "deterministic")
        self.discount = problem_discount(None, discount)
        nonnegative(self, "tolerance")
        probability(self, "confidence")
        if not (best_model_save_path is None or isinstance(best_model_save_path, (str, os.PathLike))):
            raise SettingsError(f"best_model_save_path is {short(best_model_save_path)}. Give a path, or None.")
        self.best_model_save_path = None if best_model_save_path is None else Path(best_model_save_path)
        self.comparisons: list[PolicyComparison] = []
        self.best_policy: Any = None  # a copy that `as_policy` accepts

    def _on_training_start(self) -> None:
        if self.best_policy is None:
            self._keep()

    def _on_step(self) -> bool:
        if self.n_calls % self.eval_freq == 0:
            self._compare()
        return True

    def _compare(self) -> None:
        found = compare_policies(
            self.simulator,
            {"best": self._actor(self.best_policy), "now": self._actor(_Frozen(self.model))},
            seed=Shock.of_sample(self.seed, len(self.comparisons)).seed(),
            discount=self.discount,
            baseline="best",
            confidence=self.confidence,
            max_samples=self.episodes,
            horizon=self.horizon,
            progress=False,
        )
        self.comparisons.append(found)
        gap = found.beside("now")
        enough, same = found.summary.decisive(found.samples), found.summary.unvaried(0, (0, 1))[1]
        better = enough and (float(gap["advantage"]) if same else gap["advantage"].low) > -self.tolerance
        for name, value in (
            ("gap", float(gap["advantage"])),
            ("gap_low", gap["advantage"].low),
            ("gap_high", gap["advantage"].high),
            ("chance_better", float(gap["better"])),
            ("mean_return", float(gap["mean"])),
            ("best_mean_return", float(found.mean_of("best"))),
            ("episodes", found.samples),
            ("pairing_gain", float(found.pairing.gain)),
            ("new_best", int(better)),
        ):
            self.logger.record(f"jmdp/{name}", value)
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)
        if self.verbose:
            print(f"{self.num_timesteps} steps: {found.answer}", file=sys.stderr)
        if better:
            self._keep()

    def _actor(self, policy: Any) -> Any:
        return as_policy(policy, self.simulator.actions, greedy=self.deterministic, memory=True)

    def _keep(self) -> None:
        """Store the current policy as the best so far."""
        self.best_policy = _Frozen(self.model)
        if self.best_model_save_path is not None:
            self.best_model_save_path.mkdir(parents=True, exist_ok=True)
            self.model.save(self.best_model_save_path / "best_model")


class _Frozen:
    """Copy of a model's network and of its normalisation of observations."""

    def __init__(self, model: Any) -> None:
        self.policy = copy.deepcopy(model.policy)
        self.action_space, self.observation_space = model.action_space, model.observation_space
        self._normaliser = copy.deepcopy(model.get_vec_normalize_env())
        self.__name__ = type(model).__name__

    def predict(self, *arguments: Any, **settings: Any) -> Any:
        return self.policy.predict(*arguments, **settings)

    def get_vec_normalize_env(self) -> Any:
        return self._normaliser
