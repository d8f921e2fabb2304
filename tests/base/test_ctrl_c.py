"""When Ctrl-C interrupts a main function: at once, at a safe point, or after an import or a compilation."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time

import pytest

from jmdp.base.machine import deferred_interrupts, interruptible


def press():
    signal.raise_signal(signal.SIGINT)


def wait():
    """Long enough for a signal that is raised again, however busy the machine is."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.01)
    pytest.fail("not interrupted")


@pytest.fixture(autouse=True)
def restored():
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def test_at_once_by_default():
    reached = []

    @interruptible
    def work():
        press()
        reached.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert not reached


def test_a_block_sees_it_and_goes_on():
    @interruptible
    def work():
        with deferred_interrupts() as interrupted:
            assert not interrupted()
            press()
            return interrupted(), interrupted()

    assert work() == (True, False)


def test_the_second_one_interrupts_a_block():
    @interruptible
    def work():
        with deferred_interrupts():
            press()
            press()
            pytest.fail("not interrupted")

    with pytest.raises(KeyboardInterrupt):
        work()


def test_one_that_a_block_did_not_see_is_raised_after_it():
    @interruptible
    def work():
        with deferred_interrupts():
            press()
        wait()

    with pytest.raises(KeyboardInterrupt) as interrupt:
        work()
    assert interrupt.value.__context__ is None  # else it was raised at the end of `work`, after `wait` had failed


def test_one_that_a_block_did_not_see_reaches_the_next_block():
    @interruptible
    def work():
        with deferred_interrupts():
            press()
        with deferred_interrupts() as interrupted:
            return interrupted()

    assert work()


def test_none_is_lost_at_the_end():
    @interruptible
    def work():
        with deferred_interrupts():
            press()

    with pytest.raises(KeyboardInterrupt):
        work()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Name of a module in whose import Ctrl-C is pressed, n times."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pressed_in_import", raising=False)

    def write(times):
        lines = ["import signal", *["signal.raise_signal(signal.SIGINT)"] * times, "complete = True"]
        (tmp_path / "pressed_in_import.py").write_text("\n".join(lines))

    yield write
    sys.modules.pop("pressed_in_import", None)


def test_an_import_is_completed(module):
    module(1)

    @interruptible
    def work():
        __import__("pressed_in_import")

        wait()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert sys.modules["pressed_in_import"].complete


def test_the_second_one_interrupts_an_import(module):
    module(2)

    @interruptible
    def work():
        __import__("pressed_in_import")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "pressed_in_import" not in sys.modules


def test_a_main_function_called_by_a_module_in_its_import_is_interrupted(tmp_path, monkeypatch):
    """Only imports within the call wait."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "calls_a_main_function.py").write_text(
        "import signal\n"
        "from jmdp.base.machine import interruptible\n"
        "reached = []\n"
        "@interruptible\n"
        "def work():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    raise AssertionError('not interrupted')\n"
        "work()\n"
    )
    with pytest.raises(KeyboardInterrupt):
        __import__("calls_a_main_function")


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda number, frame: None], ids=["ignored", "own"])
def test_other_handlers_stay(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:

        @interruptible
        def work():
            assert signal.getsignal(signal.SIGINT) is handler
            with deferred_interrupts() as interrupted:
                press()
                return interrupted()

        assert not work()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_are_left_alone():
    seen = []

    @interruptible
    def work():
        with deferred_interrupts() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_within_asyncio_run_it_interrupts_the_call_and_ends_the_run():
    handlers, reached = [], []

    @interruptible
    def work():
        with deferred_interrupts() as interrupted:
            press()
            reached.append(interrupted())
        press()
        reached.append("not interrupted")

    async def program():
        handlers.append(signal.getsignal(signal.SIGINT))
        try:
            work()
        finally:
            handlers.append(signal.getsignal(signal.SIGINT))

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(program())
    assert reached == [True]
    assert handlers[0] is handlers[1] is not signal.default_int_handler


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="POSIX")
def test_in_a_thread_of_asyncio_nothing_is_deferred():
    @interruptible
    def work():
        with deferred_interrupts() as interrupted:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            ended.wait(60)
            return interrupted()

    async def program():
        try:
            await asyncio.to_thread(work)
        finally:
            ended.set()

    ended = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(program())


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="POSIX")
def test_a_handler_that_an_asyncio_program_added_stays():
    seen = []

    @interruptible
    def work():
        press()
        return "complete"

    async def program():
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, seen.append, 1)
        found = work()
        while not seen:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        return found

    assert asyncio.run(program()) == "complete"


def test_one_that_waits_is_not_lost_when_the_call_raises():
    @interruptible
    def work():
        with deferred_interrupts():
            press()
            raise ValueError("of the call")

    with pytest.raises(KeyboardInterrupt) as pressed:
        work()
    assert isinstance(pressed.value.__context__, ValueError)


STRESS = """
import random, signal, sys, threading, time
from jmdp.base.machine import interruptible, _Handler
sys.setswitchinterval(1e-4)
over, ready, left = [], [], 0

@interruptible
def work():
    return 1

def press():
    for _ in range(1000):
        while not ready:  # a third signal before the first is handled would end the process
            time.sleep(1e-5)
        ready.clear()
        time.sleep(random.random() * 0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    over.append(1)

def calls():
    global left
    while not over:
        try:
            ready.append(1)
            for _ in range(300):
                work()
        except KeyboardInterrupt:
            pass
        if isinstance(signal.getsignal(signal.SIGINT), _Handler):
            left += 1
            signal.signal(signal.SIGINT, signal.default_int_handler)

threading.Thread(target=press, daemon=True).start()
while not over:
    try:
        calls()
    except KeyboardInterrupt:
        pass
while True:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        break
    except KeyboardInterrupt:  # the last signal
        pass
print(left)
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="POSIX")
def test_the_handler_before_is_restored_whenever_it_is_pressed():
    """A thousand signals at random moments, many while the handler is being restored: about 30 of them without care."""
    found = subprocess.run([sys.executable, "-c", STRESS], capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout == "0\n"


def test_a_press_between_the_locks_of_a_progress_bar_leaves_none_locked(monkeypatch):
    from tqdm import tqdm

    lock = tqdm.get_lock()
    first, real = lock.locks[0], lock.locks[0].acquire
    monkeypatch.setattr(lock, "locks", [Pressed(real, first.release), *lock.locks[1:]])
    reached = []

    @interruptible
    def work():
        tqdm(disable=True)
        reached.append(1)
        wait()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert reached
    taken = []
    thread = threading.Thread(target=lambda: taken.append(first.acquire(True, 10)) or first.release())
    thread.start()
    thread.join()
    assert taken == [True]


class Pressed:
    """A lock during whose first acquisition Ctrl-C is pressed."""

    def __init__(self, acquire, release):
        self._acquire, self.release, self._new = acquire, release, True

    def acquire(self, *arguments, **settings):
        found = self._acquire(*arguments, **settings)
        if self._new:
            self._new = False
            press()
        return found
