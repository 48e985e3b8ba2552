"""Files as the options say how to read them, and what their columns are taken for."""

import codecs
import os
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from miwae.cli._options import (
    NO_ROLES,
    Format,
    Roles,
    Texts,
    conditions_of,
    kinds_and_orders,
    limits_of,
    marks_of,
    rest_of,
    roles_of,
)
from miwae.cli._visible import say
from miwae.columns import Inspection, Schema, infer_schema, inspect_columns
from miwae.documents import DEFAULT_NA, Document, Reading, open_document, suffix_of
from miwae.errors import DataError, MiwaeError, SettingsError

# Addresses that JAX takes at least, and those for the threads of each core (measured).
ADDRESSES, PER_CORE = 3 * 2**30, 2**26


class Source(NamedTuple):
    name: str
    document: Document
    kinds: dict[str, str]
    limits: dict[str, tuple[float | None, float | None]]
    marks: tuple[Any, ...]
    roles: dict[str, str]
    not_applicable: dict[str, str]
    rest: Literal["both", "predictor"]  # the role of columns without one


def opened(
    source: str, form: Format, kind: Texts = None, bounds: Texts = None, roles: Roles = NO_ROLES
) -> Source:
    if form.delimiter is not None and len(form.delimiter) != 1:
        raise SettingsError(f"--delimiter {form.delimiter!r} must be a single character")
    try:
        codecs.lookup("utf-8" if form.encoding is None else form.encoding)
    except LookupError as error:
        known = "try utf-8 or latin-1"
        raise SettingsError(f"--encoding {form.encoding!r} is not known; {known}") from error
    (kinds, _), limits = kinds_and_orders(kind), limits_of(bounds)
    document = open_document(
        source, sheet=form.sheet, allow_large=form.allow_large, **text_options(source, form, kind)
    )
    if not document.n_rows or not document.names:
        name = "standard input" if source == "-" else source
        remark = f"; {document.remark}" if document.remark else ""
        raise DataError(f"{name}: the table has no rows{remark}")
    asked = roles_of(document.names, roles), conditions_of(roles), rest_of(roles)
    return Source(source, document, kinds, limits, marks_of(form.na), *asked)


def text_options(source: str, form: Format, kind: Texts) -> dict[str, Any]:
    """How a text file is read, as `open_document` wants to know it."""
    is_tsv = suffix_of(source) == ".tsv"
    return {
        "delimiter": "\t" if form.delimiter is None and is_tsv else form.delimiter,
        "encoding": form.encoding,
        "na_words": (*(() if form.only_na else DEFAULT_NA), *(form.na or ())),
        "header": not form.no_header,
        "date_orders": kinds_and_orders(kind)[1] or None,
    }


class Inspected(NamedTuple):
    source: Source
    reading: Reading
    schema: Schema
    inspection: Inspection

    @classmethod
    def of(cls, source: Source, reading: Reading, schema: Schema) -> "Inspected":
        of_text = source.document.family == "text"
        inspection = inspect_columns(reading.columns, schema, of_text=of_text)
        inspection = replace(inspection, hints=inspection.hints + reading.hints())
        return cls(source, reading, schema, inspection)

    def as_data(self) -> dict[str, Any]:
        return {
            "file": self.source.name,
            "taken_as_missing": self.reading.missing_words(),
            "comment_lines": self.reading.document.n_comments,
            "sheets": list(self.reading.document.sheets),
            **self.inspection.as_data(),
        }


def inspected(source: Source) -> Inspected:
    reading = source.document.read(source.marks)
    schema = infer_schema(
        reading.columns,
        column_kinds=source.kinds,
        bounds=source.limits,
        roles=source.roles,
        not_applicable=source.not_applicable,
        rest=source.rest,
    )
    return Inspected.of(source, reading, schema)


def keep_programs() -> None:
    """Keep compiled programs on disk between runs; where that is impossible, runs are slower.

    This is where a command starts JAX.
    """
    _require_addresses()
    from miwae._compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except OSError as error:
        say(f"miwae: compiled programs are not kept: {error}")


def _require_addresses() -> None:
    """Refuse a limit on addresses under which JAX would end the process, without an error."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = ADDRESSES + PER_CORE * (os.cpu_count() or 1)
    if 0 < limit < needed:
        raise MiwaeError(
            f"out of memory before JAX starts: it takes {needed / 2**30:.1f} GiB of addresses, of "
            f"which most need no memory, and the limit is {limit / 2**30:.1f} GiB: raise it "
            f"(ulimit -v {needed // 2**10}), and limit the memory itself, by a container"
        )
