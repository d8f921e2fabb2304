"""Every command is registered, and succeeds once."""

from __future__ import annotations

from pathlib import Path

import pytest

from jmdp.cli.main import COMMANDS as KNOWN
from jmdp.cli.main import main
from registry.commands import COMMANDS, FILES, options


def test_every_command_is_registered():
    assert set(COMMANDS) == set(KNOWN)
    for name in COMMANDS:
        assert {"--json", "--quiet"} <= set(options(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_prints_its_answer(name, capsys, tmp_path, monkeypatch):
    """None is an error; one whose small budget does not suffice says so by its exit code."""
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        Path(file).write_text(text)
    code = main([name, *COMMANDS[name].words(), "--quiet"])
    said = capsys.readouterr()
    assert code in (0, 1, 3)
    assert said.err == ""
    assert COMMANDS[name].says in said.out
