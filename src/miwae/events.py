"""What happened, as data: every automatic decision and every cell that could not be used."""

from typing import Literal, NamedTuple

__all__ = ["About", "Event"]

# What an event is about. Programs may branch on it; they never read the text.
About = Literal[
    "kind",  # what a column was taken for
    "not filled",  # cells that stay missing
    "empty",  # a column without any value
    "value",  # a value that the model cannot use
    "type",  # a column without values that gets a type
    "dates",  # dates that could be read in two ways
    "rows",  # rows that are not used
    "training",  # how training went
    "weights",  # rows with unreliable importance weights
]


class Event(NamedTuple):
    """One thing that happened, for programs (`about`, `column`, `count`) and for people (`text`).

    Attributes:
        about: the sort of event.
        column: the name of the column that it concerns; None if it concerns the whole table.
        count: how many cells, rows or columns it concerns.
        text: one sentence for people.
    """

    about: About
    column: str | None
    count: int
    text: str

    def __str__(self) -> str:
        return self.text
