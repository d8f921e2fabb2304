"""Results of every kind with given names, and a reader of pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np

import jmdp
from files import saved_results
from jmdp.base.luck import Shock
from jmdp.reports.page import Page, render
from jmdp.reports.writing import page_of
from jmdp.simulators import Simulator, Step, action_labels

PLAIN = ("north", "south")


class Game(Simulator):
    """Two actions, of which the second earns more; with a name."""

    discount = 0.9

    def __init__(self, names: tuple[str, str], title: str) -> None:
        self.actions = action_labels(list(names))
        self.title = title

    def start(self, shock: Shock) -> int:
        """The origin."""
        return 0

    def step(self, state: int, action: int, shock: Shock) -> Step:
        """One step of four."""
        noise = shock.generator().normal()
        return Step((1 + 0.2 * action) * noise + 0.4 * action, state + 1, state >= 3)

    def __repr__(self) -> str:
        return self.title


class Always:
    """A policy with a name."""

    def __init__(self, action: int, title: str) -> None:
        self.action, self.title = action, title

    def __call__(self, observation: Any) -> int:
        return self.action

    def __repr__(self) -> str:
        return self.title


def model(names: tuple[str, str]) -> jmdp.TabularJMDP:
    """A table of two states and two actions."""
    rng = np.random.default_rng(5)
    reward, following = rng.normal(size=(2, 3, 2)), rng.integers(0, 2, (2, 3, 2))
    prob = np.broadcast_to(rng.dirichlet(np.ones(3)), (2, 3))
    return jmdp.TabularJMDP(prob, reward, following, 0.5, state_names=list(names), action_names=list(names))


def runs(names: tuple[str, str], measures: tuple[str, str]) -> dict[str, Callable[[jmdp.Luck], dict[str, float]]]:
    """Two designs with two measures."""

    def run(luck: jmdp.Luck, rate: float) -> dict[str, float]:
        return {measures[0]: luck.uniform("wait") / rate, measures[1]: rate * luck.uniform("cost")}

    first, second = names
    return {first: lambda luck: run(luck, 1.0), second: lambda luck: run(luck, 1.25)}


def learned(names: tuple[str, str], title: str, calibration: Any = "some") -> Any:
    """A learned evaluation without its network, which a page does not use."""
    from jmdp.methods.neural_gram import LearnedEvaluation, NeuralGram
    from jmdp.results.learning_curve import LearningCurve
    from jmdp.results.outcome import Outcome

    game = Game(names, title)
    record = saved_results.calibration(0) if calibration == "some" else calibration
    curve = LearningCurve(("mean",), np.array([40.0]), np.ones((1, 1)), np.ones((1, 1)))
    outcome = Outcome.TRAINED if record is not None else Outcome.NOT_JUDGED
    return LearnedEvaluation(
        None, game, Always(0, title), jmdp.Local(), NeuralGram(seed=3), 0.9, 12, game.actions, outcome, curve, record,
        ((1,), "f8"), None,
    )  # fmt: skip


def makers(names: tuple[str, str], title: str) -> dict[str, Callable[[], Any]]:
    """Results by kind; `title` names the simulator, the policy and a measure."""
    common = {"seed": 7, "samples": 60, "progress": False}
    table, (first, second) = model(names), names
    policies = {first: Always(0, title), second: Always(1, title)}
    single = {name: (lambda luck, run=run: run(luck)["a"]) for name, run in runs(names, ("a", "b")).items()}
    minimize = {"minimize": [title]}
    return {
        "exact": lambda: jmdp.evaluate(table, "uniform", jmdp.Local()),
        "policies of a table": lambda: jmdp.evaluate(
            table, {first: "uniform", second: [0, 1]}, jmdp.Local(), start=np.array([0.5, 0.5])
        ),
        "sampled": lambda: jmdp.evaluate(table, "uniform", jmdp.Local(), jmdp.MonteCarlo(seed=7, samples=50)),
        "compare": lambda: jmdp.compare(Game(names, title), policy=Always(0, title), **common),
        "compare_policies": lambda: jmdp.compare_policies(Game(names, title), policies, **common),
        "margin": lambda: jmdp.compare_policies(Game(names, title), policies, baseline=first, margin=0.5, **common),
        "compare_runs": lambda: jmdp.compare_runs(single, minimize=True, **common),
        "measures": lambda: jmdp.compare_runs(runs(names, (title, "cost")), **minimize, **common),
        "calibration": lambda: saved_results.calibration(0),
        "learned": lambda: learned(names, title),
    }


KINDS = tuple(makers(PLAIN, "game"))
SAMPLED = tuple(kind for kind in KINDS if kind not in ("exact", "policies of a table"))


@cache
def page(kind: str, names: tuple[str, str] = PLAIN, title: str = "game") -> Page:
    """The page of a result."""
    return page_of(makers(names, title)[kind]())


@cache
def html(kind: str, names: tuple[str, str] = PLAIN, title: str = "game") -> str:
    """The page of a result as HTML."""
    return render(page(kind, names, title))


@dataclass
class Tree(HTMLParser):
    """Tags, attributes and text of a page."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)  # tag, name, value
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    @classmethod
    def of(cls, text: str) -> Tree:
        """Read a page."""
        tree = cls()
        tree.feed(text)
        tree.close()
        return tree

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note the end of an element."""
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Note text that is shown."""
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        """There are no comments."""
        raise AssertionError(data)

    @property
    def text(self) -> str:
        """The text of the page in one line."""
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        """Values of an attribute."""
        return [value for _, found, value in self.attributes if found == name]
