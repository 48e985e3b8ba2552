"""What happened, as data: every automatic decision and every cell that could not be used."""

from typing import Literal, NamedTuple

__all__ = ["About", "Event"]

# What an event is about. Programs may branch on it; they never read the text.
About = Literal[
    "kind",  # what a column was taken for
    "role",  # cells that stay missing because of the role of their column
    "not filled",  # cells that stay missing
    "empty",  # a column without any value
    "value",  # a value that the model cannot use
    "drift",  # new values far from those that were learned
    "type",  # a column without values that gets a type
    "dates",  # dates that could be read in two ways
    "rows",  # rows that are not used
    "training",  # how training went
    "time",  # what a time limit did not allow
    "few values",  # a table or column with too few values to learn much from
    "dependent rows",  # rows that are equal to others
    "quality",  # a column that is predicted no better than by its mean or mode
    "weights",  # rows with unreliable importance weights
]


class Event(NamedTuple):
    """One thing that happened; programs read `about`, `column` and `count`, people read `text`."""

    about: About
    column: str | None  # that it concerns; None if it concerns the whole table
    count: int  # of cells, rows or columns that it concerns
    text: str  # one sentence

    def __str__(self) -> str:
        return self.text
