"""Counts in sentences, names that are misspelt, and characters that terminals obey."""

import difflib
import re
from collections.abc import Iterable

# Control characters, but for the end of a line, and those that change the direction of text.
ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def counted(n: int, what: str, several: str = "") -> str:
    """A number of things, with the plural where there is not exactly one.

    Examples:
        >>> counted(1, "row"), counted(2, "row"), counted(1, "cell stays", "cells stay")
        ('1 row', '2 rows', '1 cell stays')
    """
    return f"{n} {what if n == 1 else several or what + 's'}"


def meant(word: object, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error about an unknown word: the known one that it resembles.

    Examples:
        >>> meant("aeg", ["age", "size"])
        "; did you mean 'age'?"
    """
    near = difflib.get_close_matches(str(word), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else otherwise


def visible(text: str) -> str:
    r"""Text with its control characters written out.

    Example:
        >>> print(visible("red\x1b[2J"))
        red\x1b[2J
    """
    return ACTING.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
