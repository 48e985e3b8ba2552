"""Counts in sentences, and names that are misspelt."""

import difflib
from collections.abc import Iterable


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
