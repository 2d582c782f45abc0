"""The verdict line, the key that walks through the parts of a step's time, and going to the events behind a
line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tracetui.core.units import duration, share
from tracetui.tui.controllers.panes import PaneKeys
from tracetui.tui.controllers.screen_context import Escape, ScreenContext
from tracetui.tui.topline import TopLine, facts
from tracetui.tui.verdict_line import VerdictLine

if TYPE_CHECKING:
    from tracetui.views.target import Target


class VerdictKeys:
    """What holds the trace back, and each part of its time."""

    def __init__(self, context: ScreenContext, line: VerdictLine, top: TopLine, panes: PaneKeys) -> None:
        self.context, self.line, self.top, self.panes = context, line, top, panes
        self.steps = 1
        """How many steps the verdict is about."""
        self.evidence: Mapping[str, Target] = {}
        """The evidence for each part, once it is known."""
        self.words: Mapping[str, str] = {}
        """The words for each cause of idle time, once they are known."""
        context.escapes.append(Escape(lambda: line.chosen is not None, lambda: setattr(line, "chosen", None)))

    def judge(self) -> None:
        """Find the verdict in a thread, then show it."""
        part = self.context.session.active.whole

        def find() -> None:
            from tracetui.analysis.idle.verdict import OF_STEPS
            from tracetui.views.overview_cache import first_screen

            for n, found in enumerate(first_screen(part)):
                self.evidence, self.words = found.evidence, found.words
                if not n:
                    self.steps = len(found.steps) if found.verdict.base == OF_STEPS else 1
                    self.context.from_thread(partial(self.line.show, found.verdict))
                    self.context.from_thread(partial(self.top.say, facts(part.trace, found.steps)))

        self.context.in_thread(find, "verdict")

    def action_part(self, step: int) -> None:
        """Go to the next part of the bar and its evidence, starting with the longest part."""
        parts = self.line.parts
        count = len(parts)
        if self.line.covered:
            self.line.uncover()
            self.panes.open("overview")
            return
        if not count:
            known = self.line.verdict is not None
            self.context.say(
                "no parts: where this trace's time goes is not known" if known else "not known yet"
            )
        else:
            at = self.line.chosen
            longest = max(range(count), key=lambda n: parts[n].share or 0.0)
            self.pick((at + step) % count if at is not None else longest)

    def pick(self, part: int) -> None:
        """Choose a part of the bar and go to its evidence."""
        from tracetui.tui.panes.overview import OverviewPane
        from tracetui.views.parts import evidence

        self.line.chosen = part
        what = self.line.parts[part]
        of = f"{share(what.share)} " if what.share is not None else ""
        target = self.evidence.get(what.what)
        target = target or evidence(self.context.session.active.whole, what.what)
        shown = f"; here {target.said}" if target.said else ""
        steps = max(1, self.steps)
        long = f"{duration(what.duration / steps)}{' a step' if steps > 1 else ''}"
        text = what.text if what.share is None else self.words.get(what.what, what.text)
        self.panes.follow(replace(target, said=f"{what.what} {of}({long}): {text}{shown}"))
        pane = self.panes.area.open
        if isinstance(pane, OverviewPane):
            pane.show_entry(what.what)
