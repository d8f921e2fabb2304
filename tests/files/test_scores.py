"""Files of scores: tables, and logs that tools have written."""

import json

import numpy as np
import pytest
import score_files
from score_files import LOGS

import jmdp
from jmdp.errors import FileError, JMDPError, SettingsError

SAMPLES = sorted(LOGS.glob("samples_*.jsonl"))


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("form", ["eval", "json"])
def test_inspect(form, trusted):
    """The scores that the tool itself prints: C and I of six questions, two epochs each."""
    found = jmdp.compare_scores(
        {"old": LOGS / "inspect_old.eval", "new": LOGS / f"inspect_new.{form}"}, baseline="old", trusted=trusted
    )
    assert found.mean.tolist() == pytest.approx([7 / 12, 10 / 12])
    assert found.samples == 6
    assert found.scores.levels.names == ("id", "trial")
    assert "epochs are trials" in found.scores.about


def test_logs_of_one_model_need_names():
    with pytest.raises(SettingsError, match="All scores are of 'mockllm/model'"):
        jmdp.compare_scores([LOGS / "inspect_old.eval", LOGS / "inspect_new.eval"])


@pytest.mark.parametrize("trusted", [True, False])
def test_lm_evaluation_harness(trusted):
    found = jmdp.compare_scores(dict(zip(("a", "b"), SAMPLES, strict=True)), trusted=trusted)
    right = [np.mean([json.loads(line)["acc"] for line in path.read_text().splitlines()]) for path in SAMPLES]
    assert found.mean.tolist() == pytest.approx(right)
    assert found.scores.levels.binary
    assert "metric acc" in found.scores.about
    assert found.scores.units[0][0].startswith("sums/0/")


def test_another_document_with_the_same_number_is_no_pair(tmp_path):
    """A task that was changed has other hashes."""
    lines = [json.loads(line) for line in SAMPLES[0].read_text().splitlines()]
    lines[2]["doc_hash"] = "0" * 64
    (tmp_path / "samples_sums_2026-11-19T00-00-00.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = jmdp.compare_scores({"a": SAMPLES[0], "b": tmp_path / "samples_sums_2026-11-19T00-00-00.jsonl"})
    assert found.samples == 5
    assert found.scores.left_out == {"a": 1, "b": 1}


def test_stable_baselines3_has_nothing_that_pairs():
    found = jmdp.compare_scores({"evaluations": LOGS / "evaluations.npz", "monitor": LOGS / "monitor.csv"})
    with np.load(LOGS / "evaluations.npz") as log:
        assert found.mean[0] == pytest.approx(log["results"][-1].mean())
    assert found.scores.levels.pairs is None
    assert "nothing pairs them" in repr(found)
    assert "paired" not in found.answer


def test_lerobot_eval_records_no_seeds():
    """lerobot-eval writes the episodes of each task without their seeds."""
    found = jmdp.compare_scores(dict.fromkeys(("old", "new"), LOGS / "lerobot.json"))
    assert found.scores.levels.pairs is None
    assert found.mean.tolist() == [0, 0]
    assert len(found.scores.levels.values) == 8


@pytest.mark.parametrize("seeded", [True, False])
def test_lerobot(tmp_path, seeded):
    """As `eval_policy` returns them, with the seeds of episodes; and tasks of a suite without."""
    for name, shift in (("old", 0), ("new", 1)):
        episodes = [{"episode_ix": i, "success": (i + shift) % 3 > 0, "seed": 7 + i} for i in range(9)]
        tasks = [{"task_group": "lift", "task_id": 0, "metrics": {"successes": [one["success"] for one in episodes]}}]
        (tmp_path / name).write_text(json.dumps({"per_episode": episodes} if seeded else {"per_task": tasks}))
    found = jmdp.compare_scores({name: tmp_path / name for name in ("old", "new")})
    assert (found.scores.levels.pairs == 0) is seeded
    assert found.mean.tolist() == pytest.approx([6 / 9, 6 / 9])


@pytest.mark.parametrize("make", [score_files.csv, score_files.lines, score_files.parquet])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_tables_of_any_format_are_the_same(make, seed, tmp_path):
    (tmp_path / "scores").write_bytes(make(seed))
    rows = score_files.rows(seed)
    expected = {name: {} for name in ("old", "new")}
    for row in rows:
        expected[row["alternative"]].setdefault(row["id"], []).append(row["score"])
    found, right = jmdp.compare_scores(tmp_path / "scores"), jmdp.compare_scores(expected)
    assert found.gap("new", "old").mean == pytest.approx(right.gap("new", "old").mean)
    assert found.samples == right.samples


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n", "a,a\n1,2\n", "alternative,id,score\nx,1\n", "[1, 2]", "{}", "[" * 100_000,
     '{"eval": 1, "samples": [2]}', '{"per_task": [{}]}', "\0", "PK\x03\x04rest",
     '{"doc_id": 1, "doc_hash": "x", "metrics": []}'],
)  # fmt: skip
def test_other_files_are_refused(text, tmp_path):
    (tmp_path / "file").write_text(text)
    for trusted in (True, False):
        with pytest.raises(JMDPError) as refused:
            jmdp.compare_scores(tmp_path / "file", trusted=trusted)
        assert isinstance(refused.value, FileError | SettingsError)


def test_results_that_their_size_does_not_allow(tmp_path):
    """A header that asks for 16 GiB is refused before anything is allocated."""
    with np.load(LOGS / "evaluations.npz") as log:
        arrays = dict(log)
    np.savez(tmp_path / "log.npz", **arrays)
    data = (tmp_path / "log.npz").read_bytes()
    shape = str(arrays["results"].shape).encode()
    huge = b"(46341, 46341)"
    assert data.count(shape) >= 1
    at = data.index(shape, data.index(b"results.npy"))
    spare = data[at + len(shape) :].index(b"\n")
    head = data[at : at + len(shape) + spare]
    (tmp_path / "huge.npz").write_bytes(data.replace(head, (huge + head[len(shape) :])[: len(head)], 1))
    with pytest.raises(FileError, match=r"does not allow|cannot be read"):
        jmdp.compare_scores({"a": tmp_path / "huge.npz", "b": LOGS / "evaluations.npz"})
