"""A fitted table applied to the parts of a table that is too large for one process."""

from miwae.engines._worker import Worker
