"""Numbers of the alternatives in a plan, which may contain only some of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class BranchNumbers:
    """Original numbers of the alternatives that a plan contains.

    Keys of random numbers use these numbers, not positions. So after some alternatives were eliminated, the others keep
    their random numbers: ``dataclasses.replace(plan, actions=…, branches=…)``.
    """

    branches: tuple[int, ...] = ()  # original number of each alternative; empty: 0, 1, 2, …
    alternatives: int = 0  # number of all alternatives, including those left out; 0: as many as given

    def _number(self, count: int) -> None:
        """Set the defaults for `count` alternatives."""
        object.__setattr__(self, "branches", self.branches or tuple(range(count)))
        object.__setattr__(self, "alternatives", self.alternatives or count)
        assert len(self.branches) == count, f"{len(self.branches)} branches for {count} alternatives"

    @property
    def subset(self) -> bytes:
        """Bytes that identify the set of alternatives; empty for all of them in order."""
        if self.branches == tuple(range(self.alternatives)):
            return b""
        return b"".join(branch_bytes(number) for number in self.branches)


def branch_bytes(number: int) -> bytes:
    """Number of a branch as part of a key."""
    return number.to_bytes(8, "little")
