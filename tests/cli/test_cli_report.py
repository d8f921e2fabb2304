"""The option --report: a page of the result, with the command that made it."""

from __future__ import annotations

import html
import re
import shlex
import sys

import pytest

from cli.cli_runs import run

SHOP = "world:inventory --seed 3 --max-samples 40 --quiet"
LINES = {
    "evaluate": "jmdp evaluate inventory --state 3 --quiet --report {page}",
    "one state": "jmdp evaluate inventory --state 3 --method reachable-pairs --quiet --report {page}",
    "compare": f"jmdp compare {SHOP} --state 3 --actions 'order 3' 'order 0' --report {{page}}",
    "compare-policies": f"jmdp compare-policies {SHOP} --policies base_stock 'a b'=reorder --json --report {{page}}",
    "review": "jmdp review world:inventory --policy base_stock --seed 3 --horizon 5 --quiet --report {page}",
    "gate": f"jmdp gate {SHOP} --old base_stock --new reorder --margin 2% --report {{page}}",
}


def command_of(path) -> str:
    return html.unescape(re.search(r"<pre><code>(.*?)</code></pre>", path.read_text(), re.DOTALL)[1])


@pytest.mark.parametrize("kind", LINES)
def test_the_page_has_the_exact_command(kind, capsys, tmp_path):
    page = tmp_path / "a page.html"
    line = LINES[kind].format(page=shlex.quote(str(page)))
    found = run(capsys, line)
    assert found.code in (0, 1, 3)
    assert found.err == ""
    assert shlex.split(command_of(page)) == shlex.split(line)
    text = page.read_text()
    assert "state 3" in text or "seed 3" in text
    assert [file.name for file in tmp_path.iterdir()] == [page.name]


def test_a_study_has_a_page(capsys, tmp_path):
    (tmp_path / "s.toml").write_text(
        'env = "world:inventory"\npolicy = "uniform"\nstates = ["0", "1"]\nmax_samples = 40\n'
    )
    page, out = tmp_path / "page.html", tmp_path / "out"
    found = run(capsys, f"jmdp study {tmp_path / 's.toml'} --out {out} --quiet --report {page}")
    assert found.code == 0, found.err
    assert "jmdp study" in command_of(page)
    first = page.read_text()
    assert run(capsys, f"jmdp study --status {out} --report {page}").code == 0
    assert page.read_text() != first


@pytest.mark.parametrize("path", ["", "folder", "missing/page.html"])
def test_a_wrong_path_is_found_before_sampling(path, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr("jmdp.cli.commands.compare.compare", lambda *args, **more: pytest.fail("sampled"))
    found = run(capsys, f"jmdp compare {SHOP} --state 3 --report {path or repr('')}")
    assert found.code == 2
    assert "--report" in found.err
    assert "cannot be written" in found.err


def test_a_missing_package_is_found_before_sampling(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr("jmdp.cli.commands.compare.compare", lambda *args, **more: pytest.fail("sampled"))
    found = run(capsys, f"jmdp compare {SHOP} --state 3 --report {tmp_path / 'page.html'}")
    assert found.code == 2
    assert 'pip install "jmdp[report]"' in found.err
