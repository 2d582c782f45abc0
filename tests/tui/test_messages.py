"""What the last line says of a key, and for how long."""

import numpy as np
from tests.tui.conftest import DATA, screen_of, slice_event, until, visit, write_trace

from tracetui.timeline.labels import lines_below

SIZE = (120, 36)
LLAMA = DATA / "llama_train.json.gz"
MEMORY = DATA.parent.parent / "sample_traces" / "train_memory.json.gz"


async def test_a_message_goes_with_the_next_key():
    async with visit(LLAMA, size=SIZE) as (app, pilot, _):
        footer = screen_of(app).footer
        await pilot.press("g")
        assert "gap 1 of" in footer.message
        await pilot.press("d")
        await until(pilot, lambda: footer.message == "", 2)


async def test_a_key_that_says_something_replaces_the_message():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("g", "g")
        assert "gap 2 of" in screen.footer.message
        # The same again stays, too.
        await pilot.press("n")
        await pilot.pause()
        assert "press /" in screen.footer.message
        await pilot.press("n")
        await pilot.pause()
        assert "press /" in screen.footer.message


async def test_a_message_that_came_by_itself_waits_for_a_key():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("d")
        await pilot.pause()
        screen.host.say("something was found")
        await pilot.pause(0.1)
        assert screen.footer.message == "something was found"
        await pilot.click("#picture", offset=(60, 12))
        await until(pilot, lambda: screen.footer.message != "something was found")


async def test_rows_below_the_screen_are_told_and_reached_by_the_down_key():
    async with visit(MEMORY, size=(80, 24)) as (app, pilot, _):
        timeline = screen_of(app).timeline
        await until(pilot, lambda: len(timeline.navigator.scene.source.series) >= 5)
        await pilot.pause()
        below, in_dock = lines_below(timeline.navigator.scene, timeline.size.height)
        below += in_dock
        assert below > 0

        def last() -> str:
            return "".join(segment.text for segment in timeline._strips[-1])

        assert f"↓{below}" in last()[: timeline.navigator.scene.labels]
        streams = [n for n, one in enumerate(timeline.navigator.trace.lanes) if one.kind == "stream"]
        timeline.navigator.select(int(np.flatnonzero(timeline.navigator.trace.lane == streams[-1])[-1]))
        for _ in range(below + 2):
            await pilot.press("down")
        assert lines_below(timeline.navigator.scene, timeline.size.height)[1] == 0
        assert "↓" not in last()
        assert screen_of(app).footer.message.startswith("only hidden lanes below")


async def test_a_time_that_was_gone_to_has_a_line_until_escape():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        timeline = screen.timeline

        async def go(time: str) -> None:
            await pilot.press("colon")
            await until(pilot, lambda: screen.prompts.prompt is not None)
            await pilot.press(*time, "enter")
            await until(pilot, lambda: "line at" in screen.footer.message)
            await pilot.pause()

        await pilot.press("W", "W")
        await go("60ms")
        view = timeline.navigator.view
        assert abs(view.start_ns + view.span_ns / 2 - 60_000_000) <= view.cell
        column = timeline.navigator.scene.labels + view.column(60_000_000)
        assert "▾60 ms" in timeline._strips[1].text
        assert "┊" in [strip.text[column] for strip in timeline._strips[2:]]
        await pilot.press("w")
        assert timeline.navigator.view.column(60_000_000) == view.column(60_000_000)
        # Nothing blank before the beginning.
        await go("0")
        assert timeline.navigator.view.start_ns == timeline.navigator.scene.span[0]
        await pilot.press("escape")
        assert timeline.navigator.scene.instant is None
        await pilot.press("escape")
        assert screen.footer.message == "nothing to clear"
        # Another selection takes the line away, too.
        await go("60ms")
        await pilot.press("right")
        assert timeline.navigator.selected is not None
        assert timeline.navigator.scene.instant is None


async def test_keys_that_change_nothing_to_be_seen_say_a_word(tmp_path):
    events = [slice_event(f"op{n}", n * 10.0, 5.0 + n, tid=1 + n % 3) for n in range(12)]
    async with visit(write_trace(tmp_path / "t.json", events), size=SIZE) as (_, pilot, screen):

        async def said(*keys: str) -> str:
            await pilot.press(*keys)
            await pilot.pause()
            return screen.footer.message

        assert "Enter is for tables" in await said("enter")
        assert await said("X") == "nothing is hidden"
        assert "one row" in await said("right", "z")
        assert await said("p") == "this lane stays at the top"
        assert await said("p") == "this lane scrolls with the others again"
        await said("x")
        assert await said("X") == "1 hidden lane back"
        for pane, name in (("8", "findings"), ("2", "details")):
            await said(pane)
            for key in ("greater_than_sign", "less_than_sign", "R"):
                assert await said(key) == f"the {name} pane has no column to sort by"


async def test_the_only_trace_says_how_to_get_another():
    async with visit(LLAMA, size=SIZE) as (app, pilot, _):
        await pilot.press("t")
        await until(pilot, lambda: "Ctrl+O opens another" in screen_of(app).footer.message)
