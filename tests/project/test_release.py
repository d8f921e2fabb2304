"""What is published: files fit their schemas, versions agree everywhere, links of the PyPI page are whole."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from test_dependencies import FOR_USERS

import jmdp

pytest.importorskip("check_jsonschema")

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-actions": ".github/actions/*/action.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "dependabot": ".github/dependabot.yml",
    "readthedocs": ".readthedocs.yaml",
    "citation-file-format": "CITATION.cff",
}


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_fit_their_schemas(schema):
    files = sorted(ROOT.glob(SCHEMAS[schema]))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def test_a_wrong_workflow_is_found(tmp_path):
    wrong = tmp_path / "ci.yml"
    wrong.write_text(read(".github/workflows/ci.yml").replace("runs-on:", "runs_on:"))
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", wrong]
    assert subprocess.run(command, capture_output=True).returncode == 1


def commands():
    """All commands of the workflows, one text for each step."""
    for path in sorted(ROOT.glob(".github/workflows/*.yml")):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from (step["run"] for step in job["steps"] if "run" in step)


def test_programs_in_workflows_exist_and_are_valid():
    named = {name for text in commands() for name in re.findall(r"(?:bash|python) ((?:\.ci|tests)/\S+)", text)}
    assert {".ci/run", ".ci/package", ".ci/release_notes", ".ci/long", "tests/project/smoke.py"} == named
    for name in named:
        assert (ROOT / name).is_file()
    for text in [*commands(), *(read(f".ci/{path.name}") for path in (ROOT / ".ci").iterdir())]:
        assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0, text


def test_an_expression_in_a_command_is_no_text_of_strangers():
    """Titles, branches and tags reach the shell as variables; an expression would be pasted into the script."""
    for text in commands():
        assert set(re.findall(r"\$\{\{ *([\w.]+)", text)) <= {"matrix.part"}, text


def test_parts_of_the_long_run_are_all_run_by_workflows():
    parts = re.search(r"^parts=\((.*)\)$", read(".ci/long"), re.M)[1].split()
    whole = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]["whole"]["strategy"]["matrix"]["part"]
    assert [*whole, "tests"] == parts
    assert any(".ci/long tests" in text for text in commands())


def test_versions_of_python_agree():
    found = {text.rsplit(" ", 1)[1] for text in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", text)}
    jobs = yaml.safe_load(read(".github/workflows/ci.yml"))["jobs"]
    gate = [step["with"]["python-version"] for step in jobs["gate"]["steps"] if "setup-python" in step.get("uses", "")]
    assert found == {*gate, *jobs["fast"]["strategy"]["matrix"]["python"]}
    assert PROJECT["project"]["requires-python"] == f">={min(found, key=lambda text: int(text.split('.')[1]))}"


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load(read("CITATION.cff"))["version"] == jmdp.__version__
    assert re.findall(r"^## (\S+)", read("CHANGELOG.md"), re.M)[0] in (jmdp.__version__, "Unreleased")


def test_release_notes_are_those_of_the_version(tmp_path):
    version = jmdp.__version__
    for name in (f"jmdp-{version}.tar.gz", f"jmdp-{version}-py3-none-any.whl"):
        (tmp_path / name).touch()

    def notes(asked):
        command = ["bash", ROOT / ".ci" / "release_notes", asked, tmp_path]
        return subprocess.run(command, capture_output=True, text=True)

    found = notes(version)
    assert found.returncode == 0, found.stderr
    assert "### " in found.stdout
    assert not re.search(r"^## ", found.stdout, re.M)
    assert "differ" in notes("9.9.9").stderr
    for name in ("jmdp-0.2.tar.gz", "jmdp-0.2-py3-none-any.whl"):  # the beginning of another version
        (tmp_path / name).touch()
    assert "no section" in notes("0.2").stderr


def test_no_page_has_a_place_to_fill_in():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert not [
        page.name for page in pages if re.search(r"^[A-Z]+(_[A-Z]+)+$|TODO|FIXME|TBD", page.read_text("utf-8"), re.M)
    ]


def test_the_text_on_pypi_has_whole_links_only():
    text = read("README.md")
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 10
    assert not [link for link in links if not link.startswith("https://")]
    for name in re.findall(r"\]\(https://[^)]*?/jmdp/jmdp/(?:blob/)?main/([^)#]+)", text):
        assert (ROOT / name).exists(), name


def test_packages_under_the_gpl_are_named_beside_their_extras():
    listed = read("docs/versions.md")
    for extra, package in {"atari": "ale-py", "storm": "stormpy"}.items():
        row = next(line for line in listed.splitlines() if line.startswith(f"| `{extra}`"))
        assert package in row
        assert "GPL" in row
    declared = read("pyproject.toml").splitlines()
    for extra in ("atari", "storm"):
        place = next(i for i, line in enumerate(declared) if line.startswith(f"{extra} = "))
        assert "GPL" in declared[place - 1]


def test_every_extra_for_users_is_listed():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+)", read("docs/versions.md"), re.M)
    listed = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert listed == FOR_USERS
