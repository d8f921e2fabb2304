"""Models that are written to files and read again are the same, bit for bit, in every format."""

from __future__ import annotations

import ast
import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sample_files
from hypothesis import given
from hypothesis import strategies as st

import jmdp
from jmdp.errors import SettingsError
from jmdp.files import read_model, table_model

WORDS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" ,;\"'|"), min_size=1, max_size=8)
NAMES = WORDS.map(str.strip).filter(lambda name: name and not name.isdigit())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@st.composite
def models(draw, *, by_rows: bool = False):
    """Random models; `by_rows`: those that a long table can state, where some row leads into each terminal state."""
    S, K, A = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ends = draw(st.integers(0, S - 1 if by_rows else S))
    prob = rng.dirichlet(np.full(K, 0.5), size=S)
    scale = 10.0 ** draw(st.integers(-320, 100))
    next_state = rng.integers(0, S, size=(S, K, A))
    terminal = np.zeros(S, bool)
    terminal[rng.permutation(S)[:ends]] = True
    if by_rows and ends:
        if ends > K * A * (S - ends):
            terminal[:] = False
        cells = [(s, k, a) for s in np.flatnonzero(~terminal) for k in range(K) for a in range(A)]
        for cell, end in zip(cells, np.flatnonzero(terminal), strict=False):
            next_state[cell] = end
    names = {}
    if draw(st.booleans()):
        names["action_names"] = draw(st.lists(NAMES, min_size=A, max_size=A, unique=True))
    model = jmdp.TabularJMDP(prob, rng.normal(size=(S, K, A)) * scale, next_state, 0.9, terminal, **names)
    if draw(st.booleans()) and not (by_rows and terminal.any()):  # a long table lists terminal states last
        several = draw(st.lists(NAMES, min_size=S, max_size=S, unique_by=str.casefold))
        model = jmdp.TabularJMDP(model.prob, model.reward, next_state, 0.9, terminal, several, **names)
    return model


def read(folder: Path, content: bytes | str, discount: float | None = None) -> jmdp.TabularJMDP:
    path = folder / "model"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_model(path, discount)


def same(one: jmdp.TabularJMDP, other: jmdp.TabularJMDP) -> bool:
    return sample_files.fingerprint(one) == sample_files.fingerprint(other)


@given(models(), st.booleans())
def test_npz_round_trip(folder, model, compressed):
    assert same(read(folder, sample_files.npz(model, compressed=compressed)), model)


@given(models(by_rows=True), st.sampled_from(",;\t"), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_csv_round_trip(folder, model, separator, bom, end):
    text = sample_files.csv_text(sample_files.records(model), separator).replace("\r\n", end)
    assert same(read(folder, "\ufeff" * bom + text, 0.9), model)


@given(models(by_rows=True), st.sampled_from([None, "snappy", "gzip", "zstd", "brotli", "lz4"]), st.integers(1, 9))
def test_parquet_round_trip(folder, model, codec, group):
    rows = sample_files.records(model)
    assert same(read(folder, sample_files.parquet(rows, compression=codec, row_group_size=group), 0.9), model)


@given(models(by_rows=True))
def test_data_frame_round_trip(model):
    assert same(table_model(pd.DataFrame(sample_files.records(model)), 0.9), model)


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False},
        {
            "use_dictionary": False,
            "column_encoding": {"scenario": "DELTA_BINARY_PACKED", "reward": "BYTE_STREAM_SPLIT"},
        },
        {"data_page_version": "2.0"},
        {"data_page_size": 64, "write_batch_size": 4, "dictionary_pagesize_limit": 16},
        {"write_page_checksum": True, "version": "1.0"},
        {"store_schema": False},
    ],
)
def test_parquet_of_any_layout(folder, options):
    model = sample_files.small_model(states=9)
    assert same(read(folder, sample_files.parquet(sample_files.records(model), **options), 0.9), model)


@pytest.mark.parametrize("kind", ["category", "string[pyarrow]", "string", "object"])
def test_data_frames_of_any_dtype(folder, kind):
    model = sample_files.small_model()
    frame = pd.DataFrame(sample_files.records(model)).astype({"state": kind, "action": kind, "next": kind})
    frame = frame.astype({"scenario": "Int64", "reward": "Float64"})
    assert same(table_model(frame.iloc[:, ::-1], 0.9), model)
    frame.to_parquet(folder / "frame", index=False)
    assert same(read_model(folder / "frame", 0.9), model)
    frame.to_csv(folder / "frame", index=False)
    assert same(read_model(folder / "frame", 0.9), model)


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_parquet_of_other_writers(folder, library):
    module = pytest.importorskip(library)
    model = sample_files.small_model(states=50)
    frame = pd.DataFrame(sample_files.records(model))
    path = folder / f"{library}.parquet"
    if library == "polars":
        module.DataFrame(sample_files.records(model)).write_parquet(path)
    else:
        module.sql(f"copy frame to '{path}' (format parquet)")
    assert len(frame)
    assert same(read_model(path, 0.9), model)


def test_arrays_of_any_order_and_size_of_number(folder):
    model = sample_files.small_model()
    changed = {
        "prob": np.asfortranarray(model.prob).astype(">f8"),
        "reward": np.asfortranarray(model.reward),
        "next_state": np.asfortranarray(model.next_state).astype(">u2"),
        "state_names": np.array(model.states.names).astype(">U9"),
    }
    found = read(folder, sample_files.npz(model, **changed))
    assert same(found, model)
    assert found.reward.flags.c_contiguous
    assert found.reward.flags.owndata
    assert not found.reward.flags.writeable
    exact = sample_files.npz(
        model, prob=np.eye(4, 3, dtype=bool) | (np.arange(4) == 3)[:, None] * np.eye(1, 3, dtype=bool)
    )
    assert set(np.unique(read(folder, exact).prob)) == {0.0, 1.0}
    assert read(folder, sample_files.npz(model, reward=np.ones((4, 3, 2), "f2"))).reward_bound == 1.0


def test_a_file_without_optional_arrays(folder):
    model = sample_files.small_model(named=False)
    content = sample_files.npz(model, discount=None, terminal=None)
    found = read(folder, content, 0.5)
    assert found.discount == 0.5
    assert not found.terminal.any()
    assert found.states.names is None


TEXT = ''' State ;Scenario;probability;action;reward;next;;
"rainy; cold";low;.25;stay;1;sunny;;

"rainy; cold";low;;go;-2e1;"the ""end""";;
"rainy; cold"; high;0.75;go;+3.;sunny;;
"rainy; cold";high;0.75;stay;4;rainy; cold;;
sunny;low;1;go;0;sunny;;
sunny;low;1;stay;5;sunny;;
;;;;;;;
'''


def test_a_table_as_spreadsheets_write_it(folder):
    text = TEXT.replace("rainy; cold;;", '"rainy; cold";;')
    for variant in (text, "sep=;\r\n" + text.replace("\n", "\r\n"), text.rstrip("\n"), text + "\n\n \n"):
        model = read(folder, variant, 0.5)
        assert model.states.names == ("rainy; cold", "sunny", 'the "end"')
        assert model.actions.names == ("stay", "go")
        np.testing.assert_array_equal(model.prob, [[0.25, 0.75], [1, 0], [1, 0]])
        np.testing.assert_array_equal(model.reward[:2], [[[1, -20], [4, 3]], [[5, 0], [0, 0]]])
        np.testing.assert_array_equal(model.next_state[:2], [[[1, 2], [0, 1]], [[1, 1], [1, 1]]])
        np.testing.assert_array_equal(model.terminal, [False, False, True])


def test_integers_from_0_are_indices_and_others_are_names(folder):
    rows = "state,scenario,probability,action,reward,next\n2,0,1,0,7,0\n0,0,1,0,8,1\n"
    model = read(folder, rows, 0.5)
    assert model.states.names is None
    np.testing.assert_array_equal(model.reward[:, 0, 0], [8, 0, 7])
    np.testing.assert_array_equal(model.terminal, [False, True, False])
    np.testing.assert_array_equal(model.next_state[:, 0, 0], [1, 1, 0])
    assert read(folder, rows.replace("\n2,", "\n3,"), 0.5).states.names == ("0", "1", "3")
    assert read(folder, rows.replace("\n2,", "\n02,"), 0.5).states.names == ("0", "1", "02")


def test_scenarios_of_the_same_name_are_the_same(folder):
    rows = "state,scenario,probability,action,reward,next\na,wet,1,x,1,b\nb,dry,1,x,2,a\n"
    np.testing.assert_array_equal(read(folder, rows, 0.5).prob, [[1, 0], [0, 1]])


def test_the_discount(folder):
    model = sample_files.small_model()
    whole, without = sample_files.npz(model), sample_files.npz(model, discount=None)
    assert read(folder, whole, 0.9).discount == read(folder, whole).discount == 0.9
    assert read(folder, without, 0.5).discount == 0.5
    with pytest.raises(SettingsError, match=r"discount is 0\.5, but that of .*model is 0\.9\. Omit discount"):
        read(folder, whole, 0.5)
    for content in (without, sample_files.csv_text(sample_files.records(model))):
        with pytest.raises(SettingsError, match=r"model has no discount\. Give one, e\.g\. discount=0\.99"):
            read(folder, content)


def test_names_and_extensions_do_not_matter(folder):
    path = folder / "model.parquet"
    path.write_bytes(sample_files.npz(sample_files.small_model()))
    (folder / "link.csv").symlink_to(path)
    assert same(read_model(str(path)), read_model(folder / "link.csv"))


def test_a_raised_limit_of_fields_changes_nothing(folder):
    before = csv.field_size_limit(sys.maxsize)
    try:
        with pytest.raises(jmdp.errors.FileError, match="line 2"):
            read(
                folder, 'state,scenario,probability,action,reward,next\n"a,0,1,x,1,b\n' + "c,0,1,x,1,b\n" * 50_000, 0.5
            )
    finally:
        csv.field_size_limit(before)


def test_csv_and_npz_need_no_optional_package(folder):
    model = sample_files.small_model()
    (folder / "one.npz").write_bytes(sample_files.npz(model))
    (folder / "two.csv").write_text(sample_files.csv_text(sample_files.records(model)), encoding="utf-8")
    code = """
import sys
sys.modules.update(dict.fromkeys(["pandas", "pyarrow", "xarray", "numba", "scipy"]))
from jmdp.files import read_model
print(read_model(sys.argv[1]).shape, read_model(sys.argv[2], 0.5).shape)
try:
    read_model(sys.argv[3], 0.5)
except ImportError as error:
    print(error)
"""
    (folder / "three").write_bytes(sample_files.parquet(sample_files.records(model)))
    files = [str(folder / name) for name in ("one.npz", "two.csv", "three")]
    ran = subprocess.run(
        [sys.executable, "-c", code, *files], capture_output=True, text=True, env=os.environ, check=True
    )
    assert ran.stdout.startswith('(4, 3, 2) (4, 3, 2)\nParquet files need pyarrow: pip install "jmdp[study]"')


def test_p14_nothing_unpickles():
    """No module of `jmdp.files` imports pickle, or lets NumPy use it."""
    sources = list(Path(jmdp.files.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    for path in sources:
        assert unsafe(path.read_text(encoding="utf-8")) == [], path


def test_p14_can_fail():
    for line in (
        "import pickle",
        "from cloudpickle import loads",
        "import os, dill",
        "np.load(f, allow_pickle=True)",
        "np.load(f, **{'allow_pickle': True})",
        "eval('1')",
        "np.load(f)",
        "x = __import__('pickle')",
    ):
        assert unsafe(line), line


def unsafe(source: str) -> list[str]:
    """What a module does that could run code of a file."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
        bad = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "_pickle"}
        found += [name for name in names if name.split(".")[0] in bad]
        if isinstance(node, ast.keyword) and node.arg in {"allow_pickle", None}:
            value = node.value
            safe = (
                isinstance(value, ast.Constant) and value.value is False
                if node.arg
                else "pickle" not in ast.dump(value)
            )
            found += [] if safe else ["allow_pickle"]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            loose = called in {"np.load", "numpy.load"} and not any(k.arg == "allow_pickle" for k in node.keywords)
            found += [called] if loose or called in {"eval", "exec", "__import__"} else []
    return found


def test_a_dataframe_is_read_like_a_file(tmp_path):
    pd = pytest.importorskip("pandas")
    model = sample_files.small_model(1)
    frame = pd.DataFrame(sample_files.records(model))
    assert sample_files.fingerprint(jmdp.read_model(frame, 0.9)) == sample_files.fingerprint(table_model(frame, 0.9))
    with pytest.raises(SettingsError, match="no discount"):
        jmdp.read_model(frame)
