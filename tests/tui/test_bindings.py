"""The table of bindings, and what is made from it."""

import re
from pathlib import Path
from string import ascii_letters

import pytest
from textual.binding import Binding

from tracetui.session.recording import Recording
from tracetui.tui import panes
from tracetui.tui.bindings import ACTIONS, HINTS, find, footer, groups, key_text, rebound
from tracetui.tui.layouts import LAYOUTS
from tracetui.tui.panes import NUMBERS, PANES, PaneSpec, keyed
from tracetui.tui.screens.help import (
    IN_TABLES,
    KEYS,
    MOUSE,
    WIDE,
    HelpScreen,
    help_lines,
    keys_text,
    sections,
)
from tracetui.tui.screens.trace import TraceScreen

from .conftest import DATA, sheet_lines, until, visit
from .test_app import text as shown

ROOT = Path(__file__).resolve().parents[2]
BOUND = [key for action in ACTIONS for key in action.keys]
FREE = [letter for letter in ascii_letters if letter not in BOUND]


def test_every_pane_has_a_key():
    keys = [key for key, _ in keyed(PANES)]
    assert keys[:NUMBERS] == list("123456789"[:NUMBERS]), f"the last panes need a letter: {FREE} are free"


def test_a_pane_may_have_a_letter():
    three = (*PANES[:2], PaneSpec("more", "more:MorePane", "more", "k"))
    assert [key for key, _ in keyed(three)] == ["1", "2", "k"]
    assert keys_text([*"1234", "k"]) == "1-4 k"


def test_the_letters_for_plugins_are_free():
    shared = [pane.letter for layout in LAYOUTS.values() for pane in layout.panes]
    assert not {*panes.FREE} & {*BOUND, *shared}


def test_no_key_means_two_things():
    assert [key for key in BOUND if BOUND.count(key) > 1] == [], f"{FREE} are free"
    ids = [action.id for action in ACTIONS]
    assert len(ids) == len(set(ids))


def test_every_action_exists_on_the_screen_or_the_app(small):
    screen = TraceScreen([Recording(small)])
    for action in ACTIONS:
        name = re.match(r"(app\.)?(\w+)", action.action)
        if not name[1]:
            assert hasattr(screen, f"action_{name[2]}"), action.id


def test_every_binding_of_the_screen_comes_from_the_table():
    assert set({b.id: b for b in TraceScreen.BINDINGS if isinstance(b, Binding)}) == {a.id for a in ACTIONS}


def test_the_footer_cuts_no_word():
    for width in (20, 80, 120, 200):
        shown = footer(HINTS, width)
        assert 1 + sum(len(k) + 1 + len(w) + 2 for k, w, _ in shown) - 2 <= width
    assert [w for _, w, _ in footer(HINTS, 80)][:4] == ["move", "select", "help", "quit"]
    assert len(footer(HINTS, 400)) == len(HINTS)
    assert all(find(id) is not None for _, _, id in HINTS if id)


def told_keys() -> list[str]:
    """Every key in the help."""
    told = [key for _, lines in sections() for keys, _ in lines for key in keys.split(" ")]
    panes = f"1-{NUMBERS}"
    assert panes in told
    return [key for key in told if key != panes] + [str(n) for n in range(1, NUMBERS + 1)]


def test_the_help_names_every_key_and_cuts_nothing():
    told = set(told_keys())
    assert {key_text(k) for a in ACTIONS for k in a.keys} <= told
    for _, lines in sections():
        for keys, text in lines:
            assert len(keys) + 3 <= KEYS, keys
            assert len(text) <= WIDE - KEYS, text
    for width, height in ((75, 20), (116, 32), (196, 46)):
        lines = ["".join(text for text, _ in line) for line in help_lines(width, height)]
        assert len(lines) <= height or width < 100, "no need to scroll"
        assert max(len(line) for line in lines) <= width
        text = "\n".join(lines)
        assert all(group in text for group in groups())


def test_the_help_has_every_key_once():
    told = told_keys()
    bound = {key_text(k) for a in ACTIONS for k in a.keys}
    # A table of its own says what they do there.
    elsewhere = {key for keys, _ in (*IN_TABLES, *MOUSE) for key in keys.split(" ")}
    assert [key for key in bound if told.count(key) != 1 + (key in elsewhere)] == []
    texts = [text for _, lines in sections() for _, text in lines]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_nothing_of_the_help_is_clipped(size):
    async with visit(DATA / "mlp_eager.json.gz", size=size) as (app, pilot, _):
        await pilot.press("question_mark", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen) and app.screen.view.every)
        seen = ""
        for _ in range(6):
            await pilot.pause()
            seen += shown(app) + "\n"
            await pilot.press("pagedown")
        for _, lines in sections():
            for keys, what in lines:
                assert re.search(rf"{re.escape(keys)} +{re.escape(what)} ", seen), keys
        assert "…" not in "\n".join(sheet_lines(app))


def test_the_page_of_keys_has_every_key():
    table = (ROOT / "docs" / "keys.md").read_text(encoding="utf-8").split("The mouse:")[0]
    told = re.findall(r"`([^`]+)`", table)
    assert "with Shift, faster" in table
    missing = ({key_text(k) for a in ACTIONS for k in a.keys} - set(told) - set("WSAD") - {
        str(n) for n in range(2, NUMBERS)
    })  # fmt: skip
    assert missing == set(), "name them in docs/keys.md"
    assert f"`1` … `{NUMBERS}`" in table
    keys = re.findall(
        r"`([^`]+)`", "".join(row.split("|")[1] for row in table.split("\n") if row[:3] == "| `")
    )
    assert len(keys) == len(set(keys))


def test_keys_can_be_changed_by_id():
    changed = rebound({"zoom_in": "i, plus"})
    assert find("zoom_in", changed).keys == ("i", "plus")
    assert find("zoom_out", changed) == find("zoom_out")


def test_key_names():
    assert [key_text(k) for k in ("ctrl+p", "slash", "G", "left")] == ["Ctrl+P", "/", "G", "←"]
