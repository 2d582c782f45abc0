"""What `NO_COLOR` leaves of a style."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from tracetui.tui.filters import Colorless, without_colors


@pytest.mark.parametrize(
    ("style", "left"),
    [
        ("bold #ff0000 on #1c1c1c", "bold"),
        ("black on #ffffff", "reverse"),
        ("reverse #ffffff on #000000", "reverse"),
        ("reverse #000000 on #ffffff", "none"),
        ("dim underline italic color(12) on default", "dim underline"),
        ("default", "none"),
    ],
)
def test_a_light_background_becomes_reversed_and_colors_go(style: str, left: str) -> None:
    wanted = Style.null() if left == "none" else Style.parse(left)
    assert without_colors(Style.parse(style)) == wanted


def test_what_the_mouse_may_click_on_stays() -> None:
    style = Style.parse("#ffffff on #000000") + Style.from_meta({"@mouse.down": "scroll_up"})
    (segment,) = Colorless().apply([Segment("x", style)], Color(0, 0, 0))
    assert segment.style is not None
    assert segment.style.meta == {"@mouse.down": "scroll_up"}
    assert segment.style.color is None
    assert Colorless().apply([Segment("x")], Color(0, 0, 0)) == [Segment("x")]
