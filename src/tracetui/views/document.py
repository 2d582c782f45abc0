"""What a view says as a document: sections of lines that lead to their evidence. The first screen, the text
and the Markdown are written from it, so that all of them say the same.

Imports nothing that analyzes: a document that was kept is shown at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracetui.views.lines import Line, Span
from tracetui.views.target import Target

FIXES = "fixes"
"""The block of what to fix first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a block. All texts are safe to show."""

    name: str
    numbers: tuple[str, ...]
    part: float | None
    """The length of its bar, 0 to 1 of the longest there can be; None for no bar."""
    style: str
    """The color of the bar, or of the name if there is no bar: a part of the time, or a key of `STYLES`."""
    text: str
    target: Target
    of: float = 1.0
    """The length of what the bar is a part of, likewise. The part of that is the share beside it."""
    values: tuple[float | int | None, ...] = ()
    """What the numbers were before they were rounded, for JSON."""
    advice: str = ""
    """What to try about it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A few lines on one question."""

    key: str
    title: str
    note: str
    """A few words after the title."""
    entries: tuple[Entry, ...]
    heads: tuple[str, ...] = ()
    """Titles of the columns of numbers."""
    fields: tuple[str, ...] = ()
    """What the numbers are, as in JSON: in Markdown the titles, where there are no `heads`."""
    foot: tuple[str, ...] = ()
    """Sentences below, in text and Markdown."""
    style: str = "head"
    """Of the title: "title" for what several others belong to, "" where the lines of a table have it."""


@dataclass(frozen=True, slots=True)
class TableBlock(Block):
    """A table, in text and Markdown."""

    lines: Callable[[int], list[Line]] = lambda width: []
    """In lines of so many cells."""
    markdown: Callable[[], str] = lambda: ""


def table(
    title: str, lines: Callable[[int], list[Line]], text: Callable[[], str], *foot: str, style: str = "head"
) -> Block:
    """A table, with sentences below it; empty ones are left out."""
    return TableBlock("", title, "", (), (), (), tuple(filter(None, foot)), style, lines, text)


def sentences(*texts: str) -> Block:
    """Sentences without a title; empty ones are left out."""
    return Block("", "", "", (), foot=tuple(filter(None, texts)))


@dataclass(frozen=True, slots=True)
class Document:
    """Everything that a view says."""

    reason: str
    """What it comes to: a sentence or two."""
    advice: str
    """What to try first, "" where no finding says so."""
    left: tuple[Block, ...]
    right: tuple[Block, ...]
    """Beside the left ones where there is room, else below."""
    more: tuple[Block, ...] = ()
    """Only in text and Markdown: elsewhere on the screen they are said anyway."""
    about: str = ""
    """How much there is, in a few words; as the next two, for text and Markdown."""
    verdict: Span = ("", "")
    """The answer in a word, with its style."""
    numbers: str = ""
    """Beside the verdict."""

    @property
    def fixes(self) -> Block | None:
        """What to fix first, if that is known."""
        return next((block for block in self.left if block.key == FIXES and block.entries), None)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Those on the screen in reading order, without empty ones."""
        return tuple(block for block in (*self.left, *self.right) if block.entries)


def document_json(document: Document) -> list[dict[str, Any]]:
    """The sections with their lines. The fields of numbers end in their unit."""
    return [
        {
            "section": block.key,
            "title": block.title,
            "note": block.note,
            "rows": [
                {"name": one.name, **dict(zip(block.fields, one.values, strict=True)), "text": one.text}
                for one in block.entries
            ],
        }
        for block in (*document.blocks, *document.more)
    ]
