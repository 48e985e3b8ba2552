"""Several completed copies of a table, and honest statistics from them."""

from miwae.multiple.copies import MultiplyImputed
from miwae.multiple.rubin import Pooled, pool

__all__ = ["MultiplyImputed", "Pooled", "pool"]
