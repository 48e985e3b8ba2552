"""Files as documents that are patched: only the given cells differ from what was read.

The way of a file is

    document = open_document("in.csv")
    reading = document.read(marks, like)        # reading.columns: a Column for each
    write(reading, "out.csv", cells)            # cells: imputed values by position of the column

All three are pure functions of their arguments: the same patch gives the same bytes, whatever was
called before. Text and Excel files need no pyarrow.
"""

from miwae.documents._dataset import MANY_ROWS, Dataset, is_parquet, open_dataset, write_like
from miwae.documents._document import DEFAULT_NA, Document, Reading
from miwae.documents._files import (
    is_text,
    open_document,
    require_free_names,
    require_writable,
    suffix_of,
    write,
    write_frame,
    write_long,
)
from miwae.documents._frame import Frame
from miwae.documents._further import FLAG
from miwae.documents._large_text import LargeText, open_large_text
