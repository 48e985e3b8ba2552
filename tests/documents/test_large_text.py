"""Text files read in pieces: each column as it is read from the file as a whole."""

import gzip

import numpy as np
import pytest

from miwae.documents import _large_text, open_document, open_large_text

N = 40


def of(*texts):
    """These texts, again and again."""
    return [texts[i % len(texts)] for i in range(N)]


def parts(*own):
    """Some texts in the first rows, others in the next ones."""
    return [text for texts in own for text in of(*texts)[: -(-N // len(own))]][:N]


# Columns, of which some look otherwise in one piece than in another.
REGULAR = {
    "numbers": [f"{i}.5" for i in range(N)],
    "later decimals": parts(["1", "2"], ["1.25", "2.5"]),
    "later exponents": parts(["1", "2"], ["1e3", "25"]),
    "a word among numbers": parts(["1", "2", "3"], ["4", "five"]),
    "zip codes": parts(["00501", "01234"], ["90210", "10001"]),
    "days": of("2024-01-05", "2023-12-24"),
    "only some show which is the day": parts(["01/02/2024", "03/04/2024"], ["25/02/2024"]),
    "seconds in some": parts(["08:15", "9:30"], ["08:15:30"]),
    "flags": of("true", "", "false"),
    "only one flag at first": parts(["TRUE"], ["TRUE", "FALSE"]),
    "words": of('"red, dark"', "blue", "NA", '"two ""quoted"""'),
    "lines in cells": of('"one\ntwo"', "three"),
    "in quotes": parts(['"1"', '"2"'], ["3", '"4"']),
    "prices": of("$1,250.50", "$13.00").copy(),
    "nothing": [""] * N,
    "nothing at first": parts([""], ["", "7"]),
    "marks": of("-999", "1", "2", "?"),
}
REGULAR["prices"] = [f'"{text}"' if "," in text else text for text in REGULAR["prices"]]

# What pieces do not show.
IRREGULAR = {
    "booleans, then numbers": parts(["true", "false"], ["0", "1"]),
    "times of two formats": parts(["2024-01-05"], ["05.01.2024"]),
    "prices, then plain numbers": parts(["$12", "$14"], ["12", "14"]),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(_large_text, "PIECE_BYTES", 60)
    monkeypatch.setattr(_large_text, "BLOCK_BYTES", 16)


def written(path, columns, delimiter=",", encoding="utf-8", end="\n"):
    records = [list(columns), *zip(*columns.values(), strict=True)]
    data = "".join(delimiter.join(record) + end for record in records).encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


def assert_same(path, marks=(), **options):
    """The values, formats and bytes of all pieces are those of the whole."""
    whole = open_document(path, **options).read(marks)
    large = open_large_text(path, marks, **options)
    assert large is not None
    readings = list(large.readings(marks))
    assert len(readings) > 2
    assert large.n_rows == whole.document.n_rows
    numbers = [reading.document.row_numbers() for reading in readings]
    np.testing.assert_array_equal(np.concatenate(numbers), whole.document.row_numbers())
    for j, column in enumerate(whole.columns):
        own = [reading.columns[j] for reading in readings]
        texts = [
            c.text(i) if not c.missing[i] else None for c in own for i in range(len(c.missing))
        ]
        expected = [None if m else column.text(i) for i, m in enumerate(column.missing)]
        assert texts == expected
        if column.n_observed:
            assert {(c.storage, c.example) for c in own} == {(column.storage, column.example)}
            forms = {(r.parsed[j].form, r.parsed[j].quoted) for r in readings}
            assert forms == {(whole.parsed[j].form, whole.parsed[j].quoted)}
    assert b"".join(reading.patched({}) for reading in readings) == whole.patched({})


@pytest.mark.parametrize("name", REGULAR)
def test_a_column_is_read_as_in_the_whole_file(tmp_path, name):
    columns = {"row": list(map(str, range(N))), name: REGULAR[name]}
    assert_same(written(tmp_path / "a.csv", columns), (-999,))


@pytest.mark.parametrize("name", IRREGULAR)
def test_what_pieces_do_not_show_is_left_to_the_whole_file(tmp_path, name):
    path = written(tmp_path / "a.csv", {"row": list(map(str, range(N))), name: IRREGULAR[name]})
    assert open_large_text(path) is None


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.csv", {"end": "\r\n"}),
        ("a.csv.gz", {}),
        ("a.tsv", {"delimiter": "\t"}),
        ("a.txt", {"delimiter": ";"}),
        ("a.csv", {"encoding": "cp1252"}),
        ("a.csv", {"encoding": "utf-8-sig"}),
    ],
    ids=["line ends", "packed", "tabs", "semicolons", "cp1252", "byte order mark"],
)
def test_files_of_all_sorts(tmp_path, name, form):
    columns = {
        "n\u00e4me": [f"caf\u00e9 {i % 3}" for i in range(N)],
        "x": [f"{i}.25" for i in range(N)],
    }
    assert_same(written(tmp_path / name, columns, **form))


def test_decimal_commas_that_only_later_pieces_show(tmp_path):
    columns = {"x": parts(["1", "2"], ["1,5", "2,25"]), "y": of("a", "b")}
    path = written(tmp_path / "a.csv", columns, delimiter=";")
    assert_same(path)
    assert open_document(path).read().parsed[0].form.mark == ","


def test_without_a_header(tmp_path):
    columns = {"1": list(map(str, range(2, N + 2))), "a": of("a", "b")}
    assert_same(written(tmp_path / "a.csv", columns), header=False)


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\n" + b"1,2\n" * 40 + b"1,2,3\n" + b"1,2\n" * 40,
        b"a,b\n" + b"1,2\n" * 40 + b"\n" + b"1,2\n" * 40,
        b"a,b\n" + b"1,2\n" * 40 + b'1,"open\n' + b"1,2\n" * 40,
        b"a,b\r" + b"1,2\r" * 80,
        "a,b\n".encode("utf-16") + b"\0",
        b"a,b\n" + b"1,2\n" * 40 + b"1,\0\n" * 40,
    ],
    ids=["ragged", "blank line", "open quote", "old line ends", "utf-16", "NUL"],
)
def test_files_that_are_not_regular_are_left_to_the_reader_of_whole_files(
    tmp_path, content, monkeypatch
):
    monkeypatch.setattr(_large_text, "MOST_BYTES", 300)
    (tmp_path / "a.csv").write_bytes(content)
    assert open_large_text(str(tmp_path / "a.csv")) is None


def test_a_gzip_bomb_is_left_to_the_reader_of_whole_files_which_refuses_it(tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.documents._document.LARGE", 2**10)
    monkeypatch.setattr("miwae.documents._document.RATIO", 20)
    path = written(tmp_path / "a.csv.gz", {"x": ["1"] * 4_000, "y": ["2"] * 4_000})
    assert open_large_text(path) is None
    assert open_large_text(path, encoding="utf-8") is None
    with pytest.raises(ValueError, match="--allow-large"):
        open_document(path)
    allowed = open_large_text(path, allow_large=True)
    assert allowed is not None
    assert allowed.n_rows == 4_000


def test_a_file_that_has_changed_meanwhile(tmp_path):
    path = written(tmp_path / "a.csv", {"x": of("1", "2"), "y": of("a", "b")})
    large = open_large_text(path)
    assert large is not None
    written(tmp_path / "a.csv", {"x": of("1", "b"), "y": of("a", "b")})
    with pytest.raises(ValueError, match="has changed while it was read"):
        list(large.readings(()))
