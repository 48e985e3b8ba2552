"""Text for a terminal, in which nothing that a table holds can act on the terminal."""

import re
from typing import Any

from rich.console import Console
from rich.text import Text

# Control characters, but for the end of a line, and those that change the direction of text.
ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Text with its control characters written out.

    Example:
        >>> print(visible("red\x1b[2J"))
        red\x1b[2J
    """
    return ACTING.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def on_one_line(text: str) -> str:
    return visible(text).replace("\n", "\\n")


class VisibleConsole(Console):
    """A console that writes control characters out."""

    def render_str(self, text: str, *arguments: Any, **options: Any) -> Text:
        return super().render_str(visible(text), *arguments, **options)
