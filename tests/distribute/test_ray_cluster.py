"""Nodes of a Ray cluster are lost. All attacks, as root on Linux: python tests/distribute/ray_cluster.py"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time

import pytest

pytest.importorskip("ray")
import ray_cluster

ALLOWED = sys.platform == "linux" and os.geteuid() == 0 and shutil.which("ip")
namespaces = pytest.mark.skipif(not ALLOWED, reason="needs Linux, root and iproute2, for network namespaces")


@pytest.mark.long
def test_p25_a_node_is_killed_during_a_study(tmp_path):
    """Only that node has cores at first, so it runs the blocks when it is killed; another then takes over."""
    with ray_cluster.Cluster(3, namespaces=False, head_works=False, started=2) as cluster:
        driver = cluster.call("study", tmp_path, ray_cluster.PAUSE["study"])
        begun = time.monotonic()
        while driver.poll() is None and cluster.working() != [1]:
            assert time.monotonic() < begun + ray_cluster.DEADLINE
            time.sleep(0.1)
        cluster.nodes[1].kill()
        cluster.nodes[2].start()
        found = ray_cluster.ended(driver, begun)
        assert not cluster.nodes[1].pids()
    assert found.answer == ray_cluster.serial("study"), found.how
    assert not cluster.folder.exists()


@pytest.mark.long
def test_clusters_that_refuse(tmp_path):
    """Another token, and another version of Ray: errors within the deadline, and Ray does not end the driver."""
    with ray_cluster.Cluster(1, namespaces=False, version="2.0.0") as cluster:
        (refused,) = ray_cluster.calls(cluster, "compare", tmp_path, 1)
        assert "SimulatorError: Cannot join the Ray cluster" in refused.how
        assert "Ray: 2.0.0" in refused.how
        cluster.environment["RAY_AUTH_TOKEN"] = "0" * 64
        (refused,) = ray_cluster.calls(cluster, "compare", tmp_path, 1)
        assert "SimulatorError: Cannot join the Ray cluster" in refused.how
        assert refused.seconds < 60  # 20 s, and the start of a process


@pytest.mark.long
@namespaces
@pytest.mark.parametrize("nodes", ["2", "3"])
@pytest.mark.parametrize("attack", ray_cluster.ATTACKS)
def test_p25_faults_of_machines_and_of_the_network(nodes, attack):
    command = [sys.executable, ray_cluster.__file__, "--nodes", nodes, "--attacks", attack]
    run = subprocess.run(command, capture_output=True, text=True)
    assert not run.returncode, run.stdout + run.stderr


@pytest.mark.long
@namespaces
def test_p25_a_storm():
    run = subprocess.run([sys.executable, ray_cluster.__file__, "--storm", "3"], capture_output=True, text=True)
    assert not run.returncode, run.stdout + run.stderr


@pytest.mark.long
@namespaces
def test_nothing_is_left_of_an_interrupted_script():
    """Namespaces, processes and folders: the script is ended while nodes are being started."""
    command = [sys.executable, ray_cluster.__file__, "--nodes", "2", "--questions", "compare"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as script:
        name = f"jmdp{script.pid}n1"
        while script.poll() is None and name not in ray_cluster.ip("netns", "list"):
            time.sleep(0.1)
        assert name in ray_cluster.ip("netns", "list"), script.stderr.read()
        script.terminate()
        script.wait(100)
    assert f"jmdp{script.pid}" not in ray_cluster.ip("netns", "list")
    assert not ray_cluster.marked(f"JMDP_CLUSTER={script.pid}")
