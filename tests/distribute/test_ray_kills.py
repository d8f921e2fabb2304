"""Workers are killed while Ray runs blocks. 100 such runs: python tests/distribute/ray_kills.py"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("ray")
import ray_kills

from jmdp.distribute import Pool, SerialPool
from jmdp.errors import SimulatorError

pytestmark = pytest.mark.filterwarnings("ignore:os.fork")  # of JAX, if an earlier test has imported it


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with ray_kills.logical_nodes() as made:
        yield made


@pytest.mark.parametrize(
    ("question", "moment"),
    [
        ("stopped early", "node removed"),
        *(
            pytest.param(question, moment, marks=pytest.mark.long)
            for question, moment in (
                ("stopped early", "just after sending"),
                ("stopped early", "random"),
                ("all blocks", "long blocks only"),
                ("study", "random"),
            )
        ),
    ],
)
def test_p9_killed_workers_do_not_change_the_answer(question, moment, cluster):
    found, adversary = ray_kills.run(question, moment, 0, cluster)
    assert found == ray_kills.QUESTIONS[question](None)
    assert adversary.removed == (moment == "node removed")
    assert 3 <= adversary.kills <= ray_kills.KILLS  # fewer than five if this machine ran the blocks sooner


class Faulty(Pool):
    """A pool that loses a block, or returns one twice."""

    workers = 1

    def __init__(self, times: int) -> None:
        self.times = times

    def ordered(self, work: Callable[..., Any], arguments: Any) -> Iterator[Any]:  # type: ignore[override]
        for i, result in enumerate(SerialPool().ordered(work, arguments)):
            for _ in range(self.times if i == 2 else 1):
                yield result


@pytest.mark.parametrize("times", [0, 2])
def test_a_block_that_is_lost_or_counted_twice_is_seen(times):
    """The digest differs. A comparison even notices by itself: it simulates some samples again."""
    numbers = [(i,) for i in range(6)]
    whole, wrong = (
        ray_kills.digest(*(str(i).encode() for i in pool.ordered(abs, numbers))) for pool in (Faulty(1), Faulty(times))
    )
    assert whole != wrong
    assert ray_kills.stopped_early(Faulty(1), 0.0) == ray_kills.stopped_early(None, 0.0)
    with pytest.raises(SimulatorError, match="not reproducible"):
        ray_kills.stopped_early(Faulty(times), 0.0)
