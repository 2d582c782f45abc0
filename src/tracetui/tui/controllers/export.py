"""Keys that export a table or the screen to a file, or copy text to the clipboard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.strip import Strip

from tracetui.core.safe_text import plain
from tracetui.core.units import plural
from tracetui.session.paths import trace_stem, typed_path
from tracetui.tui.controllers.prompts import Prompts, Question
from tracetui.tui.controllers.screen_context import ScreenContext
from tracetui.tui.export import PICTURE_ENDINGS, ExportError, deliver, picture_text, table_text
from tracetui.tui.panes import NUMBERS
from tracetui.tui.textual_private import lines_of

COPIED_ROWS = 200
NO_TABLE = f"no table is open: press 1 to {NUMBERS}"
NOT_YET = "this table is still being worked out: try again in a moment"


class ExportKeys:
    """Export and copy."""

    def __init__(self, context: ScreenContext, prompts: Prompts) -> None:
        self.context, self.prompts, self.area = context, prompts, context.area
        self._done = ""

    def action_export(self) -> None:
        stem = trace_stem(self.context.trace.info.path) or "trace"
        name = plain(f"{stem}-{self.area.tabs.open or 'picture'}{'.csv' if self.area.open else '.svg'}", 120)
        kinds = "table .csv .json .md  picture .svg .txt"
        picture = lines_of(self.context.screen)  # as it is before the prompt opens
        write = partial(self._export, picture=picture)
        self.prompts.ask(Question("export to:", self._exported, name, keys=kinds, wrong=write))

    def _exported(self, path: str) -> None:
        self.context.say(self._done)

    def _export(self, path: str, picture: Sequence[Strip]) -> str:
        """Write the file. Returns the error, or ""."""
        ending = typed_path(path).suffix.lower()
        pane = self.area.open
        try:
            if ending in PICTURE_ENDINGS:
                text = picture_text(picture, ending, self.context.screen.app.title)
            elif pane is None or pane.table is None:
                raise ExportError(f"{NO_TABLE}; the picture goes into .svg or .txt")
            elif pane.busy:
                raise ExportError(NOT_YET)
            else:
                text = table_text(pane.table, pane.order, ending)
            self._done = deliver(self.context.screen.app, path, text)
        except ExportError as error:
            return plain(str(error))
        return ""

    def _copy(self, text: str, message: str) -> None:
        self.context.screen.app.copy_to_clipboard(text)
        self.context.say(message)

    def action_copy(self) -> None:
        from tracetui.analysis.calls.averages import memory_of
        from tracetui.analysis.calls.calls import self_time_of

        event, trace = self.context.navigator.selected, self.context.trace
        if event is None:
            self.context.say("select an event first")
            return
        from tracetui.views.event import event_facts

        part = self.context.session.active.whole
        memory = memory_of(part) if part.knows(memory_of) else None
        facts = event_facts(trace, event, trace.args(event), memory, self_time_of(part))
        text = "\n".join(f"{f.label}: {f.value}" if f.label else f"  {f.value}" for f in facts)
        self._copy(text, "copied the event's details")

    def action_copy_table(self) -> None:
        pane = self.area.open
        if pane is None or pane.table is None:
            self.context.say(NO_TABLE)
            return
        if pane.busy or not len(pane.order):
            self.context.say(NOT_YET if pane.busy else "the table has no rows to copy")
            return
        from tracetui.views.writers import as_markdown, row_count

        some = pane.order[:COPIED_ROWS]
        rows, of = (row_count(pane.table, order) for order in (some, pane.order))
        said = f"{rows} of {plural(of, 'row')} {'is' if of == 1 else 'are'} in the clipboard, as Markdown"
        self._copy(as_markdown(pane.table, some), said)
