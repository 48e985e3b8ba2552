"""Columns that are added to a table: which cells were imputed, and other values of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from miwae.documents._document import Patch, Reading
from miwae.documents._frame import Frame, only_at

FLAG = ".imputed"


def further_columns(
    reading: Reading, cells: Patch, further: Mapping[str, Patch], *, flag: bool, as_text: bool
) -> Frame:
    """For each column with imputed cells, its flags, and other values of these cells."""
    frames = {word: reading.frame(own, as_text=as_text) for word, own in further.items()}
    found: dict[str, Any] = {}
    for position, new in cells.items():
        name = reading.document.names[position]
        fixed = reading.document.fixed(position).values()
        rows = new.rows[[not any(flags[row] for flags in fixed) for row in new.rows]]
        if flag:
            flags = np.isin(np.arange(reading.document.n_rows), rows)
            found[name + FLAG] = flags.tolist()
        for word, frame in frames.items():
            if position in further[word]:
                found[name + word] = only_at(frame.columns[position], rows)
    return Frame(tuple(found), tuple(found.values()))
