"""Keys that take something along: a file of a table or of the picture, a text in the clipboard."""

from __future__ import annotations

from pathlib import Path

from tracetui.trace.text import plain
from tracetui.tui.export import PICTURE_ENDINGS, ExportError, as_markdown, table_text, write_new
from tracetui.tui.panes.facts import event_facts
from tracetui.tui.screens.parts.asking import Asking

COPIED_ROWS = 200


class Taking(Asking):
    """Export and copy."""

    def action_export(self) -> None:
        stem = Path(self.trace.info.path).name.removesuffix(".gz").removesuffix(".json") or "trace"
        name = plain(f"{stem}-{self.area.tabs.open or 'picture'}{'.csv' if self.area.open else '.svg'}", 120)
        kinds = "table .csv .json .md  picture .svg .txt"
        self.ask("export to:", self._exported, name, keys=kinds, wrong=self._export)

    def _exported(self, path: str) -> None:
        self.say(f"wrote {plain(str(Path(path).expanduser()))}")

    def _export(self, path: str) -> str:
        """Write the file; what stands in the way, "" for nothing."""
        ending = Path(path).suffix.lower()
        pane = self.area.open
        try:
            if ending in PICTURE_ENDINGS:
                text = self.app.export_screenshot() if ending == ".svg" else self.picture()
            elif pane is None or pane.table is None:
                raise ExportError("no table is open: 1 to 5 open one; the picture goes into .svg or .txt")
            else:
                text = table_text(pane.table, pane.order, ending)
            write_new(path, text)
        except ExportError as error:
            return plain(str(error))
        return ""

    def picture(self) -> str:
        """The screen as text."""
        lines = self._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines) + "\n"

    def action_copy(self) -> None:
        event = self.timeline.selected
        if event is None:
            self.say("select an event first")
            return
        memory = self.results.memory() if self.results.ready("memory") else None
        facts = event_facts(self.trace, event, self.trace.args(event), memory)
        self.app.copy_to_clipboard(
            "\n".join(f"{f.label}: {f.value}" if f.label else f"  {f.value}" for f in facts)
        )
        self.say("the event's details are in the clipboard")

    def action_copy_table(self) -> None:
        pane = self.area.open
        if pane is None or pane.table is None:
            self.say("no table is open: 1 to 5 open one")
            return
        self.app.copy_to_clipboard(as_markdown(pane.table, pane.order[:COPIED_ROWS]))
        rows = min(COPIED_ROWS, len(pane.order))
        self.say(f"{rows} of {len(pane.order):,} rows are in the clipboard, as Markdown")
