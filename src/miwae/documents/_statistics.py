"""Stata, SPSS and SAS files: typed tables whose codes have labels, by pyreadstat and pandas."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from miwae._atomic import scratch_directory
from miwae._extras import extra
from miwae.columns import check_names
from miwae.documents._document import Document, Family, Patch, Reading, refuse_bomb
from miwae.documents._frame import NO_COLUMNS, Frame, objects_of
from miwae.errors import DataError

# What pyreadstat calls the format of each suffix, when reading and when writing.
WRITERS = {".dta": "dta", ".sav": "sav", ".zsav": "sav", ".xpt": "xport"}
READERS = {**WRITERS, ".por": "por", ".sas7bdat": "sas7bdat"}

# What is kept beside the cells, by the argument of the writer that takes it.
_KEPT = {
    "column_labels": "column_names_to_labels",
    "variable_value_labels": "variable_value_labels",
    "variable_format": "original_variable_types",
    "variable_measure": "variable_measure",
    "variable_display_width": "variable_display_width",
}
_OF_WRITER = {
    "dta": ("column_labels", "variable_value_labels", "variable_format"),
    "sav": tuple(_KEPT),
    "xport": ("column_labels", "variable_format"),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class StatisticsDocument(Document):
    """A file as a pandas frame of codes, and labels of columns in which each code has one."""

    family: ClassVar[Family] = "statistics"
    codes: Any
    labels: Mapping[str, Mapping[Any, str]]
    meta: Any  # everything else that pyreadstat knows of the file
    suffix: str

    @cached_property
    def labelled(self) -> Any:
        """The frame with labels instead of codes, as categories in the order of the codes."""
        pandas, frame = extra("pandas"), self.codes.copy()
        for name, labels in self.labels.items():
            ordered = self.meta.variable_measure.get(name) == "ordinal"
            kind = pandas.CategoricalDtype([labels[code] for code in sorted(labels)], ordered)
            frame[name] = frame[name].map(labels).astype(kind)
        # Text without characters is how these programs write that it is missing.
        texts = [name for name in frame if pandas.api.types.is_string_dtype(frame[name].dtype)]
        return frame.assign(**{name: frame[name].replace("", None) for name in texts})

    def row_numbers(self) -> Int[np.ndarray, " N"]:
        """As these programs count rows, from 1."""
        return 1 + np.arange(self.n_rows)

    def read(
        self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None
    ) -> "StatisticsReading":
        from miwae import frames

        columns = frames.columns(self.labelled, tuple(marks))
        placed = tuple(replace(column, place=self.place) for column in columns)
        return StatisticsReading(columns=placed, document=self)


@dataclass(frozen=True, kw_only=True, eq=False)
class StatisticsReading(Reading):
    document: StatisticsDocument

    def patched(self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS) -> bytes:
        document, suffix = self.document, suffix or self.document.suffix
        frame = self._completed(cells)
        for name, labels in document.labels.items():
            code_of = {label: code for code, label in labels.items()}
            coded = frame[name].astype(object).map(code_of)
            whole = coded.notna().all() and all(float(code).is_integer() for code in labels)
            frame[name] = coded.astype("int64" if whole else "float64")
        further = _data_frame(added)
        for name in further:
            frame[name] = further[name].to_numpy()
        return _written(frame, suffix, document)

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        frame = self._completed(cells)
        columns = (_objects(frame[name]) for name in self.document.names)
        return Frame(self.document.names, tuple(columns))

    def _completed(self, cells: Patch) -> Any:
        from miwae import frames

        return frames.completed(self.document.labelled, cells)


def open_statistics(
    content: bytes, suffix: str, *, allow_large: bool = False
) -> StatisticsDocument:
    pyreadstat, _ = extra("pyreadstat"), extra("pandas")
    with scratch_directory() as place:
        path = Path(place) / f"table{suffix}"
        path.write_bytes(content)
        read = getattr(pyreadstat, f"read_{READERS[suffix]}")
        try:
            if not allow_large:
                # Room is made for as many rows as the file says that it has.
                _, meta = read(str(path), metadataonly=True)
                refuse_bomb(len(content), (meta.number_rows or 0) * len(meta.column_names))
            frame, meta = read(str(path))
        except (MemoryError, DataError):
            raise
        except Exception as error:  # it raises what Python and its parser raise
            raise DataError(f"this is not a {suffix} file: {error}") from error
    names = tuple(frame.columns)
    check_names(names)
    labels = {
        name: own
        for name, own in meta.variable_value_labels.items()
        if _name_all(own, frame[name].dropna())
    }
    sizes = {"names": names, "n_rows": len(frame)}
    return StatisticsDocument(codes=frame, labels=labels, meta=meta, suffix=suffix, **sizes)


def _name_all(labels: Mapping[Any, str], values: Any) -> bool:
    """Whether each value has a label of its own: otherwise labels only comment on numbers."""
    return (
        len(values) > 0 and len(set(labels.values())) == len(labels) and set(values) <= set(labels)
    )


def _objects(series: Any) -> list[Any]:
    """Cells as Python objects, None where missing; whole numbers as integers."""
    values = [None if value is None or value != value else value for value in series.tolist()]
    numbers = [value for value in values if value is not None]
    if all(isinstance(value, float) and value.is_integer() for value in numbers):
        return [None if value is None else int(value) for value in values]
    return values


def statistics_bytes(frame: Frame, suffix: str) -> bytes:
    """A plain frame as the content of a file."""
    return _written(_data_frame(frame), suffix)


def _data_frame(frame: Frame) -> Any:
    pandas = extra("pandas")
    columns = {}
    for name, column in zip(frame.names, frame.columns, strict=True):
        values = objects_of(column)
        flags = [isinstance(value, bool | np.bool_) for value in values if value is not None]
        if flags and all(flags):
            values = [None if value is None else int(value) for value in values]
        columns[name] = pandas.Series(values)
    return pandas.DataFrame(columns)


def _written(frame: Any, suffix: str, document: StatisticsDocument | None = None) -> bytes:
    """The content of a file, with the labels of a document, and its own formats."""
    pyreadstat, writer = extra("pyreadstat"), WRITERS[suffix]
    kept = {}
    if document is not None:
        same = writer == READERS[document.suffix]
        for argument in _OF_WRITER[writer]:
            if same or argument in ("column_labels", "variable_value_labels"):
                kept[argument] = getattr(document.meta, _KEPT[argument])
    if suffix == ".zsav":
        kept["compress"] = True
    with scratch_directory() as place:
        path = os.path.join(place, f"table{suffix}")
        try:
            getattr(pyreadstat, f"write_{writer}")(frame, path, **kept)
        except (pyreadstat.PyreadstatError, pyreadstat.ReadstatError, ValueError) as error:
            raise DataError(
                f"{suffix} files cannot hold this table: {error}; write .csv or .parquet"
            ) from error
        return Path(path).read_bytes()
