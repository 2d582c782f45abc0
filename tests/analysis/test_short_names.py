"""Short names of rows, and what tells two apart that have the same one."""

import numpy as np
import pytest
from tests.kineto import cpu, trace_of

from tracetui.analysis.names.short_names import differences, short_names, told_apart
from tracetui.views.averages import brief_shapes
from tracetui.views.lines import bar, columns
from tracetui.views.model import Column, fit, next_sort, scrolled


def test_names_of_slices(tmp_path):
    trace = trace_of(tmp_path, cpu("a", 0, 1), cpu("b", 5, 1), cpu("a", 9, 1))
    assert short_names(trace, np.array([2, -1, 0, 1])) == ["a", "", "a", "b"]
    assert short_names(trace, np.zeros(0, np.int64)) == []
    assert short_names(trace, np.array([-1])) == [""]


def test_what_differs():
    assert differences(["f<float, 4>", "f<half, 4>"]) == ["float", "half"]
    assert differences(["f<float, 4>", "f<half, 8>", "f<half, 4>"]) == ["float 4", "half 8", "half 4"]
    assert differences(["f a b", "f b", "f b c"]) == ["a", "", "c"]
    assert differences(["f a", "f a "]) == ["#1", "#2"]
    assert differences(["f x x y", "f x x z"]) == ["y", "z"]
    long = "w" * 40
    assert differences([long + "1 a", long + "2 a"]) == ["#1", "#2"]  # alike where they are cut
    assert differences(["x" * 10 + " " + long, "y"]) == ["xxxxxxxxxx wwwwwwwwwwww…", "y"]
    assert told_apart(["k", "k", "k", "l"], ["k 1", "k 2", "k 1", "l 1"], [0, 0, 0, 0]) == [
        "k · 1", "k · 2", "k · 1", "l"
    ]  # fmt: skip
    assert told_apart(["k", "k"], ["k 1", "k 2"], [0, 1]) == ["k", "k"]
    assert told_apart(["k", "k", "k"], ["k", "k 2", "k 3"], [0, 0, 0]) == ["k", "k · 2", "k · 3"]


def test_bars():
    assert [bar(share, 2) for share in (-1, 0, 0.001, 0.25, 0.5, 0.5625, 1, 2)] == [
        "  ", "  ", "▏ ", "▌ ", "█ ", "█▏", "██", "██"
    ]  # fmt: skip


def test_columns_line_up_by_cells():
    lines = columns([["a", ("计", "dim")], ["bcd", "e"]], "<>")
    assert ["".join(text for text, _ in line) for line in lines] == ["  a    计", "  bcd   e"]
    assert lines[0][3] == ("计", "dim")
    assert columns([], "<") == []


def some(*widths: int, drop: tuple[int, ...]) -> list[Column]:
    return [Column(str(n), width=w, drop=d) for n, (w, d) in enumerate(zip(widths, drop, strict=True))]


def test_which_columns_fit():
    shown = some(0, 10, 5, 8, drop=(0, 1, 3, 2))

    def at(width: int, minimum: int = 0) -> list[tuple[str, int]]:
        return [(column.key, cells) for column, cells in fit(shown, width, minimum)]

    assert at(45, 16) == [("0", 16), ("1", 10), ("2", 5), ("3", 8)]
    assert at(44, 16) == [("0", 22), ("1", 10), ("3", 8)]
    assert at(38, 16) == [("0", 16), ("1", 10), ("3", 8)]
    assert at(37, 16) == [("0", 18), ("1", 10), ("2", 5)]  # the narrow one comes back for the wide one
    assert at(34, 16) == [("0", 22), ("1", 10)]
    assert at(10, 16) == [("0", 10)]
    assert at(100) == [("0", 71), ("1", 10), ("2", 5), ("3", 8)]
    assert at(60)[0] == ("0", 31)
    assert [cells for _, cells in fit(some(4, 6, drop=(0, 1)), 12)] == [4, 6]
    assert [cells for _, cells in fit(some(4, 6, drop=(0, 1)), 11)] == [4]


def test_where_there_is_plenty_texts_are_shown_in_full():
    columns = [
        Column("time", width=10), Column("in", width=26, right=False), Column("op", width=20, right=False),
        Column("name", right=False)
    ]  # fmt: skip

    def at(width: int) -> list[int]:
        return [cells for _, cells in fit(columns, width)]

    assert at(110) == [10, 26, 20, 48]
    assert at(111) == [10, 26, 20, 49]
    assert at(120) == [10, 31, 25, 48]
    assert at(200) == [10, 52, 40, 92]  # no more than twice
    assert [cells for _, cells in fit(columns[:3], 200)] == [10, 26, 20]


def test_the_next_column_to_sort_by():
    values = [lambda: np.zeros(1), None, lambda: np.zeros(1), lambda: np.zeros(1)]
    shown = [Column(key, values=value) for key, value in zip("abcd", values, strict=True)]

    def after(current: str | None, step: int) -> str:
        return next_sort(shown, current, step).key

    assert [after(key, 1) for key in ("a", "c", "d", "b", None)] == ["c", "d", "a", "a", "a"]
    assert [after(key, -1) for key in ("a", "c", "d", None)] == ["d", "a", "c", "d"]
    assert next_sort(shown[1:2], None, 1) is None


def test_the_cursor_stays_in_view():
    for top, cursor, height, rows, expected in (
        (0, 0, 5, 10, 0), (0, 4, 5, 10, 0), (0, 5, 5, 10, 1), (3, 2, 5, 10, 2), (3, 3, 5, 10, 3),
        (9, 9, 5, 10, 5), (4, 6, 5, 6, 1), (0, 2, 5, 3, 0), (3, 3, 0, 9, 0), (0, 9, 1, 10, 9),
    ):  # fmt: skip
        assert scrolled(top, cursor, height, rows) == expected, (top, cursor, height, rows)


def test_what_differs_in_mangled_names():
    """The letters of a mangled name say nothing: its words as C++ do, if there are any."""
    assert differences([f"_ZN3lib6kernelILi{n}EEEvv" for n in (4, 8)]) == ["4", "8"]


@pytest.mark.parametrize(("shapes", "told"), [
    ("[[4, 256, 512], [512], [], []]", "4x256x512, 512"),
    ("[[1024], [], [8, 8]]", "1024, [], 8x8"),
    ("[[], [2, 3]]", "[], 2x3"),
    ("[[[2, 3], [4]], []]", "[2x3, 4]"),  # a list of tensors
    ("[[]]", ""),
    ("[]", ""),
    ("", ""),
    ("[[4, 256, [512", "[[4, 256, [512"),
])  # fmt: skip
def test_shapes_for_the_screen(shapes, told):
    assert brief_shapes(shapes) == told
