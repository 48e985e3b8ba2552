"""How a text file is written: its encoding, its delimiter and quotes, its line ends."""

import codecs
from dataclasses import dataclass

from miwae.documents._frame import Frame, texts_of
from miwae.errors import DataError

QUOTE = '"'

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# How binary files start that need not have a NUL byte early on.
_MAGIC = (b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"ARROW1", b"%PDF", b"\x89PNG", b"\xd0\xcf\x11\xe0")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    delimiter: str = ","
    encoding: str = "utf-8"  # of the file; in memory its text is UTF-8
    bom: bytes = b""
    line_terminator: str = "\n"  # of the first record, and of records that are added
    decimal: str = "."
    decimal_shown: bool = True  # some number shows it, or the delimiter allows no other
    header: bool = True

    def field(self, text: str, *, quoted: bool = False) -> bytes:
        """A text as a raw field in UTF-8, in quotes if wanted or needed."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            raise DataError(
                f"{text!r} cannot be written in {self.encoding}, the encoding of the file: "
                "convert the file to UTF-8"
            ) from None
        raw = text.encode()
        special = (self.delimiter, QUOTE, "\n", "\r")
        return in_quotes(raw) if quoted or any(mark in text for mark in special) else raw

    def further_fields(self, frame: Frame) -> list[bytes]:
        """What is added after each record, the header included, for further columns."""
        texts = [texts_of(*pair) for pair in zip(frame.columns, frame.names, strict=True)]
        records = [frame.names] if self.header else []
        records += zip(*texts, strict=True)
        mark = self.delimiter.encode()
        return [b"".join(mark + self.field(text) for text in record) for record in records]

    def encoded(self, inner: bytes) -> bytes:
        """A text in UTF-8 as the content of a file: the inverse of `decoded`."""
        own = inner if self.encoding == "utf-8" else inner.decode().encode(self.encoding)
        return self.bom + own


def in_quotes(raw: bytes) -> bytes:
    """A field between quotes, with the quotes in it doubled."""
    mark = QUOTE.encode()
    return mark + raw.replace(mark, mark * 2) + mark


def decoded(data: bytes, encoding: str | None) -> tuple[bytes, str, bytes]:
    """A text in UTF-8, the name of its encoding, and its byte order mark."""
    # The mark overrides the given encoding; None is to guess.
    bom, marked = next(((b, name) for b, name in _BOMS if data.startswith(b)), (b"", None))
    body, name = data[len(bom) :], marked
    try:
        if encoding is not None:
            # Without a byte order mark, utf-16 would be what this machine writes.
            named = codecs.lookup(encoding).name
            name = name or {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(named, named)
        name = name or _guessed_encoding(body)
        text = body.decode(name)
    except LookupError:
        raise DataError(f"there is no encoding {encoding!r}: try 'utf-8' or 'cp1252'") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start + len(bom)} is not valid {name}: give another encoding"
        ) from None
    if "\0" in text:
        _refuse_binary(b"\0")
    if name == "utf-8":
        return body, name, bom
    if text.encode(name) != body:
        raise DataError(
            f"this text cannot be written back unchanged in {name}: convert it to UTF-8"
        )
    return text.encode(), name, bom


def _guessed_encoding(data: bytes) -> str:
    _refuse_binary(data)
    for encoding in ("utf-8", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _refuse_binary(data: bytes) -> None:
    sample = data[:65536]
    control = sum(byte < 32 and byte not in b"\t\n\v\f\r\x1a\x1b" for byte in sample)
    if b"\0" in data or data.startswith(_MAGIC) or control > len(sample) // 20:
        raise DataError(
            "this is not a text table: it holds bytes that no text has. If it is text without a "
            "byte order mark, name its encoding (utf-16-le, say); if it is of another "
            "format, give it that format's suffix"
        )
