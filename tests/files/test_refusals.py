"""Each rule that a file violates is named, with the file, the place in it and the fix."""

from __future__ import annotations

import csv
import os
import re
import socket
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import sample_files

from jmdp.errors import FileError, JMDPError, ModelError, SettingsError
from jmdp.files import read_model, table_model

HEAD = "state,scenario,probability,action,reward,next\n"
ROWS = [
    "low,wet,0.25,buy,1,high",
    "low,wet,0.25,sell,2,low",
    "low,dry,0.75,buy,3,low",
    "low,dry,0.75,sell,4,end",
    "high,wet,1,buy,5,low",
    "high,wet,,sell,6,low",
]


def text(*changes: tuple[int, str], head: str = HEAD) -> str:
    """The valid table, with some rows (numbered from 0) replaced."""
    rows = dict(enumerate(ROWS)) | dict(changes)
    return head + "".join(f"{row}\n" for row in rows.values() if row != "gone")


def refused(tmp_path, content: bytes | str, error: type[JMDPError], message: str, discount: float | None = 0.9) -> None:
    path = tmp_path / "model.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(error, match=message) as caught:
        read_model(path, discount)
    assert str(path) in str(caught.value)
    assert type(caught.value) is error


def test_the_valid_table_is_valid(tmp_path):
    (tmp_path / "model.csv").write_text(text())
    model = read_model(tmp_path / "model.csv", 0.9)
    assert model.states.names == ("low", "high", "end")


RULES = [
    (
        (2, "low,dry,0.75,sell,3,low"),
        r"line 5: scenario 'dry' of state 'low' has action 'sell' already in line 4\. Delete",
    ),
    ((3, "gone"), r"line 4: scenario 'dry' of state 'low' has no row for action 'sell'\. Add it"),
    (
        (1, "low,wet,0.3,sell,2,low"),
        r"line 3: probability is 0\.3, but 0\.25 in line 2\. A scenario has one probability",
    ),
    ((0, "low,wet,,buy,1,high"), r"line 2: probability is empty in the first row of scenario 'wet' of state 'low'"),
    (
        (4, "high,wet,0.9,buy,5,low"),
        r"line 6: the probabilities of state 'high', which begins here, sum to 0\.9, not 1",
    ),
    ((4, "high,wet,-1,buy,5,low"), r"line 6: probability is -1\.0\. Give a number from 0 to 1"),
    ((4, "high,wet,1e999,buy,5,low"), r"line 6: probability is inf\. Give a number from 0 to 1"),
    ((0, ",wet,0.25,buy,1,high"), r"line 2: state is empty\. Give a name or an integer"),
    ((0, "low,,0.25,buy,1,high"), r"line 2: scenario is empty"),
    ((0, "low,wet,0.25, ,1,high"), r"line 2: action is empty"),
    ((0, "low,wet,0.25,buy,1,"), r"line 2: next is empty"),
    ((0, "low,wet,0.25,buy,,high"), r"line 2: reward is empty\. Give a finite number"),
    ((0, "low,wet,0.25,buy,1e999,high"), r"line 2: reward is inf\. Give a finite number"),
    ((0, "low,wet,0.25,buy,nan,high"), r"line 2: reward is 'nan'\. Give a number, e\.g\. 0\.25"),
    ((0, "low,wet,25%,buy,1,high"), r"line 2: probability is '25%'\. Give a number, e\.g\. 0\.25"),
    ((0, "low,wet,0.25,buy,1_000,high"), r"line 2: reward is '1_000'\. Give a number"),
    ((0, "low,wet,0.25,buy,1e,high"), r"line 2: reward is '1e'\. Give a number"),
    ((0, 'low,wet,"0,25",buy,1,high'), r"line 2: probability is '0,25'\. Use a decimal point"),
    (
        (0, 'low,wet,0.25,buy,"1,000",high'),
        r"line 2: reward is '1,000'\. Use a decimal point and no separators of thous",
    ),
    ((0, "low,wet,0.25,buy,1,High"), r"line 2: next is 'High', and the state is 'high'\. Write both alike"),
    (
        (0, "low,wet,0.25,buy,1e151,high"),
        r"model\.csv: Rewards up to 1e\+151 at discount 0\.9 give returns whose squares",
    ),
    ((0, f"{'x' * 1001},wet,0.25,buy,1,high"), r"line 2: state has 1,001 characters\. Give a name of at most 1000"),
]


@pytest.mark.parametrize(("change", "message"), RULES)
def test_rules_of_csv(tmp_path, change, message):
    refused(tmp_path, text(change), ModelError, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (text((0, "low,wet,0.25,buy,1")), r"line 2 has 5 cells, but the header has 6\. Add or remove cells"),
        (text((0, "low,wet,0.25,buy,1,high,more")), r"line 2 has 7 cells, but the header has 6"),
        (
            text((0, '"low,wet,0.25,buy,1,high')),
            r"line 2: unexpected end of data\. Check the quotation marks in this line",
        ),
        (text((0, '"low"x,wet,0.25,buy,1,high')), r"line 2: ',' expected after '\"'\. Check the quotation marks"),
        (
            text((1, '"lo\nw",wet,0.25,buy,1,high')),
            r"line 3: a cell goes on in the next line\. Close its quotation mark",
        ),
        (text((1, '"low\n",wet,0.25,"buy,1,high')), r"line 3: .* Check the quotation marks"),
        (text().encode("utf-16"), r"is UTF-16 or UTF-32 text\. Save it as UTF-8"),
        (text((1, "löw,wet,0.25,buy,1,high")).encode("latin-1"), r"line 3 is not UTF-8 text .*CSV UTF-8"),
        (text((1, "lo\0w,wet,0.25,buy,1,high")), r"line 3 has a null byte"),
        (text((1, f"{'x' * 70_000},wet,0.25,buy,1,high")), r"line 3 has more than 65,536 bytes"),
        (text().replace("\n", "\r"), r"line 1 has a carriage return inside"),
        ("\n\n;;;\n", r"has only empty lines\. Give a table with columns state, scenario"),
        ("a,b\n1,2\n", r"has no column of a model\. Its columns are 'a', 'b'; a model has state, scenario"),
        ("hello world", r"has no column of a model"),
    ],
)
def test_files_that_are_no_table(tmp_path, content, message):
    refused(tmp_path, content, FileError, message)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            "state,scenario,probability,action,reward,succ\n",
            r"has a column 'succ'\. Delete it: a model has state, scenario",
        ),
        ("state,scenario,probability,action,reward,\n", r"has no column next\. A model has state"),
        (
            "state,scenario,,action,reward,next\n",
            r"column 3 has no name\. Delete it \(pandas: to_csv\(FILE, index=False",
        ),
        ("state,scenario,state,action,reward,next\n", r"has two columns 'state'\. Delete one"),
        (HEAD, r"has no rows\. Give a row for each state, scenario and action"),
    ],
)
def test_columns(tmp_path, head, message):
    content = head if head == HEAD else text(head=head)
    refused(tmp_path, content, ModelError, message)


def test_line_numbers_count_empty_lines_and_pieces(tmp_path):
    blank = "\n,,,,,\n" * 20_000
    refused(tmp_path, text((4, blank + "high,wet,1,buy,x,low")), ModelError, r"line 40006: reward is 'x'")


@pytest.mark.parametrize(("change", "message"), RULES)
def test_rules_of_data_frames_and_parquet(tmp_path, change, message):
    """The same rules; the place is the number of the row, from 0."""
    rows = pd.DataFrame(csv.DictReader(text(change).splitlines()))
    try:
        rows = rows.astype({"probability": float, "reward": float})
    except ValueError:  # it is text, which is refused by its type
        message = r"probability is '|reward is '"
    else:
        rows = rows.astype(object).where(rows != "", None).astype({"probability": float, "reward": float})
        message = re.sub(r"line (\d+)", lambda found: rf"row {int(found[1]) - 2} \(from 0\)", message)
        message = (
            message.replace(r"model\.csv", "").replace("'nan'", "empty").replace(r"\. Give a number, e\.g\. 0\.25", "")
        )
    with pytest.raises(ModelError, match=f"The DataFrame.*({message})"):
        table_model(rows, 0.9)
    if rows.reward.dtype == float:
        rows.to_parquet(tmp_path / "model", index=False)
        with pytest.raises(ModelError, match=f"model.*{message}"):
            read_model(tmp_path / "model", 0.9)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"reward": None}, ModelError, r"has no reward\. Save them with np\.savez"),
        ({"prob": None, "next_state": None}, ModelError, r"has no prob and no next_state"),
        ({"notes": np.zeros(3)}, ModelError, r"has a member 'notes'\. A model has only prob, reward, next_state"),
        (
            {"prob": np.ones((4, 1))},
            ModelError,
            r"prob in .* has shape \(4, 1\), but reward \(4, 3, 2\) = \[S, K, A\] req",
        ),
        ({"reward": np.ones((4, 3))}, ModelError, r"reward in .* has shape \(4, 3\)\. Its axes are \[S, K, A\]"),
        ({"reward": np.ones((0, 3, 2))}, ModelError, r"reward in .* has shape \(0, 3, 2\)\. Give at least one state"),
        ({"next_state": np.zeros((4, 3, 2))}, ModelError, r"next_state in .* has dtype float64\. Give integers"),
        (
            {"terminal": np.zeros(4, int)},
            ModelError,
            r"terminal in .* has dtype int64\. Give True or False for each state",
        ),
        ({"terminal": np.zeros(5, bool)}, ModelError, r"terminal in .* has shape \(5,\), but reward"),
        ({"discount": np.array([0.9])}, ModelError, r"discount in .* has shape \(1,\)\. Give one number"),
        ({"discount": np.array(1.5)}, ModelError, r"discount is 1\.5\. Give 0 ≤ γ < 1"),
        ({"state_names": np.arange(4)}, ModelError, r"state_names in .* has dtype int64\. Give text: np\.array"),
        ({"state_names": np.array(["a"] * 4)}, ModelError, r"state_names has 'a' more than once"),
        ({"action_names": np.array(["a"])}, ModelError, r"action_names in .* has shape \(1,\), but reward"),
        (
            {"state_names": np.array(["a", "b", "c", None])},
            FileError,
            r"cannot be read \(ValueError: Object arrays cannot be loaded",
        ),
        (
            {"reward": np.ones((4, 3, 2), complex)},
            ModelError,
            r"reward in .* has dtype complex128\. Give real numbers",
        ),
        ({"prob": np.ones((4, 3))}, ModelError, r"prob of state état 0 sums to 3, not 1"),
    ],
)
def test_npz(tmp_path, change, error, message):
    refused(tmp_path, sample_files.npz(sample_files.small_model(), **change), error, message, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": 1.5}, r"column state has type double\. Give text or integers"),
        ({"state": True}, r"column state has type bool\. Give text or integers"),
        ({"reward": "1"}, r"column reward has type string\. Give numbers"),
        ({"state": pd.Timestamp(0)}, r"column state has type timestamp"),
        ({"next": None}, r"column next has type null\. Give text or integers"),
        ({"note": "x"}, r"has a column 'note'\. Delete it"),
        ({"state": [1]}, r"column state has type list<.*>\. Give text or integers"),
    ],
)
def test_types_of_parquet(tmp_path, change, message):
    rows = [{**row, **change} for row in sample_files.records(sample_files.small_model())]
    refused(tmp_path, sample_files.parquet(rows), ModelError, message)


def test_data_frames(tmp_path):
    rows = pd.DataFrame(sample_files.records(sample_files.small_model()))
    with pytest.raises(ModelError, match=r"row 0 \(from 0\): state is 0\.5\. Give text or integers"):
        table_model(rows.assign(state=0.5), 0.9)
    with pytest.raises(ModelError, match=r"row 0 \(from 0\): state is True\. Give text or integers"):
        table_model(rows.assign(state=True), 0.9)
    with pytest.raises(ModelError, match="has two columns 'state'"):
        table_model(pd.concat([rows, rows[["state"]]], axis=1), 0.9)
    for other in (None, [1], rows.to_dict(), "model.csv", pd.DataFrame):
        with pytest.raises(SettingsError, match="Give a pandas DataFrame with columns state, scenario"):
            table_model(other, 0.9)
    with pytest.raises(ModelError, match=r"discount is 2\.0\. Give 0"):
        table_model(rows, 2.0)


def test_what_is_no_file(tmp_path):
    """Pipes, devices, directories and paths that cannot be are refused at once, without waiting for a writer."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        for path, message in (
            (tmp_path / "pipe", "pipe cannot be read: it is not a regular file"),
            (tmp_path / "socket", "it is not a regular file"),
            ("/dev/zero", "/dev/zero cannot be read: it is not a regular file"),
            (tmp_path, "it is a directory"),
            (tmp_path / "loop", "symbolic links"),
            (tmp_path / "none", "There is no file .*none. Check the path; it is relative to"),
            ("a\0b", r"'a\\x00b' cannot be read: not a file name"),
            ("\ud800", r"'\\ud800' cannot be read: not a file name"),
            ("x" * 5000, "xxx… cannot be read: File name too long"),
            ("", "There is no file ''"),
        ):
            with pytest.raises(FileError, match=message):
                read_model(path)
    for odd in (None, 3, b"model.npz", ["model.npz"], object()):
        with pytest.raises(SettingsError, match="Give the path of a file"):
            read_model(odd)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "model").write_text(text())
    (tmp_path / "model").chmod(0)
    if os.access(tmp_path / "model", os.R_OK):
        pytest.skip("this user may read any file")
    with pytest.raises(FileError, match="model cannot be read: Permission denied"):
        read_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("begin", "message"),
    [
        (b"\x93NUMPY\1\0", r"is one array \(npy\)\. Save the model with np\.savez"),
        (b"\x80\4\x95", "is a pickle, which can run any code and is not read"),
        (b"\x89HDF\r\n\x1a\n", r"is an HDF5 or netCDF file, .* Read results with jmdp\.load"),
        (b"\x1f\x8b\x08", "is compressed with gzip. Unpack it first"),
        (b"\xd0\xcf\x11\xe0", "is an Excel workbook. Save the sheet as CSV UTF-8"),
        (b"", "is empty"),
    ],
)
def test_other_files_are_told_apart(tmp_path, begin, message):
    refused(tmp_path, begin, FileError, message)


def test_memory_that_is_not_free(tmp_path, monkeypatch):
    """Sizes are planned from the file, before anything is allocated."""
    from jmdp.base import machine
    from jmdp.errors import MemoryBudgetError

    monkeypatch.setattr(machine, "free_bytes", lambda: 2.0**24)
    S = 400_000
    arrays = {"prob": np.ones((S, 1)), "reward": np.zeros((S, 1, 1)), "next_state": np.zeros((S, 1, 1), int)}
    np.savez(tmp_path / "model.npz", discount=0.5, **arrays)
    rows = {"state": np.arange(S), "scenario": 0, "probability": 1.0, "action": 0, "reward": 0.0, "next": 0}
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / "model.csv", index=False)
    frame.to_parquet(tmp_path / "model.parquet", index=False)
    for name in ("model.npz", "model.csv", "model.parquet"):
        with pytest.raises(
            MemoryBudgetError, match=rf"(model|table).* in .*{name} needs .*iB, but only 12\.8 MiB may be"
        ):
            read_model(tmp_path / name, 0.5)
    with pytest.raises(MemoryBudgetError, match="The DataFrame of 400,000 rows needs"):
        table_model(frame, 0.5)


def test_peak_memory_of_a_large_npz(tmp_path):
    """At most twice the size of the table: each array is freed as soon as the model has its copy."""
    S = 100_000
    rng = np.random.default_rng(0)
    half, cells = np.full((S, 2), 0.5), rng.integers(0, S, (S, 2, 2))
    np.savez(tmp_path / "model.npz", prob=half, reward=rng.random((S, 2, 2)), next_state=cells, discount=0.5)
    tracemalloc.start()
    try:
        model = read_model(tmp_path / "model.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = sum(array.nbytes for array in (model.prob, model.reward, model.next_state, model.terminal))
    assert size < peak < 2 * size
