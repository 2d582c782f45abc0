"""Colors of the xterm palette, and the contrast between them."""

from __future__ import annotations

from functools import lru_cache

RGB = tuple[int, int, int]
LEGIBLE = 4.5
"""The least contrast of text."""
SIXTEEN = (
    *((0, 0, 0), (205, 0, 0), (0, 205, 0), (205, 205, 0)),
    *((0, 0, 238), (205, 0, 205), (0, 205, 205), (229, 229, 229)),
    *((127, 127, 127), (255, 0, 0), (0, 255, 0), (255, 255, 0)),
    *((92, 92, 255), (255, 0, 255), (0, 255, 255), (255, 255, 255)),
)
"""The first sixteen in xterm; other terminals may differ."""


def rgb(color: int) -> RGB:
    """Red, green and blue (0..255) of a number of the xterm palette."""
    if color < 16:
        return SIXTEEN[color]
    if color >= 232:
        gray = 8 + 10 * (color - 232)
        return (gray, gray, gray)
    steps = (0, 95, 135, 175, 215, 255)
    color -= 16
    return (steps[color // 36], steps[color // 6 % 6], steps[color % 6])


def contrast(a: int, b: int) -> float:
    """The contrast of two colors as defined by WCAG: 1 to 21."""
    return ratio(rgb(a), rgb(b))


def ratio(a: RGB, b: RGB) -> float:
    """The contrast of two colors that need not be in the palette."""
    first, second = sorted((_luminance(a), _luminance(b)))
    return (second + 0.05) / (first + 0.05)


@lru_cache
def legible(ink: RGB, paper: RGB) -> RGB:
    """The color of text: the ink, as much darker or lighter as it takes to have a contrast of `LEGIBLE`."""
    end = 0 if ratio((0, 0, 0), paper) > ratio((255, 255, 255), paper) else 255
    red, green, blue = ink
    for n in range(33):
        red, green, blue = (round(part + (end - part) * n / 32) for part in ink)
        if ratio((red, green, blue), paper) >= LEGIBLE:
            break
    return red, green, blue


@lru_cache(maxsize=256)
def _luminance(color: RGB) -> float:
    def linear(value: int) -> float:
        share = value / 255
        return share / 12.92 if share <= 0.03928 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
