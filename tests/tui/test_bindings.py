"""The table of bindings, and what is made from it."""

from __future__ import annotations

import re

from textual.binding import Binding

from tracetui.tui.bindings import ACTIONS, HINTS, find, footer, groups, key_text, rebound
from tracetui.tui.screens.help import KEYS, SIZE, help_lines, sections
from tracetui.tui.screens.trace import TraceScreen


def test_no_key_means_two_things() -> None:
    keys = [key for action in ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys))
    ids = [action.id for action in ACTIONS]
    assert len(ids) == len(set(ids))


def test_every_action_exists_on_the_screen_or_the_app() -> None:
    for action in ACTIONS:
        name = re.match(r"(app\.)?(\w+)", action.action)
        assert name is not None
        if not name[1]:
            assert hasattr(TraceScreen, f"action_{name[2]}"), action.id


def test_every_binding_of_the_screen_comes_from_the_table() -> None:
    bound = {b.id: b for b in TraceScreen.BINDINGS if isinstance(b, Binding)}
    assert set(bound) == {a.id for a in ACTIONS}


def test_the_footer_cuts_no_word() -> None:
    for width in (20, 80, 120, 200):
        shown = footer(HINTS, width)
        assert 1 + sum(len(k) + 1 + len(w) + 2 for k, w, _ in shown) - 2 <= width
    assert [w for _, w, _ in footer(HINTS, 80)][:4] == ["move", "select", "help", "quit"]
    assert len(footer(HINTS, 400)) == len(HINTS)
    assert all(find(id) is not None for _, _, id in HINTS if id)


def test_the_help_names_every_key_and_cuts_nothing() -> None:
    told = {key for _, lines in sections() for keys, _ in lines for key in keys.split(" ")}
    assert {key_text(k) for a in ACTIONS for k in a.keys} <= told
    for _, lines in sections():
        for keys, text in lines:
            assert len(keys) + 3 <= KEYS, keys
            assert len(text) <= SIZE - KEYS, text
    for width in (75, 115, 195):
        lines = ["".join(text for text, _ in line) for line in help_lines(width)]
        assert max(len(line) for line in lines) <= width
        text = "\n".join(lines)
        assert all(group in text for group in groups())


def test_keys_can_be_changed_by_id() -> None:
    changed = rebound({"zoom_in": "i, plus"})
    action = find("zoom_in", changed)
    assert action is not None
    assert action.keys == ("i", "plus")
    assert find("zoom_out", changed) == find("zoom_out")


def test_key_names() -> None:
    assert [key_text(k) for k in ("ctrl+p", "slash", "G", "left")] == ["Ctrl+P", "/", "G", "←"]
