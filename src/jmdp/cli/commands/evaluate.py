"""`jmdp evaluate`: joint returns in a built-in world, by any method for tables.

Report of a table's evaluation as text and as JSON: means, and gaps to the policy's action.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, make_dataclass, replace
from typing import Annotated, Any, ClassVar, Union

import tyro

import jmdp
from jmdp.base.interval import Estimate
from jmdp.base.labels import Label
from jmdp.base.rounding import at_most
from jmdp.cli.command import Actions, Command, Exit, Optionally, PolicyDraws
from jmdp.cli.environments import GYMNASIUM_ID, WORLDS
from jmdp.cli.loading import CouplingName, Found, Loading, Reporting, coupling_of, label_of, unknown
from jmdp.cli.options import MethodName, ReachablePairs, settings_asked_for, summary
from jmdp.cli.policy_files import table_policy
from jmdp.errors import SettingsError
from jmdp.methods.evaluate import evaluate
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP
from jmdp.results.certificate import Outcome
from jmdp.results.evaluation import Evaluation
from jmdp.results.gaps.gap import Gap, estimates, no_better
from jmdp.results.text import lines
from jmdp.worlds import World

_MOST_STATES = 30
"""Largest number of states printed: as many as fit on a screen."""


@dataclass(frozen=True, eq=False)
class EvaluationReport:
    """Report of an evaluation at one state or at all states."""

    result: Evaluation
    model: TabularJMDP
    policy: TabularPolicy
    state: int | None  # None: all states
    actions: Sequence[int]

    def text(self) -> str:
        """Return the method, the error bounds and the tables as text."""
        S = self.model.shape[0]
        state = 0 if S == 1 else self.state
        parts = [repr(self.result)]
        if state is not None:
            parts += [self._means([state]), self._gaps(state)]
        elif S <= _MOST_STATES:
            example = f"--state {self.model.states.name(S // 2)}"
            parts += [self._means(range(S)), f"For gaps between actions, choose a state: {example}"]
        else:
            names = ", ".join(repr(self.model.states.name(s)) for s in range(3))
            parts.append(f"There are {S} states. Choose one to print its means and gaps: --state NAME, e.g. {names}.")
        return "\n\n".join(parts)

    def record(self) -> dict[str, Any]:
        """Return all results, state by state."""
        result, certificate = self.result, self.result.certificate
        states = range(self.model.shape[0]) if self.state is None else [self.state]
        return {
            "discount": self.model.discount,
            "coupling": result.coupling,
            "method": result.method,
            "outcome": result.outcome,
            "converged": result.outcome.successful,
            "certificate": None if certificate is None else certificate.kind,
            "confidence": None if certificate is None else certificate.confidence,
            "states": [self._state_record(s) for s in states],
            "jmdp": jmdp.__version__,
        }

    def _state_record(self, s: int) -> dict[str, Any]:
        reference, name = self._reference(s), self.model.actions.name
        pairs = [(a, b) for a in self.actions for b in self.actions]
        return {
            "state": self.model.states.name(s),
            "means": {name(a): self._mean(s, a) for a in self.actions},
            "covariances": [
                {"actions": [name(a), name(b)], "covariance": self._covariance(s, a, b)} for a, b in pairs if a <= b
            ],
            "reference": name(reference),
            "gaps": [_gap_record(self._gap(s, reference, a)) for a in self.actions if a != reference],
        }

    def _means(self, states: Sequence[int]) -> str:
        rows = [
            {"mean return in state": self.model.states.name(s)}
            | {self.model.actions.name(a): self._mean(s, a) for a in self.actions}
            for s in states
        ]
        return "\n".join([*lines(rows), "Means are rounded to six digits; --json prints all digits."])

    def _gaps(self, s: int) -> str:
        reference, name = self._reference(s), self.model.actions.name
        others = [a for a in self.actions if a != reference]
        if not others:
            return "A gap needs two actions: add one to --actions."
        gaps = [self._gap(s, reference, a) for a in others]
        chances = [no_better(gap) for gap in gaps]
        bound = any(chance is not None and is_bound for chance, is_bound in chances)
        rows = [
            {f"gap: {name(reference)} minus": gap.second, **estimates(gap)}
            | {f"P(gap ≤ 0){' at most*' * bound}": "–" if chance is None else at_most(chance) if bound else chance}
            for gap, (chance, _) in zip(gaps, chances, strict=True)
        ]
        said = lines(rows)
        if bound:
            said.append(
                "* upper bound from mean and variance (Cantelli); --method exact-distribution gives the probability"
            )
        if self.result.certificate is None:
            said.append(
                "no error bound: this method gives estimates only; --method exact-pairs gives certified intervals"
            )
        return "\n".join(said)

    def _reference(self, s: int) -> int:
        """Return the policy's action if it is deterministic and reported, else the one with the largest mean."""
        taken = int(self.policy.probs[s].argmax())
        if self.policy.certain[s] and taken in self.actions:
            return taken
        return max(self.actions, key=lambda a: float(self.result.mean[self._at(s), a]))

    def _mean(self, s: int, a: int) -> Estimate:
        return self.result.mean_of(self.at(s), self.result.actions[a])

    def _covariance(self, s: int, a: int, b: int) -> Estimate:
        actions = self.result.actions
        wide = self.result.covariance_interval(self.at(s), actions[a], actions[b])
        return Estimate.within(self.result.covariance[self._at(s), a, b], wide)

    def _gap(self, s: int, a: int, b: int) -> Gap:
        return self.result.gap(self.at(s), self.result.actions[a], self.result.actions[b])

    def at(self, s: int) -> Label:
        """Return the label in the result of a state of the model."""
        return self.result.states[self._at(s)]

    def _at(self, s: int) -> int:
        """Return the state's index in the result, which may contain one state only."""
        return s if self.result.states.size == self.model.shape[0] else 0


def _gap_record(gap: Gap) -> dict[str, Any]:
    chance, is_bound = no_better(gap)
    return {
        "first": gap.first,
        "second": gap.second,
        **estimates(gap),
        "variance": Estimate.within(gap.variance, gap.variance_interval),
        "no_better_at_most" if is_bound else "no_better": chance,
    }


@dataclass(frozen=True)
class ChosenWorld:
    """A world, and the options it was made with."""

    name: str
    options: Mapping[str, Any]
    world: World

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


@dataclass(frozen=True, kw_only=True)
class Evaluate(Loading, Reporting):
    """Evaluate a built-in world: means, covariances and gaps of all actions, with error bounds.

    WORLD comes first, its options and all others after it in any order:

    jmdp evaluate WORLD [world options] [--method METHOD] [method settings] [--state STATE] …

    Options of a world: jmdp evaluate WORLD --help. Settings of a method: jmdp evaluate --method METHOD --help.

    The policy is followed after the first action. Under shared randomness the returns of two actions are correlated, so
    their gap may vary far less than either. The exit code is 1 if the tolerance was not reached.
    """

    examples: ClassVar = {
        "jmdp evaluate inventory --coupling synchronous --state 3": "gaps between orders, with three units "
        "in stock and the same demand for every order",
        "jmdp evaluate anti_correlated_bandit --method exact-distribution --tolerance 0.01": "certified "
        "probability that the first arm is no better than the second",
        "jmdp evaluate windy_gridworld --rows 3 --columns 4 --policy careless": "mean returns in every cell",
        "jmdp evaluate anti_correlated_bandit --method monte-carlo --samples 1000 --seed 7 --json": "Monte Carlo "
        "estimates, as JSON",
    }

    world: ChosenWorld
    policy: Annotated[Optionally[str], tyro.conf.arg(metavar="POLICY")] = None
    """A policy of the world; an action, taken in every step; or one per state: R,R,U. By default the world's first."""
    coupling: CouplingName = "local"
    """Randomness shared by branches in the same state (local), by all in a step (synchronous), or by none."""
    policy_luck: PolicyDraws = "independent"
    method: MethodName = "exact-pairs"
    """Evaluation method. Each has its own settings."""
    state: Annotated[Optionally[str], tyro.conf.arg(metavar="STATE")] = None
    """Report only this state, by name or number, with its gaps."""
    actions: Actions = ()
    """Report only these actions, by name or number."""
    settings: Method[Evaluation] = ExactPairs()

    @classmethod
    def form(cls, arguments: Sequence[str]) -> tuple[type[Command], Sequence[str]]:
        """Return a dataclass with all worlds and with the settings of the requested method."""
        name = ""
        if arguments and not arguments[0].startswith("-"):
            name = arguments[0].replace("-", "_")
            if name not in WORLDS:
                raise _unknown_world(arguments[0])
            arguments = [name, *arguments[1:]]
        settings = settings_asked_for(arguments)
        settings_type: Any = Annotated[type(settings), tyro.conf.OmitArgPrefixes, tyro.conf.arg(help=summary(settings))]
        words = tuple(_subcommand(make, in_full=make.__name__ == name) for make in WORLDS.values())
        worlds: Any = Union[words]  # noqa: UP007 (built at run time)
        fields = [
            ("world", Annotated[worlds, tyro.conf.OmitArgPrefixes], field()),
            ("settings", settings_type, field(default=settings)),
        ]
        namespace = {"__doc__": cls.__doc__, "__module__": cls.__module__}
        form = make_dataclass(cls.__name__, fields, bases=(cls,), namespace=namespace, frozen=True, kw_only=True)
        return form, arguments

    def found(self, stack: ExitStack) -> Found:
        """Evaluate one state or all."""
        self.loader()  # with --safe, nothing is imported from the current folder
        world, model = self.world.world, self.world.world.model
        policy_name = next(iter(world.policies)) if self.policy is None else self.policy
        policy = table_policy(policy_name, model, world.policies)
        state = None if self.state is None else model.states.index(label_of(model.states, self.state))
        actions = [model.actions.index(label_of(model.actions, action)) for action in self.actions]
        if len(set(actions)) < len(actions):
            raise SettingsError(f"--actions is {[model.actions.name(a) for a in actions]}. Give each action once.")
        method = self.settings
        if isinstance(method, ReachablePairs):
            if state is None:
                raise SettingsError("reachable-pairs evaluates one state. Give it: --state STATE.")
            method = replace(method, state=model.states[state])
        coupling = coupling_of(self.coupling, self.policy_luck)
        result = evaluate(model, policy, coupling, method, throw=False, progress=not self.quiet)
        report = EvaluationReport(result, model, policy, state, actions or range(model.actions.size))
        about = {"world": {"name": self.world.name, **self.world.options}, "policy": policy_name}
        code = Exit.YES if result.outcome.successful else Exit.NO
        return Found(
            result,
            f"world {self.world}\npolicy {policy_name}\n{report.text()}",
            lambda: about | report.record(),
            Exit.INTERRUPTED if result.outcome is Outcome.INTERRUPTED else code,
            {"state": None if state is None else report.at(state)},
        )


def _unknown_world(text: str) -> SettingsError:
    kind, _, name = text.partition(":")
    if kind == "world":
        return unknown("world", name, WORLDS) if name not in WORLDS else SettingsError(f"Give {name} without world:.")
    if name or GYMNASIUM_ID.fullmatch(text):
        return SettingsError(
            f"`jmdp evaluate` is for built-in worlds, {', '.join(WORLDS)}. For an environment or a simulator, use: "
            f"jmdp compare {text[:200]} --discount 0.99"
        )
    return unknown("world", text, WORLDS)


def _subcommand(make: Callable[..., World], *, in_full: bool) -> Any:
    """Return a world's function as a subcommand, with its parameters as options and a full or short help."""

    @functools.wraps(make)
    def chosen(*args: Any, **options: Any) -> ChosenWorld:
        given = inspect.signature(make).bind(*args, **options)
        given.apply_defaults()
        return ChosenWorld(make.__name__, given.arguments, make(*args, **options))

    documented = inspect.getdoc(make) or ""
    description = documented if in_full else documented.split("\n\n")[0]
    return Annotated[ChosenWorld, tyro.conf.subcommand(make.__name__, constructor=chosen, description=description)]
