"""A file becomes a Trace: reading, repairing and linking Chrome traces. numpy and JSON libraries only."""

from __future__ import annotations

from tracetui.trace.load import load
from tracetui.trace.model import (
    DEVICE_WORK,
    NO_ID,
    Cancelled,
    Kind,
    Lane,
    Notice,
    Process,
    Progress,
    Trace,
    TraceError,
)

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
