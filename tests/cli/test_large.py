"""Tables completed in pieces by the command: as they are completed as a whole, and resumed."""

import gzip
import json
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.runs import assert_fails, miwae, succeeded
from miwae.cli import _stream
from miwae.documents import _large_text
from miwae.engines import _large

N_ROWS = 30  # so few that nothing is trained

# A process that is killed while it writes its third piece.
KILLED = """
import os, signal, sys
from miwae.documents import _large_text
from miwae.engines import _large, _runs
from miwae.cli import _stream, main
_stream.LARGE_TEXT, _stream.MANY_ROWS = {False: 0, True: 0}, 0
_large_text.PIECE_BYTES, _large_text.BLOCK_BYTES = 200, 64
_large.PIECE_CELLS, _large.LEAST_ROWS = 1, 7
write, written = _runs.write_atomically, []

def dying(path, content):
    def half(file):
        file.write(b"half of a piece")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    written.append(path)
    write(path, half if len(written) == 4 else content)  # run.json is the first

_runs.write_atomically = dying
main()
"""


def mixed_table():
    """One factor behind numbers, words and days; the first rows show little of their formats."""
    rng = np.random.default_rng(0)
    factor = np.sort(rng.normal(size=N_ROWS))
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N_ROWS) % 28, "D")
    frame = pd.DataFrame(
        {
            "size": [f"{x:.{1 + (i > 20)}f}" for i, x in enumerate(factor)],
            "place": np.where(factor > 0, "north, far", "south"),
            "day": day.strftime("%d/%m/%Y"),
            "zip": [f"{number:05}" for number in 9_000 + 100 * np.arange(N_ROWS)],
            "note": None,
        }
    )
    holes = rng.random((N_ROWS, 3)) < 0.15
    return frame.assign(**frame[["size", "place", "day"]].mask(holes))


def numbers():
    """As an Arrow table, in which nothing is trained either."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N_ROWS, 1)) + 0.3 * rng.normal(size=(N_ROWS, 3))
    missing = rng.random(x.shape) < 0.2
    return pa.table({name: pa.array(x[:, j], mask=missing[:, j]) for j, name in enumerate("abc")})


def written_to(path):
    """A table of the format that the name of the file says."""
    if path.suffix == ".parquet":
        pq.write_table(numbers(), path, row_group_size=11)
        return path
    tabs = ".tsv" in path.suffixes
    text = "# a comment\n" + mixed_table().to_csv(index=False, sep="\t" if tabs else ",")
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.fixture
def small_pieces(monkeypatch):
    """Files of any size are large, and pieces are small."""
    monkeypatch.setattr(_stream, "LARGE_TEXT", {False: 0, True: 0})
    monkeypatch.setattr(_stream, "MANY_ROWS", 0)
    monkeypatch.setattr(_large_text, "PIECE_BYTES", 200)
    monkeypatch.setattr(_large_text, "BLOCK_BYTES", 64)
    monkeypatch.setattr(_large, "PIECE_CELLS", 1)
    monkeypatch.setattr(_large, "LEAST_ROWS", 7)


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_a_text_file_in_pieces_is_the_file_as_a_whole(tmp_path, suffix, request):
    source, whole, pieces = (tmp_path / f"{n}{suffix}" for n in ("in", "whole", "pieces"))
    written_to(source)
    succeeded(miwae("impute", source, "-o", whole))
    request.getfixturevalue("small_pieces")
    run = succeeded(miwae("impute", source, "-o", pieces, "--json"))
    assert json.loads(run.stdout)["rows"] == N_ROWS
    read = gzip.decompress if suffix.endswith("gz") else bytes
    assert read(pieces.read_bytes()) == read(whole.read_bytes())
    assert {path.name for path in tmp_path.iterdir()} == {
        path.name for path in (source, whole, pieces)
    }


@pytest.mark.parametrize(
    "suffix",
    [
        pytest.param(".parquet", marks=pytest.mark.slow),
        pytest.param(".csv.gz", marks=pytest.mark.long),
    ],
)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(tmp_path, suffix, small_pieces):
    source = written_to(tmp_path / f"in{suffix}")
    plain, out = tmp_path / f"plain{suffix}", tmp_path / f"out{suffix}"
    succeeded(miwae("impute", source, "-o", plain))
    command = [sys.executable, "-c", KILLED, "impute", source, "-o", out]
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not out.exists()
    held = sorted(path.name for path in (tmp_path / f"out{suffix}.parts").iterdir())
    assert [name[:6] for name in held if name[0] == "0"] == ["000000", "000001"]
    run = succeeded(miwae("impute", source, "-o", out, "--resume"))
    assert "completed 30 rows of 1 file" in run.stderr
    assert out.read_bytes() == plain.read_bytes()
    assert not (tmp_path / f"out{suffix}.parts").exists()


def test_a_run_is_resumed_only_with_the_same_options(tmp_path, small_pieces, monkeypatch):
    source, out = written_to(tmp_path / "in.parquet"), tmp_path / "out.parquet"

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("miwae.engines.Worker.complete", interrupted)
        run = miwae("impute", source, "-o", out, "--seed", 1)
    assert f"finished pieces are in {out}.parts: --resume goes on" in run.stderr
    run = miwae("impute", source, "-o", out, "--seed", 2, "--resume")
    assert_fails(run, 1, "another input or with other options")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resume", "-m", "3"], "-m: not for directories and not with --resume"),
        (["--resume", "--interval", "0.9"], "--interval: not for"),
        (["--resume", "-o", "-"], "standard output: not for"),
        (["--resume", "-o", "out.csv"], "--resume is for what is completed in pieces"),
    ],
)
def test_what_needs_all_rows_is_not_done_in_pieces(tmp_path, options, words):
    source = written_to(tmp_path / "in.parquet")
    more = [] if "-o" in options else ["-o", tmp_path / "out.parquet"]
    assert_fails(miwae("impute", source, *options, *more, cwd=tmp_path), 2, words)


def test_a_large_file_is_read_as_a_whole_where_options_need_it(tmp_path, small_pieces):
    source, out = written_to(tmp_path / "in.parquet"), tmp_path / "out.parquet"
    succeeded(miwae("impute", source, "-o", out, "--flag"))
    assert "a.imputed" in pq.read_schema(out).names
    succeeded(miwae("impute", source, "-o", tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_bytes().startswith(b"a,b,c\n")


def test_a_directory_is_learned_from_and_completed_by_a_model(tmp_path, small_pieces):
    table, model = numbers(), tmp_path / "m.miwae"
    (tmp_path / "in" / "kind=1").mkdir(parents=True)
    pq.write_table(table[:13], tmp_path / "in" / "kind=1" / "one.parquet")
    pq.write_table(table[13:], tmp_path / "in" / "two.parquet")
    run = succeeded(miwae("fit", tmp_path / "in", "-o", model))
    assert "fitted" in run.stderr
    own, given = tmp_path / "own", tmp_path / "given"
    succeeded(miwae("impute", tmp_path / "in", "-o", own))
    succeeded(miwae("impute", tmp_path / "in", "-o", given, "--model", model))
    for name in ("kind=1/one.parquet", "two.parquet"):
        assert (own / name).read_bytes() == (given / name).read_bytes()
        assert not any(column.null_count for column in pq.ParquetFile(own / name).read().columns)
    assert_fails(miwae("impute", tmp_path / "in", "-o", tmp_path / "o.csv"), 2, "as a directory")
