"""JSON lines: an object on each line, of which only the given values are replaced."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int

from miwae.columns import check_names, filled_objects, read_objects
from miwae.documents._document import Document, Family, Patch, Reading, is_sparse
from miwae.documents._formats import decimals_of
from miwae.documents._frame import NO_COLUMNS, Frame, objects_of, texts_of
from miwae.errors import DataError

_SPACE = re.compile(r"[ \t\r\n]*")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _whole(text: str) -> int | float:
    """A whole number; an infinite one if it has more digits than Python reads in linear time."""
    try:
        return int(text)
    except ValueError:
        return float(text)


_DECODER = json.JSONDecoder(parse_int=_whole)


class _Line(NamedTuple):
    """An object as it is written, its values, and where they stand."""

    number: int  # of the line, from 1
    text: str
    values: dict[str, Any]
    spans: dict[str, tuple[int, int]]

    def patched(self, new: dict[str, str]) -> str:
        """The line with the values of some names replaced; names that it lacks come last."""
        end = self.text.rindex("}")
        wide = '": ' in self.text
        colon, comma = (": ", ", ") if wide else (":", ",")
        more = [f"{_dumped(n)}{colon}{value}" for n, value in new.items() if n not in self.spans]
        changes = [(*self.spans[n], value) for n, value in new.items() if n in self.spans]
        before = comma if self.spans and more else ""
        changes.append((end, end, before + comma.join(more)))
        text = self.text
        for start, stop, value in sorted(changes, reverse=True):
            text = text[:start] + value + text[stop:]
        return text


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonDocument(Document):
    family: ClassVar[Family] = "json"
    row_word: ClassVar[str] = "line"
    content: str
    lines: tuple[_Line, ...]

    def cells(self, name: str) -> np.ndarray:
        cells = np.full(self.n_rows, None)
        for row, line in enumerate(self.lines):
            cells[row] = line.values.get(name)
        return cells

    def row_numbers(self) -> Int[np.ndarray, " N"]:
        return np.array([line.number for line in self.lines], dtype=int)

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "JsonReading":
        missing = tuple(marks)
        columns = (read_objects(self.cells(name), name, missing, "JSON") for name in self.names)
        placed = tuple(replace(column, place=self.place) for column in columns)
        return JsonReading(document=self, columns=placed)


@dataclass(frozen=True, kw_only=True, eq=False)
class JsonReading(Reading):
    document: JsonDocument

    def patched(self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS) -> bytes:
        new: dict[int, dict[str, str]] = {}
        for position, own in cells.items():
            name, values = self.document.names[position], self._filled(position, cells)
            for row in own.rows.tolist():
                new.setdefault(row, {})[name] = _dumped(values[row])
        for name, column in zip(added.names, added.columns, strict=True):
            for row, value in enumerate(objects_of(column)):
                new.setdefault(row, {})[name] = _dumped(value)
        lines = self.document.content.split("\n")
        for row, values in new.items():
            line = self.document.lines[row]
            lines[line.number - 1] = line.patched(values)
        return "\n".join(lines).encode()

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        columns = (self._filled(position, cells) for position in range(len(self.columns)))
        return Frame(self.document.names, tuple(columns))

    def _filled(self, position: int, cells: Patch) -> np.ndarray:
        """The cells of a column; imputed numbers have as many decimals as the others."""
        name = self.document.names[position]
        values = self.document.cells(name)
        if position not in cells:
            return values
        shown = [decimals_of(f"{Decimal(repr(v)):f}") for v in values if isinstance(v, float)]
        values = filled_objects(values, cells[position], name)
        for row in cells[position].rows.tolist():
            value: Any = values[row]
            values[row] = round(value, max(shown)) if shown and type(value) is float else value
        return values


def open_json(content: bytes, *, allow_large: bool = False) -> JsonDocument:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"JSON lines are written in UTF-8: {error}") from None
    if text.lstrip().startswith("["):
        raise DataError(
            "this is a JSON array, not an object on each line: write JSON lines (in pandas: "
            'frame.to_json("table.jsonl", orient="records", lines=True))'
        )
    pairs = enumerate(text.split("\n"), start=1)
    lines = tuple(_parsed(number, line) for number, line in pairs if line.strip())
    names = tuple(dict.fromkeys(name for line in lines for name in line.values))
    n_values = sum(len(line.values) for line in lines)
    if not allow_large and is_sparse(len(lines), len(names), n_values):
        raise DataError(
            f"the objects of {len(lines)} lines have {len(names)} names, but only {n_values} "
            "values: if that is right, allow it by allow_large (--allow-large)"
        )
    check_names(names)
    return JsonDocument(names=names, n_rows=len(lines), content=text, lines=lines)


def _parsed(number: int, text: str) -> _Line:
    try:
        values = _DECODER.decode(text)
        if not isinstance(values, dict):
            raise DataError(f'line {number} is not a JSON object, such as {{"a": 1}}')
        spans = _spans(text)
    except json.JSONDecodeError as error:
        raise DataError(f"line {number} is not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"line {number} is nested too deeply to be read") from None
    if _ESCAPED_SURROGATE.search(text):
        _refuse_half_characters(number, values)
    return _Line(number, text, values, spans)


def _refuse_half_characters(number: int, values: dict[str, Any]) -> None:
    """JSON can name halves of characters (half of an emoji, say), which no file can hold."""
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise DataError(f"line {number} has {half}, which is half of a character") from None


def _spans(text: str) -> dict[str, tuple[int, int]]:
    """Where the values of an object stand in its text, which is known to be one."""
    spans, place = {}, _after_space(text, text.index("{") + 1)
    while text[place] != "}":
        name, place = _DECODER.raw_decode(text, place)
        start = _after_space(text, _after_space(text, place) + 1)
        _, end = _DECODER.raw_decode(text, start)
        spans[name] = (start, end)
        place = _after_space(text, end)
        if text[place] == ",":
            place = _after_space(text, place + 1)
    return spans


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _dumped(value: Any) -> str:
    """Times in ISO 8601."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(texts_of([value], "")[0], ensure_ascii=False)


def json_bytes(frames: Iterable[Frame]) -> bytes:
    """Plain frames as the content of a file."""
    lines = []
    for names, columns in frames:
        keys = [_dumped(name) for name in names]
        for row in zip(*map(objects_of, columns), strict=True):
            pairs = (f"{key}: {_dumped(value)}" for key, value in zip(keys, row, strict=True))
            lines.append("{" + ", ".join(pairs) + "}\n")
    return "".join(lines).encode()
