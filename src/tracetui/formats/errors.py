"""What reading a file can end with, and how its progress is reported."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], bool | None]
"""Called with (bytes done, bytes in all) now and then. An answer of False cancels: `Cancelled` is raised."""
Report = Callable[[int, int], None]
"""Called with (bytes done, bytes in all) by what reads; may raise to stop it."""


class TraceError(Exception):
    """A file that cannot be opened as a trace; the message is one line, safe to show."""


class Cancelled(Exception):
    """Raised by `load` when its progress callback asked it to stop."""
