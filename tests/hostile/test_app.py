"""The app over hostile traces: every pane, search, explanation and message, looked at cell by cell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from textual.widgets import Input

from tracetui.safe_text import plain
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes import PANES, keyed
from tracetui.tui.screens.trace import TraceScreen

from .test_commands import file_name
from .texts import KINDS, unsafe, write

SIZE = (120, 36)
STYLES = {"link", "blink", "conceal"}


def app_of(path: Path) -> TracetuiApp:
    task = LoadTask(path).start()
    assert task.finished.wait(60)
    return TracetuiApp(task)


def look(app: TracetuiApp, where: str) -> str:
    """All text on the screen, once nothing in it is unsafe: not even a new line."""
    width = app.size.width
    shown = []
    for strip in app.screen._compositor.render_strips():
        assert not unsafe(strip.text, allowed=""), (where, unsafe(strip.text, allowed="")[:5])
        for style in {segment.style for segment in strip}:
            assert style is None or not (style.link or style.blink or style.conceal), where
        assert cell_len(strip.text) <= width, (where, strip.text)
        shown.append(strip.text)
    return "\n".join(shown)


async def test_every_pane_shows_it_harmlessly(kind: str, trace_file: Path) -> None:
    text = KINDS[kind]
    app = app_of(trace_file)
    async with app.run_test(size=SIZE) as pilot:
        seen: dict[str, str] = {}

        async def press(where: str, *keys: str) -> None:
            await pilot.press(*keys)
            await app.workers.wait_for_complete()
            await pilot.pause()
            seen[where] = look(app, where)

        await press("opened")
        screen = app.screen
        assert isinstance(screen, TraceScreen)
        await press("the file", "2")
        trace = screen.trace
        named = [i for i in range(len(trace)) if plain(text)[:20] in trace.name_of(i)]
        assert named
        for lane in np.unique(trace.lane[named]).tolist():
            event = next(i for i in named if int(trace.lane[i]) == lane)
            screen.walk.select(event)
            await press(f"lane {lane}", "f", "f")
            for _ in range(3):
                above = look(app, "details")
                await press("details", "tab", "pagedown", "tab")
                if seen["details"] == above:
                    break  # its end
            await press("explained", "e")
            await press("explained, below", "pagedown", "pagedown")
            await press("explained no more", "escape")
        await pilot.press("v")  # all of the screen
        for key, pane in ((key, spec.key) for key, spec in keyed(PANES)):
            await press(pane, key)
            assert not screen.query_one("#picture").display
            await press(f"{pane}, below", "pagedown", "end")
        await press("", "v")
        await press("gap", "g")
        await press("moved", "right", "down", "right_square_bracket", "n")
        await press("searching", "slash", *("a", "left_square_bracket", "b"))
        await press("searched", "enter")
        await press("help", "question_mark")
        await press("", "escape")
        await press("gap explained", "g", "e")
        await press("glossary", "I")
        await press("", "escape", "escape")
        await press("commands", "ctrl+p")
        await press("", "escape", "slash", *plain(text)[:1], "enter")
        await press("matches", "L")
        await press("matches walked", "down", "end")
        await press("", "escape", "right")
        await press("note", "T", "a", "ctrl+s")
        await press("marks", "l")
        await press("", "escape")
        await press("what can be opened", "ctrl+o")
        screen.app.screen.query_one(Input).value = f"{trace_file.parent}/"
        await press("a folder")
        await press("", "escape")
        if kind == "markup":
            assert "[bold]b[/bold]" in seen["ops"] + seen["details"]
        assert app.return_code is None


@pytest.mark.parametrize("typed", ["markup", "right-to-left", "combining", "wide", "zero-width", "tab"])
async def test_what_is_typed_or_pasted_is_shown_harmlessly(typed: str, tmp_path: Path) -> None:
    from textual import events

    app = app_of(write(tmp_path, "harmless"))
    async with app.run_test(size=SIZE) as pilot:
        for key in ("slash", "F", "colon"):
            await pilot.press("3", key)
            app.screen.post_message(events.Paste(KINDS[typed]))
            assert app.focused is not None
            app.focused.post_message(events.Paste(KINDS[typed]))
            await pilot.pause()
            look(app, key)
            await pilot.press("enter")
            await app.workers.wait_for_complete()
            await pilot.pause()
            look(app, key)
            await pilot.press("escape", "escape")


async def test_files_that_cannot_be_read_are_named_harmlessly(kind: str, tmp_path: Path) -> None:
    import os

    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + file_name(kind)))
    for content in (None, b"", b"\x1b[31m\x9b[bold]", b'{"no": "trace"}'):
        if content is not None:
            path.write_bytes(content)
        app = app_of(path)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert "quit" in look(app, "error")
