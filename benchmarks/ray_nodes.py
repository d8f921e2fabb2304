"""RayPool on 1 to 8 logical nodes, against the cost model of docs/scale.md."""

from __future__ import annotations

import logging

import jmdp
from benchmarks.ray_driver import WORKERS, Cost, Sleep, task_costs
from benchmarks.report import Goal, Report

CPUS_A_NODE = 2
SECONDS_A_BLOCK = 0.25  # about the blocks of `compare`
SECONDS_A_TASK = 1.0


def predicted(costs: dict[float, Cost], workers: int, blocks: int) -> float:
    """Seconds of a call by the cost model, from costs of tasks that were measured on one node."""
    driver = costs[0.2].cpu / costs[0.2].results
    wait = costs[1.0].seconds * WORKERS / costs[1.0].results - 1.0  # between two tasks of a worker
    tasks = blocks * SECONDS_A_BLOCK / SECONDS_A_TASK
    working = (blocks * SECONDS_A_BLOCK + tasks * wait) / workers
    return max(working, tasks * driver) + SECONDS_A_TASK / 2  # the last tasks end at different times


def measured(nodes: int, blocks: int) -> float:
    """Seconds of a call with this many logical nodes, after the workers have started."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=CPUS_A_NODE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        Cost.of(jmdp.distribute.RayPool(seconds_a_task=0.0), Sleep(0.3), range(6 * nodes * CPUS_A_NODE))
        pool = jmdp.distribute.RayPool(seconds_a_task=SECONDS_A_TASK)
        return Cost.of(pool, Sleep(SECONDS_A_BLOCK), range(blocks)).seconds
    finally:
        ray.shutdown()
        cluster.shutdown()  # type: ignore[no-untyped-call]


def compare(quick: bool) -> Report:
    """Predict, then measure."""
    report, blocks = Report("ray_nodes", quick, seeds="0"), 20 if quick else 640
    costs = task_costs(100 if quick else 1000)
    ratios = []
    for nodes in (1,) if quick else (1, 2, 4, 8):
        workers = nodes * CPUS_A_NODE
        expected, seconds = predicted(costs, workers, blocks), measured(nodes, blocks)
        ratios.append(seconds / expected)
        report.rows.append(
            {
                "nodes": nodes,
                "workers": workers,
                "predicted, s": expected,
                "measured, s": seconds,
                "measured / predicted": ratios[-1],
            }
        )
    worst = max(abs(ratio - 1) for ratio in ratios)
    report.goals.append(Goal.at_most("largest relative error of the cost model", worst, 0.1))
    report.notes.append(
        f"{blocks:,} blocks of {1e3 * SECONDS_A_BLOCK:g} ms. Logical nodes are Ray nodes on one machine "
        f"(ray.cluster_utils), with {CPUS_A_NODE} workers each. Their blocks wait and use no CPU, because the machine "
        "has fewer cores than there are workers."
    )
    return report
