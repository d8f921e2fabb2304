"""NeuralGram: neural networks that learn the joint moments of returns for every state of a simulator."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jmdp.base.labels import identity
from jmdp.base.luck import Shock
from jmdp.base.progress import count_bar
from jmdp.base.settings import asks_for_seed, choice, nonnegative, probability, short, whole
from jmdp.distribute.pools import Pool
from jmdp.distribute.process_pool import check_pool, pool_of
from jmdp.errors import MissingExtraError, SettingsError
from jmdp.methods.method import COVERS, Method
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.results.certificate import Outcome
from jmdp.simulators.rollouts.pair_walks import PairedRollouts, WalkPlan
from jmdp.simulators.rollouts.plan import reference_steps
from jmdp.simulators.simulator import Simulator

if TYPE_CHECKING:
    from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation


@asks_for_seed
@dataclass(frozen=True, kw_only=True)
class NeuralGram(Method["LearnedEvaluation"]):
    """Neural networks for means and covariances, trained on pairs of branches under shared randomness.

    The paper's incremental JIPE-2 with function approximation (Section 6 and Section C): TD learning of means,
    variances, covariances within and between states, and of the gap (Eq. (89)). The covariance is a sum of kernels
    (`kernel`), so it is always positive semidefinite.

    Three differences from the paper. Both branches of a pair are simulated for several steps, not only one, so that
    the data contain branches that stay close or merge. Every pair is simulated twice with independent randomness,
    which gives variance targets that do not use the mean. Means have a smaller learning rate (`mean_rate`), because
    their errors would inflate the variances.

    Needs ``pip install "jmdp[nn]"``. The result is a `LearnedEvaluation`. Its `outcome` is the verdict of the held-out
    states: TRAINED, NOT_BETTER, NOTHING_VARIED, or NOT_JUDGED with ``held_out=None`` (see `Calibration.verdict`). None
    of these raises; only an interrupted run does.

    Parameters
    ----------
    seed
        Random seed of data, network and batches; the same seed gives the same numbers.
    visits, spacing
        Number of states, taken from rollouts of the policy, in which pairs of actions start; steps between them.
    length, repeats
        Steps of a rollout of two branches; rollouts per visited state, each with independent randomness.
    steps
        n of n-step targets.
    updates, batch, learning_rate, weight_decay, dropout, target_averaging, mean_rate
        Settings of training (AdamW with cosine decay). Dropout applies to the features of means only. Targets come
        from a moving average of the network with decay `target_averaging`. `mean_rate` scales the learning rate of
        the means.
    kernel
        "sum": ⟨v(x), v(y)⟩ + 1{same state}⟨w(x), w(y)⟩ + 1{x = y} n(x). "gram": only the first term, as
        in Eq. (88).
    rank
        Size of v and of w.
    encoder
        One of `encoders`, an Equinox module, or None: convolutions for images, an MLP for other observations.
    held_out, patience
        Number of held-out states for calibration and early stopping; None disables both. Number of evaluations on
        them without improvement before training stops; None trains to the end. The best network is kept in both cases.
    pool
        Number of worker processes that simulate, or a `ProcessPool`; None uses this process. Results do not depend on
        it.
    path
        Folder for learning curves (JSON lines, TensorBoard) and checkpoints. An interrupted run resumes from it.
    """

    covers = COVERS["NeuralGram(seed=…)"]

    seed: int
    visits: int = 1500
    spacing: int = 8
    length: int = 12
    repeats: int = 2
    steps: int = 3
    updates: int = 600
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 3.0
    dropout: float = 0.3
    target_averaging: float = 0.95
    mean_rate: float = 0.05
    kernel: Literal["sum", "gram"] = "sum"
    rank: int = 16
    encoder: Any = None
    held_out: int | None = 48
    patience: int | None = None
    pool: int | Pool | None = field(default=None, repr=False, compare=False)
    path: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("visits", 1), ("spacing", 1), ("length", 1), ("repeats", 1), ("steps", 1),
                            ("updates", 1), ("batch", 4), ("rank", 1)):  # fmt: skip
            whole(self, name, least)
        for name in ("held_out", "patience"):
            whole(self, name, 1, optional=True)
        for name in ("learning_rate", "weight_decay", "dropout", "mean_rate"):
            nonnegative(self, name)
        probability(self, "target_averaging")
        object.__setattr__(self, "pool", check_pool(self.pool))
        if self.dropout >= 1:
            raise SettingsError(f"dropout is {self.dropout}. Give a number below 1.")
        object.__setattr__(self, "kernel", choice("kernel", self.kernel, ("sum", "gram")))
        if not (self.encoder is None or callable(self.encoder) or callable(getattr(self.encoder, "build", None))):
            raise SettingsError(f"encoder is {short(self.encoder)}. Give one of `encoders`, a callable module or None.")
        if self.batch % 4:
            raise SettingsError(f"batch is {self.batch}. Give a multiple of 4: half of each batch consists of pairs.")
        if self.steps > self.length:
            raise SettingsError(f"steps is {self.steps}, but rollouts have {self.length} steps. Give a larger length.")
        if self.path is not None and not isinstance(self.path, (str, os.PathLike)):
            raise SettingsError(f"path is {short(self.path)}. Give the path of a folder, or None.")

    def on_simulator(
        self, simulator: Simulator, actor: Actor, coupling: Coupling, discount: float, progress: bool
    ) -> LearnedEvaluation:
        """Evaluate; see `jmdp.evaluate`."""
        try:
            from jmdp.methods.learned.learned_result import judged
            from jmdp.methods.neural_gram.checkpoints import Checkpoints, Tracker
            from jmdp.methods.neural_gram.learned_evaluation import LearnedEvaluation, calibration_of, held_out_plan
            from jmdp.methods.neural_gram.training_loop import TrainingData, train
        except MissingExtraError:
            raise
        except ImportError as error:
            raise MissingExtraError(f'NeuralGram needs networks ({error.name}): pip install "jmdp[nn]"') from None
        if discount >= 1:
            raise SettingsError("NeuralGram needs a discount below 1.")
        name = type(self).__name__
        root = Shock.of_sample(self.seed, 0)
        rollouts = PairedRollouts(simulator, actor, coupling)
        with pool_of(self.pool) as pool:
            visits = min(self.visits, 100)
            plan = WalkPlan(visits, self.spacing, self.repeats, self.length)
            seed, blocks = root.derived(b"walks").seed(), -(-self.visits // visits)
            walks = rollouts.collect(plan, seed=seed, blocks=blocks, pool=pool, progress=progress)
            held_out = None
            if self.held_out is not None:
                plan, seed = held_out_plan(16, self.long_enough(discount)), root.derived(b"held out").seed()
                held_out = rollouts.collect(plan, seed=seed, blocks=self.held_out, pool=pool, progress=progress)
        assert simulator.actions is not None
        folder = None if self.path is None else Path(self.path)
        # Training sees the simulator and the policy only through these rollouts.
        run = identity(replace(self, path=None, pool=None), discount, coupling, simulator.actions, walks, held_out)
        checkpoints = None if folder is None else Checkpoints(folder, run)
        tracker = None if folder is None else Tracker(folder)
        try:
            with count_bar(name, progress, 0, self.updates) as report:
                data = TrainingData(walks, held_out, simulator.actions.size, discount)
                found = train(self, data, report=report, checkpoints=checkpoints, tracker=tracker)
        finally:
            for part in (checkpoints, tracker):
                if part is not None:
                    part.close()
        record = None
        if held_out is not None:
            record = calibration_of(found.network, held_out, discount, self.seed)
        return LearnedEvaluation(
            simulator=simulator,
            actor=actor,
            coupling=coupling,
            method=self,
            discount=discount,
            horizon=self.long_enough(discount),
            actions=simulator.actions,
            outcome=Outcome.INTERRUPTED if found.interrupted else judged(record),
            calibration=record,
            observation=(walks.observation.shape[3:], walks.observation.dtype.str),
            network=found.network,
            learning=found.curve,
            encoder=self.encoder,
        )

    def long_enough(self, discount: float) -> int:
        """Return the steps of reference rollouts, at least those of training."""
        return max(self.length, reference_steps(discount))
