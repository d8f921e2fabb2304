"""Random command lines: each ends with a documented exit code, and with a message if it is not 0.

``python tests/cli/command_line_fuzz.py 3000 --seed 1`` runs as many and prints what was found.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from jmdp.cli.main import main
from registry.commands import COMMANDS, FILES, METHODS, SLOTS, options

OWN = """
import jmdp

simulator = jmdp.simulators.FunctionSimulator(
    reward=lambda s, a, u: float(u < 0.5) - 0.1 * a, next_state=lambda s, a, u: min(s + a, 9), actions=2,
    luck=lambda rng: rng.random(), start=0,
)
number, nothing, text, table = 5, None, "left", [[0.5, 0.5]]

class World:
    actions = ["stay", "go"]

    def __init__(self):
        self.at = 0

    def step(self, action):
        self.at += action
        return self.at, 1.0, self.at > 5

class Raises(World):
    def step(self, action):
        raise KeyError("step\\nof two lines")

class NoActions(World):
    actions = None

def policy(observation):
    return 0

def raises(observation):
    raise ValueError("policy")

def returns_text(observation):
    return "nowhere"

def needs_two(one, two, three):
    return 0

def makes_nothing():
    return None

def ends():
    raise SystemExit(0)
"""

LARGE = ["9" * 400, "2147483648", "9223372036854775808", "1e308", "1000000"]
HOSTILE = [
    *("", " ", "nan", "inf", "-inf", "-1", "0", "1", "0.5", "1e-320", "1e400", "9" * 5_000, "true", "None", "é"),
    *(
        "\ud800",
        "\0",
        "a\0b",
        "\x1b[31m",
        "a\nb",
        "a" * 5_000,
        "-",
        "--",
        "-x",
        "--help",
        "--version",
        "@x",
        "{}",
        "[]",
    ),
    *("left", "0.9", "2%", "-5%", "nan%", "9" * 400 + "%", "<script>", "'; rm", "%s%n", "٣", "1_0", "0x1", "1e"),
    *("nosuch.py:f", "nosuch:f", "os:sep", "os:nosuch", "sys:exit", "json:loads", "numpy:array", ":", "::", ":x", "x:"),
    *("own.py:", "own.py", ":own.py", "..:a", "a..b:c", ".:x", "own.py:a..b", "world:x", "ale:x", "x:y-v0"),
    *("a,b", ",", "0,1", "0,,1", "=", "a=", "=a", "0=1", "0=nan", "0=0.5", "CartPole-v1", "CartPole-v99", "-v1"),
    *("missing.onnx", "own.zip", "PPO:own.zip", "PPO:missing.zip", "NO:own.zip", "own.pt", "own.onnx", "own.pkl"),
    *("folder", "folder/x.png", "missing/x.png", "own.py/x.png", "/dev/null/x"),
    *(f"own.py:{name}" for name in ("number", "nothing", "text", "table", "World", "Raises", "NoActions", "policy")),
    *(f"own.py:{name}" for name in ("raises", "returns_text", "needs_two", "makes_nothing", "ends", "simulator")),
    *(f"own.py:{name}" for name in ("nosuch", "World.actions", "World.x")),
]

COSTLY = re.compile(
    "--(samples|horizon|steps|pool|workers|capacity|length|rows|columns|updates|episodes|rollouts|lookahead|"
    "most-ordered|order|cells|max-.*)"
)
"""Options whose large values would be obeyed: they are asked for small or invalid ones only."""
CODES = {0, 1, 2, 130}


def command_lines(seed: int) -> Iterator[list[str]]:
    """Endless random command lines."""
    rng = random.Random(seed)
    while True:
        if rng.random() < 0.03:
            yield [rng.choice(HOSTILE) for _ in range(rng.randrange(3))]
            continue
        name = rng.choice([*COMMANDS, "evaluate", "compare", "gate"])
        line = [name, *_begin(rng, name)]
        known = options(name)
        for _ in range(rng.randrange(4)):
            option = rng.choice([*known]) if rng.random() < 0.97 else rng.choice(HOSTILE)
            line.append(option)
            if not known.get(option, True):
                continue
            values = HOSTILE if COSTLY.fullmatch(option) else HOSTILE + LARGE
            if option == "--method" and rng.random() < 0.7:
                values = METHODS
            for _ in range(rng.choice((1, 1, 1, 2)) if option in ("--actions", "--starts", "--return-range") else 1):
                value = rng.choice(values)
                if rng.random() < 0.1:
                    line[-1] = f"{line[-1]}={value}"
                else:
                    line.append(value)
        yield line


def _begin(rng: random.Random, name: str) -> list[str]:
    """The required arguments, valid or not, and a small budget."""
    call = COMMANDS[name]
    chosen = {slot: rng.choice(SLOTS[slot] if rng.random() < 0.75 else HOSTILE) for slot in call.slots}
    return call.words(**chosen)


@dataclass(frozen=True)
class Ended:
    """How a command line ended, and what was wrong with that."""

    code: int | None
    fault: str | None
    said: str


def ended(arguments: list[str]) -> Ended:
    """Run a command line in this process."""
    out, err, code = io.StringIO(), io.StringIO(), None
    fault = None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = main(arguments)
    except BaseException as error:  # whatever escapes is a fault
        fault = f"{type(error).__name__} escaped: {error}"
    said = err.getvalue()
    return Ended(code, fault or _fault(arguments, code, out.getvalue(), said), said)


def _fault(arguments: list[str], code: int | None, out: str, err: str) -> str | None:
    if "Traceback" in out + err:
        return "traceback"
    if code not in (CODES | {3} if arguments[:1] == ["gate"] else CODES):
        return f"exit code {code}"
    if code == 2 and not err.strip():
        return "exit code 2 without a message"
    if code in (1, 3, 130) and not (out + err).strip():
        return f"exit code {code} without a message"
    lines = [line for line in err.splitlines() if line.startswith("jmdp: ") and "--safe refuses this" not in line]
    if code == 2 and len(lines) != 1 and "For full helptext" not in err and not err.startswith("usage: "):
        return f"{len(lines)} messages"
    place = re.search(r"\(in \S+, (.+), line \d+", err)
    if place is not None and not place[1].endswith(("own.py", "json/__init__.py")):  # json:loads is a policy too
        return f"an error of Python in {place[0]}"
    if code in (0, 1, 3) and "--json" in arguments and not {"-h", "--help", "--version"} & set(arguments):
        try:
            json.loads(out)
        except ValueError:
            return "no JSON"
    return None


@contextlib.contextmanager
def folder() -> Iterator[None]:
    """Run in a new folder with files of a user; what random paths write goes there."""
    before, path = Path.cwd(), list(sys.path)
    place = Path(tempfile.mkdtemp())
    try:
        (place / "here" / "folder").mkdir(parents=True)
        os.chdir(place / "here")
        for name, text in {"own.py": OWN, **FILES}.items():
            Path(name).write_text(text)
        for name in ("own.zip", "own.pt", "own.onnx", "own.pkl"):
            Path(name).write_bytes(b"\x80nothing")
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path
        shutil.rmtree(place)


def shown(arguments: list[str]) -> str:
    """A command line for a report."""
    return " ".join(ascii(word if len(word) < 60 else word[:60] + "…") for word in arguments)


def run(count: int, seed: int, seconds: float) -> None:
    """Run command lines, and print faults and counts."""

    class SlowError(BaseException):
        pass

    def slow(*_: object) -> None:
        raise SlowError(f"more than {seconds} s")

    signal.signal(signal.SIGALRM, slow)
    codes: Counter[object] = Counter()
    faults: dict[str, list[str]] = {}
    begun, longest = time.monotonic(), (0.0, "")
    with folder():
        for _, line in zip(range(count), command_lines(seed), strict=False):
            start = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, seconds)
            found = ended(line)
            signal.setitimer(signal.ITIMER_REAL, 0)
            longest = max(longest, (time.monotonic() - start, shown(line)))
            codes[found.code] += 1
            if found.fault is not None:
                faults.setdefault(found.fault[:100], []).append(f"{shown(line)}\n      {found.said[-300:]!r}")
    print(f"{count} command lines, seed {seed}, {time.monotonic() - begun:.0f} s; exit codes {dict(codes)}")
    print(f"longest: {longest[0]:.1f} s, {longest[1]}")
    for fault, lines in faults.items():
        print(f"{len(lines)} × {fault}")
        for line in lines[:3]:
            print(f"    {line}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    settings = parser.parse_args()
    run(settings.count, settings.seed, settings.seconds)
