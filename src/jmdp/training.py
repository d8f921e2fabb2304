"""While a policy is trained: a callback for stable-baselines3 that compares it with the best so far, in pairs."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jmdp.base.luck import Shock
from jmdp.base.settings import nonnegative, probability, whole
from jmdp.comparing_policies import compare_policies
from jmdp.errors import MissingExtraError
from jmdp.models.actors.as_policy import as_policy
from jmdp.results.policy_comparison import PolicyComparison
from jmdp.simulators import episode_simulator

if TYPE_CHECKING:

    class BaseCallback:
        """What the callback uses of that of stable-baselines3, which has no part in type checks."""

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
            """In place of that of stable-baselines3, which is not installed."""

            def __init__(self, verbose: int = 0) -> None:
                raise MissingExtraError("This callback needs stable-baselines3: pip install stable-baselines3")


class PairedEvalCallback(BaseCallback):
    """Every `eval_freq` calls, compare the policy as it is now with the best so far, both under the same luck.

    The policy becomes the best so far, and is saved, if the lower limit of the mean gap (now − best) is above
    −`tolerance`: with 0 it must be known to be better, with more it must be known not to be worse by as much. The first
    best is the policy before training. The limit holds with `confidence` in each evaluation on its own, whenever it
    stops; evaluations have independent luck.

    It logs ``jmdp/gap``, ``jmdp/gap_low``, ``jmdp/gap_high``, ``jmdp/chance_better``, ``jmdp/mean_return``,
    ``jmdp/best_mean_return``, ``jmdp/episodes``, ``jmdp/pairing_gain`` and ``jmdp/new_best`` to the model's logger.

    Parameters
    ----------
    eval_env
        A Gymnasium environment, no vector of them; or any `jmdp.simulators.Simulator`.
    eval_freq
        Calls of the callback between evaluations; with n environments a call is n steps.
    episodes
        Of each policy in an evaluation, at most; it stops when one is known to be better.
    best_model_save_path
        Folder in which ``best_model.zip`` is saved; None saves nothing. `best_policy` has it anyway.
    deterministic
        Compare the most likely actions instead of drawn ones. Those of an untrained network may do well by accident
        and then stay the best for long; False compares the policy that is trained.
    tolerance, confidence, seed
        Of the rule above; the seed is that of all luck.
    discount, horizon
        As in `compare_policies`; by default whole episodes up to the environment's time limit.
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
        super().__init__(verbose)
        self.simulator = episode_simulator(eval_env, digests=False)
        self.eval_freq, self.episodes, self.tolerance, self.confidence = eval_freq, episodes, tolerance, confidence
        self.seed, self.discount, self.horizon, self.deterministic = seed, discount, horizon, deterministic
        for name, least in (("eval_freq", 1), ("episodes", 2), ("seed", 0)):
            whole(self, name, least)
        nonnegative(self, "tolerance")
        probability(self, "confidence")
        self.best_model_save_path = None if best_model_save_path is None else Path(best_model_save_path)
        self.comparisons: list[PolicyComparison] = []
        self.best_policy: Any = None  # a copy, as `as_policy` takes it

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
            samples=self.episodes,
            horizon=self.horizon,
            progress=False,
        )
        self.comparisons.append(found)
        gap = found.beside_reference("now")
        better = gap["advantage"].low > -self.tolerance
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
        """The policy as it is now is the best so far."""
        self.best_policy = _Frozen(self.model)
        if self.best_model_save_path is not None:
            self.best_model_save_path.mkdir(parents=True, exist_ok=True)
            self.model.save(self.best_model_save_path / "best_model")


class _Frozen:
    """A copy of what acts in a model: its network, and how it normalises observations."""

    def __init__(self, model: Any) -> None:
        self.policy = copy.deepcopy(model.policy)
        self.action_space, self.observation_space = model.action_space, model.observation_space
        self._normaliser = copy.deepcopy(model.get_vec_normalize_env())
        self.__name__ = type(model).__name__

    def predict(self, *arguments: Any, **settings: Any) -> Any:
        return self.policy.predict(*arguments, **settings)

    def get_vec_normalize_env(self) -> Any:
        return self._normaliser
