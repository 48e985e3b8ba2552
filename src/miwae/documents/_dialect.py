"""How a text file is written: its encoding, its delimiter and quotes, its line ends."""

import codecs
from dataclasses import dataclass

from miwae.errors import DataError

QUOTE = '"'

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# In these a delimiter's byte is always a delimiter, so files can be split without being decoded.
_SPLIT_AS_BYTES = {"ascii", "utf-8", "cp1252", "iso8859-1"}

# How binary files start that need not have a NUL byte early on.
_MAGIC = (b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"ARROW1", b"%PDF", b"\x89PNG", b"\xd0\xcf\x11\xe0")


@dataclass(frozen=True, kw_only=True)
class Dialect:
    delimiter: str = ","
    encoding: str = "utf-8"  # without the byte order mark
    bom: bytes = b""
    line_terminator: str = "\n"  # of the first record, and of records that are added
    decimal: str = "."
    decimal_shown: bool = True  # some number shows it, or the delimiter allows no other
    header: bool = True

    def field(self, text: str, *, quoted: bool = False) -> bytes:
        """A text as a raw field in the inner encoding, in quotes if wanted or needed."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            raise DataError(
                f"{text!r} cannot be written in {self.encoding}, the encoding of the file: "
                "convert the file to UTF-8"
            ) from None
        raw = text.encode(inner_encoding(self.encoding))
        special = (self.delimiter, QUOTE, "\n", "\r")
        return in_quotes(raw) if quoted or any(mark in text for mark in special) else raw

    def encoded(self, inner: bytes) -> bytes:
        """A text in the inner encoding as the content of a file: the inverse of `decoded`."""
        here = inner_encoding(self.encoding)
        if here == codecs.lookup(self.encoding).name:
            return self.bom + inner
        return self.bom + inner.decode(here).encode(self.encoding)


def in_quotes(raw: bytes) -> bytes:
    """A field between quotes, with the quotes in it doubled."""
    mark = QUOTE.encode()
    return mark + raw.replace(mark, mark * 2) + mark


def inner_encoding(encoding: str) -> str:
    """The encoding of a text in memory: its own where bytes can be split, otherwise UTF-8."""
    name = codecs.lookup(encoding).name
    return name if name in _SPLIT_AS_BYTES else "utf-8"


def decoded(data: bytes, encoding: str | None) -> tuple[bytes, str, bytes]:
    """A text in its inner encoding, the name of its encoding, and its byte order mark."""
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
    if inner_encoding(name) == codecs.lookup(name).name:
        return body, name, bom
    if text.encode(name) != body:
        raise DataError(
            f"this text cannot be written back unchanged in {name}: convert it to UTF-8"
        )
    return text.encode("utf-8"), name, bom


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
