"""Objects with randomness that no key controls, one for each way to hide it."""

from __future__ import annotations

import functools
import itertools
import os
import random
import secrets
import time

import numpy as np

SOURCE = np.random.default_rng(5)


class InClosure:
    def __init__(self):
        hidden = np.random.default_rng(1)
        self.draw = lambda: hidden.normal()

    def step(self, action):
        return self.draw() + action


class InClass:
    rng = np.random.default_rng(1)

    def step(self, action):
        return self.rng.normal() + action


class InModule:
    def step(self, action):
        return SOURCE.normal() + action


class InDefaultArgument:
    def step(self, action, rng=np.random.default_rng(3)):  # noqa: B008 (the fault)
        return rng.normal() + action


class InPartialOfAFunction:
    def __init__(self):
        hidden = np.random.default_rng(1)
        self.draw = functools.partial(lambda scale: scale * hidden.normal(), 2.0)

    def step(self, action):
        return self.draw() + action


def _stream():
    rng = np.random.default_rng(1)
    while True:
        yield rng.normal()


class InGeneratorObject:
    def __init__(self):
        self.demands = _stream()

    def step(self, action):
        return next(self.demands) + action


class InIterator:
    def __init__(self):
        self.demands = iter(np.random.default_rng(1).normal(size=1000).tolist())

    def step(self, action):
        return next(self.demands) + action


class InBuffer:
    def __init__(self):
        self.rng = np.random.default_rng(1)
        self.demands = self.rng.normal(size=1000).tolist()

    def step(self, action):
        return self.demands.pop() + action


class InTorch:
    def __init__(self):
        import torch

        self.source = torch.Generator()
        self.source.manual_seed(1)

    def step(self, action):
        import torch

        return float(torch.randn(1, generator=self.source)) + action


class InTorchGlobal:
    def step(self, action):
        import torch

        return float(torch.randn(1)) + action


class MadeInStep:
    def step(self, action):
        return np.random.default_rng().normal() + action


class SeededInStep:
    def __init__(self):
        self.t = 0

    def step(self, action):
        self.t += 1
        return np.random.default_rng(self.t).normal() + action


class ReplacedInStep:
    def __init__(self):
        self.t, self.rng = 0, np.random.default_rng(0)

    def step(self, action):
        self.t += 1
        self.rng = np.random.default_rng(self.t)
        return self.rng.normal() + action


class SeedsTheGlobal:
    def __init__(self):
        self.t = 0

    def step(self, action):
        self.t += 1
        np.random.seed(self.t)  # noqa: NPY002
        return np.random.normal() + action  # noqa: NPY002


class SeedsItsOwn:
    def __init__(self):
        self.t, self.rng = 0, random.Random(1)

    def step(self, action):
        self.t += 1
        self.rng.seed(self.t)
        return self.rng.random() + action


class OfTheSystem:
    def __init__(self):
        self.rng = random.SystemRandom()

    def step(self, action):
        return self.rng.random() + action


class Urandom:
    def step(self, action):
        return os.urandom(1)[0] + action


class Secrets:
    def step(self, action):
        return secrets.randbelow(1000) + action


class Clock:
    def step(self, action):
        return time.perf_counter_ns() % 1000 + action


class InConstructor:
    def __init__(self):
        self.scale = np.random.default_rng().normal()

    def step(self, action):
        return self.scale * action


class OfAPart:
    """A helper object whose class holds the generator."""

    class Customer:
        random = random.Random(1)

        def arrives(self):
            return self.random.random()

    def __init__(self):
        self.customers = [self.Customer() for _ in range(3)]

    def step(self, action):
        return sum(customer.arrives() for customer in self.customers) + action


class Counter:
    """Ids from a counter of the class: no randomness, but no two objects are alike."""

    ids = itertools.count()

    def __init__(self):
        self.number = next(self.ids)

    def step(self, action):
        return action


FAULTY = {
    InClosure: "self.draw (the variable hidden of its closure)",
    InClass: "InClass.rng",
    InModule: "SOURCE of module",
    InDefaultArgument: "InDefaultArgument.step (a default argument)",
    InPartialOfAFunction: "the variable hidden of its closure",
    InGeneratorObject: "self.demands (its variable rng)",
    InIterator: "demands: an iterator",
    InBuffer: "demands has fewer numbers after each step",
    InTorch: "self.source",
    InTorchGlobal: "the global generator of torch",
    MadeInStep: "MadeInStep.step makes a generator of its own",
    SeededInStep: "SeededInStep.step makes a generator of its own",
    ReplacedInStep: "step replaces rng",
    SeedsTheGlobal: "SeedsTheGlobal.step sets a seed",
    SeedsItsOwn: "SeedsItsOwn.step sets a seed",
    OfTheSystem: "self.rng",
    Urandom: "os.urandom",
    Secrets: "module secrets",
    Clock: "Clock.step uses the clock",
    InConstructor: "Attributes that differ: scale",
    OfAPart: "Customer.random",
    Counter: "Attributes that differ: number",
}
"""Each with the words that name the place."""
