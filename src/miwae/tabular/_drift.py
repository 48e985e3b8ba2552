"""New rows that are far from all that was learned, such as those in another unit."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Key

from miwae._row_keys import row_keys
from miwae.columns import Column, ColumnSchema, Scale, value_text
from miwae.columns.kinds import Number, Points
from miwae.events import Event
from miwae.model import Autoencoder
from miwae.tabular._encoding import EncodedTable
from miwae.tabular._held_out import predicted
from miwae.tabular._observation import TableModel
from miwae.training import Evaluation, Unseen

# Standard deviations of what was learned, on the scale of the model, between the median of new
# cells and the centre: below, there is nothing to look at. Few cells are often far out by chance.
SUSPICIOUS, OF_FEW, FEW = 2.0, 5.0, 10

# Of a standard deviation: as far from zero as rounding puts the mean of standardised scores.
NEXT_TO_NOTHING = 0.01

# The probability of a value as far out, given the other cells of its row, that is drift if half of
# the cells have it or less, and in how many rows it is looked for.
RARE, MOST_ROWS = 1e-4, 64


def drift(
    table: EncodedTable,
    columns: Sequence[Column],
    model: TableModel,
    autoencoder: Autoencoder,
    key: Key[Array, ""],
) -> tuple[Event, ...]:
    """Events about columns of numbers whose new cells lie far outside of what was learned."""
    middles = _suspicious(table)
    if not middles:
        return ()
    events, chances = [], _chances(table, list(middles), model, autoencoder, key)
    for (j, middle), own in zip(middles.items(), chances.T, strict=True):
        if not np.nanmedian(own) < RARE:
            continue
        position, seen = table.schema.modelled[j], table.observed[:, j]
        new = columns[position].values[seen]
        events.append(_event(table.schema.columns[position], new, middle))
    return tuple(events)


def _event(known: ColumnSchema, values: Float[np.ndarray, " V"], middle: float) -> Event:
    """What is said of new values that are so many standard deviations from what was learned."""
    new, n = float(np.median(values)), len(values)
    centre, may_be_zero = _centre(known.kind.scale)  # pyright: ignore
    found, rest, are = "values are around", "the rest of their rows does", "are they"
    if n == 1:
        found, rest, are = "value is", "the rest of its row does", "is it"
    text = (
        f"column {known.name!r}: the new {found} {_plain(new)}, {abs(middle):.1f} standard "
        f"deviations from those that were learned, which are around {_plain(centre)}"
        f"{'' if may_be_zero else _times(new, centre)}, and {rest} not explain it: {are} in the "
        "same unit?"
    )
    return Event("drift", known.name, n, text)


def _centre(scale: Scale) -> tuple[float, bool]:
    """The centre of what was learned, and whether it may be zero, of which nothing is a multiple.

    So it is for scores, which have been standardised.
    """
    centre = float(scale.inverse(np.zeros(1))[0])
    if scale.shape == "log" or abs(centre) >= scale.deviation:
        return centre, False
    return (0.0 if abs(centre) < NEXT_TO_NOTHING * scale.deviation else centre), True


def _suspicious(table: EncodedTable) -> dict[int, float]:
    """Where the medians of modelled columns of numbers are, if they are far out."""
    middles = {}
    for j, position in enumerate(table.schema.modelled):
        kind, seen = table.schema.columns[position].kind, table.observed[:, j]
        # Whoever gives bounds knows what is possible.
        bounded = isinstance(kind, Number) and kind.bounds != (None, None)
        if isinstance(kind, Number | Points) and not bounded and seen.any():
            middle = float(np.median(table.x[seen, j]))
            if abs(middle) > (SUSPICIOUS if seen.sum() >= FEW else OF_FEW):
                middles[j] = middle
    return middles


def _chances(
    table: EncodedTable,
    suspicious: list[int],
    model: TableModel,
    autoencoder: Autoencoder,
    key: Key[Array, ""],
) -> Float[np.ndarray, "N S"]:
    """The predicted probability of values as far out as those of some rows; NaN without a value.

    Predicted from the other columns, without all of the suspicious ones.
    """
    rows = np.flatnonzero(table.observed[:, suspicious].any(axis=1))
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)]
    x, used = model.padded(table.x[rows], table.used[rows])
    asked = np.zeros(used.shape, dtype=bool)
    places = model.place[suspicious]
    asked[:, places] = table.observed[rows][:, suspicious]
    keys = row_keys(key, x, used)
    found = predicted(Unseen(Evaluation(x, used & ~asked, asked, keys), autoencoder))
    below, upto = found.below[:, places], found.upto[:, places]
    return 2 * np.minimum(upto, 1 - below)


def _times(new: float, known: float) -> str:
    if new * known <= 0:
        return ""
    ratio = new / known
    return (
        f" ({_plain(ratio)} times as much)" if ratio > 1 else f" ({_plain(1 / ratio)} times less)"
    )


def _plain(number: float) -> str:
    """Three digits, of large numbers with zeros behind them."""
    return value_text(float(f"{number:.3g}"))
