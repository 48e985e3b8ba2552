"""Find out how a text file is written, and where its fields are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from miwae.columns import check_names
from miwae.documents._cells import Missing, cell_texts, has_decimals
from miwae.documents._comments import refuse_title, split_comments
from miwae.documents._dialect import Dialect, decoded
from miwae.documents._document import DEFAULT_NA
from miwae.documents._records import Spans, sniffed_delimiter, split_records
from miwae.documents._text import TextDocument
from miwae.errors import DataError, SettingsError

_ORDERS = {"day-first": "dmy", "month-first": "mdy"}


def open_text(
    data: bytes,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    na_words: Iterable[str] = DEFAULT_NA,
    header: bool = True,
    date_orders: Mapping[str, str] | None = None,
) -> TextDocument:
    """Open the content of a CSV file, as `open_document` does."""
    inner, encoding, bom = decoded(data, encoding)
    if header and inner.strip() and inner.startswith((b"\n", b"\r")):
        raise DataError("line 1 is blank, where the names should be: delete it")
    if delimiter is not None and (
        len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'
    ):
        raise DataError(f"a delimiter is one character such as ',' or ';', not {delimiter!r}")
    words = frozenset(word.strip() for word in na_words)
    comments, inner = split_comments(inner, delimiter, words, header=header)
    above = len(comments.splitlines())
    if delimiter is None:
        if header:
            refuse_title(inner, words, above=above)
        delimiter = sniffed_delimiter(inner)
    fields, terminator = split_records(inner, delimiter, above=above)
    buffer = np.frombuffer(inner, dtype=np.uint8)
    top = Spans(*(np.array([spans[k][0] for spans in fields]) for k in (0, 1)))
    places = [f"column_{place}" for place in range(1, len(fields) + 1)]
    names = cell_texts(buffer, top).texts if header else places
    dialect = Dialect(
        delimiter=delimiter, encoding=encoding, bom=bom, line_terminator=terminator, header=header
    )
    names = _named(names)
    document = TextDocument(
        names=names,
        n_rows=len(fields[0].starts) - header,
        n_comments=sum(bool(line.strip()) for line in comments.splitlines()),
        dialect=dialect,
        na_words=words,
        comments=comments,
        data=buffer,
        records=fields,
        orders=_checked_orders(date_orders or {}, names),
    )
    return replace(document, dialect=with_decimal_mark(document))


def _named(header: Sequence[str]) -> tuple[str, ...]:
    """Names for all columns: those without one get the name that pandas gives them."""
    check_names([name for name in header if name])
    used, names = set(header), []
    for place, name in enumerate(header):
        new = name or f"Unnamed: {place}"
        while not name and new in used:
            new += "_"
        used.add(new)
        names.append(new)
    return tuple(names)


def _checked_orders(orders: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    for name, order in orders.items():
        if name not in names:
            raise SettingsError(f"date_orders names the column {name!r}, which does not exist")
        if order not in _ORDERS:
            raise SettingsError(f"date_orders of {name!r} must be one of {', '.join(_ORDERS)}")
    return {name: _ORDERS[order] for name, order in orders.items()}


def with_decimal_mark(document: TextDocument) -> Dialect:
    """The dialect with a decimal comma, if it makes numbers and no column needs the point."""
    if document.dialect.delimiter == ",":
        return document.dialect
    point, comma = (_has_decimals(document, mark) for mark in ".,")
    return replace(
        document.dialect, decimal="," if comma and not point else ".", decimal_shown=point or comma
    )


def _has_decimals(document: TextDocument, mark: str) -> bool:
    places = np.flatnonzero(document.data == ord(mark))
    missing = Missing(document.na_words)
    return any(
        has_decimals(document.texts(position), missing, mark)
        for position, spans in enumerate(map(document.fields, range(len(document.names))))
        if np.any(np.searchsorted(places, spans.ends) > np.searchsorted(places, spans.starts))
    )
