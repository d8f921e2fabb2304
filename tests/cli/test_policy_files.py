"""Policies from files: loaded, named for what they are, and never running code that was not announced."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import pickle
import re
import shlex
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from cli_runs import run

import onnx_networks as nets
from jmdp.base.labels import Labels
from jmdp.base.luck import Shock
from jmdp.cli import loading
from jmdp.cli.environments import environment
from jmdp.cli.policy_files import policy_digest
from jmdp.models.actors.as_policy import as_policy
from jmdp.models.actors.trained_policies import onnx_session

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")
pytest.importorskip("gymnasium")

PAGE = Path(__file__).parents[2] / "docs/howto/own_policy.md"
COMPARE = "jmdp compare-policies CartPole-v1 --discount 1 --max-samples 16 --policies uniform"
W = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
CANARY = "import os; os.write(2, b'code of {0} ran\\n'); open('ran', 'a').close()"

NET = """
import torch


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def small():
    return torch.nn.Linear(4, 2)


def number():
    return 3
"""


class Poison:
    """Runs code when it is unpickled."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return exec, (CANARY.format(self.name),)


class PoisonedModule(torch.nn.Linear):
    def __reduce_ex__(self, protocol):
        return exec, (CANARY.format("whole.pt"),)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One file of each kind, some of them poisoned."""
    folder = tmp_path_factory.mktemp("files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        torch.save(module.state_dict(), folder / "weights.pt")
        torch.save(module.state_dict(), folder / "old.pt", _use_new_zipfile_serialization=False)
        torch.save({"epoch": 3, "model": module.state_dict()}, folder / "checkpoint.pt")
        torch.jit.save(torch.jit.trace(module, torch.zeros(1, 4)), folder / "script.pt")
    torch.save(PoisonedModule(4, 2), folder / "whole.pt")
    torch.save(Poison("object.pt"), folder / "object.pt")
    (folder / "plain.pkl").write_bytes(pickle.dumps(Poison("plain.pkl")))
    (folder / "plain.pt").write_bytes(pickle.dumps(Poison("plain.pt")))
    model = sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, n_steps=64, device="cpu")
    model.save(folder / "model.zip")
    (folder / "zip.pt").write_bytes((folder / "model.zip").read_bytes())
    poisoned(folder / "model.zip", folder / "bad.zip")
    with zipfile.ZipFile(folder / "exported.pt2", "w") as file:
        file.writestr("exported/archive_format", "pt2")
    with zipfile.ZipFile(folder / "other.zip", "w") as file:
        file.writestr("readme.txt", "")
    (folder / "net.py").write_text(NET)
    (folder / "mine.py").write_text(f"{CANARY.format('mine.py')}\ndef policy(obs):\n    return 0\n")
    (folder / "policy.onnx").write_bytes(nets.linear(W))
    (folder / "text.onnx").write_text("a policy")
    (folder / "empty.onnx").write_bytes(b"")
    (folder / "zip.onnx").write_bytes((folder / "model.zip").read_bytes())
    (folder / "cut.onnx").write_bytes(nets.linear(W)[:-40])
    return folder


def poisoned(clean, bad):
    """A saved model of stable-baselines3 in which one field runs code, and which is otherwise whole."""
    with zipfile.ZipFile(clean) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "data":
                data = json.loads(content)
                serialized = base64.b64encode(pickle.dumps(Poison("bad.zip"))).decode()
                data["policy_kwargs"] = {":type:": "dict", ":serialized:": serialized}
                content = json.dumps(data).encode()
            new.writestr(name, content)


@pytest.fixture
def here(files, monkeypatch):
    """Work in the folder of these files; imports, announcements and settings of this process are restored."""
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(loading, "_ANNOUNCED", set())
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    (files / "ran").unlink(missing_ok=True)
    return files


def ended(process):
    out, err = process.communicate()
    return process.returncode, out, err


def started(line, folder, **environment):
    """The installed command, in a process of its own."""
    script = Path(sys.executable).with_name("jmdp")
    _, *arguments = shlex.split(line)
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


# ---------------------------------------------------------------- what runs code


def test_code_is_announced_before_it_runs(here):
    """Also with --quiet. The command fails in the end: the poisoned field is not what stable-baselines3 expects."""
    (here / "envs.py").write_text(
        f"{CANARY.format('envs')}\nimport gymnasium\n\ndef env():\n    return gymnasium.make('CartPole-v1')\n"
    )
    policies = "a=mine.py:policy b=PPO:bad.zip"
    line = f"jmdp compare-policies envs:env --discount 1 --max-samples 16 --quiet --policies {policies}"
    code, out, err = ended(started(line, here))
    assert (code, out) == (2, "")
    said = err.splitlines()
    for text, source in (("envs:env", "envs"), ("mine.py:policy", "mine.py"), ("PPO:bad.zip", "bad.zip")):
        notice = f"jmdp: loading {text} runs code that {source} contains; --safe refuses this"
        assert said.index(notice) < said.index(f"code of {source} ran")
        assert said.count(notice) == 1
    assert (here / "ran").exists()


CODE = [
    f"{COMPARE} a=PPO:bad.zip",
    f"{COMPARE} a=mine.py:policy",
    f"{COMPARE} a=mine:policy",
    f"{COMPARE} a=weights.pt --net mine.py:policy",
    f"{COMPARE} a=whole.pt --net net.py:Net",
    f"{COMPARE} a=object.pt",
    "jmdp compare CartPole-v1 --discount 0.9 --policy PPO:bad.zip",
    "jmdp compare mine.py:policy --discount 0.9",
    "jmdp compare mine:policy --discount 0.9",
    "jmdp compare mine:Env-v0 --discount 0.9",
    "jmdp check mine.py:policy",
]


def test_safe_refuses_what_runs_code(here):
    """All lines in one new process, which then has imported neither torch nor a file of the folder."""
    code = (
        "import json, sys\nfrom jmdp.cli import main\n"
        "print(json.dumps([main(line) for line in json.loads(sys.argv[1])]))\n"
        "print(sorted({'torch', 'stable_baselines3', 'mine', 'net'} & set(sys.modules)))"
    )
    lines = json.dumps([[*shlex.split(line)[1:], "--safe"] for line in CODE])
    found = subprocess.run([sys.executable, "-P", "-c", code, lines], cwd=here, capture_output=True, text=True)
    assert found.stdout == f"{[2] * len(CODE)}\n[]\n"
    said = found.stderr.splitlines()
    assert len(said) == len(CODE)
    assert all(re.match(r"jmdp: --safe refuses .*: loading it runs code that .* contains.*ONNX", line) for line in said)
    assert not (here / "ran").exists()


@pytest.mark.parametrize("name", ["whole.pt", "object.pt", "plain.pt", "plain.pkl", "weights.pkl"])
def test_pickles_are_not_run(name, here, capsys):
    """Without --safe too: of files of torch only weights are read, and other pickles are not loaded."""
    if name == "weights.pkl":
        (here / name).write_bytes((here / "whole.pt").read_bytes())
    found = run(capsys, f"{COMPARE} a={name} --net net.py:Net")
    assert found.code == 2
    assert name in found.err
    assert "torch.save(module.state_dict(), FILE)" in found.err or "is a pickle, which can run any code" in found.err
    assert not (here / "ran").exists()


def test_the_current_folder_is_not_imported(files, tmp_path):
    """Modules that the command or its workers would import, if the folder came first."""
    (tmp_path / "policy.onnx").write_bytes((files / "policy.onnx").read_bytes())
    for name in ("numpy", "gymnasium", "onnx", "onnxruntime", "tyro", "pickle", "multiprocessing", "struct"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').close()\nraise SystemExit(7)\n")
    code, out, err = ended(started(f"{COMPARE} a=policy.onnx --safe --pool 2", tmp_path))
    assert (code, err) in [(0, ""), (1, "")]
    assert "paired" in out
    assert not (tmp_path / "ran").exists()


def test_safe_needs_a_path_without_the_current_folder(here, capsys):
    sys.path.insert(0, "")
    found = run(capsys, f"{COMPARE} a=policy.onnx --safe")
    assert found.code == 2
    assert "Use the command jmdp, not python -m jmdp (or python -P -m jmdp)" in found.err


# ---------------------------------------------------------------- what is loaded


@pytest.mark.long
def test_an_exported_model_acts_as_the_model(here, capsys, tmp_path, monkeypatch):
    """The code and the command of the page. A uniform number separates the two with probability 1e-7 per action."""
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text()
    (export,) = (code for code in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "onnx.export" in code)
    (line,) = re.findall(r"^jmdp compare-policies .*policy\.onnx.*$", page, re.MULTILINE)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        sb3.PPO("MlpPolicy", "CartPole-v1", seed=0, n_steps=512, device="cpu").learn(1024).save("model.zip")
        exec(compile(export, str(PAGE), "exec"), {"__name__": "page"})
    observations = list(np.random.default_rng(0).normal(size=(2000, 4)))
    luck = [Shock.of_sample(0, i) for i in range(2000)]
    policies = sb3.PPO.load("model.zip", device="cpu"), onnx_session("policy.onnx")
    actors = [as_policy(policy, Labels("action", 2)) for policy in policies]
    assert actors[0].act(observations, luck) == actors[1].act(observations, luck)
    found = run(capsys, line)
    assert found.code == 0
    assert "both have the same return in every episode" in " ".join(found.out.split())


@pytest.mark.parametrize(
    "policy",
    [
        "a=policy.onnx",
        "a=policy.onnx --safe",
        "a=weights.pt --net net.py:Net",
        "a=old.pt --net net:Net",
        "a=PPO:model.zip",
    ],
)
def test_files_that_are_policies(policy, here, capsys):
    found = run(capsys, f"{COMPARE} {policy} --json")
    assert found.code in (0, 1), found.err
    assert ("jmdp: loading" in found.err) == ("onnx" not in policy)


def test_tables_too(here, capsys):
    weights = np.zeros((11, 6), np.float32)
    nodes = [("Gather", ["w", "state"], ["logits"], {})]
    shapes = {"state": ("INT64", ["b"])}, {"logits": ("FLOAT", ["b", 6])}
    Path("table.onnx").write_bytes(nets.network(nodes, *shapes, {"w": weights}))
    found = run(capsys, "jmdp compare world:inventory --state 3 --policy table.onnx --max-samples 16 --safe")
    assert found.code in (0, 1), found.err


@pytest.mark.parametrize("policy", ["a=weights.pt --net net.py:Net", "a=PPO:model.zip"])
@pytest.mark.long
def test_workers_change_nothing(policy, here, capsys):
    found = [run(capsys, f"{COMPARE} {policy} {pool}").out for pool in ("", "--pool 2")]
    assert found[0] == found[1] != ""


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ("model.zip", "is a saved model of stable-baselines3. Name the class that saved it: PPO:model.zip"),
        ("zip.pt", "Name the class that saved it: PPO:zip.pt"),
        ("zip.onnx", "Name the class that saved it: PPO:zip.onnx"),
        ("other.zip", "holds no policy known to jmdp. Export the policy to ONNX"),
        ("exported.pt2", "is a program of torch.export. Export the policy to ONNX, or save its weights"),
        ("script.pt", "is a TorchScript program. Export the policy to ONNX, or save its weights"),
        ("weights.pt", "holds weights without their network. Give --net file.py:Class"),
        ("weights.pt --net net.py:small", "do not fit net.py:small"),
        ("weights.pt --net net.py:number", "returned an object of type int. Give a class, or a function"),
        ("weights.pt --net net.py:torch", "has the type module. Give a class, or a function"),
        ("weights.pt --net net.py:torch.nn.Linear", "cannot be called without arguments: missing a required argument"),
        ("checkpoint.pt --net net.py:Net", "holds epoch, model, not the tensors of a state dict"),
        ("whole.pt --net net.py:Net", "If it holds a whole module or other objects"),
        ("nowhere.pt", "There is no file 'nowhere.pt' in"),
        ("nowhere.onnx", "There is no file 'nowhere.onnx' in"),
        ("PPO:nowhere.zip", "There is no file 'nowhere.zip' in"),
        ("PPO:other.zip", "PPO:FILE is for files that model.save(FILE) wrote"),
        ("PPQ:model.zip", "Available: A2C"),
        ("DQN:model.zip", "stable-baselines3 cannot load model.zip as DQN"),
        ("net.py", "Name the policy: net.py:name"),
        ("text.onnx", "is not an ONNX file or is incomplete"),
        ("cut.onnx", "is not an ONNX file or is incomplete"),
        ("empty.onnx", "onnxruntime cannot use empty.onnx"),
    ],
)
def test_other_files_are_refused_with_the_fix(policy, says, here, capsys):
    found = run(capsys, f"{COMPARE} a={policy}")
    assert (found.code, found.out) == (2, "")
    assert says in found.err
    assert "Traceback" not in found.err


# ---------------------------------------------------------------- ONNX files of others


def test_damaged_onnx_files_end_no_process(here, capsys):
    """Bytes changed at random, and files cut off. Each is refused, or still is a network."""
    model, rng = nets.linear(W), np.random.default_rng(0)
    damaged = [model[:end] for end in range(0, len(model), 17)]
    for _ in range(40):
        changed = bytearray(model)
        for at in rng.integers(0, len(model), size=rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        damaged.append(bytes(changed))
    codes = []
    for content in damaged:
        Path("damaged.onnx").write_bytes(content)
        found = run(capsys, "jmdp compare CartPole-v1 --discount 0.9 --horizon 2 --max-samples 4 --policy damaged.onnx")
        assert found.code in (0, 1) or (found.code == 2 and "Traceback" not in found.err), found.err
        codes.append(found.code)
    assert codes.count(2) > len(codes) / 2


def test_weights_in_other_files(here, capsys):
    """Beside the network they are read; elsewhere they are refused."""
    import onnx

    def external(location):
        model = onnx.load_model_from_string(nets.linear(W))
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", str(W.nbytes))):
            tensor.external_data.add(key=key, value=value)
        Path("sub").mkdir(exist_ok=True)
        Path("sub/external.onnx").write_bytes(model.SerializeToString())
        return run(capsys, f"{COMPARE} a=sub/external.onnx --safe --json")

    Path("secret.bin").write_bytes(W.tobytes())
    external("weights.bin")
    Path("sub/weights.bin").write_bytes(W.tobytes())
    Path("sub/link.bin").unlink(missing_ok=True)
    Path("sub/link.bin").symlink_to("../secret.bin")
    assert external("weights.bin").json["policies"] == run(capsys, f"{COMPARE} a=policy.onnx --json").json["policies"]
    for location in ("../secret.bin", os.path.abspath("secret.bin"), "link.bin", "nowhere.bin"):
        found = external(location)
        assert (found.code, found.out) == (2, ""), location
        assert "sub/external.onnx" in found.err


def test_a_file_too_large_for_its_format(here, capsys):
    with open("large.onnx", "wb") as file:
        file.truncate(2**31)
    found = run(capsys, f"{COMPARE} a=large.onnx")
    Path("large.onnx").unlink()
    assert found.code == 2
    assert "large.onnx has 2.0 GiB. ONNX files have less than 2 GiB" in found.err


# ---------------------------------------------------------------- digests


def test_digests(here):
    def sha(name):
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()

    assert policy_digest("policy.onnx") == sha("policy.onnx")
    assert policy_digest("weights.pt") == sha("weights.pt")
    assert policy_digest("PPO:model.zip") == sha("model.zip")
    assert policy_digest("mine.py:policy") == sha("mine.py")
    assert policy_digest("uniform") == hashlib.sha256(b"uniform").hexdigest()
    assert policy_digest("package.module:name") == hashlib.sha256(b"package.module:name").hexdigest()
    assert not (here / "ran").exists()


def test_safe_refuses_settings_that_installed_packages_read(files, tmp_path):
    """numba reads .numba_config.yaml in the folder; it can name a folder of pickled caches."""
    (tmp_path / "policy.onnx").write_bytes((files / "policy.onnx").read_bytes())
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: cache\n")
    code, _, err = ended(started(f"{COMPARE} a=policy.onnx --safe", tmp_path))
    assert code == 2
    assert ".numba_config.yaml in the current folder" in err


def test_the_digest_of_a_name_is_that_of_the_name(tmp_path, monkeypatch):
    """A file that happens to have the name of a built-in policy is not what runs."""
    monkeypatch.chdir(tmp_path)
    before = policy_digest("uniform")
    (tmp_path / "uniform").write_text("another")
    assert policy_digest("uniform") == before


def test_greedy_policies_draw_nothing(files):
    for greedy in (False, True):
        chosen = environment("CartPole-v1", loading.Loader(False, greedy=greedy))
        simulator = chosen.episode_simulator(digests=False)
        found = as_policy(chosen.policy(simulator, str(files / "policy.onnx")), simulator.actions)
        assert found.needs_luck is not greedy
