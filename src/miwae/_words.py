"""Counts in sentences."""


def counted(n: int, what: str, several: str = "") -> str:
    """A number of things, with the plural where there is not exactly one.

    Examples:
        >>> counted(1, "row"), counted(2, "row"), counted(1, "cell stays", "cells stay")
        ('1 row', '2 rows', '1 cell stays')
    """
    return f"{n} {what if n == 1 else several or what + 's'}"
