"""The command line: `miwae impute`, `fit`, `score`, `inspect`, `benchmark` and `demo`."""

from miwae.cli._app import app, main

__all__ = ["app", "main"]
