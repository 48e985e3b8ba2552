"""A table that is learned, and what is known of its missing cells afterwards.

    columns -> infer_schema -> EncodedTable.of -> FittedTable.fit -> .means -> cells

Neither frames nor files: `frames` and `documents` give columns and take cells.
"""

from miwae.tabular._encoding import EncodedTable, ImputedCells
from miwae.tabular._fitted import FittedTable, Imputed, LevelProbabilities
from miwae.tabular._quality import ColumnQuality, Quality
from miwae.tabular._settings import TableSettings

__all__ = [
    "ColumnQuality",
    "EncodedTable",
    "FittedTable",
    "Imputed",
    "ImputedCells",
    "LevelProbabilities",
    "Quality",
    "TableSettings",
]
