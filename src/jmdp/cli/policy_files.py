"""Policies from files: what a file contains is told by its contents, and loaded without running code where possible.

Policies from command-line text: a world's policy, an action, an action per state, or a user's own policy.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jmdp.base import optional
from jmdp.base.labels import Labels
from jmdp.cli.loading import Loader, label_of, unknown
from jmdp.errors import JMDPError, MissingExtraError, PolicyError
from jmdp.models.actors.trained_policies import onnx_session
from jmdp.models.policy import TabularPolicy
from jmdp.models.tabular import TabularJMDP

FILES_HELP = (
    "your own, package.module:name or file.py:name; a saved stable-baselines3 model, PPO:model.zip; a network, "
    "FILE.onnx; or weights of torch, FILE.pt, with --net"
)

_BASELINES = re.compile(r"(?P<algorithm>\w+):(?P<path>.+\.zip)")
_SUFFIXES = {".joblib", ".onnx", ".pickle", ".pkl", ".pt", ".pt2", ".pth", ".py", ".zip"}
_LARGEST_ONNX = 2**31
"""Bytes; protocol buffers, the format of ONNX files, cannot be larger."""
_SAFE_TORCH = (2, 6)
"""In earlier versions of torch a file can run code in spite of weights_only=True (CVE-2025-32434)."""

_Kind = Literal["baselines", "torchscript", "pt2", "torch", "pickle", "zip", "other"]

_EXPORT = "Export the policy to ONNX"
_SAVE = "save its weights, torch.save(module.state_dict(), FILE), and give --net file.py:Class"
_NOT_LOADED: dict[_Kind, str] = {
    "baselines": "is a saved model of stable-baselines3. Name the class that saved it: PPO:{path}.",
    "torchscript": f"is a TorchScript program. {_EXPORT}, or {_SAVE}.",
    "pt2": f"is a program of torch.export. {_EXPORT}, or {_SAVE}.",
    "torch": f"is a file of torch. Name it FILE.pt if it holds weights, a state dict; otherwise {_SAVE}.",
    "pickle": f"is a pickle, which can run any code and is not loaded. {_EXPORT}, or give file.py:name of a function "
    "that loads it.",
    "zip": f"is a zip file that holds no policy known to jmdp. {_EXPORT}.",
    "other": f"is neither a file of torch nor of stable-baselines3, or it is incomplete. {_EXPORT}, or {_SAVE}.",
}


def names_a_file(text: str) -> bool:
    """True if the text names a policy in a file or a module, and not one of the environment."""
    return ":" in text or Path(text).suffix.lower() in _SUFFIXES


def file_policy(text: str, loader: Loader) -> Any:
    """Return the policy in a file or a module, for `as_policy`."""
    if saved := _BASELINES.fullmatch(text):
        return _stable_baselines(text, saved["algorithm"], _existing(saved["path"]), loader)
    if ":" in text and not Path(text).is_file():
        return loader.attribute(text)
    path = _existing(text)
    match path.suffix.lower():
        case ".onnx":
            return _session(path)
        case ".pt" | ".pth":
            return _torch(path, loader)
        case ".py":
            raise PolicyError(f"{path} may define several objects. Name the policy: {path}:name.")
    raise PolicyError(f"{path} {_NOT_LOADED[_kind(path)].format(path=path)}")


def policy_digest(text: str) -> str:
    """Return the SHA-256 of a policy's file, in hexadecimal: of FILE in FILE:name and ALGO:FILE, otherwise of the text.

    For an ONNX network that keeps its weights in other files, it is that of the network with the weights included.
    """
    saved = _BASELINES.fullmatch(text)
    if not names_a_file(text):
        return hashlib.sha256(text.encode()).hexdigest()
    if saved is None and Path(text).suffix.lower() == ".onnx":
        return hashlib.sha256(_onnx(_existing(text))).hexdigest()
    named = saved["path"] if saved else text if Path(text).is_file() else text.rpartition(":")[0]
    content = Path(named).read_bytes() if Path(named).is_file() else text.encode()
    return hashlib.sha256(content).hexdigest()


def _existing(name: str) -> Path:
    if not Path(name).is_file():
        raise PolicyError(f"There is no file {name!r} in {Path.cwd()}. Give the file of the policy.")
    return Path(name)


def _kind(path: Path) -> _Kind:
    """Kind of a file. Files of torch and of stable-baselines3 are all zip files, and differ by their members."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            begin = file.read(14)
        if begin == b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19":  # torch before 1.6
            return "torch"
        return "pickle" if begin[:1] == b"\x80" else "other"
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
    except zipfile.BadZipFile:
        return "other"
    if {"data", "policy.pth"} <= members:
        return "baselines"
    names = {member.rpartition("/")[2] for member in members}
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return "pt2"
    if "constants.pkl" in names:
        return "torchscript"
    return "torch" if "data.pkl" in names else "zip"


def _session(path: Path) -> Any:
    """Session of onnxruntime for a file. It computes on one thread and opens no other file."""
    model = _onnx(path)
    try:
        return onnx_session(model)
    except JMDPError:
        raise
    except Exception as error:  # the exceptions of onnxruntime have no common base class
        raise PolicyError(f"onnxruntime cannot use {path}: {error}. Export the policy again.") from error


def _onnx(path: Path) -> bytes:
    """ONNX model of a file. Weights in other files are included; the onnx package refuses files outside the folder."""
    onnx = optional("onnx", f'{path} needs onnx and onnxruntime: pip install "jmdp[onnx]"')
    if path.stat().st_size >= _LARGEST_ONNX:
        raise PolicyError(f"{path} has {path.stat().st_size / 2**30:.1f} GiB. ONNX files have less than 2 GiB.")
    content = path.read_bytes()
    try:
        model = onnx.load_model_from_string(content)
        before = model.SerializeToString()
        onnx.load_external_data_for_model(model, str(path.parent.resolve()))
        after = model.SerializeToString()
    except Exception as error:  # of protocol buffers, of the onnx package, or of the file system
        kind = _kind(path)
        what = _NOT_LOADED[kind].format(path=path) if kind != "other" else "is not an ONNX file or is incomplete."
        raise PolicyError(f"{path} {what} ({type(error).__name__}: {error})") from error
    return content if after == before else after


def _torch(path: Path, loader: Loader) -> Any:
    """Module of torch made by --net, with the weights of a file, which are read without running code of the file."""
    kind = _kind(path)
    if kind != "torch":
        raise PolicyError(f"{path} {_NOT_LOADED[kind].format(path=path)}")
    if loader.safe:
        loader.allow(str(path), "its --net")
    if loader.net is None:
        raise PolicyError(
            f"{path} holds weights without their network. Give --net file.py:Class, the class or a function without "
            "arguments that makes the module, which runs its code; or export the policy to ONNX."
        )
    make = loader.attribute(loader.net)
    torch = _safe_torch(path)
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle.UnpicklingError for other objects than tensors, many others for damaged files
        raise PolicyError(
            f"{path} cannot be read as weights. If it holds a whole module or other objects, which would run code that "
            f"the file contains, {_SAVE}. ({_refused_global(error) or _first_line(error)})"
        ) from None
    module = _made(make, loader.net, torch)
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        found = ", ".join(map(str, weights)) if isinstance(weights, dict) else type(weights).__name__
        raise PolicyError(f"{path} holds {found}, not the tensors of a state dict. Save module.state_dict() only.")
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        detail = " ".join(str(error).split())
        raise PolicyError(
            f"The weights in {path} do not fit {loader.net}. Give the --net they are of. {detail}"
        ) from None
    return module


def _safe_torch(path: Path) -> Any:
    torch = optional("torch", f"{path} needs torch: pip install torch")
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE_TORCH:
        raise MissingExtraError(
            f"torch {torch.__version__} can run code in {path} when it reads weights: pip install 'torch>=2.6'"
        )
    return torch


def _made(make: Any, name: str, torch: Any) -> Any:
    """Return the module that --net makes."""
    fix = "Give a class, or a function without arguments, that makes a torch.nn.Module."
    if not callable(make) or isinstance(make, torch.nn.Module):
        raise PolicyError(f"--net {name} has the type {type(make).__name__}. {fix}")
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise PolicyError(f"--net {name} cannot be called without arguments: {error}. {fix}") from None
    module = make()
    if not isinstance(module, torch.nn.Module):
        raise PolicyError(f"--net {name} returned an object of type {type(module).__name__}. {fix}")
    return module


def _stable_baselines(text: str, algorithm: str, path: Path, loader: Loader) -> Any:
    kind = _kind(path)
    if kind != "baselines":
        raise PolicyError(f"{path} {_NOT_LOADED[kind]} {algorithm}:FILE is for files that model.save(FILE) wrote.")
    loader.allow(text, str(path))
    stable_baselines3 = optional("stable_baselines3", f"{path} needs stable-baselines3: pip install stable-baselines3")
    kinds = {name for name in stable_baselines3.__all__ if name.isupper()}
    if algorithm not in kinds:
        raise unknown("algorithm of stable-baselines3", algorithm, sorted(kinds))
    try:
        return getattr(stable_baselines3, algorithm).load(path, device="cpu")
    except Exception as error:  # of any kind: the file contains code
        raise PolicyError(
            f"stable-baselines3 cannot load {path} as {algorithm} ({_first_line(error)}). Give the class that saved it."
        ) from error


def _refused_global(error: Exception) -> str | None:
    """Object that a file of torch refers to, from torch's message, which otherwise explains how to load it anyway."""
    found = re.search(r"GLOBAL ([\w.]+)", str(error))
    return f"it refers to {found[1]}" if found else None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def table_policy(text: str, model: TabularJMDP, named: Mapping[str, TabularPolicy]) -> TabularPolicy:
    """Return a policy of a table."""
    S, _, A = model.shape
    known = {"uniform": TabularPolicy.uniform(model), **named}
    if text in known:
        return known[text]
    if S > 1 and "," in text:
        return TabularPolicy.deterministic(model, [label_of(model.actions, part.strip()) for part in text.split(",")])
    names = [model.actions.name(a) for a in range(A)]
    if text not in names and not text.isdecimal():
        raise unknown("policy", text, [*known, *names])
    return TabularPolicy.deterministic(model, dict.fromkeys(model.states, label_of(model.actions, text)))


def simulator_policy(text: str, actions: Labels | None, read_action: Callable[[str], Any], loader: Loader) -> Any:
    """Return a policy of a simulator; `read_action` converts continuous actions."""
    if text == "uniform":
        return "uniform"
    if names_a_file(text):
        return file_policy(text, loader)
    if actions is None:
        return Always(text, read_action(text))
    if "," in text:
        return [_action(part, actions) for part in text.split(",")]
    if text not in (actions.names or ()) and not text.isdecimal():
        raise unknown("policy", text, ["uniform", "file.py:name", *(actions.name(a) for a in range(actions.size))])
    a = _action(text, actions)
    return Always(actions.name(a), a)


@dataclass(frozen=True)
class Always:
    """Policy that always takes the same action."""

    name: str
    action: Any

    @property
    def __name__(self) -> str:
        return f"always {self.name}"

    def __call__(self, observation: Any) -> Any:  # noqa: D102 (see the class)
        return self.action


def _action(text: str, actions: Labels) -> int:
    return actions.index(label_of(actions, text.strip()))
