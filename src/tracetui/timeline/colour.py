"""Colours of the xterm palette, and the contrast between them."""

from __future__ import annotations

from functools import lru_cache

SIXTEEN = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
"""The first sixteen in xterm; other terminals may differ."""


def rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue (0..255) of a number of the xterm palette."""
    if colour < 16:
        return SIXTEEN[colour]
    if colour >= 232:
        grey = 8 + 10 * (colour - 232)
        return (grey, grey, grey)
    steps = (0, 95, 135, 175, 215, 255)
    colour -= 16
    return (steps[colour // 36], steps[colour // 6 % 6], steps[colour % 6])


def contrast(a: int, b: int) -> float:
    """The contrast of two colours as defined by WCAG: 1 to 21."""
    first, second = sorted((_luminance(a), _luminance(b)))
    return (second + 0.05) / (first + 0.05)


@lru_cache(maxsize=256)
def _luminance(colour: int) -> float:
    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
