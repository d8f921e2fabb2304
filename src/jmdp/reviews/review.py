"""The review of one episode: expectation, skill and luck, and regret of every decision."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jmdp.base.arrays import ROUNDOFF, SMALLEST, Floats
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label, Labels
from jmdp.base.savable import Reportable, Savable
from jmdp.base.settings import cut, short, whole_number
from jmdp.errors import LabelError, SettingsError
from jmdp.results.certificate import Outcome
from jmdp.results.result import Tabulated, figure, labelled_arrays
from jmdp.reviews.decision import NEGLIGIBLE, Decision, Weights, fortune_of, judgement_of, regret_of
from jmdp.reviews.recorded import Deviation, RecordedMonth
from jmdp.reviews.review_text import review_text, verdict
from jmdp.reviews.trajectory import Forgotten, Replay, Trajectory
from jmdp.reviews.values import StepValues

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Review(Tabulated, Savable, Reportable):
    """An episode, split into expectation, skill and luck.

    With v and q the values of states and actions under the reference policy, the rewards of steps 0 … T − 1 are

        Σ γᵗ rₜ + γᵀ v(s_T) = v(s₀) + Σ γᵗ (q(sₜ, aₜ) − v(sₜ)) + Σ γᵗ (rₜ + γ v(sₜ₊₁) − q(sₜ, aₜ)),

    in words: `earned` + `final` = `expectation` + `skill` + `luck`, exactly for any estimates of q and v. The value
    after a terminal state is 0. A policy without randomness that is reviewed against itself has skill 0; the `regret`
    of a decision, maxᵦ q(s, b) − q(s, a), is what a better action would have earned more on average. Discounting is
    relative to the first reviewed step.

    Each interval has the stated confidence, and a decision's regret jointly for all actions.
    """

    _index: ClassVar = ("step",)

    trajectory: Trajectory
    labels: Sequence[str]  # [T], of the states; empty texts if they have none
    actions: Sequence[str]  # [A], names of the actions whose values are known
    taken: Sequence[int]  # [T], the position of the taken action among them
    values: Sequence[StepValues]  # [T + 1], before each step and after the last
    simulator: str
    policy: str
    reference: str | None  # None: the reviewed policy itself
    method: str  # how the values were found
    discount: float
    end: int  # step at which rollouts end; later rewards do not count
    seed: int
    confidence: float
    asked: int  # number of steps that were to be reviewed, at most
    replay: Replay | Forgotten = field(repr=False)
    replayed: Floats | None = None  # [T, A], `hindsight` if it was computed with the values
    month: RecordedMonth | None = None  # the periods of a history, if it took the place of random numbers
    deviation: Deviation | None = None  # of simulated states from recorded ones, if these were given
    others: Mapping[str, float] = field(default_factory=dict)  # what other policies earn in the same steps and luck

    def __len__(self) -> int:
        return len(self.trajectory)

    @property
    def episode(self) -> int:
        """Number of the episode: a sample of `compare_policies` with the same seed."""
        return self.trajectory.episode

    @property
    def first(self) -> int:
        """Number of the first reviewed step."""
        return self.trajectory.first

    @property
    def outcome(self) -> Outcome:
        """INTERRUPTED if not all requested steps were reviewed, though the episode went on."""
        if len(self) < self.asked:
            return Outcome.INTERRUPTED
        return Outcome.CONVERGED if self.exact else Outcome.SAMPLED

    @property
    def exact(self) -> bool:
        """True if values are those of a table, with certified errors."""
        return all(one.samples == 0 and math.isfinite(one.value_error) for one in self.values)

    @property
    def has_intervals(self) -> bool:
        """False if the values are those of a function, whose errors are unknown."""
        return all(math.isfinite(one.value_error) for one in self.values)

    @cached_property
    def weights(self) -> Floats:
        """[T + 1], γᵗ, relative to the first reviewed step."""
        return self._powers.value

    @cached_property
    def _powers(self) -> Weights:
        return Weights.of(self.discount, len(self))

    @cached_property
    def decisions(self) -> list[Decision]:
        """The reviewed steps, in order of time."""
        return [self._decision(i) for i in range(len(self))]

    def worst(self, count: int | None = None) -> list[Decision]:
        """Decisions with a regret, the largest first: by the lower end of its interval, then by the estimate."""
        found = [one for one in self.decisions if float(one.regret) > 0]
        found.sort(key=lambda one: (-one.regret.low if one.regret.has_interval else 0.0, -float(one.regret), one.step))
        return found if count is None else found[: whole_number("count", count, 0)]

    @cached_property
    def earned(self) -> Estimate:
        """Discounted rewards of the reviewed steps; the interval bounds the rounding of their sum."""
        rewards = self.trajectory.rewards
        hidden = len(self) * SMALLEST if 0 < self.discount < 1 and rewards.any() else 0.0
        return _estimate(self.trajectory.total(self.discount), self._powers.rounding(rewards) + hidden)

    @property
    def final(self) -> Estimate:
        """Discounted value of the state after the last reviewed step; 0 if the episode is over."""
        last, power = self.values[-1], self._powers.since(len(self))
        error = self._joined(power.bounds([last.value_error])) + power.rounding([last.value])
        return _estimate(power.total([last.value]), error)

    @property
    def total(self) -> Estimate:
        """`earned` + `final`."""
        return Estimate.within(self.earned + float(self.final), self.earned.interval + self.final.interval)

    @cached_property
    def expectation(self) -> Estimate:
        """What the reference policy earns on average from the first reviewed state.

        v(s₀) and, with a given or fitted function v, the sum of its inconsistencies γᵗ (Σᵦ π(b | s) q(s, b) − v(s)).
        If the policy is its own reference, the mean of this over episodes is unbiased for any v.
        """
        corrections = [one.average - one.value for one in self.values[:-1]]
        first = self.values[0]
        return _estimate(first.value + float(self.weights[:-1] @ corrections), first.value_error)

    @cached_property
    def skill(self) -> Estimate:
        """Σ γᵗ (q(s, a) − Σᵦ π(b | s) q(s, b)), π the reference: what the decisions added on average."""
        skills = [float(one.skill) for one in self.decisions]
        errors = [value.skill_error for value in self.values[:-1]]
        rounding = 0.0 if not any(skills) else self._powers.rounding([one.action_value for one in self.decisions])
        return _estimate(self._powers.total(skills), self._joined(self._powers.bounds(errors)) + rounding)

    @cached_property
    def luck(self) -> Estimate:
        """Σ γᵗ (r + γ v(s') − q(s, a)): what the outcomes of the taken actions added to their average."""
        lucks, hidden = [float(one.luck) for one in self.decisions], [self._hidden(i) for i in range(len(self))]
        first = self.values[0].action_errors[self.taken[0]] if self.taken else 0.0
        later = self._powers.since(1).bounds([value.skill_error for value in self.values[1:-1]])
        parts = (first, *later, self.final.error)  # luck is r₀ + … + final − q(s₀, a₀) − skills
        sizes = [
            abs(one.reward) + abs(float(one.action_value)) + abs(float(one.luck)) + lost
            for one, lost in zip(self.decisions, hidden, strict=True)
        ]
        rounding = self._powers.rounding(sizes) + float(self._powers.bounds(hidden).sum())
        return _estimate(self._powers.total(lucks), self._joined(parts) + rounding)

    @cached_property
    def regret(self) -> Estimate:
        """Σ γᵗ regret: the sum over all decisions of what a better action would have earned more on average."""
        low, value, high = (
            self._powers.total([part(one.regret) for one in self.decisions]) for part in (_low, float, _high)
        )
        if not math.isfinite(high):
            return Estimate.within(value, None)
        rounding = self._powers.rounding([one.regret.high for one in self.decisions])
        return Estimate(value, max(0.0, low - rounding), high + rounding)

    def _joined(self, errors: Any) -> float:
        """Error of a sum: certified errors add up, those of independent rollouts by their squares."""
        return float(sum(errors)) * (1 + NEGLIGIBLE) if self.exact else math.hypot(*errors)

    def _hidden(self, i: int) -> float:
        """What the product γ v(s') of step i may lose to underflow."""
        after = self.values[i + 1]
        return 2 * SMALLEST if 0 < self.discount < 1 and (after.value or after.value_error) else 0.0

    @cached_property
    def hindsight(self) -> Floats:
        """[T, A], what each action would have earned in this very luck, followed by the reference policy.

        Returns from each step to `end`, discounted to that step, under the random keys of the episode.
        """
        if self.replayed is not None:
            return self.replayed
        replayed = self.replay.hindsight  # raises without a simulator
        shown = zip(self.trajectory.states, self.trajectory.actions, strict=False)
        return np.array(
            [replayed(self.episode, self.first + i, state, taken, self.end) for i, (state, taken) in enumerate(shown)]
        )

    def what_if(self, step: int, action: Label) -> Trajectory:
        """The episode from a step on, in the same luck, with another action there, followed by the reference policy.

        With the action that was taken, and the policy as its own reference, it is the episode itself.
        """
        t = whole_number("step", step, 0)
        if not self.first <= t < self.first + len(self):
            raise SettingsError(f"step is {t}. Give a reviewed step, {self.first} to {self.first + len(self) - 1}.")
        return self.replay.what_if(self.trajectory, t, self._at(action), self.end)

    def frames(self) -> list[Any] | None:
        """Pictures of the states [T + 1] as arrays; None if the simulator draws none (render_mode="rgb_array")."""
        return self.replay.frames(self.trajectory)

    @property
    def answer(self) -> str:
        """The verdict in one sentence."""
        return verdict(self)

    def rows(self) -> list[dict[str, Any]]:
        """One row for each step: the decision, its values, and what was earned in this luck."""
        rows = []
        known = self.replayed is not None or isinstance(self.replay, Replay)
        for i, one in enumerate(self.decisions):
            rows.append(
                {
                    "step": one.step,
                    "state": one.state,
                    "action": one.action,
                    "reward": one.reward,
                    "value": one.value,
                    "action value": one.action_value,
                    "best action": one.best,
                    "regret": one.regret,
                    "skill": one.skill,
                    "luck": one.luck,
                    "judgement": one.kind,
                    **(self._in_this_luck(i) if known else {}),
                    "samples": one.samples,
                    "seed": self.seed,
                    "confidence": self.confidence,
                }
            )
        return rows

    def _in_this_luck(self, i: int) -> dict[str, Any]:
        earned = self.hindsight[i]
        return {
            "return in this luck": float(earned[self.taken[i]]),
            "best in this luck": self.actions[int(earned.argmax())],
            "best return in this luck": float(earned.max()),
        }

    def to_xarray(self) -> xarray.Dataset:
        """Values of all actions and steps, with labels and errors."""
        steps = np.arange(self.first, self.first + len(self))
        by_action = ("step", "action")
        data: dict[str, Any] = {
            "action_value": (by_action, np.stack([one.action_values for one in self.values[:-1]])),
            "action_value_error": (by_action, np.stack([one.action_errors for one in self.values[:-1]])),
        }
        if self.replayed is not None:
            data["hindsight"] = (by_action, self.replayed)
        for name in ("value", "skill", "luck", "regret"):
            estimates = [getattr(one, name) for one in self.decisions]
            data[name] = ("step", [float(x) for x in estimates])
            data[f"{name}_low"], data[f"{name}_high"] = (("step", [end(x) for x in estimates]) for end in (_low, _high))
        data["reward"] = ("step", self.trajectory.rewards)
        data["taken"] = ("step", [self.actions[a] for a in self.taken])
        about = {"seed": str(self.seed), "episode": self.episode, "discount": self.discount, "answer": self.answer}
        found: xarray.Dataset = labelled_arrays().Dataset(data, {"step": steps, "action": list(self.actions)}, about)
        return found

    def plot(self) -> Figure:
        """Draw `jmdp.plots.review_chart`: value and luck over time, and decisions by regret and luck."""
        return figure("review_chart", self)

    def _decision(self, i: int) -> Decision:
        now, after, a = self.values[i], self.values[i + 1], self.taken[i]
        q, reward = now.action_values, float(self.trajectory.rewards[i])
        size = abs(reward) + abs(self.discount * after.value) + abs(float(q[a]))
        error = self._joined((self.discount * after.value_error, float(now.action_errors[a])))
        luck = _estimate(
            reward + self.discount * after.value - float(q[a]), error + 4 * ROUNDOFF * size + self._hidden(i)
        )
        certain = max(now.samples, after.samples) <= 1  # exact, or without randomness
        regret = regret_of(now, a)
        best = a if float(regret) == 0 else int(q.argmax())
        return Decision(
            step=self.first + i,
            state=self.labels[i],
            action=self.trajectory.names[i],
            best=self.trajectory.names[i] if best == a else self.actions[best],
            reward=reward,
            value=_estimate(now.value, now.value_error),
            action_value=_estimate(float(q[a]), float(now.action_errors[a])),
            skill=_estimate(float(q[a]) - now.average, now.skill_error),
            luck=luck,
            regret=regret,
            judgement=judgement_of(now, a),
            fortune=fortune_of(luck, size, certain),
            samples=now.samples,
        )

    def _at(self, action: Label) -> int:
        if isinstance(action, str):
            if action in self.actions:
                return list(self.actions).index(action)
        elif self.replay.discrete:
            return Labels.of("action", len(self.actions), None).index(self.replay.position(action))
        raise LabelError(f"There is no action {short(action)}. Actions of this review: {cut(', '.join(self.actions))}.")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "replay": self.replay.forgotten()}

    def _title(self) -> str:
        return self.answer

    def __repr__(self) -> str:
        return review_text(self)


def _estimate(value: float, error: float) -> Estimate:
    return Estimate.within(value, None) if not math.isfinite(error) else Estimate.around(value, error)


_low, _high = attrgetter("low"), attrgetter("high")
