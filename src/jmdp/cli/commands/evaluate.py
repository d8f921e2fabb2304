"""`jmdp evaluate`: joint returns in a built-in world, by any method for tables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from typing import Annotated, Any, ClassVar, Union

import tyro

from jmdp.cli.choices import CouplingName, coupling_of, label_of, unknown
from jmdp.cli.command import Command, Exit, aside, print_json, show
from jmdp.cli.environments import GYMNASIUM_ID, WORLDS
from jmdp.cli.evaluation_report import EvaluationReport
from jmdp.cli.loading import Loading
from jmdp.cli.method_settings import MethodName, ReachablePairs, settings_asked_for, summary
from jmdp.cli.options import Actions, Optionally, PolicyDraws
from jmdp.cli.policies import table_policy
from jmdp.cli.reporting import Reporting
from jmdp.errors import SettingsError
from jmdp.evaluate import evaluate
from jmdp.methods.exact_pairs.exact_pairs import ExactPairs
from jmdp.methods.method import Method
from jmdp.results.evaluation import Evaluation
from jmdp.results.outcome import Outcome
from jmdp.worlds import World


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

    def run(self) -> Exit:
        """Evaluate, and print one state or all."""
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
        with aside(self.quiet), self.reserved_page():
            result = evaluate(
                model,
                policy,
                coupling_of(self.coupling, self.policy_luck),
                method,
                throw=False,
                progress=not self.quiet,
            )
            report = EvaluationReport(result, model, policy, state, actions or range(model.actions.size))
            self.write_page(result, state=None if state is None else report.at(state))
            text, record = ("", report.record()) if self.json else (report.text(), {})
        if self.json:
            print_json({"world": {"name": self.world.name, **self.world.options}, "policy": policy_name, **record})
        else:
            show(f"world {self.world}\npolicy {policy_name}\n{text}")
        if result.outcome is Outcome.INTERRUPTED:
            return Exit.INTERRUPTED
        return Exit.YES if result.outcome.successful else Exit.NO


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
