"""A rule: what to notice in a trace. It is in `tracetui findings`, in the summary and on the first screen."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.rules.claims import Claims, Count, Share, Time, says
from tracetui.rules.model import Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

SHARE = 0.05
"""Of the time: less is not worth a finding."""


def checkpoints(part: Part) -> Slices:
    """When Acme's trainer saves the model. Of a step or a range, only what belongs to it."""
    return slices_of(part, Kind.ANNOTATION, lambda name: name == "acme: checkpoint")


def acme_checkpoint(part: Part) -> Iterator[Finding]:
    """The name of the entry point is the name of the rule."""
    found = checkpoints(part)
    if not len(found) or found.time < SHARE * part.length:  # times are in ns
        return
    yield build_finding(
        "acme_checkpoint",
        "medium",  # high, medium, low or info
        {
            "share": Share(found.time, part.length, "of the time"),
            "time_ns": Time(found.time),
            "saves": Count(len(found)),
        },
        found.longest_first(),  # never empty: Enter jumps to the first
        "share time_ns",
    )


@says("acme_checkpoint")
def sentences(c: Claims) -> tuple[str, str, str]:
    """Title, text and advice, from the claims alone."""
    return (
        f"Checkpoints take {c.share}",
        f"The trainer saves the model {c.saves:time}, and waits for it.",
        "Save in the background: acme.save(..., wait=False).",
    )
