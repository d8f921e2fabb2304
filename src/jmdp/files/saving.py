"""`save` and `load`: models and results as files."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from jmdp.base.settings import boolean_value, short
from jmdp.comparisons.comparison import Comparison
from jmdp.comparisons.policy_comparison import PolicyComparison
from jmdp.comparisons.run_comparison import RunComparison, RunComparisons
from jmdp.errors import FileError, JMDPError, MissingExtraError, SettingsError
from jmdp.files import comparisons, evaluations, learned, netcdf, reviews, schema
from jmdp.files.kinds import Kind, Object
from jmdp.files.opening import path_text
from jmdp.files.types import Sink, WrongFieldError
from jmdp.files.version_1 import upgraded
from jmdp.models.tabular import TabularJMDP
from jmdp.results.calibration import Calibration
from jmdp.results.evaluation import Evaluation
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews


class _Form(NamedTuple):
    """How objects of one class are saved."""

    name: str  # in the file
    kind: Kind
    saved: Callable[[Any], Any]
    restored: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _restored(saved: Any) -> Any:
    return saved.restored()


_COMPARISON = _Form("Comparison", comparisons.KIND, comparisons.SavedComparison.of, _restored)

_FORMS: dict[type, _Form] = {
    TabularJMDP: _Form("Model", schema.MODELS["TabularJMDP"], _same, _same),
    Evaluation: _Form("Evaluation", evaluations.KIND, evaluations.SavedEvaluation.of, _restored),
    Comparison: _COMPARISON,
    PolicyComparison: _COMPARISON,
    RunComparison: _COMPARISON,
    RunComparisons: _Form("Comparisons", comparisons.KIND_OF_SEVERAL, comparisons.SavedComparisons.of, _restored),
    Calibration: _Form("Calibration", schema.CALIBRATION_KIND, _same, _same),
    Review: _Form("Review", reviews.KIND, reviews.SavedReview.of, _restored),
    Reviews: _Form("Reviews", reviews.KIND_OF_SEVERAL, reviews.SavedReviews.of, _restored),
}
_LEARNED = _Form("LearnedEvaluation", learned.KIND, learned.SavedLearned.of, _restored)


def save(result: Any, path: str | os.PathLike[str]) -> None:
    """Save a model or a result to a netCDF-4 file, replacing it as a whole; `jmdp.load` reads it."""
    form = _FORMS.get(type(result)) or (_LEARNED if type(result).__name__ == "LearnedEvaluation" else None)
    if form is None:
        raise SettingsError(f"{short(result)} cannot be saved.")
    try:
        labelled = result.to_xarray().assign_attrs(_attributes(form.name))
    except ImportError:
        raise MissingExtraError('Saving needs xarray and h5netcdf: pip install "jmdp[io]"') from None
    sink = Sink({str(name): variable.to_numpy() for name, variable in labelled.data_vars.items()})
    record = Object(lambda: {form.name: form.kind}).encode(form.saved(result), sink, "")
    netcdf.write(path, labelled, sink, {"schema": schema.VERSION, "object": record})


def _attributes(name: str) -> dict[str, Any]:
    """What other programs read about a file."""
    found = {"jmdp_object": name, "jmdp_schema": schema.VERSION}
    versions = [f"Python {platform.python_version()}"]
    for package in ("jmdp", "numpy", "scipy", "numba"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found | {"jmdp_versions": ", ".join(versions)}


def load(path: str | os.PathLike[str], *, trusted: bool = True) -> Any:
    """Load what `save` has written: a model, an evaluation, a comparison or a learned result; or open a study.

    Numbers are the saved ones, bit for bit. Nothing in a file is executed: it is data, whose types and sizes are
    checked before memory is allocated. For an evaluation of a table, covariances between states and distributions are
    computed again when they are first asked for. A comparison can be continued: ``continued(samples, simulator=…,
    policy=…)``.

    Parameters
    ----------
    path
        A file that ``result.save(path)`` has written, or the folder of a study.
    trusted
        False: read the files in child processes with limits of memory and time, as "Security" in the documentation
        says. Needs Linux.
    """
    if _is_folder(path):
        from jmdp.studies.study import Study

        return Study.open(Path(path_text(path)), trusted=trusted)
    with netcdf.read(path, boolean_value("trusted", trusted)) as (record, source, name):
        try:
            return _object(record, source, name)
        except WrongFieldError as error:
            place = f"its field {error.place} has" if error.place else "it has"
            raise FileError(f"{name} cannot be loaded: {place} {error.problem}. {_FIX}") from None
        except JMDPError as error:
            if isinstance(error, (FileError, MissingExtraError, MemoryError)):
                raise
            raise FileError(f"{name} cannot be loaded: {error} {_FIX}") from error


_FIX = "It was changed, or another program wrote it. Save the result again, or restore the file from a copy."


def _is_folder(path: Any) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path_text(path)).st_mode)
    except (OSError, ValueError):
        return False


def _object(record: Any, source: Any, name: str) -> Any:
    if not isinstance(record, dict) or set(record) != {"schema", "object"}:
        raise WrongFieldError("", "a record of another kind")
    if record["schema"] not in schema.READABLE:
        raise FileError(
            f"{name} has version {short(record['schema'])} of the format; this jmdp reads versions up to "
            f"{schema.VERSION}. Update jmdp, or save the result again."
        )
    saved = upgraded(record["object"]) if record["schema"] == 1 else record["object"]
    forms = {form.name: form for form in (*_FORMS.values(), _LEARNED)}
    found = Object(lambda: {key: form.kind for key, form in forms.items()}).decode(saved, source, "", {})
    return forms[saved["class"]].restored(found)
