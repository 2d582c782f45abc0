"""Errors of reading a file, and the types of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], bool | None]
"""Called with (bytes done, total bytes) now and then. Returning False cancels: `Cancelled` is raised."""
Report = Callable[[int, int], None]
"""Called with (bytes done, total bytes) while reading; may raise to stop it."""


NOT_A_TRACE = "is not a trace: tracetui opens what torch.profiler's export_chrome_trace writes"
"""Said of a file that is none of the formats that are read or recognized."""


class TraceError(Exception):
    """A file cannot be opened as a trace, or no trace or answer can be made. One line, safe to show."""


class Cancelled(Exception):
    """Raised by `load` when its progress callback asked it to stop."""
