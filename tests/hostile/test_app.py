"""The app over hostile traces: every pane, search, explanation and message, looked at cell by cell."""

from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from textual.widgets import Input

from tracetui.core.safe_text import plain
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
    task.ended.result(60)
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


BUNDLES = (
    ("osc0", "csi", "osc52"), ("dcs", "osc8"), ("c1", "c0"), ("tab", "surrogate", "newline"),
    ("right-to-left", "zero-width"), ("wide", "format", "markdown"), ("combining", "markup")
)  # fmt: skip
"""Kinds that stand one after the other, the shortest first, wherever the trace of one visit may hold text."""

_faults: dict[tuple[str, ...], Exception | None] = {}


async def test_every_pane_shows_it_harmlessly(kind, trace_file, tmp_path):
    together = next((bundle for bundle in BUNDLES if kind in bundle), (kind,))
    if together == (kind,):
        await visit(together, trace_file)
        return
    if together not in _faults:
        _faults[together] = None
        try:
            await visit(together, write(tmp_path, " ".join(KINDS[each] for each in together)))
        except Exception as fault:
            _faults[together] = fault
    if fault := _faults[together]:
        await visit((kind,), trace_file)  # is it this one's?
        raise AssertionError(f"well alone, but not with all of {', '.join(together)}: {fault}") from fault


async def visit(kinds: tuple[str, ...], path: Path) -> None:
    """Look at every pane of a trace that holds texts of these kinds."""
    app = app_of(path)
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
        texts = [plain(KINDS[kind])[:20] for kind in kinds]
        named = [i for i in range(len(trace)) if all(text in trace.name_of(i) for text in texts)]
        assert named
        for lane in np.unique(trace.lane[named]).tolist():
            screen.navigator.select(next(i for i in named if int(trace.lane[i]) == lane))
            await press(f"lane {lane}", "f", "f")
            for _ in range(3):
                above = seen.get("details")
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
        await press("gap", "v", "g")
        await press("moved", "right", "down", "right_square_bracket", "n")
        await press("searching", "slash", *("a", "left_square_bracket", "b"))
        await press("searched", "enter")
        await press("help", "question_mark")
        await press("gap explained", "escape", "g", "e")
        await press("glossary", "I")
        await press("commands", "escape", "escape", "ctrl+p")
        await pilot.press("escape")
        for first in {text[:1] for text in texts}:
            await press("found", "slash", first, "enter")
            await press("matches", "L")
            await press("matches walked", "down", "end")
            await press("as before", "escape", "right")
        await press("note", "T", "a", "ctrl+s")
        await press("marks", "l")
        await press("what can be opened", "escape", "ctrl+o")
        app.screen.query_one(Input).value = f"{path.parent}/"
        await press("a folder")
        await press("at the end", "escape")
        if "markup" in kinds:
            assert "[bold]b[/bold]" in seen["ops"] + seen["details"]
        assert app.return_code is None


@pytest.mark.parametrize("typed", ["markup", "right-to-left", "combining", "wide", "zero-width", "tab"])
async def test_what_is_typed_or_pasted_is_shown_harmlessly(typed, tmp_path):
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


async def test_files_that_cannot_be_read_are_named_harmlessly(kind, tmp_path):
    import os

    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + file_name(kind)))
    for content in (None, b"", b"\x1b[31m\x9b[bold]", b'{"no": "trace"}'):
        if content is not None:
            path.write_bytes(content)
        app = app_of(path)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            assert "quit" in look(app, "error")
