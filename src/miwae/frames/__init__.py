"""Tables of pandas, polars, pyarrow and numpy, read as columns and completed in their own form.

Plain functions of the user's own frame, none of which changes it. Types are understood by narwhals
where it keeps every bit, and by the library itself where it does not. No library of frames is
imported that the user has not imported.
"""

from miwae.frames._arrow_schema import arrow_schema, default_type
from miwae.frames._checks import as_frame, names
from miwae.frames._frame import (
    columns,
    completed,
    keep,
    n_rows,
    of_columns,
    renamed,
    stacked,
    to_library,
    with_columns,
)
