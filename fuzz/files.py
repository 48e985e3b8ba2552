"""Malformed files of all formats: read, or refused by one error of ours.

Text and JSON lines are also written again without changes, and have to be the same, byte for byte.
"""

import functools
import gzip
import io
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pyreadstat

from fuzz.campaign import Failure, run
from miwae.columns import infer_schema
from miwae.documents import open_document
from miwae.documents._statistics import WRITERS
from miwae.errors import MiwaeError

Rng = np.random.Generator

TEXTS = [
    b"name,height,colour,when\nann,1.70,red,2024-01-05\nben,,blue,2024-02-05\ncem,NA,,05.03.2024\n",
    b'a;b;c\n"x;y";1,5;"he said ""no"""\n"";2,75;\n\'q\';;z\n',
    b"# a comment\n#id\tsize\n1\t2\n3\t\n\t4\n",
    "größe,ß\n1,ä\n2,é\n".encode("latin-1"),
    "\ufeffa,b\r\n1,2\r\n,3\r\n".encode(),
    "a,b\n1,2\n,3\n".encode("utf-16"),
    b"t,u\n08:15,31/12/2024\n23:59:30,01/02/2024\n,12/31/2024\n",
    b"n\n1\n2\n\n3\n",
    b"a,b\r1,2\r,3\r",
    b"x,y\n1e5,-0\n+.5,007\ninf,nan\n1_000,0x10\n",
]

LINES = [
    b'{"a": 1.5, "b": "x"}\n{"a": null}\n{"b": "\\u00e9", "c": [1, {"d": 2}]}\n',
    b'{"t":"2024-01-05","n":1}\r\n\r\n{"n":-3e5,"t":null}',
]

# What JSON has beside.
JSON_TOKENS = [
    *(b"{", b"}", b"[", b"]", b":", b'\\"', b"\\ud800", b"\\u0000", b"NaN", b"-Infinity", b"null"),
    *(b"true", b"[" * 2000, b'{"a":' * 2000, b"9" * 5000),
]

TOKENS = [
    *(b",", b";", b"\t", b"|", b'"', b'""', b"'", b"\n", b"\r", b"\r\n", b"\0", b"#", b" ", b"="),
    *(b"\xff", b"\xef\xbb\xbf", b"\xfe\xff", b"NA", b"1e999", b"9" * 400, b"0" * 50, b"-", b"\\"),
    *(
        b"2024-13-45",
        b"24:60",
        b"\xe2\x80\xae",
        b"\x1b[2J",
        b"," * 200,
        b"\n" * 100,
        b"1,5",
        b"1.5",
    ),
]


@functools.cache
def _binaries() -> dict[str, bytes]:
    """Whole files of the other formats."""
    table = pa.table(
        {
            "a": [1.5, None, 3.0],
            "b": pa.array(["x", None, "y"]).dictionary_encode(),
            "c": pa.array([1, 2, None], pa.int64()),
            "d": pa.array([0, None, 10**9], pa.timestamp("s", "UTC")),
        }
    )
    parquet, feather, book = io.BytesIO(), io.BytesIO(), io.BytesIO()
    pyarrow.parquet.write_table(table, parquet)
    pyarrow.feather.write_feather(table, feather)
    workbook = openpyxl.Workbook()
    for row in (["a", "b", "c"], [1, "x", None], [None, "y", 2.5], [True, None, 3]):
        workbook.worksheets[0].append(row)
    workbook.save(book)
    return {
        ".parquet": parquet.getvalue(),
        ".feather": feather.getvalue(),
        ".xlsx": book.getvalue(),
        ".csv.gz": gzip.compress(TEXTS[0] * 20, mtime=0),
        **_of_statistics(),
    }


def _of_statistics() -> dict[str, bytes]:
    frame = pd.DataFrame({"a": [1.5, np.nan, 3.0], "b": ["x", "", "y"], "c": [1.0, 2.0, 1.0]})
    labels = {"variable_value_labels": {"c": {1: "no", 2: "yes"}}}
    kept = {".dta": labels, ".sav": labels, ".zsav": {**labels, "compress": True}, ".xpt": {}}
    with tempfile.TemporaryDirectory() as name:
        files = {suffix: Path(name) / f"table{suffix}" for suffix in kept}
        for suffix, path in files.items():
            write = getattr(pyreadstat, f"write_{WRITERS[suffix]}")
            write(frame, str(path), **kept[suffix])
        return {suffix: path.read_bytes() for suffix, path in files.items()}


def _mutated(
    data: bytes, rng: Rng, n_changes: int, tokens: Sequence[bytes] = tuple(TOKENS)
) -> bytes:
    out = bytearray(data)
    for _ in range(n_changes):
        place, size = int(rng.integers(len(out) + 1)), int(2 ** rng.uniform(0, 8))
        match int(rng.integers(6)):
            case 0 if place < len(out):
                out[place] ^= 1 << int(rng.integers(8))
            case 1:
                out[place:place] = tokens[int(rng.integers(len(tokens)))]
            case 2:
                del out[place : place + size]
            case 3:
                out[place:place] = out[place : place + size]
            case 4:
                out[place : place + 1] = tokens[int(rng.integers(len(tokens)))]
            case _:
                out[place:place] = rng.bytes(int(rng.integers(1, 4)))
    return bytes(out)


def _inside_a_workbook(data: bytes, rng: Rng) -> bytes:
    """The workbook with the XML of one part mutated, in a zip archive that is whole."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for name in names:
            part = old.read(name)
            new.writestr(name, _mutated(part, rng, 2) if name == chosen else part)
    return out.getvalue()


def content(rng: Rng) -> tuple[str, bytes]:
    """A suffix, and what a file of this suffix holds."""
    n_changes = int(rng.integers(1, 6))
    chance = rng.random()
    if chance < 0.1:
        lines = LINES[int(rng.integers(len(LINES)))]
        return ".jsonl", _mutated(lines, rng, n_changes, (*TOKENS, *JSON_TOKENS))
    if chance < 0.5:
        text = TEXTS[int(rng.integers(len(TEXTS)))]
        return str(rng.choice([".csv", ".tsv", ".txt", ""])), _mutated(text, rng, n_changes)
    suffix = str(rng.choice(list(_binaries())))
    data = _binaries()[suffix]
    if suffix == ".xlsx" and rng.random() < 0.7:
        return suffix, _inside_a_workbook(data, rng)
    return suffix, _mutated(data, rng, n_changes)


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp())


def case(seed: int) -> str:
    """Open a malformed file, understand its columns, and write it unchanged."""
    suffix, data = content(np.random.default_rng(seed))
    path = _folder() / f"table{suffix}"
    path.write_bytes(data)
    try:
        document = open_document(str(path))
        reading = document.read()
        infer_schema(reading.columns)
        again = reading.patched({}, suffix.removesuffix(".gz"))
    except MiwaeError as error:
        if "\n" in str(error):
            raise Failure(f"the message has more than one line: {error}") from error
        return "refused"
    same_form = suffix in (".csv", ".txt", "") and document.family == "text"
    same_form |= document.family == "json" and not data.startswith(b"\xef\xbb\xbf")
    if same_form and b"\t" not in data and bytes(again) != data:
        raise Failure(f"{len(data)} bytes of text became {len(again)} others")
    return f"read {document.family}"


if __name__ == "__main__":
    run("files", case, 20_000, __doc__ or "")
