"""Fitted models together, asked for imputations."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar, final

import numpy as np
from jaxtyping import Array, Bool, Float, Key

from miwae._deadlines import share
from miwae._memory import return_memory
from miwae._row_keys import row_keys
from miwae._threads import WORKERS, side_by_side
from miwae.inference import (
    RowReport,
    SamplingSettings,
    impute_multiple,
    impute_single,
    log_likelihood,
    point_of,
    quantiles,
)
from miwae.model import Autoencoder

T = TypeVar("T")
Rows: TypeAlias = Float[np.ndarray, "N D"]  # on the scale of the model
Seen: TypeAlias = Bool[np.ndarray, "N D"]  # True where a cell was observed
RowCallback: TypeAlias = Callable[[int, int], None]

# Monte Carlo error of an imputation, in standard deviations of its column. Its square adds to the
# squared error: half a percent of a column's variance.
TOLERANCE = 0.07

# Effective samples below which the error of a mean is not known well enough.
LEAST_EFFECTIVE = 10.0

# What is held at once while rows are imputed: cells of statistics, and rows. More rows would not
# be faster.
CHUNK_CELLS = 2**24
CHUNK_ROWS = 2**13

# Up to so many leave no memory behind that would be worth a few milliseconds.
FEW_ROWS = 256


def _means_settings(n_samples: int, n_members: int = 1) -> SamplingSettings:
    """The error of a mean over members is smaller than that of each."""
    tolerance = TOLERANCE * math.sqrt(n_members)
    return SamplingSettings(n_samples=n_samples, tolerance=tolerance, min_ess=LEAST_EFFECTIVE)


def _chunk_size(width: int) -> int:
    """Rows at once, if so many numbers are held of each."""
    return int(np.clip(CHUNK_CELLS // max(width, 1), 256, CHUNK_ROWS))


@final
@dataclass(frozen=True)
class Ensemble:
    """An ensemble of fitted models, asked for imputations of rows on their own scale.

    Each answer covers all rows, is computed in chunks of bounded memory, and does not depend on
    how they are cut.
    """

    autoencoders: Sequence[Autoencoder]
    scale: Float[np.ndarray, " S"]  # the unit of Monte Carlo error for each statistic
    n_samples: int  # the most latent samples per row and member
    keys: Sequence[Key[Array, ""]]  # of the members
    callback: RowCallback | None = None  # gets the number of finished rows and that of all rows
    # By `time.monotonic()`; after it rows get as few latent samples as possible.
    deadline: float | None = None

    def means(self, x: Rows, observed: Seen) -> tuple[Rows, RowReport]:
        """The single imputation of rows, and how their sampling went."""
        out, _, report = self.statistics(x, observed, slice(0))
        return out, report

    def statistics(
        self, x: Rows, observed: Seen, kept: slice
    ) -> tuple[Rows, Float[np.ndarray, "N S"], RowReport]:
        """The single imputation of rows, some of their mean statistics, and a report."""
        observation = self.autoencoders[0].generative.observation
        settings = _means_settings(self.n_samples, len(self.autoencoders))
        out, reports = np.empty(x.shape, dtype=np.float32), []
        n_kept = len(range(observation.n_statistics)[kept])
        statistics = np.empty((len(x), n_kept), dtype=np.float32)
        sampling = {"settings": settings, "scale": self.scale}
        for rows in _chunks(len(x), observation.n_statistics):
            results = self._of_each(impute_single, x, observed, rows, **sampling)
            mean = np.mean([result.mean for result in results], axis=0)
            several = len(results) > 1
            out[rows] = point_of(observation, mean) if several else results[0].x
            statistics[rows] = mean[:, kept]
            reports.append(_combined([result.report for result in results]))
        return out, statistics, _stacked(reports)

    def draws(
        self, x: Rows, observed: Seen, n_imputations: int
    ) -> tuple[Float[np.ndarray, "M N D"], RowReport]:
        """Completed copies, dealt out to the members in turn."""
        settings = SamplingSettings(n_samples=self.n_samples, tolerance=TOLERANCE)
        copies = np.empty((n_imputations, *x.shape), dtype=np.float32)
        reports = []
        n_asked = min(len(self.autoencoders), n_imputations)
        left = n_asked * len(x)
        for i, (autoencoder, key) in enumerate(zip(self.autoencoders, self.keys, strict=True)):
            own = range(i, n_imputations, len(self.autoencoders))
            if not own:
                continue
            keys = row_keys(key, x, observed, tell_duplicates_apart=True)
            width = autoencoder.generative.observation.n_statistics + len(own) * x.shape[1]
            parts = []
            for rows in _chunks(len(x), width):
                result = impute_multiple(
                    autoencoder,
                    x[rows],
                    observed[rows],
                    n_imputations=len(own),
                    keys=keys[rows],
                    settings=settings,
                    callback=self._reporting(i * len(x) + rows.start, n_asked, len(x)),
                    deadline=share(self.deadline, rows.stop - rows.start, left),
                )
                left -= rows.stop - rows.start
                copies[own.start :: own.step, rows] = result.x
                parts.append(result.report)
            reports.append(_stacked(parts))
        return copies, _combined(reports)

    def quantiles(
        self, x: Rows, observed: Seen, levels: tuple[float, ...]
    ) -> Float[np.ndarray, "Q N D"]:
        """Quantiles of each missing cell, of the members' mixture."""
        settings = SamplingSettings(n_samples=self.n_samples, tolerance=None)
        several = len(self.autoencoders) > 1
        # The quantiles of a mixture are those of its members' pooled quantiles, which have equal
        # shares; there is no use for more of them than there are latent samples.
        fine = max(200, int(4 / min(min(level, 1 - level) for level in levels)))
        fine = min(fine, max(200, self.n_samples))
        asked = tuple((i + 0.5) / fine for i in range(fine)) if several else levels
        out = np.empty((len(levels), *x.shape), dtype=np.float32)
        sampling = {"levels": asked, "settings": settings}
        for rows in _chunks(len(x), len(asked) * x.shape[1]):
            results = self._of_each(quantiles, x, observed, rows, **sampling)
            pooled = np.concatenate([result.x for result in results])
            out[:, rows] = (
                np.quantile(pooled, levels, axis=0, method="hazen") if several else pooled
            )
        return out

    def log_prob(self, x: Rows, observed: Seen) -> Float[np.ndarray, " N"]:
        """Estimated log p(x_obs) of each row, of the members' mixture."""
        parts = np.empty((len(self.autoencoders), len(x)))
        width = self.autoencoders[0].generative.observation.n_statistics
        for rows in _chunks(len(x), width):
            results = self._of_each(log_likelihood, x, observed, rows, n_samples=self.n_samples)
            parts[:, rows] = [result.log_prob for result in results]
        return np.logaddexp.reduce(parts, axis=0) - np.log(len(parts))

    def _of_each(
        self, ask: Callable[..., T], x: Rows, observed: Seen, rows: slice, **options: Any
    ) -> list[T]:
        """What each member answers about some of the rows, two members at a time.

        Rows and members have equal shares of the time until the deadline.
        """
        members = list(zip(self.autoencoders, self.keys, strict=True))
        limit = share(self.deadline, rows.stop - rows.start, len(x) - rows.start)
        finished = [0] * len(members)

        def one(i: int, check: Callable[[], None]) -> T:
            def report(now: int, _: int) -> None:
                check()
                finished[i] = now
                if self.callback is not None:
                    self.callback(rows.start + sum(finished) // len(members), len(x))

            autoencoder, key = members[i]
            own = {"key": key, "callback": report, **options}
            if limit is not None and ask is not log_likelihood:
                own["deadline"] = share(limit, 1, -(-(len(members) - i) // WORKERS))
            return ask(autoencoder, x[rows], observed[rows], **own)

        return side_by_side([partial(one, i) for i in range(len(members))])

    def _reporting(self, before: int, turns: int, n_rows: int) -> RowCallback | None:
        """Reports the finished rows of a chunk, where all rows are gone through several times."""
        if self.callback is None:
            return None
        callback = self.callback
        return lambda now, _: callback((before + now) // turns, n_rows)


def _chunks(n_rows: int, width: int) -> Iterator[slice]:
    size = _chunk_size(width)
    for first in range(0, n_rows, size):
        yield slice(first, min(first + size, n_rows))
        if n_rows > FEW_ROWS:
            return_memory()


def _combined(reports: Sequence[RowReport]) -> RowReport:
    """The report of several members: all latent samples, and the least reliable weights."""
    with np.errstate(invalid="ignore"):
        return RowReport(
            np.sum([r.n_samples for r in reports], axis=0),
            np.min([r.effective_sample_size for r in reports], axis=0),
            np.max([r.pareto_k for r in reports], axis=0),
            np.any([r.smoothed for r in reports], axis=0),
        )


def _stacked(reports: Sequence[RowReport]) -> RowReport:
    """Of several chunks."""
    return RowReport(*(np.concatenate(parts) for parts in zip(*reports, strict=True)))
