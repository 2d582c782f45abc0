"""Turns the events of a file into a `Trace` with lanes, nesting and links, using only numpy."""

from __future__ import annotations

from tracetui.core.columns import NO_ID
from tracetui.core.errors import Cancelled, Progress, TraceError
from tracetui.formats.diagnostics import Notice
from tracetui.trace.load import load
from tracetui.trace.model import DEVICE_WORK, Kind, Lane, Process, Trace

__all__ = [
    "DEVICE_WORK",
    "NO_ID",
    "Cancelled",
    "Kind",
    "Lane",
    "Notice",
    "Process",
    "Progress",
    "Trace",
    "TraceError",
    "load",
]
