"""Every key of the trace screen, in one table: the source of the bindings, the help and the palette."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from textual.binding import Binding, BindingType

from tracetui.core.copying import replace
from tracetui.tui import panes


class Action(Struct, frozen=True):
    """One thing that the user can do."""

    id: str
    """The name in the settings file; never changed."""
    keys: tuple[str, ...]
    """The keys, as Textual spells them."""
    action: str
    """The method to call, without `action_`, with its arguments: `zoom(1.4)`."""
    text: str
    """What it does, in the help and the palette."""
    group: str
    line: str = ""
    """What the help says instead, if neighboring actions share a line."""


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """The words of a text, in pairs."""
    words = text.split()
    return zip(words[::2], words[1::2], strict=True)


KEY_NAMES: Mapping[str, str] = dict(
    _pairs(
        """
        left ←  right →  up ↑  down ↓  escape Esc  tab Tab  home Home  enter Enter  backspace Backspace
        comma ,  full_stop .  colon :  slash /  question_mark ?  plus +  minus -  equals_sign =
        left_curly_bracket {  right_curly_bracket }  left_square_bracket [  right_square_bracket ]
        greater_than_sign >  less_than_sign <  left_parenthesis (  right_parenthesis )  ampersand &
        """
    )
)
"""How to write the keys whose Textual name is a word."""
_KEYS = {shown: key for key, shown in KEY_NAMES.items()}

PANES = "Panes"
DITTO = "″"
"""The same `line` as in the row above."""

_TABLE = """
Moving
    zoom_in | w | zoom(1.4) | zoom in at the cursor | zoom in, out
    zoom_out | s | zoom(-1.4) | zoom out at the cursor | ″
    pan_left | a | pan(-0.1) | pan left | pan left, right
    pan_right | d | pan(0.1) | pan right | ″
    zoom_in_fast | W | zoom(4) | zoom in, faster | the same, faster
    zoom_out_fast | S | zoom(-4) | zoom out, faster | ″
    pan_left_fast | A | pan(-0.5) | pan left, faster | ″
    pan_right_fast | D | pan(0.5) | pan right, faster | ″
    center | f | center | center the selection; again: fit it | center; again: fit it
    fit | 0 home | fit | fit the whole trace
    back | backspace | back | back to the last view | views: back, forward
    forward | B | forward | forward again, after going back | ″
Selecting
    previous | left , | move('previous') | previous event in the row | previous, next event
    next | right . | move('next') | next event in the row | ″
    up | up | move('up') | to the parent, or the row above | parent, child, next row
    down | down | move('down') | to a child, or the row below | ″
    flow_next | ] | flow(1) | op → launch → kernel
    flow_back | [ | flow(-1) | kernel → launch → op
    backward | } { | backward | forward op ↔ its backward op | forward ↔ backward op
    explain | e | explain | explain the selected event or gap | explain the selection
    part_next | h | part(1) | next part of a step's time, with an example | parts of a step's time
    part_previous | H | part(-1) | previous part of a step's time | ″
    clear | escape | clear | clear search, range, scope, selection | clear one thing at a time
Finding
    time | : | time | go to a time
    gap_next | g | gap(1) | next gap | next, previous gap
    gap_previous | G | gap(-1) | previous gap | ″
    gap_order | o | gap_order | gaps by size or by time
    search | / | search | search names and categories
    match_next | n | match(1) | next match | next, previous match
    match_previous | N | match(-1) | previous match | ″
    matches | L | matches | list all matches
Ranges and marks
    range | r | range | select the range of the selection, for tables | range from the selection
    scope | u | scope | tables: all (range), in view, the step | tables: all, in view, the step
    mark | m | mark | mark the selection, with a label | mark the selection
    note | T | note | write a note on the selection
    next_mark | M | next_mark | to the next mark, and read it
    marks | l | marks | list marks and notes
Panes
    focus | tab | focus_other | arrows: to the table, to the timeline | to the table, and back
    sort_next | > | sort(1) | sort by the next column | sort by another column
    sort_previous | < | sort(-1) | sort by the previous column | ″
    sort_reverse | R | sort(0) | reverse the sort order
    pane_taller | + | pane_size(3) | pane: taller | pane: taller, lower
    pane_lower | - | pane_size(-3) | pane: lower | ″
    pane_maximize | v | pane_maximize | pane: full screen, and back
    pane_side | V | pane_side | pane: beside the timeline, or below | pane: beside, or below
    group | b | group | ops, kernels: by name, shape, module | group ops, kernels
    filter | F | filter | filter the table
Comparing two
    compare | C | compare | compare with another trace; with two: what differs | compare, averages of both
    compare_averages | P | pane('averages') | averages of A and B side by side | ″
    difference_next | ) | difference(1) | next difference | next, previous difference
    difference_previous | ( | difference(-1) | previous difference | ″
    partner | = | partner | the same event of the other; steps pane: why it differs | its partner; a step: why
    align | & | align | align A and B at the selection | align both there
    compare_end | Q | end_comparison | go on with B alone (Esc twice: with A) | go on with B alone
Lanes
    fold | z | fold | fold or unfold the selection's lane | fold or unfold the lane
    fold_all | Z | fold_all | fold or unfold every lane
    hide_lane | x | hide_lane | hide the selection's lane | hide the lane
    show_lanes | X | show_lanes | show the hidden lanes again
    pin_lane | p | pin_lane | pin the selection's lane at the top | pin the lane at the top
    lane_up | K | lane_move(-1) | move the selection's lane up | move the lane up, down
    lane_down | J | lane_move(1) | move the selection's lane down | ″
    lanes_reset | O | lanes_reset | reset the lanes
Capture and files
    capture | c | app.capture | capture again, or something else | capture again
    attach | j | app.attach | record a job that is running | record a running job
    open | ctrl+o | app.open | open another trace
    next_trace | t | app.next_trace | next open trace
    close_trace | ctrl+x | app.close_trace | close this trace
    export | E | export | export the table or the picture | export table or picture
    copy | y | copy | copy the event's details
    copy_table | Y | copy_table | copy the table as Markdown
The app
    help | ? | help | keys of what has the focus; twice: all keys | keys; twice: all keys
    glossary | I | glossary | glossary: what the words mean | what the words mean
    palette | ctrl+p | app.command_palette | find a command
    redraw | ctrl+l | app.redraw | redraw the screen
    quit | q ctrl+c | app.quit | quit
"""
"""Groups, and below each a row per action: id | keys | action | text | line (if it differs from the text).
Keys are written as people write them, or as Textual does."""


def _rows() -> Iterator[tuple[str, list[str]]]:
    """(group, row) of all actions: in each group, the keys of the panes come first."""
    group = ""
    for line in _TABLE.strip().splitlines():
        if line.startswith(" "):
            yield group, line.strip().split(" | ")
            continue
        group = line
        for key, pane in panes.keyed(panes.PANES) if group == PANES else ():
            told = f"pane: {pane.text}", "show or hide a pane"
            yield group, [f"pane_{pane.key}", key, f"pane('{pane.key}')", *told]


def _actions() -> Iterator[Action]:
    line = ""
    for group, (id, keys, action, text, *shared) in _rows():
        line = line if shared == [DITTO] else "".join(shared)
        yield Action(id, tuple(_KEYS.get(key, key) for key in keys.split()), action, text, group, line)


ACTIONS: tuple[Action, ...] = tuple(_actions())

NOT_SERVED = ("open", "open_file", "capture", "attach", "compare")
"""The actions that are off while a browser shows the app, whose user may be somebody else: it has one trace
only."""
HINTS: tuple[tuple[str, str, str], ...] = (
    # (keys, word, action to run on a click), the most useful first
    ("wasd", "move", ""),
    ("←→↑↓", "select", ""),
    ("?", "help", "help"),
    ("q", "quit", "quit"),
    ("/", "search", "search"),
    ("g", "gap", "gap_next"),
    ("h", "where time goes", "part_next"),
    (f"1-{panes.NUMBERS}", "panes", ""),
    ("e", "explain", "explain"),
    ("C", "compare", "compare"),
    ("f", "fit", "center"),
    ("0", "all", "fit"),
    ("[ ]", "flow", "flow_next"),
    ("Tab", "table", "focus"),
    ("c", "capture", "capture"),
    ("^p", "commands", "palette"),
)

TABLE_HINTS: tuple[tuple[str, str, str], ...] = (
    ("↑↓", "row", ""),
    ("Enter", "show it", ""),
    ("e", "explain", "explain"),
    ("Tab", "timeline", "focus"),
    ("?", "help", "help"),
    ("q", "quit", "quit"),
    ("< >", "sort", "sort_next"),
    ("F", "filter", "filter"),
    ("b", "group", "group"),
    ("v", "full screen", "pane_maximize"),
    ("Y", "copy", "copy_table"),
    ("E", "export", "export"),
)
"""The hints while a table has the focus."""


def bind(text: str, priority: bool = False) -> list[BindingType]:
    """Textual's bindings from keys and actions in turn: `bind("up move(-1)  escape,q leave")`."""
    return [Binding(keys, action, show=False, priority=priority) for keys, action in _pairs(text)]


def key_text(key: str) -> str:
    """A key as people write it: `Ctrl+P` for `ctrl+p`, `/` for `slash`."""
    *modifiers, last = key.split("+")
    name = KEY_NAMES.get(last, last)
    if modifiers and len(name) == 1:
        name = name.upper()
    return "+".join([*(m.capitalize() for m in modifiers), name])


def find(id: str, actions: Iterable[Action] = ACTIONS) -> Action | None:
    return next((a for a in actions if a.id == id), None)


def groups(actions: Iterable[Action] = ACTIONS) -> dict[str, list[Action]]:
    """The actions by group, in the order of the table."""
    found: dict[str, list[Action]] = {}
    for action in actions:
        found.setdefault(action.group, []).append(action)
    return found


def rebound(changes: Mapping[str, str], actions: Sequence[Action] = ACTIONS) -> tuple[Action, ...]:
    """The table with other keys. `changes` maps ids of actions to their keys, as in a `Binding`."""
    return tuple(
        replace(a, keys=tuple(k.strip() for k in changes[a.id].split(","))) if a.id in changes else a
        for a in actions
    )


def footer(hints: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str, str]]:
    """The hints that fit in `width` cells, two cells apart, after one blank; none is cut off."""
    shown, used = [], 1
    for hint in hints:
        size = len(hint[0]) + 1 + len(hint[1])
        if used + size > width:
            break
        shown.append(hint)
        used += size + 2
    return shown
