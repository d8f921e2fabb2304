"""The findings of the trial of an object as text."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from jmdp.simulators.objects.trial import Trial

_SHARE = '; no step read it: shared=("{}",) makes copies faster'


def report_of(name: str, copies: str, remarks: Sequence[str], trial: Trial) -> str:
    """One line for each finding."""
    lines = [("object", name), ("copies", f"by {copies}")]
    lines += [("", remark) for remark in remarks]
    lines += [("randomness", _randomness(trial)), ("start", _start(trial))]
    if trial.opaque:
        lines.append(("states", "cannot be inspected, so rollouts do not merge; digest=… defines which are equal"))
    for attribute, sizes in (trial.growing or {}).items():
        advice = "" if attribute not in trial.sharable else _SHARE.format(attribute)
        grown = ", ".join(f"{size:,}" for size in sizes)
        lines.append(("growth", f"{attribute}: {grown} bytes after 0, 10, 20 steps{advice}"))
    if trial.shrinking:
        names = ", ".join(trial.shrinking)
        lines.append(("warning", f"{names} has fewer numbers after each step; random ones must be drawn in step"))
    lines += [("warning", f"{made}; the seed must be drawn from a keyed generator") for made in trial.made]
    return _table(lines)


def warn_of_seeds(name: str, made: Sequence[str]) -> None:
    """Warn of generators that steps make or seed: only the reader of the code can know where their seeds come from."""
    warnings.warn(
        f"{'; '.join(made)}. Nothing is wrong if the seed is drawn from a generator of {name}. Otherwise its numbers "
        "are the same in all samples, and intervals are too short: draw from a generator that is made in __init__ "
        "(self.rng = np.random.default_rng()), or draw the seed from it (np.random.default_rng(self.rng.integers("
        "2**63))).",
        stacklevel=4,
    )


def _randomness(trial: Trial) -> str:
    if trial.deterministic:
        idle = f"; no step draws from {', '.join(trial.generators)}" if trial.generators else ""
        return f"none: {trial.steps} steps were the same with other keys{idle}"
    sources = [*trial.drawn, *(["the global generators of NumPy and Python"] if trial.globals else [])]
    effect = "" if trial.varied else f"; it changed no reward and no state in {trial.steps} steps"
    return f"{', '.join(sources)}, set to the key of each step{effect}"


def _start(trial: Trial) -> str:
    return "drawn by reset" if trial.starts_vary else "always the same"


def _table(lines: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"{label:11s} {text}" for label, text in lines)
