"""More of what a person does with a trace (see test_tasks_on_screen), told by the app: six keys at most.

A typed word counts as one key, and so do the arrow keys held to get to a line that one sees.
"""

from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from tracetui.analysis.calls.averages import averages_of
from tracetui.tui.screens.trace import TraceScreen

from .conftest import DATA, screen_of, until, visit
from .test_app import text


class Person:
    """Someone at the keys, who counts them."""

    def __init__(self, pilot: Pilot[None]) -> None:
        self.pilot, self.keys = pilot, 0

    @property
    def screen(self) -> TraceScreen:
        return screen_of(self.pilot.app)  # type: ignore[arg-type]

    @property
    def shown(self) -> str:
        return text(self.pilot.app)  # type: ignore[arg-type]

    @property
    def selected(self) -> str:
        event = self.screen.navigator.selected
        return "" if event is None else self.screen.trace.name_of(event)

    async def press(self, *keys: str) -> None:
        self.keys += len(keys)
        await self.pilot.press(*keys)

    async def type(self, word: str) -> None:
        self.keys += 1
        await self.pilot.press(*word)

    async def walk(self, key: str, there: Callable[[], bool], limit: int = 40) -> None:
        """Press an arrow until the line is reached."""
        self.keys += 1
        for _ in range(limit):
            if there():
                return
            await self.pilot.press(key)
        raise AssertionError("not reached")

    async def see(self, true: Callable[[], bool]) -> None:
        await until(self.pilot, true)


async def where_idle_time_goes(p: Person) -> None:
    await p.press("6")
    await p.see(lambda: "idle" in p.screen.area.tabs.note and "dispatch" in p.screen.area.tabs.note)


async def the_name_called_most_often(p: Person) -> None:
    pane = p.screen.area.open
    await p.see(lambda: pane is not None and pane.table is not None)
    await p.walk("greater_than_sign", lambda: pane is not None and pane.sort == "calls")
    calls = averages_of(pane.whole).calls
    assert calls[pane.row] == calls.max()


async def the_second_longest_instance(p: Person) -> None:
    pane = p.screen.area.open
    await p.see(lambda: pane is not None and pane.table is not None)
    await p.press("tab", "enter", "enter")
    await p.see(lambda: "number 2 " in p.screen.footer.message)


async def an_event_by_name(p: Person) -> None:
    await p.press("slash")
    await p.type("silu_backward")
    await p.press("enter")
    await p.see(lambda: "silu_backward" in p.selected)


async def long_kernels_only(p: Person) -> None:
    await p.press("slash")
    await p.type("cat:kernel dur>100us")
    await p.press("enter")
    await p.see(lambda: p.screen.navigator.selected is not None)
    assert int(p.screen.trace.duration[p.screen.navigator.selected or 0]) > 100_000


async def how_busy_the_gpu_is_in_step_3(p: Person) -> None:
    await p.press("7")
    await p.see(lambda: "step 3" in p.shown and "34.3%" in p.shown)


async def what_to_do_about_it(p: Person) -> None:
    await p.press("8")
    await p.see(lambda: "larger batches" in p.shown)


async def the_evidence_of_a_finding(p: Person) -> None:
    await p.press("8")
    await p.see(lambda: "larger batches" in p.shown)
    await p.press("enter")
    await p.see(lambda: p.selected != "")


async def paste_a_table_into_a_chat(p: Person) -> None:
    pane = p.screen.area.open
    await p.see(lambda: pane is not None and pane.table is not None)
    await p.press("Y")
    assert p.pilot.app.clipboard.startswith("| Name | Self GPU ms |")


TASKS: tuple[Callable[[Person], Awaitable[None]], ...] = (
    where_idle_time_goes, the_name_called_most_often, the_second_longest_instance, an_event_by_name,
    long_kernels_only, how_busy_the_gpu_is_in_step_3, what_to_do_about_it, the_evidence_of_a_finding,
    paste_a_table_into_a_chat
)  # fmt: skip


@pytest.mark.parametrize("task", TASKS, ids=[t.__name__ for t in TASKS])
async def test_task(task):
    async with visit(DATA / "llama_train.json.gz") as (_, pilot, _):
        person = Person(pilot)
        await task(person)
        assert 0 < person.keys <= 6
