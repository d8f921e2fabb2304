"""The benchmark of learned moments runs, resumes, and shares its truths."""

from __future__ import annotations

import json
import sys
from functools import partial

import numpy as np

import jmdp
from benchmarks import learned_moments


def problem():
    walk = jmdp.simulators.FunctionSimulator(
        lambda s, a, u: a * u * (1 + s), lambda s, a, u: (s + 1 + int(3 * u)) % 7, 2, start=0
    )
    return learned_moments.Problem(walk, "uniform", 0.6)


def test_runs_resume_and_share_their_truth(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(learned_moments.PROBLEMS, "walk", problem)
    monkeypatch.setattr(learned_moments, "_STATES", 64)
    monkeypatch.setattr(learned_moments, "_PRECISION", 0.2)
    monkeypatch.setattr(jmdp, "LearnedMoments", partial(jmdp.LearnedMoments, max_steps=8_000))
    out, truths = tmp_path / "runs.jsonl", tmp_path / "truths"

    def run(*seeds):
        arguments = ["walk", "--seeds", *seeds, "--out", str(out), "--truths", str(truths)]
        monkeypatch.setattr(sys, "argv", ["learned_moments", *arguments])
        learned_moments.main()
        return [json.loads(line) for line in out.read_text("utf-8").splitlines()]

    (first,) = run("1")
    written = (truths / "walk.npz").stat().st_mtime_ns
    again, second = run("1", "2")
    assert again == first
    assert (second["seed"], second["rollouts"]) == (2, first["rollouts"])
    assert (truths / "walk.npz").stat().st_mtime_ns == written
    assert first["noise"] < 0.2
    assert first["verdict"] == "TRAINED"
    assert first["ratio"][1] < first["ratio"][0] < first["ratio"][2]
    rows = capsys.readouterr().out.splitlines()
    assert len({row.count("|") for row in rows}) == 1
    with np.load(truths / "walk.npz") as file:
        assert file["returns"].shape == (64, first["rollouts"], 2)
