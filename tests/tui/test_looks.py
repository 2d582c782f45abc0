"""How the trace screen looks: colors of the widgets, columns, what is said where."""

import json

import numpy as np
import pytest
from rich.segment import Segment
from rich.style import Style
from tests.conftest import SAMPLES
from textual.color import Color
from textual.theme import Theme

from tracetui.analysis.steps.steps import summarize_steps
from tracetui.core.cells import clauses, clip
from tracetui.timeline import themes as palette
from tracetui.timeline import themes as palettes
from tracetui.timeline.color import legible, ratio
from tracetui.trace import Kind, load
from tracetui.tui.app import TracetuiApp
from tracetui.tui.filters import Colorless, without_colors
from tracetui.tui.screens.matches import MatchesScreen
from tracetui.tui.tables import drawing
from tracetui.tui.themes import SIXTEEN, THEMES, palette_of
from tracetui.tui.timeline.bar import SelectionBar, describe
from tracetui.tui.topline import fitting
from tracetui.tui.verdict_line import VerdictLine
from tracetui.views.model import Column
from tracetui.views.steps import steps_table
from tracetui.views.times import time_column

from .conftest import DATA, screen_of, sheet_lines, until, visit


def test_every_theme_has_the_timeline_colors_that_go_with_it():
    assert set(THEMES) <= set(palettes.THEMES)
    for name, theme in THEMES.items():
        assert theme.dark == palette_of(name, 256, False).dark
        for color in (theme.accent, theme.foreground, theme.warning, theme.error):
            assert color is not None
            assert contrast(color, theme.panel or "") >= 4.5, (name, color)
            assert contrast(color, theme.background or "") >= 4.5, (name, color)
        readable(name, {**app_colors(theme), **theme.variables})
    readable("16 colors", dict(SIXTEEN))
    assert palette_of("light", 0, False) is palette.PLAIN
    assert palette_of("dark", 16, True).ascii


def app_colors(theme: Theme) -> dict[str, str]:
    names = ("primary", "accent", "warning", "error", "foreground", "background", "surface", "panel")
    return {name: getattr(theme, name) for name in names}


def readable(name: str, colors: dict[str, str]) -> None:
    """Every pair of text and background that a widget uses."""
    backgrounds = ("background", "surface", "panel")
    texts = ("foreground", "text-muted", "accent", "warning", "error")
    pairs = [(text, back) for text in texts for back in backgrounds]
    pairs += [(f"block-cursor{b}-foreground", f"block-cursor{b}-background") for b in ("", "-blurred")]
    for text, back in pairs:
        assert contrast(colors[text], colors[back]) >= 4.5, (name, text, back)
    # The cursor is seen where the keys go to it, and where they do not.
    assert contrast(colors["block-cursor-blurred-background"], colors["background"]) >= 1.4, name
    both = (colors["block-cursor-blurred-background"], colors["block-cursor-background"])
    assert both[0] != both[1]


@pytest.mark.parametrize("name", THEMES)
def test_the_parts_of_a_step_can_be_seen_and_their_names_read(name):
    theme = THEMES[name]
    parts = {role: color for role, color in theme.variables.items() if role.startswith("part-")}
    panel = theme.panel or ""
    for role, color in parts.items():
        assert contrast(color, panel) >= 3, role
        assert contrast(color, theme.background or "") >= 3, role
        ink = "#{:02x}{:02x}{:02x}".format(*legible(triple(color), triple(panel)))
        assert contrast(ink, panel) >= 4.5, role
        assert ink == color or contrast(color, panel) < 4.5, role
    assert any(contrast(color, panel) < 4.5 for color in parts.values())


async def test_the_names_of_parts_are_read_in_the_light_theme(monkeypatch):
    monkeypatch.setattr(TracetuiApp, "color_count", 256)
    async with visit(SAMPLES / "train.json.gz") as (app, pilot, _):
        app.theme = "light"
        line = screen_of(app).query_one(VerdictLine)
        await until(pilot, lambda: "host 18%" in line.render_line(0).text)
        for text, style, _ in line.render_line(0):
            if style is not None and any(sign.isalpha() for sign in text):
                assert style.color is not None
                assert style.bgcolor is not None
                pair = (tuple(style.color.get_truecolor()), tuple(style.bgcolor.get_truecolor()))
                assert ratio(*pair) >= 4.5, text


def triple(color: str) -> tuple[int, int, int]:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def contrast(a: str, b: str) -> float:
    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


# Tables
def test_times_of_a_column_have_one_unit_and_line_up():
    values = np.array([1_234_567, 0, 999, 60_000_000_001], dtype=np.int64)
    column = time_column("t", "Self GPU", values)
    assert [column.text(r) for r in range(4)] == ["0.001", "-", "<0.001", "60.000"]
    assert (column.title, column.width) == ("Self GPU s", len("Self GPU s"))
    shorter = time_column("t", "T", values[:3])
    assert [shorter.title, *map(shorter.text, range(3))] == ["T µs", "1,234.567", "-", "0.999"]
    longer = time_column("t", "T", values[:3] * 100)
    assert [longer.title, longer.text(0), longer.text(2)] == ["T ms", "123.457", "0.100"]
    summed = time_column("t", "T", values[:3], total=1_234_567_890)
    assert (summed.title, summed.width) == ("T µs", len("1,234,567.890"))
    assert time_column("t", "T", np.array([1234.5678]), zero="0").text(0) == "1.235"
    assert time_column("t", "T", np.zeros(0, dtype=np.int64)).width == len("0.000")


def test_the_sign_of_the_order_takes_nothing_from_a_title():
    columns = [(Column("a", "Word", str, None, 8, False), 8), (Column("b", "Number", str, None, 6), 6)]
    plain = Style.null()
    assert drawing.header(columns, ("b", True), 1, 18, plain, plain).text == " Word     ▼Number "
    alone = [(Column("b", "Number", str, None, 6), 6)]
    assert drawing.header(alone, ("b", True), 1, 9, plain, plain).text == "▼Number  "
    assert drawing.header(columns, ("a", False), 2, 19, plain, plain).text == "  Word ▲    Number "
    narrow = [(Column("on", "On", str, None, 3, False), 3), *columns]
    assert drawing.header(narrow, ("on", False), 1, 23, plain, plain).text == "▲On   Word      Number "
    after = [*columns, (Column("on", "On", str, None, 3, False), 3)]
    assert drawing.header(after, ("on", True), 1, 23, plain, plain).text == " Word      Number ▼On  "


def test_sentences_lose_whole_clauses():
    told = "idle 24.947 ms: dispatch 85%, host 14%, launch 0.8%"
    assert clauses(told, 60) == told
    assert clauses(told, 45) == "idle 24.947 ms: dispatch 85%, host 14%…"
    assert clauses(told, 20) == "idle 24.947 ms…"
    assert clauses(told, 8) == clip(told, 8)
    assert clauses("5 steps; ! differs from the others", 22) == "5 steps…"
    assert clauses("The GPU is busy. Meanwhile the CPU, in ops, waits.", 24) == "The GPU is busy."
    assert (
        clauses("The GPU is busy. Meanwhile the CPU, in ops, waits.", 38)
        == "The GPU is busy. Meanwhile the CPU…"
    )
    assert clauses("onewordthatislong", 9) == "onewordt…"
    for width in range(30):
        assert len(clauses(told, width)) <= width


def test_the_selected_event_s_line_gives_way_in_whole_parts(llama):
    kernel = int(np.flatnonzero((llama.launch >= 0) & llama.is_kind(Kind.KERNEL))[200])
    op = int(llama.op[kernel])
    lane = llama.lanes[int(llama.lane[kernel])].name

    def line(event: int, width: int) -> str:
        told = describe(llama, event, width, lambda n: llama.names[n], lane, own=9)
        return "".join(text for text, _ in told)

    assert line(kernel, 250).endswith(f" before  {lane}")
    assert line(kernel, 80).endswith(" before")
    assert line(kernel, 60).endswith(" before")
    assert "  at " not in line(kernel, 50)
    assert " self " in line(op, 120)
    for width in range(60, 160):
        for event in (kernel, op):
            assert len(line(event, width)) <= width - 2
            assert "  for " in line(event, width)


async def test_the_line_and_the_matches_call_a_lane_as_its_label_does():
    async with visit(DATA / "mlp_eager.json.gz") as (app, pilot, screen):
        await pilot.press("slash", *"aten::linear", "enter")
        await until(pilot, lambda: screen.query_one(SelectionBar)._parts[-1][0] == "  CPU main")
        await pilot.press("L")
        await until(pilot, lambda: isinstance(app.screen, MatchesScreen))
        assert "CPU main" in sheet_lines(app)[2]


async def test_the_tabs_tell_where_the_keys_go():
    async with visit(DATA / "mlp_eager.json.gz", size=(80, 24)) as (app, pilot, _):
        tabs = screen_of(app).area.tabs

        def look() -> Style | None:
            return next(s.style for s in tabs.render_line(0) if "ops" in s.text)

        away = look()
        await pilot.press("tab")
        await until(pilot, lambda: tabs.keys)
        assert look() != away
        await pilot.press("escape")
        await until(pilot, lambda: not tabs.keys)
        assert look() == away


def test_the_top_line_keeps_whole_facts():
    told = "40,573 events · 8 lanes · NVIDIA A100"
    assert fitting(told, 37) == told
    assert fitting(told, 36) == "40,573 events · 8 lanes"
    assert fitting(told, 9) == ""


def test_steps_without_a_device_say_nothing_of_one(tmp_path):
    events = [
        {
            "ph": "X", "name": f"ProfilerStep#{i}", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 9 * i,
            "dur": 8
        } for i in range(3)
    ]  # fmt: skip
    (tmp_path / "t.json").write_text(json.dumps(events))
    table = steps_table(summarize_steps(load(tmp_path / "t.json")))
    assert [c.key for c in table.columns] == ["label", "window_length", "duration"]
    assert table.columns[1].text(0) == "9.000"


@pytest.mark.parametrize(("style", "left"), [
    ("bold #ff0000 on #1c1c1c", "bold"), ("black on #ffffff", "reverse"),
    ("reverse #ffffff on #000000", "reverse"), ("reverse #000000 on #ffffff", "none"),
    ("dim underline italic color(12) on default", "dim underline"), ("default", "none")
])  # fmt: skip
def test_a_light_background_becomes_reversed_and_colors_go(style, left):
    wanted = Style.null() if left == "none" else Style.parse(left)
    assert without_colors(Style.parse(style)) == wanted


def test_what_the_mouse_may_click_on_stays():
    style = Style.parse("#ffffff on #000000") + Style.from_meta({"@mouse.down": "scroll_up"})
    (segment,) = Colorless().apply([Segment("x", style)], Color(0, 0, 0))
    assert segment.style is not None
    assert segment.style.meta == {"@mouse.down": "scroll_up"}
    assert segment.style.color is None
    assert Colorless().apply([Segment("x")], Color(0, 0, 0)) == [Segment("x")]
