"""A document as text and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracetui.core.cells import fit, wrap
from tracetui.core.units import capital
from tracetui.views import markdown
from tracetui.views.document import Block, Document, TableBlock
from tracetui.views.lines import INDENT, STYLES, Line, Span, paragraph
from tracetui.views.overview_lines import COSTS, TRACK, column_lines

WIDEST, WIDEST_SENTENCE = 110, 102
"""Cells of a line at most, however wide the screen is."""


def document_lines(document: Document, title: str, width: int) -> list[Line]:
    """The document in lines of at most `width` cells, the answer first."""
    width = min(width, WIDEST)
    sentence = min(width, WIDEST_SENTENCE)
    word, style = document.verdict
    lines = [
        *_beside((fit(title, width), "title"), (document.about, "dim"), 2, width),
        [],
        *_beside((capital(word), style), (document.numbers, ""), 3, width),
        *paragraph(document.reason, sentence, "dim", INDENT),
    ]
    tried = (
        paragraph(document.advice, sentence, head=[*INDENT, ("Try: ", "accent")]) if document.advice else []
    )
    if not (fixes := document.fixes):
        return [*lines, *tried, [], *report_lines(_blocks(document), width)]
    others = [block for block in _blocks(document) if block is not fixes]
    return [*lines, [], *report_lines([fixes], width), *tried, [], *report_lines(others, width)]


def report_lines(blocks: Iterable[Block], width: int) -> list[Line]:
    """Blocks in lines of at most `width` cells."""
    lines: list[Line] = []
    for block in blocks:
        found = _table_lines(block, width) if isinstance(block, TableBlock) else _entry_lines(block, width)
        head = [*INDENT] if block.title or isinstance(block, TableBlock) else []
        for text in block.foot:
            style = "dim" if head else block.style if block.style == "title" else ""
            found += paragraph(text, min(width, WIDEST_SENTENCE), style, head)
        titled = paragraph(block.title, width, "title") if block.title and block.style == "title" else []
        lines += [[], *titled, *found] if lines and (titled or found) else [*titled, *found]
    return lines


def forms(blocks: Callable[[], Iterable[Block]]) -> tuple[Callable[[], str], Callable[[int], list[Line]]]:
    """The Markdown and the lines of an `Answer`."""
    return lambda: report_markdown(blocks()), lambda width: report_lines(blocks(), width)


def _table_lines(block: TableBlock, width: int) -> list[Line]:
    title = [[(block.title, block.style)]] if block.title and block.style == "head" else []
    return [*title, *block.lines(width)]


def _entry_lines(block: Block, width: int) -> list[Line]:
    if not block.entries:
        return []
    pieces = column_lines([(block, list(enumerate(block.entries)))], 0, width - 1)
    head, *rows = (piece.line for piece in pieces if piece is not None)
    lines = [[(" ", ""), *((text, _style(role)) for text, role in row)] for row in rows]
    return [head[1:], *lines] if block.title else lines  # a title is not indented


def _blocks(document: Document) -> list[Block]:
    return [block for block in (*document.blocks, *document.more) if block.entries]


def _style(role: str) -> str:
    """Parts of the time have colors on the screen alone."""
    role = role.removesuffix(TRACK)
    return role if role in STYLES else "accent"


def _beside(first: Span, second: Span, apart: int, width: int) -> list[Line]:
    """Two texts on one line, or below each other where there is no room."""
    if not second[0]:
        return [[first]]
    if len(wrap(f"{first[0]}{'':<{apart}}{second[0]}", width)) == 1:
        return [[first, (f"{'':<{apart}}{second[0]}", second[1])]]
    return [[first], *paragraph(second[0], width, second[1], INDENT)]


def document_markdown(document: Document, title: str) -> str:
    """The document to paste into an issue or a chat."""
    numbers = f": {document.numbers}" if document.numbers else ""
    text = markdown.heading(title) + f"\n{markdown.cell(document.about)}\n\n"
    text += f"**{capital(document.verdict[0])}**{markdown.cell(numbers)}. {markdown.cell(document.reason)}\n"
    tried = f"\n*Try:* {markdown.cell(document.advice)}\n" if document.advice else ""
    if not (fixes := document.fixes):
        return f"{text}{tried}\n{report_markdown(_blocks(document))}"
    others = report_markdown(block for block in _blocks(document) if block is not fixes)
    return f"{text}\n{report_markdown([fixes])}{tried}\n{others}"


def report_markdown(blocks: Iterable[Block]) -> str:
    """Blocks to paste into an issue."""
    parts = []
    for block in blocks:
        note = f": {block.note}" if block.note else ""
        if block.title:
            parts.append(markdown.heading(block.title + note, 2 if block.style == "title" else 3))
        if isinstance(block, TableBlock):
            parts.append(block.markdown())
        elif block.entries:
            parts.append(_block_markdown(block))
        bold = "**" if block.style == "title" and not block.title else ""
        parts += [f"{bold}{markdown.cell(text)}{bold}\n" for text in block.foot]
    return "\n".join(filter(None, parts))


def _block_markdown(block: Block) -> str:
    """A table where there are numbers, else a list."""
    if not any(entry.numbers for entry in block.entries):
        return "".join(f"- {markdown.cell(one.name)}: {markdown.cell(one.text)}\n" for one in block.entries)
    name = markdown.code if block.key in COSTS else markdown.cell
    heads = block.heads or [_heading(field) for field in block.fields]
    texts = any(entry.text for entry in block.entries)
    rows = [
        [name(one.name), *map(markdown.cell, one.numbers), *([""] * (len(heads) - len(one.numbers)))]
        + [markdown.cell(one.text)] * texts
        for one in block.entries
    ]
    return markdown.table(["", *heads, *[""] * texts], rows, "<" + ">" * len(heads) + "<" * texts)


def _heading(field: str) -> str:
    return capital(field.removesuffix("_ns").removesuffix("_share").replace("_", " "))
