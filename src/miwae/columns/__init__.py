"""Columns in neutral form: what a table is to everything behind the door of `frames` and files.

`Column` is what is read, `Cells` what is written back. No library of frames, no model.
"""

from miwae.columns._column import Cells, Column
from miwae.columns._inspection import Inspection, inspect_columns
from miwae.columns._objects import filled_objects, read_objects
from miwae.columns._reading import (
    PER_SECOND,
    SECONDS_PER,
    boolean_column,
    coded_column,
    number_column,
    other_column,
    sorted_levels,
    tick_column,
    ticks_of,
    ticks_of_day,
)
from miwae.columns._scales import Scale
from miwae.columns._schema import ColumnSchema, Schema, infer_schema
from miwae.columns._values import TIMES, Marks, Storage, check_names, is_missing
from miwae.columns._writing import (
    as_booleans,
    as_codes,
    as_decimals,
    as_finite,
    as_numbers,
    as_texts,
    as_whole_numbers,
    cannot_fill,
)

__all__ = [
    "PER_SECOND",
    "SECONDS_PER",
    "TIMES",
    "Cells",
    "Column",
    "ColumnSchema",
    "Inspection",
    "Marks",
    "Scale",
    "Schema",
    "Storage",
    "as_booleans",
    "as_codes",
    "as_decimals",
    "as_finite",
    "as_numbers",
    "as_texts",
    "as_whole_numbers",
    "boolean_column",
    "cannot_fill",
    "check_names",
    "coded_column",
    "filled_objects",
    "infer_schema",
    "inspect_columns",
    "is_missing",
    "number_column",
    "other_column",
    "read_objects",
    "sorted_levels",
    "tick_column",
    "ticks_of",
    "ticks_of_day",
]
