"""Text for a terminal, in which nothing that a table holds can act on the terminal."""

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from miwae._words import visible


def on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n")


def say(text: str) -> None:
    """Tell people something, on a line of standard error."""
    sys.stderr.write(f"{on_one_line(text)}\n")


class VisibleConsole(Console):
    """A console that writes control characters out."""

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        return super().render_str(visible(text), *arguments, **options)
