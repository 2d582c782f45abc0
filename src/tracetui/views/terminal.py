"""Lines to standard output: with colors on a terminal (unless `NO_COLOR` is set), plain in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from tracetui.views.lines import STYLES, Line, plain_text


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Columns of the terminal on standard output; 80 if it is not one."""
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns) if is_terminal() else 80
    except (OSError, ValueError):
        return 80


def render(lines: Sequence[Line]) -> str:
    """The lines as text for standard output."""
    if not is_terminal():
        return plain_text(lines)
    import io

    from rich.console import Console
    from rich.text import Text

    # Rich chooses colors from the environment; writing happens in one place, so return the text.
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=terminal_width(), highlight=False, legacy_windows=False
    )
    for line in lines:
        text = Text(no_wrap=True, overflow="ellipsis", end="\n")
        for part, style in line:
            text.append(part, STYLES[style])
        text.rstrip()
        console.print(text, markup=False, soft_wrap=False)
    return out.getvalue()
