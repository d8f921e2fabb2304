"""Joint outcomes of all actions in one state under the same shock: enumerated if the draws are finite, else sampled.

Error of sampled probabilities, without any knowledge of the outcomes that were not seen.

Let P be the distribution of the joint outcome in a state and Q the frequencies of n independent samples, with n_x of
outcome x. TV(P, Q) = sup_A P(A) − Q(A) is the total variation distance. Let W = Σ_x E|S(n_x)| with the simple symmetric
random walk S. For every P, also one with infinitely many outcomes:

- TV(P, Q) ≤ E TV + √(L/2n) with probability ≥ 1 − e^−L, because one sample changes TV by at most 1/n (McDiarmid);
- E TV ≤ E W/n, by symmetrisation: W/2n is the empirical Rademacher complexity of the class of all sets;
- E W ≤ W + L + √(2WL + L²) with probability ≥ 1 − e^−L: W is self-bounding (Boucheron, Lugosi and Massart, 2000).

Both hold with probability ≥ 1 − δ for L = ln(2/δ). This is the bound of Cohen, Kontorovich and Wolfer (Learning
discrete distributions with infinite support, 2020) with the third inequality in place of a second use of the first.

Enumeration of a lazy model: the table of all states that can be reached from given ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jmdp.base import arrays
from jmdp.base.arrays import Floats
from jmdp.base.luck import Shock
from jmdp.base.settings import short
from jmdp.errors import JMDPError, ModelError, SimulatorError
from jmdp.models.lazy import LazyJMDP
from jmdp.models.tabular import TabularJMDP
from jmdp.simulators.digests import digest_of
from jmdp.simulators.simulator import REPEATED, Simulator, is_over, plain_reward, three_parts
from jmdp.simulators.tabulation.finite_luck import Cells, Path

_SWEEPS = 1000
"""Most sweeps of `return_error`; its result is valid after any number."""


def mean_distance(steps: int) -> float:
    """E|S(n)|, the mean distance from 0 of a symmetric random walk after n steps: 2j C(2j, j)/4^j with j = ⌈n/2⌉."""
    j = (steps + 1) // 2
    return 2 * j * math.exp(math.lgamma(2 * j + 1) - 2 * math.lgamma(j + 1) - 2 * j * math.log(2)) if j else 0.0


def row_error(counts: Iterable[int], chance: float) -> float:
    """Upper bound on TV(P, Q) that fails with at most this probability; `counts` are the n_x."""
    counts = list(counts)
    n, L = sum(counts), math.log(2 / chance)
    W = math.fsum(map(mean_distance, counts))
    return min(1.0, (W + L + math.sqrt(2 * W * L + L * L)) / n + math.sqrt(L / (2 * n)))


def chance_of(confidence: float, number: int) -> float:
    """Error probability of the sampled state with this number (from 1): (1 − confidence)/(j(j + 1)).

    They sum to 1 − confidence however many states are found. The samples of a state are independent of all that led to
    it, so the bounds hold jointly though the states themselves were found by sampling.
    """
    return (1 - confidence) / (number * (number + 1))


def return_error(model: TabularJMDP, error: Floats) -> Floats:
    """Upper bounds [S] on the errors of mean returns, of all policies, if rewards are in the range of those seen.

    The mean of r + γ V(s') in state s changes by at most error[s] · width, where width is that of the range of returns.
    So the error is at most width · D, with D(s) = error[s] + γ max_a E[D(s')] in the model (simulation lemma). Sweeps
    start above D and stay above it.
    """
    gamma, ends = model.discount, model.terminal
    width = (max(float(model.reward.max()), 0.0) - min(float(model.reward.min()), 0.0)) / (1 - gamma)
    found = np.where(ends, 0.0, error.max() / (1 - gamma))
    for _ in range(_SWEEPS):
        before, found = found, np.zeros_like(error)
        for a in range(model.shape[2]):
            ahead = np.einsum("sk,sk->s", model.prob, before[model.next_state[:, :, a]])
            np.maximum(found, np.where(ends, 0.0, error + gamma * ahead), out=found)
        if (before - found).max() <= 1e-3 * found.max():
            break
    return np.minimum(width * found, width)


JointOutcome = tuple[tuple[float, bytes], ...]
"""Reward and digest of the next state for each action; the digest is empty if the episode has ended."""

_VERIFIED = 8
"""Number of ordinary shocks whose outcomes must be among the enumerated ones."""


@dataclass
class JointRow:
    """Joint outcomes of one state with their probabilities."""

    weights: list[float] = field(default_factory=list)
    outcomes: list[JointOutcome] = field(default_factory=list)
    reached: dict[bytes, Any] = field(default_factory=dict)  # next states by digest
    draws: bytes | None = None  # identifies the draws that lead to each outcome; None if there are none, or sampled
    counts: list[int] | None = None  # number of samples of each outcome; None if enumerated


class JointSteps:
    """Steps of all actions of a simulator from one state under the same shock."""

    def __init__(self, simulator: Simulator, cells: Cells | None = None) -> None:
        assert simulator.actions is not None
        self._simulator, self._cells = simulator, cells
        self._actions = range(simulator.actions.size)

    def digest(self, state: Any) -> bytes:
        """Digest of a state; raise if it is not bytes."""
        found = self._simulator.digest(state)
        if not isinstance(found, bytes) or not found:
            raise SimulatorError(
                f"digest of {self._simulator!r} returned {short(found)}. Return bytes that are equal for equal states, "
                "e.g. jmdp.simulators.digests.digest_of(…)."
            )
        return found

    def joint(self, state: Any, shock: Callable[[], Shock], reached: dict[bytes, Any]) -> JointOutcome:
        """Outcome of every action; next states are added to `reached`."""
        return tuple([self._outcome(state, a, shock(), reached) for a in self._actions])

    def _outcome(self, state: Any, action: int, shock: Shock, reached: dict[bytes, Any]) -> tuple[float, bytes]:
        simulator = self._simulator
        try:
            reward, after, terminated = three_parts(simulator, simulator.step(state, action, shock))
        except Exception as error:
            if not isinstance(error, JMDPError) and not getattr(error, "__notes__", None):
                where = f"action {simulator.actions.name(action)} in state {short(state)}" if simulator.actions else ""
                error.add_note(f"Raised by {where} of {simulator!r}. {REPEATED}")
            raise
        earned = plain_reward(reward)
        if not math.isfinite(earned):
            raise SimulatorError(
                f"Action {action} in state {short(state)} returned the reward {short(reward)}. Return a finite number."
            )
        if is_over(terminated):
            return earned, b""
        digest = self.digest(after)
        reached.setdefault(digest, after)
        return earned, digest

    def enumerated(self, state: Any) -> JointRow | str:
        """All joint outcomes with their probabilities, or the reason why they cannot be enumerated."""
        row, paths = JointRow(), []
        for path in self._paths():
            outcome = self.joint(state, path.shock, row.reached)
            path.close()
            if path.reason is not None:
                return path.reason
            paths.append(path)
            row.weights.append(path.probability)
            row.outcomes.append(outcome)
        if paths[0].branches:
            row.draws = digest_of([path.draws for path in paths])
        if not set(self._trial(state)) <= set(row.outcomes):
            return "a step has outcomes that its draws do not explain"
        return row

    def _paths(self) -> Iterator[Path]:
        path: Path | None = Path(self._cells)
        while path is not None:
            yield path
            path = path.following()

    def _trial(self, state: Any) -> Iterator[JointOutcome]:
        for i in range(_VERIFIED):
            shock = Shock.of_sample(0, i)
            yield self.joint(state, lambda shock=shock: shock, {})  # type: ignore[misc]

    def sampled(self, state: Any, roots: list[Shock]) -> JointRow:
        """Joint outcomes under a shock derived from each of these and from the state, with their frequencies."""
        row, count = JointRow(), dict[JointOutcome, int]()
        place = self.digest(state)
        for root in roots:
            shock = root.derived(b"tabulate", 0, place)
            outcome = self.joint(state, lambda shock=shock: shock, row.reached)  # type: ignore[misc]
            count[outcome] = count.get(outcome, 0) + 1
        row.outcomes, row.counts = list(count), list(count.values())
        row.weights = [n / len(roots) for n in row.counts]
        return row


_BYTES = 60.0
"""Memory for each number of the table while it is made."""


def reachable_states(lazy: LazyJMDP, starts: Sequence[Any], most: int, report: Callable[[int], None]) -> list[int]:
    """Numbers in the lazy model of the states that can be reached, in the order in which they are found."""
    found = list(dict.fromkeys(lazy.index(state) for state in starts))
    known = set(found)
    done = 0
    while done < len(found):
        i = found[done]
        lazy.expand(i)
        done += 1
        if not lazy.terminal[i]:
            after = np.unique(lazy.next_state[i][lazy.prob[i] > 0]).tolist()
            new = [n for n in after if n not in known]
            known.update(new)
            found.extend(new)
        if len(found) > most:
            raise ModelError(
                f"More than {most:,} states can be reached, e.g. {short(lazy.states[found[-1]])}. Give a larger "
                "max_states, or evaluate without a table: jmdp.evaluate(model, policy, method=jmdp.ReachablePairs(…))."
            )
        report(done)
    return found


def lazy_table(lazy: LazyJMDP, found: list[int], names: Sequence[str] | None) -> TabularJMDP:
    """Scenario table of these states, which must be closed under all actions."""
    S, K, A = len(found), *lazy.reward.shape[1:]
    arrays.refuse_large(f"A table of {S:,} states, {K:,} scenarios and {A:,} actions", _BYTES * S * K * A)
    at = np.array(found)
    number = np.zeros(len(lazy.states), np.int64)  # of scenarios with probability 0, which may lead anywhere
    number[at] = np.arange(S)
    actions = None if lazy.actions is None or lazy.actions.names is None else lazy.actions.names
    after, terminal = number[lazy.next_state[at]], lazy.terminal[at]
    return TabularJMDP(lazy.prob[at], lazy.reward[at], after, lazy.discount, terminal, names, actions)
