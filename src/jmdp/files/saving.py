"""`save` and `load`: models and results as files."""

from __future__ import annotations

import os
import platform
import stat
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jmdp.base.settings import boolean_value, short
from jmdp.comparisons.policy_comparison import RunComparisons
from jmdp.comparisons.score_comparison import ScoreComparison
from jmdp.errors import FileError, JMDPError, MissingExtraError, SettingsError
from jmdp.files import comparisons, evaluations, learned, netcdf, schema
from jmdp.files.methods import upgraded
from jmdp.files.opening import path_text
from jmdp.files.types import Kind, Place, Sink, WrongFieldError, decoded_object, encoded_object
from jmdp.models.tabular import TabularJMDP
from jmdp.results.calibration import Calibration
from jmdp.results.evaluation import Evaluation
from jmdp.reviews.review import Review
from jmdp.reviews.reviews import Reviews

_FORMS: dict[type, dict[str, Kind]] = {
    TabularJMDP: {"Model": schema.MODEL},
    Evaluation: {"Evaluation": evaluations.KIND},
    **{cls: {"Comparison": kind} for cls, kind in comparisons.BY_CLASS.items()},
    RunComparisons: {"Comparisons": comparisons.KIND_OF_SEVERAL},
    ScoreComparison: {"ScoreComparison": comparisons.KIND_OF_SCORES},
    Calibration: {"Calibration": schema.CALIBRATION},
    Review: {"Review": schema.REVIEW},
    Reviews: {"Reviews": schema.REVIEWS},
    learned.REGRESSED.of: {"RegressedEvaluation": learned.REGRESSED},
}
"""How objects of each class are saved, with the name in files."""

_LEARNED = "LearnedEvaluation"


def save(result: Any, path: str | os.PathLike[str]) -> None:
    """Save a model or a result to a netCDF-4 file, replacing it as a whole; `jmdp.load` reads it."""
    cls = type(result)
    form = {_LEARNED: learned.kind_of(cls)} if cls.__name__ == _LEARNED else _FORMS.get(cls)
    if form is None:
        raise SettingsError(f"{short(result)} cannot be saved.")
    try:
        labelled = result.to_xarray().assign_attrs(_attributes(*form))
    except ImportError:
        raise MissingExtraError('Saving needs xarray and h5netcdf: pip install "jmdp[io]"') from None
    sink = Sink({str(name): variable.to_numpy() for name, variable in labelled.data_vars.items()})
    record = encoded_object(form, result, sink, "")
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
    kinds: dict[str, Kind] = {}
    for form in (*_FORMS.values(), {_LEARNED: learned.kind_of(object)}):
        kinds |= form
    return decoded_object(kinds, saved, Place(source, "", {}))
