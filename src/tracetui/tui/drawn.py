"""What Textual keeps of widgets that are gone, and letting go of it."""

from __future__ import annotations

from textual._styles_cache import StylesCache


def let_go() -> None:
    """Forget what was drawn of widgets that are gone: called where widgets that come and go have left.

    Textual remembers the inner and the outer style of 1,024 widgets under each one's cache of drawn lines,
    and so keeps the lines of the last thousand widgets: of whole screens, closed long ago. The styles of
    those that are still there are made again when they are next drawn.
    """
    clear = getattr(StylesCache.get_inner_outer, "cache_clear", None)
    if clear is not None:
        clear()
