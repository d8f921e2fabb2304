"""Ray clusters of real nodes, each with an address and a raylet of its own, and faults of machines and of the network.

As a program, as root on Linux, with iproute2: ``python tests/distribute/ray_cluster.py``. Each node is in a network
namespace of its own, joined to the others by a bridge in one more. A driver on the head runs `compare`, `compare_runs`
or a study while a fault happens. It must print the digest of the serial run, or end within `DEADLINE`; the same call is
then repeated, and must give that digest. ``--storm 30`` runs so many studies while nodes are killed and links cut.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import ray_kills
from ray_kills import Uneven, digest, policy

import jmdp
from jmdp.distribute import Pool

DEADLINE = 600
"""Seconds in which a driver must end, whatever happens: Ray notices after 300 that a cut link has lost a connection."""
MOST_CALLS = 12
"""Calls of a study, or of another question, until it has its answer."""
STATES = 24
RAY = "import ray; {}; from ray.scripts.scripts import main; main()"


# ------------------------------------------------------------------------------------------------ questions


def compare(pool: Pool | None, folder: Path, pause: float) -> str:
    """Three actions."""
    found = jmdp.compare(Uneven(pause / 20), policy, seed=11, horizon=60, pool=pool, progress=False)
    return digest(found.summary.samples.returns.tobytes(), f"{found.counts} {found!r}".encode())


def compare_runs(pool: Pool | None, folder: Path, pause: float) -> str:
    """Two whole runs."""
    runs = {"a": Shop(2.0, pause), "b": Shop(1.8, pause)}
    found = jmdp.compare_runs(runs, seed=11, max_samples=400, pool=pool, progress=False)
    return digest(found.summary.samples.returns.tobytes(), repr(found).encode())


def study(pool: Pool | None, folder: Path, pause: float) -> str:
    """All files that a study writes, or what it lacks."""
    states = {f"start {k}": 0 for k in range(STATES)}
    simulator = Uneven(pause / 20)
    found = jmdp.study(
        simulator, policy, states, seed=11, max_samples=64, horizon=60, path=folder, pool=pool, progress=False
    )
    if not found.progress.complete:
        return f"incomplete: {found.progress}"
    assert not found.progress.failed, f"failed states: {found.progress}"
    return digest(*(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()))


@dataclass(frozen=True)
class Shop:
    """A run: the profit of a day."""

    price: float
    pause: float

    def __call__(self, luck: jmdp.Luck) -> float:
        time.sleep(self.pause)
        return self.price * luck.uniform("demand") - luck.uniform("cost")


QUESTIONS: dict[str, Callable[[Pool | None, Path, float], str]] = {
    "compare": compare,
    "compare_runs": compare_runs,
    "study": study,
}
PAUSE = {"compare": 0.05, "compare_runs": 0.1, "study": 0.02}
"""Seconds of simulation in a step or run: a question then takes 20 to 60 s on two nodes."""


def drive(question: str, address: str, folder: Path, pause: float) -> None:
    """Run a question on a cluster, in this process."""
    try:
        with jmdp.distribute.RayPool(address, seconds_a_task=0.5) as pool:
            print(json.dumps({"answer": QUESTIONS[question](pool, folder, pause)}), flush=True)
    except jmdp.errors.SimulatorError as error:
        kind = f"{type(error).__name__}{' killed' if getattr(error, 'killed', False) else ''}"
        print(json.dumps({"error": kind, "text": str(error)[:400]}), flush=True)
        sys.exit(3)


# ------------------------------------------------------------------------------------------------ nodes and networks


def ip(*arguments: str, check: bool = True) -> str:
    """Run ``ip`` of iproute2."""
    return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout


class Network:
    """Namespaces that are joined by a bridge; or none, and all nodes on the loopback address."""

    def __init__(self, nodes: int, own: bool) -> None:
        self._name = f"jmdp{os.getpid()}" if own else ""
        self.addresses = [f"10.77.0.{i + 1}" if own else "127.0.0.1" for i in range(nodes)]
        self.namespaces = [f"{self._name}n{i}" if own else "" for i in range(nodes)]

    def __enter__(self) -> Network:
        if self._name:
            try:
                self._make()
            except BaseException:
                self.__exit__()
                raise
        return self

    def _make(self) -> None:
        bridge = self._name + "b"
        ip("netns", "add", bridge)
        ip("-n", bridge, "link", "add", "bridge", "type", "bridge")
        ip("-n", bridge, "link", "set", "bridge", "up")
        for i, (name, address) in enumerate(zip(self.namespaces, self.addresses, strict=True)):
            ip("netns", "add", name)
            ip("-n", bridge, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", bridge, "link", "set", f"port{i}", "master", "bridge", "up")
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "route", "add", "default", "dev", "eth0")  # by which Ray finds the address; it leads nowhere

    def __exit__(self, *_: object) -> None:
        for name in [*self.namespaces, self._name + "b"] if self._name else ():
            ip("netns", "delete", name, check=False)

    def link(self, node: int, state: str) -> None:
        """Set the link of a node "up" or "down"."""
        ip("-n", self._name + "b", "link", "set", f"port{node}", state)


class Node:
    """A machine of the cluster: its raylet and workers; the first is the head."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster, self.number = cluster, number
        self._namespace = cluster.network.namespaces[number]
        self.folder = cluster.folder / f"n{number}"
        self.folder.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = f"{cluster.folder.name}.{number}"

    def start(self) -> None:
        """Start Ray, and wait until this node is one of the cluster."""
        head, cpus = self.number == 0, int(self.number > 0 or self._cluster.head_works)
        code = RAY.format(f"ray.__version__ = {self._cluster.version!r}" if self._cluster.version else "pass")
        address, own = self._cluster.network.addresses[self.number], json.dumps({f"node{self.number}": 1})
        command = [sys.executable, "-c", code, "start", "--block", "--disable-usage-stats", f"--num-cpus={cpus}",
                   f"--node-ip-address={address}", "--include-log-monitor=false", f"--resources={own}",
                   f"--object-store-memory={80 << 20}"]  # fmt: skip
        if head:
            command += ["--head", f"--port={self._cluster.port}", "--include-dashboard=false",
                        f"--temp-dir={self.folder}"]  # fmt: skip
            command += [f"--system-config={json.dumps(self._cluster.config)}"] if self._cluster.config else []
        else:
            command += [f"--address={self._cluster.address}"]
        for attempt in range(3):  # a raylet gives up if a busy machine takes 15 s to start its agents
            self._process = self.run(command, self.folder / "start.txt", JMDP_NODE=self._mark)
            try:
                self._cluster.wait_for(self)
                return
            except RuntimeError:
                self.kill()
                if attempt == 2:
                    raise

    def run(self, command: list[str], output: Path | int, **variables: str) -> subprocess.Popen[bytes]:
        """Start a process on this node, with its output in a new file or a pipe."""
        inside = ["ip", "netns", "exec", self._namespace] if self._namespace else []
        environment = os.environ | self._cluster.environment | {"TMPDIR": str(self.folder)} | variables
        with ExitStack() as stack:
            file = stack.enter_context(output.open("wb")) if isinstance(output, Path) else output
            return subprocess.Popen(
                [*inside, *command],
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def pids(self) -> list[int]:
        """Processes of Ray on this node."""
        return marked(f"JMDP_NODE={self._mark}")

    def running(self, name: bytes) -> list[int]:
        """Those of them whose command contains this."""
        return [pid for pid in self.pids() if name in _command(pid)]

    def kill(self) -> None:
        """Kill all of them at once."""
        end(f"JMDP_NODE={self._mark}")
        if self._process is not None:
            self._process.wait()

    def signal(self, number: int, name: bytes) -> None:
        """Send a signal to the processes whose command contains this."""
        for pid in self.running(name):
            os.kill(pid, number)


def marked(variable: str) -> list[int]:
    """Processes with this variable in their environment: they inherit it, whatever their parent and session."""
    found, text = [], f"{variable}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if text in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def end(variable: str) -> None:
    """Kill these processes, and those that they start meanwhile."""
    while pids := marked(variable):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


class Cluster:
    """Nodes with one core each, in namespaces of their own or on the loopback address."""

    def __init__(
        self,
        nodes: int,
        namespaces: bool = True,
        head_works: bool = True,
        started: int | None = None,
        config: dict[str, Any] | None = None,
        version: str = "",
    ) -> None:
        self.network, self.head_works, self.version = Network(nodes, namespaces), head_works, version
        self.config = config or {}
        self.folder = Path(tempfile.mkdtemp(prefix="jc"))  # short: paths of sockets are limited
        self.port = _free_port()  # Ray refuses an address that any process of this machine has in its command
        self.address = f"{self.network.addresses[0]}:{self.port}"
        here = Path(__file__).parent
        paths = [str(here), str(here.parent), str(Path(jmdp.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self.environment = {
            "PYTHONPATH": os.pathsep.join(paths),
            "JMDP_CLUSTER": str(os.getpid()),  # on all of its processes
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        self.nodes = [Node(self, i) for i in range(nodes)]
        self._started = nodes if started is None else started

    def __enter__(self) -> Cluster:
        try:
            self.network.__enter__()
            for node in self.nodes[: self._started]:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        end(f"JMDP_CLUSTER={os.getpid()}")  # drivers too
        for node in self.nodes:
            node.kill()
        self.network.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for(self, node: Node) -> None:
        """Wait until Ray says that this node has started."""
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            text = (node.folder / "start.txt").read_text(errors="replace")
            if "Ray runtime started." in text:
                return
            if node._process is None or node._process.poll() is not None:
                raise RuntimeError(f"Node {node.number} has not started: {text[-2000:]}")
            time.sleep(0.1)
        raise RuntimeError(f"Node {node.number} has not started within 90 s: {text[-2000:]}")

    def call(self, question: str, folder: Path, pause: float) -> subprocess.Popen[bytes]:
        """Start a driver on the head."""
        command = [sys.executable, __file__, "--drive", question, self.address, str(folder), str(pause)]
        return self.nodes[0].run(command, subprocess.PIPE)

    def working(self) -> list[int]:
        """Numbers of the nodes that run blocks."""
        return [node.number for node in self.nodes if node.running(ray_kills.NAME)]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


# ------------------------------------------------------------------------------------------------ attacks


@contextmanager
def later(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Act after so many seconds, or at the end."""
    done = threading.Lock()

    def once() -> None:
        if done.acquire(blocking=False):
            act()

    timer = threading.Timer(seconds, once)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        once()


@contextmanager
def killed_node(cluster: Cluster) -> Iterator[None]:
    """The raylet and the workers of the last node; it comes back at the end."""
    cluster.nodes[-1].kill()
    yield
    cluster.nodes[-1].start()


def cut(seconds: float) -> Callable[[Cluster], Any]:
    """The link of the last node, for so many seconds."""

    @contextmanager
    def attack(cluster: Cluster) -> Iterator[None]:
        last = len(cluster.nodes) - 1
        cluster.network.link(last, "down")
        with later(seconds, lambda: cluster.network.link(last, "up")):
            yield

    return attack


def stopped(seconds: float) -> Callable[[Cluster], Any]:
    """The raylet of the last node, for so many seconds."""

    @contextmanager
    def attack(cluster: Cluster) -> Iterator[None]:
        last = cluster.nodes[-1]
        last.signal(signal.SIGSTOP, b"raylet/raylet")
        with later(seconds, lambda: last.signal(signal.SIGCONT, b"raylet/raylet")):
            yield

    return attack


@contextmanager
def full_store(cluster: Cluster) -> Iterator[None]:
    """The object store of the last node, which has no disk to extend it."""
    last = len(cluster.nodes) - 1
    filler = cluster.nodes[0].run([sys.executable, __file__, "--fill", cluster.address, f"node{last}"], subprocess.PIPE)
    assert filler.stdout is not None
    said = filler.stdout.readline()
    print("     ", said.decode().strip(), flush=True)
    try:
        yield
    finally:
        filler.kill()
        filler.wait()


def fill(address: str, node: str) -> None:
    """Fill the object store of a node, until this process is killed."""
    import ray

    @ray.remote(num_cpus=0, resources={node: 1})
    class Holder:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def fill(self) -> int:
            for size in (1 << 23, 1 << 20, 1 << 17):
                with suppress(ray.exceptions.RayError):
                    while True:
                        self.kept.append((ray.put(np.ones(size // 8)), size))
            return sum(size for _, size in self.kept)

    ray.init(address, log_to_driver=False, logging_level="error")
    holder = Holder.remote()
    print(f"{ray.get(holder.fill.remote()) >> 20} of 80 MiB are filled", flush=True)
    time.sleep(1000)


@contextmanager
def restarted_head(cluster: Cluster) -> Iterator[None]:
    """All processes of Ray on the head, then those of the other nodes; all are started anew."""
    for node in cluster.nodes:
        node.kill()
        time.sleep(2)
    for node in cluster.nodes:  # the head is refused while there are raylets of the other nodes
        node.start()
    yield


NO_SPILLING = {"automatic_object_spilling_enabled": False}
ATTACKS: dict[str, Callable[[Cluster], Any]] = {
    "kill a node": killed_node,
    "cut a link for 5 s": cut(5),
    "cut a link for 30 s": cut(30),
    "cut a link for 120 s": cut(120),
    "stop a raylet for 20 s": stopped(20),
    "stop a raylet for 90 s": stopped(90),
    "fill an object store": full_store,
    "restart the head": restarted_head,
}


class Ended(NamedTuple):
    """How a driver has ended."""

    answer: str  # digest; "" if there is none
    how: str
    seconds: float


def ended(driver: subprocess.Popen[bytes], begun: float) -> Ended:
    """Wait for a driver; one that exceeds the deadline is killed."""
    try:
        output, _ = driver.communicate(timeout=max(1.0, begun + DEADLINE - time.monotonic()))
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.communicate()
        return Ended("", f"NOTHING IN {DEADLINE} s", time.monotonic() - begun)
    text = output.decode(errors="replace")
    seconds = time.monotonic() - begun
    for line in reversed(text.splitlines()):
        with suppress(ValueError):
            said = json.loads(line)
            if "answer" in said:
                whole = not said["answer"].startswith("incomplete")
                return Ended(said["answer"] if whole else "", "answer" if whole else said["answer"], seconds)
            return Ended("", f"{said['error']}: {said['text']}", seconds)
    how = "\n".join(text.splitlines()[-3:])
    return Ended("", f"exit code {driver.returncode}: {how[-300:]}", seconds)


def attacked(cluster: Cluster, question: str, attack: str) -> list[Ended]:
    """A question during an attack, and the same call again until there is an answer."""
    pause, found = PAUSE[question], []
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        driver = cluster.call(question, Path(folder, "study"), pause)
        try:
            last = len(cluster.nodes) - 1
            while driver.poll() is None and last not in cluster.working() and time.monotonic() < begun + 60:
                time.sleep(0.1)
            time.sleep(1)
            with ATTACKS[attack](cluster) if driver.poll() is None else ExitStack():
                found.append(ended(driver, begun))
        finally:
            driver.kill()
        if not found[-1].answer:
            found += calls(cluster, question, Path(folder, "study"))
    return found


def calls(cluster: Cluster, question: str, folder: Path, most: int = MOST_CALLS) -> list[Ended]:
    """The same call until there is an answer."""
    found: list[Ended] = []
    while len(found) < most and not (found and found[-1].answer):
        begun = time.monotonic()
        driver = cluster.call(question, folder, PAUSE[question])
        try:
            found.append(ended(driver, begun))
        finally:
            driver.kill()
    return found


def serial(question: str) -> str:
    """The digest without a pool and without pauses."""
    with tempfile.TemporaryDirectory() as folder:
        return QUESTIONS[question](None, Path(folder, "study"), 0.0)


def table(nodes: list[int], questions: list[str], attacks: list[str]) -> int:
    """Run all attacks; the number of those with a wrong end."""
    wrong, right = 0, {question: serial(question) for question in questions}
    for count in nodes:
        for attack in attacks:
            config = NO_SPILLING if attack == "fill an object store" else None
            with Cluster(count, config=config) as cluster:
                for question in questions:
                    found = attacked(cluster, question, attack)
                    equal = found[-1].answer == right[question]
                    wrong += not equal or any(one.how.startswith("NOTHING") for one in found)
                    print(
                        f"{count} nodes | {attack:22} | {question:12} | {'equal' if equal else 'DIFFERENT'}", flush=True
                    )
                    for one in found:
                        print(f"        {one.seconds:5.0f} s: {one.how}", flush=True)
    return wrong


# ------------------------------------------------------------------------------------------------ a storm


def storm(studies: int, nodes: int, seed: int) -> int:
    """So many studies, while nodes are killed and links cut at random; the number of those that differ."""
    rng, right, wrong, stop = np.random.default_rng(seed), serial("study"), 0, threading.Event()
    done = {"nodes killed": 0, "workers killed": 0, "links cut": 0}

    def trouble(cluster: Cluster) -> None:
        while not stop.wait(float(rng.uniform(2, 10))):
            node = cluster.nodes[int(rng.integers(1, nodes))]
            which = str(rng.choice(list(done)))
            if which == "nodes killed":
                node.kill()
                stop.wait(float(rng.uniform(1, 5)))
                with suppress(RuntimeError):
                    node.start()
            elif which == "workers killed":
                for pid in node.running(ray_kills.NAME):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            else:
                cluster.network.link(node.number, "down")
                stop.wait(float(rng.uniform(1, 30)))
                cluster.network.link(node.number, "up")
            done[which] += 1
            if not node.pids():  # Ray ends a node that was believed dead
                with suppress(RuntimeError):
                    node.start()

    with Cluster(nodes) as cluster:
        thread = threading.Thread(target=trouble, args=(cluster,))
        thread.start()
        try:
            for i in range(studies):
                with tempfile.TemporaryDirectory() as folder:
                    found = calls(cluster, "study", Path(folder, "study"))
                equal = found[-1].answer == right
                wrong += not equal
                seconds = sum(one.seconds for one in found)
                said = f"{'equal' if equal else 'DIFFERENT'}, {len(found)} calls, {seconds:.0f} s"
                print(f"study {i:3}: {said}", *(one.how for one in found[:-1]), flush=True)
        finally:
            stop.set()
            thread.join()
    print(f"{studies} studies, seed {seed}: {wrong} different; {done}")
    return wrong


def main() -> int:
    """Run the attacks, or a storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--questions", nargs="+", default=list(QUESTIONS), choices=QUESTIONS)
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=ATTACKS)
    parser.add_argument("--storm", type=int, metavar="STUDIES")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--fill", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drive:
        question, address, folder, pause = options.drive
        drive(question, address, Path(folder), float(pause))
        return 0
    if options.fill:
        fill(*options.fill)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if options.storm:
        return int(storm(options.storm, max(options.nodes), options.seed) > 0)
    return int(table(options.nodes, options.questions, options.attacks) > 0)


if __name__ == "__main__":
    sys.exit(main())
