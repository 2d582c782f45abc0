"""A view: an answer to one question. It appears as `tracetui view acme_checkpoints TRACE`, with --json and
--markdown, as `tt.load(TRACE).view("acme_checkpoints")`, and as a pane of the viewer, because it says what
that shows."""

from __future__ import annotations

from typing import Any

from tracetui.analysis.part import Part
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.registry import View
from tracetui_acme.rules import checkpoints


def make(part: Part) -> Answer:
    """Arguments after the part are options: `part.view("acme_checkpoints", limit=3)`."""
    found = checkpoints(part)
    times = list(zip(found.start.tolist(), found.duration.tolist(), strict=True))

    def data() -> dict[str, Any]:
        """Fields that end in their unit."""
        return {"checkpoints": [{"start_ns": start, "duration_ns": duration} for start, duration in times]}

    def as_markdown() -> str:
        rows = [[str(start), str(duration)] for start, duration in times]
        return markdown.table(["start (ns)", "duration (ns)"], rows, ">>")

    def lines(width: int) -> str:
        return "".join(f"{start:>15,} ns {duration:>15,} ns\n" for start, duration in times) or "none\n"

    return Answer("acme_checkpoints", data, as_markdown, lines, lambda data: data["checkpoints"])


CHECKPOINTS = View("acme_checkpoints", "Print when the model was saved.", make, "when the model was saved")
