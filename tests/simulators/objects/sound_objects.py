"""Objects that can be used, one for each way to copy and to keep generators; each has a demand that actions share."""

from __future__ import annotations

import functools
import random
import threading
from dataclasses import dataclass, field

import numpy as np


class Shop:
    """Stock, orders and lost sales; subclasses replace the demand."""

    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.stock = 4

    def reset(self):
        self.stock = 4
        return self.stock

    def demand(self):
        return int(self.rng.poisson(3))

    def step(self, order):
        sold = min(self.stock, self.demand())
        self.stock = min(12, self.stock - sold + order)
        return self.stock, 3.0 * sold - 2.0 * order, False


class SavingShop(Shop):
    """Saves its generator too, as one would."""

    def save_state(self):
        return self.stock, self.rng.bit_generator.state

    def restore_state(self, saved):
        self.stock, self.rng.bit_generator.state = saved


class StatefulShop(Shop):
    def get_state(self):
        return {"stock": self.stock}

    def set_state(self, state):
        self.stock = state["stock"]


class CloningShop(Shop):
    def clone(self):
        other = type(self)()
        other.stock = self.stock
        return other


class WronglySavingShop(Shop):
    """Restores less than it should, so that pickle is used instead."""

    def __init__(self):
        super().__init__()
        self.backlog = 0

    def step(self, order):
        self.backlog += order
        seen, reward, over = super().step(order)
        return seen, reward + self.backlog, over

    def get_state(self):
        return self.stock

    def set_state(self, state):
        self.stock = state


class LambdaShop(Shop):
    """A function that cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.price = lambda stock: 3.0 + 0.1 * stock

    def step(self, order):
        seen, reward, over = super().step(order)
        return seen, reward * self.price(seen), over


class LockedShop(Shop):
    """A lock can be neither pickled nor copied."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def step(self, order):
        with self.lock:
            return super().step(order)


class OldShop(Shop):
    def __init__(self):
        super().__init__()
        self.rng = np.random.RandomState(1)


class PythonShop(Shop):
    def __init__(self):
        super().__init__()
        self.rng = random.Random(1)

    def demand(self):
        return self.rng.randrange(7)


class GlobalShop(Shop):
    """Draws from both global generators."""

    def __init__(self):
        self.stock = 4

    def demand(self):
        return random.randrange(4) + int(np.random.random() < 0.5)  # noqa: NPY002


class NestedShop(Shop):
    """Generators in a list, in a dictionary and in slots."""

    class Supplier:
        __slots__ = ("rng",)

        def __init__(self, seed):
            self.rng = np.random.default_rng(seed)

    def __init__(self):
        super().__init__()
        self.rng = None
        self.customers = {"a": [np.random.default_rng(1)], "b": [random.Random(2)]}
        self.suppliers = (self.Supplier(3), self.Supplier(4))

    def demand(self):
        wanted = self.customers["a"][0].poisson(2) + self.customers["b"][0].randrange(2)
        return int(wanted + sum(supplier.rng.integers(2) for supplier in self.suppliers))


class BoundShop(Shop):
    """A method of a generator, in a partial function too."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.stock, self.draw, self.more = 4, rng.poisson, functools.partial(rng.integers, 2)

    def demand(self):
        return int(self.draw(2) + self.more())


class ShopWithEntities(Shop):
    """Customers with generators of their own come and go."""

    def __init__(self):
        super().__init__()
        self.customers = []

    def demand(self):
        self.customers = [*self.customers[-2:], random.Random(int(self.rng.integers(2**31)))]
        return sum(customer.randrange(3) for customer in self.customers)


class FixedShop(Shop):
    """Deterministic."""

    def __init__(self):
        self.stock = 4

    def demand(self):
        return 3


@dataclass
class DataShop:
    """A dataclass that returns rewards only; it has no reset."""

    stock: int = 4
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def step(self, order: int) -> float:
        sold = min(self.stock, int(self.rng.poisson(3)))
        self.stock += order - sold
        return 3.0 * sold - 2.0 * order


class LoggingShop(Shop):
    """With a log that grows."""

    def __init__(self):
        super().__init__()
        self.log = []

    def step(self, order):
        outcome = super().step(order)
        self.log.append({"order": order, "outcome": outcome, "text": "ordered and sold"})
        return outcome


class DrawnStartShop(Shop):
    """The reset draws the stock."""

    def reset(self):
        self.stock = int(self.rng.integers(10))
        return np.array([self.stock]), {}

    def step(self, order):
        seen, reward, over = super().step(order)
        return np.array([seen]), reward, over, False, {}


SOUND = {
    Shop: "pickle",
    SavingShop: "its methods save_state and restore_state",
    StatefulShop: "its methods get_state and set_state",
    CloningShop: "its method clone",
    WronglySavingShop: "pickle",
    LambdaShop: "deepcopy",
    LockedShop: "replay",
    OldShop: "pickle",
    PythonShop: "pickle",
    GlobalShop: "pickle",
    NestedShop: "pickle",
    BoundShop: "pickle",
    ShopWithEntities: "pickle",
    FixedShop: "pickle",
    DataShop: "pickle",
    LoggingShop: "pickle",
    DrawnStartShop: "pickle",
}
"""Each with the way by which it is copied."""
