"""New rows that are far from all that was learned, such as those in another unit."""

from collections.abc import Sequence

import numpy as np

from miwae.columns import Column
from miwae.columns.kinds import Number, Points
from miwae.events import Event
from miwae.tabular._encoding import EncodedTable

# Standard deviations of what was learned, on the scale of the model, between the median of new
# cells and the centre.
FAR = 5.0


def drift(table: EncodedTable, columns: Sequence[Column]) -> tuple[Event, ...]:
    """Events about columns of numbers whose new cells lie far outside of what was learned."""
    events = []
    for j, position in enumerate(table.schema.modelled):
        kind, seen = table.schema.columns[position].kind, table.observed[:, j]
        # Whoever gives bounds knows what is possible.
        bounded = isinstance(kind, Number) and kind.bounds != (None, None)
        if not isinstance(kind, Number | Points) or bounded or not seen.any():
            continue
        middle = float(np.median(table.x[seen, j]))
        if abs(middle) <= FAR:
            continue
        name, new = table.schema.names[position], float(np.median(columns[position].values[seen]))
        known = float(kind.scale.inverse(np.zeros(1))[0])
        text = (
            f"column {name!r}: the new values are around {new:.4g}, {abs(middle):.0f} standard "
            f"deviations from those that were learned, which are around {known:.4g}"
            f"{_times(new, known)}: are they in the same unit?"
        )
        events.append(Event("drift", name, int(seen.sum()), text))
    return tuple(events)


def _times(new: float, known: float) -> str:
    if new * known <= 0:
        return ""
    ratio = new / known
    return f" ({ratio:.3g} times as much)" if ratio > 1 else f" ({1 / ratio:.3g} times less)"
