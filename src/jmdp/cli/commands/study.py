"""`jmdp study`: comparisons in many states from a settings file, with results in files; resumable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from jmdp.cli.command import Exit, Optionally, print_json, show
from jmdp.cli.environments import environment
from jmdp.cli.loading import Found, LoadingPolicies, Reporting, coupling_of
from jmdp.cli.study_file import StudyFile, study_states
from jmdp.distribute.pools import Pool
from jmdp.errors import SettingsError
from jmdp.statistics.assumptions import Assumptions
from jmdp.studies.running import study
from jmdp.studies.study import Study

_ASSUMED = tuple(Assumptions.__dataclass_fields__)
_PASSED_ON = ("max_samples", "indifference", "confidence", "horizon", "discount")

_FILE = (
    "Settings in TOML. Required: env, an environment as for jmdp compare; policy, or a table [policies] to compare "
    'whole policies; states, which is "all" (of a table, or of a Gymnasium environment whose state is a number), a '
    'list of states by name or number, "file.py:name" (a list, a dictionary from labels to states, or a function that '
    "returns one), or { visited = 200, every = 25 } for states that the policy visits. Optional: actions, seed, "
    "discount, max_samples, indifference, confidence, horizon, reward_bound, return_range, largest_loss, rarest, "
    'tie_tolerance, coupling, policy_luck, truncated_ends, and pool, a number of worker processes or "ray".'
)


@dataclass(frozen=True, kw_only=True)
class RunStudy(LoadingPolicies, Reporting):
    """Compare actions, or policies, in many states; the settings are in a file.

    Each state is sampled until its comparison is decided or its budget is used up. Results are written to a folder
    while the study runs, as Parquet files with a row for each state and alternative. If the study is interrupted, the
    same command continues it. The exit code is 0 if all states are finished and none has failed, 1 if some have failed,
    and 130 if the study was interrupted, by Ctrl-C or because worker processes were killed again and again; with
    --status it is also 1 while states are not finished, and with --verify if a file is damaged.
    """

    examples: ClassVar = {
        "jmdp study windy.toml --out windy": "in every state of a world, if windy.toml has the lines env = "
        '"world:windy_gridworld", policy = "uniform", states = "all"',
        "jmdp study --status windy --json": "how far the study in this folder has come, also while it runs",
        "jmdp study --verify windy": "compare the checksums of all files; the first command repairs what is damaged",
    }

    file: Annotated[
        Optionally[str], tyro.conf.Positional, tyro.conf.arg(metavar="[FILE.toml]", help=_FILE, help_behavior_hint="")
    ] = None
    out: Annotated[Optionally[Path], tyro.conf.arg(metavar="DIR")] = None
    """Folder of the results. If it has results of the same settings, they are kept, and the rest is computed."""
    status: Annotated[Optionally[Path], tyro.conf.arg(metavar="DIR")] = None
    """Print the state of the study in this folder, and do nothing else."""
    verify: Annotated[Optionally[Path], tyro.conf.arg(metavar="DIR")] = None
    """Read all results in this folder, compare their checksums, and print which are damaged."""

    def policy_texts(self) -> Sequence[str]:
        """Return the policies of the settings file."""
        return list(self._settings.policies.values())

    @cached_property
    def _settings(self) -> StudyFile:
        assert self.file is not None
        return StudyFile.read(Path(self.file))

    def run(self) -> Exit:
        """Run or continue the study, or read its state, and print it."""
        return super().run() if self.verify is None else self._verified(self.verify)

    def found(self, stack: ExitStack) -> Found:
        """Run or continue the study, or read its state."""
        found = self._study() if self.status is None else self._opened(self.status)
        code = Exit.NO if found.progress.failed else Exit.YES
        if not found.progress.complete:
            code = Exit.INTERRUPTED if self.status is None else Exit.NO
        return Found(found, repr(found), lambda: _record(found), code)

    def _opened(self, folder: Path, option: str = "--status") -> Study:
        if self.file is not None or self.out is not None:
            raise SettingsError(f"{option} {folder} is given together with a study to run. Give one of them.")
        self.loader()  # with --safe, nothing is imported from the current folder
        return Study.open(folder, trusted=not self.safe)

    def _verified(self, folder: Path) -> Exit:
        if self.status is not None or self.report is not None:
            raise SettingsError(f"--verify {folder} is given together with --status or --report. Give it alone.")
        damaged = self._opened(folder, "--verify").verify()
        if self.json:
            print_json({"path": folder, "damaged": damaged})
        else:
            fix = "The same call of study simulates these states again."
            show("\n".join([*damaged, fix] if damaged else [f"All results in {folder} are as they were written."]))
        return Exit.NO if damaged else Exit.YES

    def _study(self) -> Study:
        if self.file is None:
            raise SettingsError("The settings file is missing. Give jmdp study FILE.toml --out DIR, or --status DIR.")
        if self.out is None:
            raise SettingsError(f"--out is missing. Give a folder for the results: jmdp study {self.file} --out DIR.")
        file, values = self._settings, self._settings.values
        file.check_same(self.out)
        seed = values.get("seed", 0)
        with file.naming("env"):
            chosen = environment(values["env"], self.loader(), truncated_ends=values.get("truncated_ends", False))
            chosen.put(None, None, seed)
            simulator = chosen.simulator()
        if "discount" not in values and simulator.discount is None:
            raise file.error(f"discount is missing: {simulator!r} has none of its own. Add a line, discount = 0.99.")
        policies, several = {}, "policies" in values
        for name, text in file.policies.items():
            with file.naming("policies" if several else "policy"):
                policies[name] = chosen.policy(simulator, text)
        self.refuse_unused_net()
        first = next(iter(policies.values()))
        with file.naming("states"):
            states = study_states(values["states"], chosen, simulator, first, seed)
        actions: Any = None
        if "actions" in values:
            texts = [str(action) for action in values["actions"]]
            with file.naming("actions"):
                actions = chosen.candidates(simulator, texts)
        file.write_to(self.out)
        luck = values.get("policy_luck", "shared" if several else "independent")
        with _pool(values.get("pool")) as pool, file.naming():
            return study(
                simulator if chosen.model is None else chosen.source,  # a world may be a grid
                policies if several else first,
                states,
                actions,
                seed=seed,
                path=self.out,
                pool=pool,
                coupling=coupling_of(values.get("coupling", "synchronous"), luck),
                assume=Assumptions(**{name: values[name] for name in _ASSUMED if name in values}),
                trusted=not self.safe,
                progress=not self.quiet,
                **{name: values[name] for name in _PASSED_ON if name in values},
            )


@contextmanager
def _pool(given: Any) -> Iterator[int | Pool | None]:
    """The pool of the settings; one of Ray is closed at the end."""
    if given != "ray":
        yield given
        return
    from jmdp.distribute.ray_pool import RayPool

    with RayPool() as pool:
        yield pool


def _record(found: Study) -> dict[str, Any]:
    progress = ("states", "finished", "decided", "failed", "outcomes", "complete")
    own = ("path", "missing", "settings", "alternative", "alternatives")
    return {name: getattr(found.progress, name) for name in progress} | {name: getattr(found, name) for name in own}
