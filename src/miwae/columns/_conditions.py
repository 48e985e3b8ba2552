"""Conditions on the columns of a table: where a cell of another column does not apply."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from miwae.columns._column import Column, Flags
from miwae.columns._user_settings import by_position
from miwae.columns._values import value_text
from miwae.errors import SettingsError

# A column, or `a column`; a value, or 'a value', which may hold any word; and what comes then.
_COMPARISON = re.compile(
    r"\s*(?P<column>`[^`]+`|.+?)\s*(?P<op>==|!=|<=|>=|<|>)\s*"
    r"(?P<value>'[^']*'|\"[^\"]*\"|.+?)(?:\s+(?P<then>and|or)\s+|\s*$)"
)
_COMPARED = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class Comparison(NamedTuple):
    """`column op value`."""

    column: str
    op: str
    value: str | float


def parsed(text: str) -> tuple[Comparison, ...]:
    """Comparisons joined by `and`, such as `garage == 0 and year < 1990`."""
    comparisons, start = [], 0
    while start < len(text) or not comparisons:
        found = _COMPARISON.match(text, start)
        if found is None or found["then"] == "or":
            raise SettingsError(
                f"the condition {text!r} must be COLUMN OP VALUE with one of "
                f"{', '.join(_COMPARED)}, or several of them joined by 'and', not by 'or'; values "
                "with such words are written in quotes"
            )
        comparisons.append(_comparison(found))
        start = found.end()
    return tuple(comparisons)


def _comparison(found: re.Match[str]) -> Comparison:
    value = found["value"]
    if value[0] == value[-1] and value[0] in "'\"" and len(value) > 1:
        return Comparison(found["column"].strip("`"), found["op"], value[1:-1])
    try:
        return Comparison(found["column"].strip("`"), found["op"], float(value))
    except ValueError:
        return Comparison(found["column"].strip("`"), found["op"], value)


def checked_condition(name: str, text: Any, names: Sequence[str]) -> str:
    """A condition, all of whose columns exist."""
    if not isinstance(text, str):
        raise SettingsError(f"not_applicable of {name!r} must be text, not {text!r}")
    by_position(list(names), {own.column: own for own in parsed(text)}, "not_applicable")
    return text


def holds(text: str, columns: Sequence[Column]) -> Flags:
    """The rows in which a condition holds; it does not where a cell that it needs is missing."""
    by_name = {column.name: column for column in columns}
    n_rows = len(columns[0].missing)
    result = np.ones(n_rows, dtype=bool)
    for own in parsed(text):
        result &= _compared(by_name[own.column], own)
    return result


def _compared(column: Column, own: Comparison) -> Flags:
    if column.storage == "boolean" and isinstance(own.value, str):
        own = own._replace(value=float(own.value.lower() in ("true", "yes")))
    if not column.levels:
        if isinstance(own.value, str):
            raise SettingsError(
                f"not_applicable compares column {column.name!r}, which holds numbers, with "
                f"{own.value!r}"
            )
        with np.errstate(invalid="ignore"):
            return ~column.missing & _COMPARED[own.op](column.values, own.value)
    if own.op not in ("==", "!="):
        raise SettingsError(
            f"not_applicable compares column {column.name!r}, which holds text, by {own.op}: use "
            "== or !="
        )
    wanted = value_text(own.value)
    equal = np.array([value_text(level) == wanted for level in column.levels])
    codes = np.where(column.missing, 0, column.values).astype(int)
    return ~column.missing & (equal[codes] == (own.op == "=="))
