"""How many latent samples imputation may draw, and how much memory it may use."""

from dataclasses import dataclass

import numpy as np

from miwae._arrays import require_at_least
from miwae.errors import SettingsError
from miwae.inference._lanes import BLOCK

# Rows that are sampled together, at most; more would not be faster.
MOST_ROWS = 4096

PARTS = 4  # of the memory; see `SamplingSettings.rows_at_once`


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many latent samples to draw for a row, and how much memory to use.

    Attributes:
        n_samples: K, the most latent samples drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its estimates is
            below this (in their own units: 0.02 is little on standardised data) and its effective
            sample size is at least `min_ess`. None draws K samples for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        adapt: find better proposals for rows with poor weights and draw more samples for rows with
            Pareto's k above 0.7, and smooth the weights of those for which it stays above.
        memory: bytes for the samples that are held at once, roughly.
    """

    n_samples: int = 10_000
    tolerance: float | None = 0.02
    min_ess: float = 30.0
    adapt: bool = True
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        require_at_least(1, n_samples=self.n_samples)
        if self.tolerance is not None and not self.tolerance > 0:
            raise SettingsError(f"tolerance must be positive or None, not {self.tolerance}")

    def rows_at_once(self, n_samples: int, n_values: int) -> int:
        """As many rows as can have so many samples in their part of the memory.

        The other parts are for rows that wait with the samples that they have so far.
        """
        bytes_per_row = 4 * -(-n_samples // BLOCK) * BLOCK * (2 * n_values + 20)
        return int(np.clip(self.memory // PARTS // bytes_per_row, 1, MOST_ROWS))
