"""Columns in neutral form: what a table is to everything behind the door of `frames` and files.

`Column` is what is read, `Cells` what is written back. No library of frames, no model.
"""

from miwae.columns._column import Cells, Column, is_sparse
from miwae.columns._curves import density_curve, level_shares, plain_values, visible_range
from miwae.columns._inspection import Hint, Inspection, inspect_columns
from miwae.columns._missingness import (
    missing_associations,
    missing_cells,
    missing_correlations,
    missing_patterns,
)
from miwae.columns._objects import filled_objects, read_objects
from miwae.columns._overview import Overview
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
from miwae.columns._values import (
    COPY,
    ROW,
    TIMES,
    Marks,
    Storage,
    check_names,
    is_missing,
    require_free,
    seconds_text,
    stored_text,
    value_text,
)
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
