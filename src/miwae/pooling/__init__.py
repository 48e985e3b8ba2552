"""Several completed copies of a table, and statistics that account for the missing cells."""

from miwae.pooling._copies import MultiplyImputed
from miwae.pooling._rubin import Pooled, pool

__all__ = ["MultiplyImputed", "Pooled", "pool"]
