"""Plan of the branches that are simulated side by side, and of the randomness that they share.

A branch starts in a state, takes its first action if the plan gives one, and follows its policy. There are two kinds of
plans. Rollouts: each action first, from one state, then one policy. Branches with equal states and actions under shared
randomness merge. Episodes: each policy from one start. Branches of two policies never merge: they may reach equal
states and separate again.

Sample i has a root key, H(seed, i). Three keys are derived from it: the start H(root), the shock of step t H(root, t),
and the number that policies invert before step t, H(root, t) for another purpose; in rollouts it is that of step t − 1.
`Local` adds the digest of the state to the key of a step; rollouts add the smallest number of the branches in that
state, which is as good. `Independent` adds the number of the branch to all three keys, and policy_luck="independent" to
the key of the policies. Branches that have merged have the smallest of their numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from jmdp.base.arrays import Integers
from jmdp.base.luck import Shock, Usage
from jmdp.base.luck_sources import Redraw, root_shock
from jmdp.base.recorded_luck import RecordedLuck
from jmdp.models.actors.actor import Actor
from jmdp.models.coupling import Coupling
from jmdp.simulators.rollouts.draws import branch_bytes
from jmdp.simulators.starts import Starts

LuckSource = Literal["steps", "policies"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BranchPlan:
    """Branches of a sample: rollouts of `actions`, or episodes of `actors`, for at most `horizon` steps.

    Keys of random numbers use the original numbers of the branches, not positions. So after some alternatives were
    eliminated, the others keep their random numbers (`some`).
    """

    starts: Starts  # of rollouts: one state
    actors: Sequence[Actor]  # the policy of each branch; of rollouts always the same
    actions: Sequence[Any] | None = None  # first action of each branch; None: its policy chooses
    coupling: Coupling
    discount: float
    horizon: int
    seed: int
    stratify: bool = False  # starts in proportional shares
    fresh: frozenset[LuckSource] = frozenset()  # randomness that is redrawn, to measure its share of the variance
    history: RecordedLuck | None = None  # in place of random numbers
    redraw: Redraw | None = None  # sources of randomness that are drawn again; None: all are as they are
    in_order: ClassVar[bool] = False  # True if each step asks for its shock, so that branches are simulated in turn
    branches: tuple[int, ...] = ()  # original number of each branch; empty: 0, 1, 2, …
    alternatives: int = 0  # number of all branches, including those left out; 0: as many as given
    most: int = 0  # samples that may be asked for, beyond which none are drawn ahead; 0: unknown

    def __post_init__(self) -> None:
        count = len(self.actors)
        object.__setattr__(self, "branches", self.branches or tuple(range(count)))
        object.__setattr__(self, "alternatives", self.alternatives or count)
        assert len(self.branches) == count, f"{len(self.branches)} branches for {count} alternatives"

    @classmethod
    def of_actions(cls, actor: Actor, *, state: Any, actions: Sequence[Any], **settings: Any) -> Self:
        """Rollouts of these actions from a state, which this policy continues."""
        starts = Starts([state], np.ones(1), [""])
        return cls(starts=starts, actors=[actor] * len(actions), actions=actions, **settings)

    def followed_by(self, actor: Actor) -> Self:
        """The same rollouts, continued by another policy."""
        return replace(self, actors=[actor] * len(self.actors))

    def some(self, at: Sequence[int]) -> Self:
        """The branches at these positions, with their numbers."""
        return replace(
            self,
            actors=list(map(self.actors.__getitem__, at)),
            actions=None if self.actions is None else list(map(self.actions.__getitem__, at)),
            branches=tuple(map(self.branches.__getitem__, at)),
        )

    def at(self, state: Any, seed: int) -> Self:
        """The same branches from another state, with another seed."""
        return replace(self, starts=Starts([state], np.ones(1), [""]), seed=seed)

    def packed(self, pack: Callable[[Any], Any]) -> Self:
        """The plan with its start states packed or unpacked."""
        return replace(self, starts=replace(self.starts, states=[pack(state) for state in self.starts.states]))

    def root(self, sample: int, usage: Usage | None = None) -> Shock:
        """The shock from which all randomness of a sample derives, with its record if there is a history."""
        return root_shock(self.seed, sample, usage, self.history, self.redraw)

    def start_root(self, sample: int) -> Shock:
        """The shock from which the starts of a sample derive: `root`, of which no use is recorded."""
        return Shock.of_sample(self.seed, sample) if self.redraw is None else self.root(sample)

    @property
    def state(self) -> Any:
        """The state in which rollouts start."""
        return self.starts.states[0]

    @property
    def merges(self) -> bool:
        """Whether branches with equal states and actions are simulated once from there on."""
        return self.actions is not None and self.coupling.shared_in_a_state

    @property
    def one_shock(self) -> bool:
        """True if all branches of a sample receive the same shock in a step."""
        return self.coupling.shared_between_states

    @property
    def by_digest(self) -> bool:
        """True if keys of steps depend on digests of states: under `Local` of episodes, and of sources drawn again."""
        local = self.coupling.shared_in_a_state and not self.coupling.shared_between_states
        return local and (self.actions is None or self.redraw is not None)

    @property
    def fresh_purposes(self) -> dict[bytes, bytes]:
        """What keys of these purposes derive from if their randomness is redrawn, besides the root."""
        sources = {"steps": b"environment", "policies": b"policy"}
        return {sources[source]: b"fresh " + source.encode() for source in self.fresh}

    @property
    def random_starts(self) -> bool:
        """False if all samples begin in one given state."""
        return len(self.starts.states) != 1

    @property
    def subset(self) -> bytes:
        """Bytes that identify the set of branches; empty for all of them in order."""
        if self.branches == tuple(range(self.alternatives)):
            return b""
        return b"".join(branch_bytes(number) for number in self.branches)

    @property
    def separate_starts(self) -> bool:
        """True if each branch draws its own start."""
        return not self.coupling.shared_in_a_state

    def start_shock(self, root: Shock, branch: int) -> Shock:
        """Shock of the start of an episode."""
        return root.derived(b"start", 0, branch_bytes(branch) if self.separate_starts else b"")

    def start_numbers(self, first: int, count: int) -> Integers:
        """Indices [count] of the starts of samples if they are drawn in shares; −1 if by the shocks of the samples."""
        return self.starts.in_shares(self.seed, first, count) if self.stratify else np.full(count, -1)

    def step_shock(self, root: Shock, t: int, digest: bytes, branch: int) -> Shock:
        """Shock that a branch of an episode receives in step t."""
        root = root.derived(b"fresh steps") if "steps" in self.fresh else root
        return self.coupling.environment_shock(root, t, digest, branch)

    def policy_shock(self, root: Shock, t: int, branch: int) -> Shock:
        """Shock of a policy's own draw before step t of an episode."""
        root = root.derived(b"fresh policies") if "policies" in self.fresh else root
        return root.derived(b"policy", t, b"" if self.coupling.policy_luck == "shared" else branch_bytes(branch))


def enough_steps(discount: float, lost: float) -> int:
    """Smallest horizon T ≥ 1 with γ^T/(1 − γ) ≤ lost."""
    if discount == 0:
        return 1
    return max(1, math.ceil(math.log(lost * (1 - discount)) / math.log(discount)))


def reference_steps(discount: float) -> int:
    """Steps T ≥ 1 with γ^T ≤ 0.01. γ^{2T} ≤ 0.01 would be too short for perfectly correlated rewards."""
    return 1 if discount == 0 else max(1, math.ceil(math.log(0.01) / math.log(discount)))


def add_policy_note(error: Exception, actor: Actor, first: int, last: int) -> None:
    """Add to an error of a policy which policy it is, and before which steps of the episodes it was called."""
    steps = f"step {first}" if first == last else f"steps {first} to {last}"
    error.add_note(f"raised by the policy, {actor!r}, called before {steps} of an episode")
