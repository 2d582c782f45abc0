"""A rule: what to notice in a trace. It is in `tracetui findings`, in the summary and on the first screen."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of
from tracetui.core.units import plural
from tracetui.rules.model import Finding
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
    share = found.time / part.length
    yield Finding(
        rule="acme_checkpoint",
        severity="medium",  # high, medium, low or info
        title=f"Checkpoints take {share:.0%} of the time",
        text=f"The trainer saves the model {plural(len(found), 'time')}, and waits for it.",
        advice="Save in the background: acme.save(..., wait=False).",
        evidence=tuple(found.longest_first()),  # never empty: Enter jumps to the first
        numbers={"share": share, "time_ns": found.time},
    )
