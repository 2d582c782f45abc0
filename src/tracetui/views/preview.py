"""What a list of traces says about one before it is opened: its verdict, if that is known or soon found."""

from __future__ import annotations

from tracetui.core.errors import TraceError
from tracetui.formats.source import open_source
from tracetui.trace.saved import is_worth
from tracetui.views.lines import Span
from tracetui.views.summary_cache import kept_summary
from tracetui.views.verdicts import VERDICT_STYLE

Preview = tuple[Span, str]
"""The verdict with its style, and its reason. Safe to show."""
LATER: Preview = ("", ""), "Large, and not opened before: its verdict is known once it is open."


def preview(path: str) -> Preview:
    """The verdict on a trace: what was kept of it, or found now where that is quick. Slow: call it in a
    thread."""
    if (kept := kept_summary(path)) is not None:
        return kept[0].document.verdict, kept[0].document.reason
    try:
        source = open_source(path)
        with source.file:
            if is_worth(source):
                return LATER
        return _judged(path)
    except (TraceError, OSError) as error:
        return ("", ""), str(error)


def _judged(path: str) -> Preview:
    from tracetui.analysis.part import Part
    from tracetui.analysis.verdicts import verdict_of
    from tracetui.trace import load

    verdict = verdict_of(Part(load(path)))
    return (verdict.verdict, VERDICT_STYLE[verdict.verdict]), verdict.reason
