"""What Textual keeps of what is gone, and letting go of it."""

from __future__ import annotations

from textual._styles_cache import StylesCache
from textual.css.scalar import Scalar
from textual.geometry import Region


def let_go() -> None:
    """Forget what was drawn of widgets that are gone: called where widgets that come and go have left.

    Textual remembers the inner and the outer style of 1,024 widgets under each one's cache of drawn lines,
    and so keeps the lines of the last thousand widgets: of whole screens, closed long ago. The styles of
    those that are still there are made again when they are next drawn.
    """
    _clear(StylesCache.get_inner_outer)


def forget_places() -> None:
    """Forget where things were: called when the terminal has another size.

    Textual remembers what it worked out about some 20,000 regions. Those of another size are of no use.
    """
    for function in (*vars(Region).values(), Scalar.resolve):
        _clear(function)


def _clear(function: object) -> None:
    clear = getattr(function, "cache_clear", None)
    if clear is not None:
        clear()
