"""The command line: `miwae impute`, `fit`, `score`, `inspect`, `report`, ..."""

from miwae.cli._main import main
