"""Textual's private parts: those that are used do what is relied upon, and one module alone uses them."""

import ast
import functools
import importlib
import inspect
import io
import os
import pkgutil
import sys
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import pytest
import textual.app
import textual.css.stylesheet
from rich.console import Console
from rich.segment import Segment
from tests import driver
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.css.scalar import Scalar
from textual.css.stylesheet import Stylesheet
from textual.drivers._writer_thread import WriterThread
from textual.filter import LineFilter
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

import tracetui.tui
from tracetui.tui import textual_private
from tracetui.tui.textual_private import (
    App,
    LazyStrip,
    after_next_paint,
    behind,
    draw_less,
    filters,
    forget_drawn,
    forget_places,
    lines_between,
    lines_of,
    mode_of,
)


class Small(App):
    """Two lines of text; notes what is displayed, and the keys that are offered."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("a", "note(1)"), Binding("b", "note(2)", priority=True)]
    CSS = "Static { height: 1; }"

    def __init__(self) -> None:
        super().__init__()
        self.displayed: list[Any] = []
        self.offered: list[str] = []
        self.notes: list[int] = []

    def compose(self) -> ComposeResult:
        yield Static("above")
        yield Static("below", id="below")

    def take_key(self, key: str) -> bool:
        self.offered.append(key)
        return key == "x"

    def action_note(self, number: int) -> None:
        self.notes.append(number)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        self.displayed.append(renderable)
        super()._display(screen, renderable)


async def test_what_is_sent_goes_through_display_as_updates_of_the_compositor():
    app = Small()
    async with app.run_test(size=(20, 3)) as pilot:
        await pilot.pause()
        whole = [u for u in app.displayed if isinstance(u, LayoutUpdate)][-1]
        assert whole.region == Region(0, 0, 20, 3)
        assert ["".join(strip.text for strip in line).rstrip() for line in whole.strips] == [
            "above", "below", ""
        ]  # fmt: skip
        app.displayed.clear()
        app.query_one("#below", Static).update("after")
        await pilot.pause()
        (part,) = (u for u in app.displayed if isinstance(u, ChopsUpdate))
        assert [(y, left, right) for y, left, right in part.spans] == [(1, 0, 20)]
        assert (
            "".join(strip.text for strip in part.chops[1].values() if strip is not None).rstrip() == "after"
        )


def test_the_updates_are_made_and_rendered_as_textual_does():
    console = Console(file=io.StringIO(), force_terminal=True, width=6)
    chops = [{0: Strip([Segment("abc")]), 3: Strip([Segment("def")])}]
    update = ChopsUpdate(chops, [(0, 3, 6)], [[3, 6]])  # type: ignore[arg-type]
    assert isinstance(update, CompositorUpdate)
    assert "def" in update.render_segments(console)
    assert "abc" not in update.render_segments(console)
    sent = textual_private.SentLines()
    line = LayoutUpdate([[Strip([Segment("abcdef")])]], Region(0, 0, 6, 1))
    assert "abcdef" in sent.only_new(line, 6).render_segments(console)
    assert sent.only_new(line, 6).render_segments(console) == ""
    assert "def" in sent.only_new(update, 6).render_segments(console)
    assert "abcdef" in sent.only_new(line, 6).render_segments(console), "what a part has changed is not known"
    holed = LayoutUpdate([[Strip([Segment("abcde")]), None]], Region(0, 0, 6, 1))  # type: ignore[list-item]
    assert "abcde" in sent.only_new(holed, 6).render_segments(console)
    assert "abcde" in sent.only_new(holed, 6).render_segments(console), "what is in the hole is not known"


async def test_a_key_is_offered_before_the_bindings_that_have_no_priority():
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("a", "b", "x")
    assert app.notes == [1, 2]
    assert app.offered == ["a", "x"]


class Loud(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text.upper(), style, control) for text, style, control in segments]


async def test_filters_change_the_lines_of_the_screen():
    app = Small()
    filters(app).append(Loud())
    async with app.run_test(size=(20, 3)) as pilot:
        await pilot.pause()
        assert [line.text.rstrip() for line in lines_of(app.screen)] == ["ABOVE", "BELOW", ""]


class Moded(App):
    """Its first screen belongs to a mode, as that of `TracetuiApp`. Notes when a picture is displayed, and
    when that screen is called back."""

    DEFAULT_MODE: ClassVar[str] = "first"

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.add_mode("first", lambda: First())

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, renderable)
        if renderable is not None and not self._batch_count:
            self.order.append("picture")

    def get_css_variables(self) -> dict[str, str]:
        return {**super().get_css_variables(), "mine": getattr(self, "mine", "#010203")}


class First(Screen[None]):
    DEFAULT_CSS = "First { background: $mine; }"

    def compose(self) -> ComposeResult:
        yield Static("text")

    def on_mount(self) -> None:
        app = self.app
        assert isinstance(app, Moded)
        self.call_after_refresh(app.order.append, "after refresh")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(App, "is_headless", False)
            after_next_paint(self, lambda: app.order.append("once drawn"))


async def test_what_is_put_off_comes_after_the_first_picture():
    app = Moded()
    async with app.run_test() as pilot:
        await pilot.pause(0.3)
        assert app.order.count("once drawn") == 1
        assert app.order.index("picture") < app.order.index("once drawn")
        assert app.order.index("after refresh") < app.order.index("picture"), (
            "no longer needed: see after_next_paint"
        )
        after_next_paint(app.screen, lambda: app.order.append("again"))
        await pilot.pause(0.1)
        assert app.order[-1] == "again"


async def test_css_is_parsed_once_until_a_variable_changes(monkeypatch):
    parsed: list[str] = []
    real = textual.css.stylesheet.parse

    def parse(scope: str, css: str, *args: Any, **options: Any) -> Any:
        parsed.append(css)
        return real(scope, css, *args, **options)

    monkeypatch.setattr("textual.css.stylesheet.parse", parse)
    monkeypatch.setattr(Stylesheet, "_parse_rules", driver._parse)  # which other tests share
    app = Moded()
    async with app.run_test() as pilot:
        await pilot.pause()
        assert parsed.count(First.DEFAULT_CSS) == 1
        assert len(set(parsed)) == len(parsed)
        assert app.screen.styles.background == Color(1, 2, 3)
        app.mine = "#040506"
        app.refresh_css()
        await pilot.pause()
        assert parsed.count(First.DEFAULT_CSS) == 2
        assert app.screen.styles.background == Color(4, 5, 6)


async def test_the_mode_of_a_screen():
    app = Small()
    async with app.run_test():
        first, other = app.screen, Screen[None]()
        app.add_mode("other", lambda: other)
        assert mode_of(app, other) == mode_of(app, first) == app.current_mode
        await app.switch_mode("other")
        assert mode_of(app, other) == "other"
        assert mode_of(app, first) == textual.app.App.DEFAULT_MODE


def test_output_that_waits_is_seen():
    class Driver:
        _writer_thread = WriterThread(io.StringIO())  # type: ignore[arg-type]

    app = Small()
    assert not behind(app)
    app._driver = Driver()  # type: ignore[assignment]
    app._driver._writer_thread.write("not started: it stays")  # type: ignore[attr-defined]
    assert behind(app)


@pytest.mark.skipif(os.name == "nt", reason="the driver of Linux and macOS")
async def test_the_driver_has_a_thread_that_writes_to_standard_error(monkeypatch):
    from textual.drivers.linux_driver import LinuxDriver

    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "__stdin__", nothing)
        driver = LinuxDriver(Small())
    assert driver._writer_thread is None
    assert driver._file is sys.__stderr__


def test_the_caches_are_there_and_are_emptied():
    Region(0, 0, 3, 3).intersection(Region(1, 1, 1, 1))
    forget_places()
    forget_drawn()
    functions = [f for f in vars(Region).values() if hasattr(f, "cache_clear")]
    assert len(functions) > 5
    for function in (*functions, Scalar.resolve, StylesCache.get_inner_outer):
        assert function.cache_info().currsize == 0


SOURCES = sorted(Path(tracetui.tui.__file__ or "").parent.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(p.parents[1]).as_posix())
def test_no_other_module_imports_or_reads_what_is_private(path):
    """An underscore after anything but `self` or `cls` is somebody else's; named tuples have public ones."""
    if path.name == "textual_private.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("textual._"), f"line {node.lineno}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            own = own or node.attr == "_replace" or ast.unparse(node.value) == "super()"
            assert own, f"line {node.lineno}: {ast.unparse(node)}"


@functools.cache
def private_names(cls: type) -> frozenset[str]:
    """What a class calls its own: methods, attributes of the class, and all that is read from `self`."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    except (OSError, TypeError):
        return frozenset()
    assert isinstance(body, ast.ClassDef)
    names = {node.name for node in body.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            names.add(node.attr)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return frozenset(n for n in names if n.startswith("_") and not n.startswith("__"))


def test_no_class_of_ours_uses_a_private_name_of_its_base():
    """Read or overridden on purpose, or by chance: a widget's own `_render` would replace Textual's."""
    checked = 0
    for found in pkgutil.walk_packages(tracetui.tui.__path__, "tracetui.tui."):
        if found.name.endswith(("__main__", "textual_private")):
            continue
        for cls in vars(importlib.import_module(found.name)).values():
            if not isinstance(cls, type) or cls.__module__ != found.name:
                continue
            theirs = [private_names(base) for base in cls.__mro__ if base.__module__.startswith("textual.")]
            checked += bool(theirs)
            assert not private_names(cls) & frozenset[str]().union(*theirs), f"{found.name}.{cls.__name__}"
    assert checked > 20


class Own(Strip):
    """A widget's own kind of strip."""


class Drawing(Static):
    def render_lines(self, crop: Region) -> list[Strip]:
        return [
            Own([Segment(f"{y:<{self.size.width}}")], self.size.width) for y in range(crop.y, crop.bottom)
        ]


async def test_lines_that_one_widget_draws_are_its_own_strips():
    class Two(App):
        CSS = "Static { height: 1; } Drawing { width: 100%; height: 4; }"

        def compose(self) -> ComposeResult:
            yield Static("above")
            yield Drawing()

    app = Two()
    async with app.run_test(size=(20, 6)):
        lines = lines_between(app.screen, 0, 3)
        assert [line.text.split() for line in lines] == [["above"], ["0"], ["1"]]
        assert [type(line) for line in lines[1:]] == [Own, Own]
        assert [line.text.split() for line in lines_between(app.screen, 3, 5)] == [["2"], ["3"]]


async def test_an_update_draws_the_widgets_it_shows_alone():
    drawn: list[str] = []

    class Noting(Static):
        def render_lines(self, crop: Region) -> list[Strip]:
            drawn.append(f"{self.id} {crop.y} to {crop.bottom}")
            return super().render_lines(crop)

    class Three(Screen[None]):
        CSS = "Static { height: 2; } #over { layer: top; position: absolute; offset: 3 4; height: 1; }"

        def compose(self) -> ComposeResult:
            yield from (Noting(name, id=name) for name in ("above", "middle", "below", "over"))

    for less in (False, True):
        app, screen = App(), Three()
        if less:
            draw_less(screen)
        async with app.run_test(size=(20, 6)) as pilot:
            await app.push_screen(screen)
            await pilot.pause()
            drawn.clear()
            screen.query_one("#middle", Noting).update("changed")
            await pilot.pause()
            assert ("above 0 to 2" in drawn) is not less, "Textual draws the others, too"
            assert "middle 0 to 2" in drawn
            assert [line.text.strip() for line in lines_of(screen)] == [
                *("above", "", "changed", "", "belover", "")
            ]


def test_the_segments_of_a_strip_are_made_when_they_are_asked_for():
    made: list[int] = []

    def make() -> list[Segment]:
        made.append(1)
        return [Segment("abc"), Segment("def")]

    strip = LazyStrip(make, 6)
    assert strip.cell_length == 6
    assert strip.divide([6]) == [strip]
    assert strip.crop(0, 6) is strip
    assert not made
    assert strip.crop(2, 4).text == "cd"
    assert [part.text for part in strip.divide([3, 6])] == ["abc", "def"]
    assert strip.text == "abcdef"
    assert strip.render(Console()) == "abcdef"
    assert len(made) == 1
