"""Every key of the trace screen, in one table: bindings, help and command palette are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tracetui.tui import panes


@dataclass(frozen=True, slots=True)
class Action:
    """What a key does."""

    id: str
    """Stable: settings and the palette name the action by it."""
    keys: tuple[str, ...]
    """As Textual spells them; the first is the one that is shown."""
    action: str
    """The method that is called, without `action_`, with its arguments in brackets."""
    text: str
    """What it does, for the help and the palette."""
    group: str
    line: str = ""
    """What the help says where neighbours share a line; `text` without it."""


MOVE, SELECT, LANES, FIND, RANGE, PANES, FILES, APP = (
    "Moving",
    "Selecting",
    "Lanes",
    "Finding",
    "Ranges and marks",
    "Panes",
    "Capture and files",
    "The app",
)

ACTIONS: tuple[Action, ...] = (
    Action(
        "zoom_in",
        ("w",),
        "zoom(1.4)",
        "zoom in about the cursor",
        MOVE,
        line="zoom in, out about the cursor",
    ),
    Action(
        "zoom_out",
        ("s",),
        "zoom(-1.4)",
        "zoom out about the cursor",
        MOVE,
        line="zoom in, out about the cursor",
    ),
    Action("pan_left", ("a",), "pan(-0.1)", "pan left", MOVE, line="pan left, right"),
    Action("pan_right", ("d",), "pan(0.1)", "pan right", MOVE, line="pan left, right"),
    Action("zoom_in_fast", ("W",), "zoom(4)", "zoom in, faster", MOVE, line="the same, faster"),
    Action("zoom_out_fast", ("S",), "zoom(-4)", "zoom out, faster", MOVE, line="the same, faster"),
    Action("pan_left_fast", ("A",), "pan(-0.5)", "pan left, faster", MOVE, line="the same, faster"),
    Action("pan_right_fast", ("D",), "pan(0.5)", "pan right, faster", MOVE, line="the same, faster"),
    Action("centre", ("f",), "centre", "centre the selection; again: fit it", MOVE),
    Action("fit", ("0", "home"), "fit", "fit the whole trace", MOVE),
    Action(
        "back",
        ("backspace",),
        "back",
        "back to the last view",
        MOVE,
        line="to the last view, and forward again",
    ),
    Action(
        "forward",
        ("B",),
        "forward",
        "forward again, after going back",
        MOVE,
        line="to the last view, and forward again",
    ),
    Action(
        "previous",
        ("left", "comma"),
        "move('previous')",
        "previous event in the row",
        SELECT,
        line="previous, next event in the row",
    ),
    Action(
        "next",
        ("right", "full_stop"),
        "move('next')",
        "next event in the row",
        SELECT,
        line="previous, next event in the row",
    ),
    Action(
        "up",
        ("up",),
        "move('up')",
        "to the parent, or the row above",
        SELECT,
        line="to the parent, a child, or the next row",
    ),
    Action(
        "down",
        ("down",),
        "move('down')",
        "to a child, or the row below",
        SELECT,
        line="to the parent, a child, or the next row",
    ),
    Action(
        "flow_next", ("right_square_bracket",), "flow(1)", "follow the flow: op → launch → kernel", SELECT
    ),
    Action("flow_back", ("left_square_bracket",), "flow(-1)", "back: kernel → launch → op", SELECT),
    Action(
        "backward",
        ("right_curly_bracket", "left_curly_bracket"),
        "backward",
        "forward op ↔ its backward op",
        SELECT,
    ),
    Action("explain", ("e",), "explain", "explain the selected event", SELECT),
    Action("clear", ("escape",), "clear", "clear search, range, scope, selection", SELECT),
    Action("time", ("colon",), "time", "go to a time", FIND),
    Action("gap_next", ("g",), "gap(1)", "next gap", FIND, line="next, previous gap"),
    Action("gap_previous", ("G",), "gap(-1)", "previous gap", FIND, line="next, previous gap"),
    Action("gap_order", ("o",), "gap_order", "gaps by size or by time", FIND),
    Action("search", ("slash",), "search", "search names and categories", FIND),
    Action("match_next", ("n",), "match(1)", "next match", FIND, line="next, previous match"),
    Action("match_previous", ("N",), "match(-1)", "previous match", FIND, line="next, previous match"),
    Action("range", ("r",), "range", "range from the selection, for tables", RANGE),
    Action("scope", ("u",), "scope", "tables: all (range), in view, the step", RANGE),
    Action("mark", ("m",), "mark", "mark the selection, with a label", RANGE),
    Action("note", ("T",), "note", "write a note on the selection", RANGE),
    Action("next_mark", ("M",), "next_mark", "to the next mark, and read it", RANGE),
    Action("marks", ("l",), "marks", "list of marks and notes", RANGE),
    Action("matches", ("L",), "matches", "list of all matches", FIND),
    *(
        Action(f"pane_{pane.key}", (str(n),), f"pane('{pane.key}')", f"pane: {pane.text}", PANES)
        for n, pane in enumerate(panes.PANES, 1)
    ),
    Action("focus", ("tab",), "focus_other", "arrows: to the table, to the timeline", PANES),
    Action(
        "sort_next",
        ("greater_than_sign",),
        "sort(1)",
        "sort by the next column",
        PANES,
        line="sort by the next, previous column",
    ),
    Action(
        "sort_previous",
        ("less_than_sign",),
        "sort(-1)",
        "sort by the previous column",
        PANES,
        line="sort by the next, previous column",
    ),
    Action("sort_reverse", ("R",), "sort(0)", "sort the other way round", PANES),
    Action("fold", ("z",), "fold", "fold or unfold the selection's lane", LANES),
    Action("fold_all", ("Z",), "fold_all", "fold or unfold every lane", LANES),
    Action("hide_lane", ("x",), "hide_lane", "hide the selection's lane", LANES),
    Action("show_lanes", ("X",), "show_lanes", "show the hidden lanes again", LANES),
    Action("pin_lane", ("p",), "pin_lane", "pin the selection's lane at the top", LANES),
    Action(
        "lane_up",
        ("K",),
        "lane_move(-1)",
        "move the selection's lane up",
        LANES,
        line="move the lane up, down",
    ),
    Action(
        "lane_down",
        ("J",),
        "lane_move(1)",
        "move the selection's lane down",
        LANES,
        line="move the lane up, down",
    ),
    Action("lanes_reset", ("O",), "lanes_reset", "lanes as they were", LANES),
    Action("pane_taller", ("plus",), "pane_size(3)", "pane: taller", PANES, line="pane: taller, lower"),
    Action("pane_lower", ("minus",), "pane_size(-3)", "pane: lower", PANES, line="pane: taller, lower"),
    Action("pane_maximise", ("v",), "pane_maximise", "pane: over the whole screen, and back", PANES),
    Action("pane_side", ("V",), "pane_side", "pane: beside the timeline, or below", PANES),
    Action("group", ("b",), "group", "averages by name, shape, op, ...", PANES),
    Action("filter", ("F",), "filter", "filter the table", PANES),
    Action("capture", ("c",), "capture", "capture again, or something else", FILES),
    Action("next_trace", ("t",), "next_trace", "the next trace of this session", FILES),
    Action("export", ("E",), "export", "export the table or the picture", FILES),
    Action("copy", ("y",), "copy", "copy the event's details", FILES),
    Action("copy_table", ("Y",), "copy_table", "copy the table, as Markdown", FILES),
    Action("help", ("question_mark",), "help", "all keys", APP),
    Action("palette", ("ctrl+p",), "app.command_palette", "everything, by name", APP),
    Action("redraw", ("ctrl+l",), "app.redraw", "draw the screen anew", APP),
    Action("quit", ("q", "ctrl+c"), "app.quit", "quit", APP),
)

HINTS: tuple[tuple[str, str, str], ...] = (
    # (keys, word, the action that a click on it runs), the most needed first
    ("wasd", "move", ""),
    ("←→↑↓", "select", ""),
    ("?", "help", "help"),
    ("q", "quit", "quit"),
    ("/", "search", "search"),
    ("g", "gap", "gap_next"),
    (f"1-{len(panes.PANES)}", "panes", ""),
    ("f", "fit", "centre"),
    ("0", "all", "fit"),
    ("[ ]", "flow", "flow_next"),
    ("e", "explain", "explain"),
    ("Tab", "table", "focus"),
    ("c", "capture", "capture"),
    ("^p", "palette", "palette"),
)

KEY_NAMES: Mapping[str, str] = {
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "comma": ",",
    "full_stop": ".",
    "slash": "/",
    "question_mark": "?",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "greater_than_sign": ">",
    "less_than_sign": "<",
    "escape": "Esc",
    "tab": "Tab",
    "home": "Home",
    "enter": "Enter",
    "colon": ":",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "backspace": "Backspace",
}


def key_text(key: str) -> str:
    """A key as people write it: `ctrl+p` is `Ctrl+P`, `slash` is `/`."""
    *modifiers, last = key.split("+")
    name = KEY_NAMES.get(last, last)
    if modifiers and len(name) == 1:
        name = name.upper()
    return "+".join([*(m.capitalize() for m in modifiers), name])


def find(id: str, actions: Iterable[Action] = ACTIONS) -> Action | None:
    return next((a for a in actions if a.id == id), None)


def groups(actions: Iterable[Action] = ACTIONS) -> dict[str, list[Action]]:
    """The actions by group, both in the order of the table."""
    found: dict[str, list[Action]] = {}
    for action in actions:
        found.setdefault(action.group, []).append(action)
    return found


def rebound(changes: Mapping[str, str], actions: Sequence[Action] = ACTIONS) -> tuple[Action, ...]:
    """The table with other keys: `changes` maps an action's id to keys (Textual's words, between commas)."""
    return tuple(
        replace(a, keys=tuple(k.strip() for k in changes[a.id].split(","))) if a.id in changes else a
        for a in actions
    )


def footer(hints: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str, str]]:
    """The hints that fit into `width` cells, two between them and one before the first; none is cut off."""
    shown, used = [], 1
    for hint in hints:
        size = len(hint[0]) + 1 + len(hint[1])
        if used + size > width:
            break
        shown.append(hint)
        used += size + 2
    return shown
