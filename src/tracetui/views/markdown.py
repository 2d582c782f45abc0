"""Markdown for issues and chats: tables whose cells cannot break out of them."""

from __future__ import annotations

import re
from collections.abc import Sequence


def cell(text: str) -> str:
    """Text in a table cell or a sentence: nothing in it is markup."""
    # An underscore between two letters starts nothing.
    return re.sub(
        r"([\\`*{}\[\]<>|~#@&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))", r"\\\1", text.replace("\n", " ")
    )


def code(text: str) -> str:
    """A name as code, in a table cell or a sentence."""
    text = text.replace("\n", " ")
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    # A pipe ends a table's cell even within code.
    return fence + pad + text.replace("|", "\\|") + pad + fence if text else ""


def heading(text: str, level: int = 2) -> str:
    return f"{'#' * level} {cell(text)}\n"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A table; `align` has one of "<" and ">" per column. The cells must be escaped already."""
    rule = ["---:" if where == ">" else "---" for where in align]
    lines = [headers, rule, *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
