"""How well each column is predicted: on observed cells that were held out from training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float

from miwae._words import visible
from miwae.columns import ColumnSchema, Schema
from miwae.columns.kinds import Coded
from miwae.events import Event
from miwae.inference import point_of
from miwae.tabular._held_out import HeldOut
from miwae.tabular._observation import TableModel

# Fewer held-out cells than this show nothing.
FEWEST = 10

# Errors of at most this share of those of the mean (or mode) are good: of a number, half of the
# variance is explained.
GOOD = 0.7

# Less of the variance, or of the log-loss, is not worth a word.
LITTLE = 0.05

LEVEL = 0.9  # of the intervals whose coverage is counted

# Of times, from the largest.
UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

Verdict: TypeAlias = Literal[
    "good", "weak", "no better than the mean", "no better than the mode", "too few cells"
]
Losses: TypeAlias = Float[np.ndarray, " C"]


class ColumnQuality(NamedTuple):
    """How well held-out cells of a column are predicted; None for what a column does not have."""

    column: str
    kind: str
    n_held_out: int  # cells that were predicted
    verdict: Verdict
    error: float | None = None  # root mean squared, in units of the column; of times, in seconds
    error_of_mean: float | None = None  # the same, if the mean of the column is imputed
    accuracy: float | None = None  # share of categories that are right
    accuracy_of_mode: float | None = None  # the same, if the most frequent one is imputed
    log_loss: float | None = None  # mean of -log(predicted probability of the category)
    log_loss_of_shares: float | None = None  # the same for the shares of the categories
    coverage: float | None = None  # share of the cells in their 90 % intervals

    @property
    def relative_error(self) -> float | None:
        """The error (share of wrong categories) relative to that of the mean (mode)."""
        if self.error is not None and self.error_of_mean:
            return self.error / self.error_of_mean
        if self.accuracy is not None and self.accuracy_of_mode not in (None, 1.0):
            return (1 - self.accuracy) / (1 - self.accuracy_of_mode)
        return None

    @property
    def shown(self) -> tuple[str, str]:
        """The error (share of right categories), and that of the mean (mode), for people."""
        if self.accuracy is not None and self.accuracy_of_mode is not None:
            return f"{self.accuracy:.0%}", f"{self.accuracy_of_mode:.0%}"
        if self.error is None or self.error_of_mean is None:
            return "", ""
        of_time = self.kind in ("datetime", "clock")
        return _shown(self.error, of_time=of_time), _shown(self.error_of_mean, of_time=of_time)

    def event(self) -> Event | None:
        """An event about a column whose imputed cells say no more than its mean or mode."""
        if not self.verdict.startswith("no better"):
            return None
        text = (
            f"column {self.column!r} is predicted {self.verdict} ({self._reason()}, on "
            f"{self.n_held_out} held-out cells): the other columns say little about it"
        )
        return Event("quality", self.column, self.n_held_out, text)

    def _reason(self) -> str:
        own, other = self.shown
        if self.error is not None:
            return f"error {own}, of the mean {other}"
        losses = f"log-loss {self.log_loss:.3g}, of the shares {self.log_loss_of_shares:.3g}"
        more_hits = (self.accuracy or 0) > (self.accuracy_of_mode or 0)
        return losses if more_hits else f"{own} right, the mode {other}"


@final
@dataclass(frozen=True, repr=False)
class Quality(Sequence[ColumnQuality]):
    """How well each modelled column is predicted: `print(quality)` shows it as a table."""

    columns: tuple[ColumnQuality, ...] = ()

    def __len__(self) -> int:
        return len(self.columns)

    def __getitem__(self, key: Any) -> Any:
        """By position, or by the name of a column."""
        if isinstance(key, str):
            found = [own for own in self.columns if own.column == key]
            if not found:
                raise KeyError(key)
            return found[0]
        return self.columns[key]

    def as_data(self) -> list[dict[str, Any]]:
        """For JSON, or a data frame."""
        return [own._asdict() for own in self.columns]

    def of(self, names: Iterable[str]) -> "Quality":
        """That of some columns."""
        wanted = set(names)
        return Quality(tuple(own for own in self.columns if own.column in wanted))

    def rows(self) -> list[tuple[str, ...]]:
        """As people read it: a header, and a row for each column."""
        covers = ("" if own.coverage is None else f"{own.coverage:.0%}" for own in self)
        pairs = zip(self, covers, strict=True)
        shown = (
            (visible(q.column), str(q.n_held_out), *q.shown, share, q.verdict)
            for q, share in pairs
        )
        return [HEADER, *shown]

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows]
        return "\n".join(lines)

    __repr__ = __str__


HEADER = ("column", "held out", "error or hits", "of mean or mode", "interval covers", "verdict")


def _shown(amount: float, *, of_time: bool) -> str:
    """Three digits, without an exponent if they are few; seconds as days, hours or minutes."""
    if of_time:
        size, unit = next((s, u) for s, u in UNITS if amount >= s or s == 1)
        return f"{_shown(amount / size, of_time=False)} {unit}"
    rounded = float(f"{amount:.3g}")
    return f"{rounded:.0f}" if 1_000 <= rounded < 1e15 else f"{rounded:.3g}"


def quality_of(
    schema: Schema,
    model: TableModel,
    x: Float[np.ndarray, "N F"],
    observed: Bool[np.ndarray, "N F"],
    held_out: Sequence[HeldOut],
) -> Quality:
    """Judge each column by the held-out cells of all models; `x` is the table."""
    if not held_out:
        return Quality()
    points = [point_of(model.observation, own.mean) for own in held_out]
    columns = []
    for position, place, levels in zip(
        schema.modelled, model.place.tolist(), model.levels, strict=True
    ):
        parts = zip(held_out, points, strict=True)
        own = [_Cells.of(held, point, place, levels) for held, point in parts]
        cells = _Cells(*map(np.concatenate, zip(*own, strict=True)))
        seen = x[observed[:, place], place]
        columns.append(_judged(schema.columns[position], cells, seen))
    return Quality(tuple(columns))


class _Cells(NamedTuple):
    """Held-out cells of one column, on the scale of the model."""

    truth: Losses
    point: Losses  # what would be imputed
    p: Float[np.ndarray, "C V"]  # of each level
    inside: Bool[np.ndarray, " C"]  # the interval has the true value

    @classmethod
    def of(cls, held: HeldOut, point: Any, place: int, levels: slice) -> "_Cells":
        at = held.held_out[:, place]
        tail = (1 - LEVEL) / 2
        inside = (held.upto[at, place] >= tail) & (held.below[at, place] <= 1 - tail)
        return cls(held.x[at, place], point[at, place], held.mean[at, levels], inside)


def _judged(known: ColumnSchema, cells: _Cells, seen: Losses) -> ColumnQuality:
    n_cells, label = len(cells.truth), known.kind.label
    nothing = ColumnQuality(known.name, label, n_cells, "too few cells")
    if n_cells < FEWEST:
        return nothing
    is_category = isinstance(known.kind, Coded)
    own, better = (_of_category if is_category else _of_number)(nothing, known, cells, seen)
    if label not in ("binary", "categorical"):
        own = own._replace(coverage=float(cells.inside.mean()))
    if not better:
        mean: Verdict = "no better than the mean"
        return own._replace(verdict="no better than the mode" if is_category else mean)
    return own._replace(verdict="good" if (own.relative_error or 0.0) <= GOOD else "weak")


def _of_number(
    own: ColumnQuality, known: ColumnSchema, cells: _Cells, seen: Losses
) -> tuple[ColumnQuality, bool]:
    """Errors in the units of the column, and whether they are smaller than those of the mean."""
    kind = known.kind

    def amounts(scaled: Losses) -> Losses:
        return np.asarray(kind.amounts(kind.decoded(scaled.astype(np.float64))), np.float64)

    def squares(guess: Losses | np.floating) -> Losses:
        apart = np.abs(guess - amounts(cells.truth))
        return np.minimum(apart, kind.period - apart) ** 2

    losses, of_mean = squares(amounts(cells.point)), squares(amounts(seen).mean())
    error, error_of_mean = (float(np.sqrt(a.mean())) for a in (losses, of_mean))
    return own._replace(error=error, error_of_mean=error_of_mean), _is_better(losses, of_mean)


def _of_category(
    own: ColumnQuality, known: ColumnSchema, cells: _Cells, seen: Losses
) -> tuple[ColumnQuality, bool]:
    """Hits and losses, and whether both are better than those of the mode and the shares."""
    codes = cells.truth.astype(int)
    counts = np.bincount(seen.astype(int), minlength=cells.p.shape[1])
    shares = (counts + 0.5) / (counts + 0.5).sum()
    losses = -np.log(np.maximum(cells.p[np.arange(len(codes)), codes], 1e-9))
    of_shares = -np.log(shares[codes])
    accuracy = float(np.mean(cells.point == cells.truth))
    of_mode = float(np.mean(codes == counts.argmax()))
    own = own._replace(
        accuracy=accuracy,
        accuracy_of_mode=of_mode,
        log_loss=float(losses.mean()),
        log_loss_of_shares=float(of_shares.mean()),
    )
    return own, _is_better(losses, of_shares) and (accuracy > of_mode or of_mode == 1.0)


def _is_better(losses: Losses, others: Losses) -> bool:
    """Whether the mean loss is below another, by more than chance and by more than a little."""
    gain = others - losses
    return bool(gain.mean() > max(gain.std() / np.sqrt(len(gain)), LITTLE * others.mean()))
