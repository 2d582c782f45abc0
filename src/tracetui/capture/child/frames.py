"""Errors, and tracebacks as they would be without us: no frame of ours, nothing of how a program is run."""

from __future__ import annotations

import os
import sys
import traceback
import types

OWN_CODE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def without_ours(frames: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback less the frames of this package."""
    kept = []
    while frames is not None:
        if not frames.tb_frame.f_code.co_filename.startswith(OWN_CODE):
            kept.append(frames)
        frames = frames.tb_next
    for frame in reversed(kept):
        frames = types.TracebackType(frames, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return frames


def clean(error: BaseException) -> None:
    """Take our frames, and errors of our own, out of this error and of those that it followed on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.__traceback__ = without_ours(error.__traceback__)
        before = error.__context__
        while before is not None and hasattr(before, "tracetui"):
            before = before.__context__
        error.__context__ = before
        error = error.__cause__ or before  # type: ignore[assignment]


def in_a_line(error: BaseException) -> str:
    """The error's name and the first line of its text."""
    lines = str(error).strip().splitlines()
    return type(error).__name__ + (f": {lines[0]}" if lines else "")


def print_error(error: BaseException) -> None:
    """Print the traceback as Python would."""
    clean(error)
    frames = error.__traceback__
    while frames is not None and "importlib" in frames.tb_frame.f_code.co_filename:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def hide_ours() -> None:
    """Have an error that nobody catches shown without our frames, by whatever shows it."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, frames: types.TracebackType | None) -> None:
        clean(error)
        shown(kind, error, error.__traceback__)

    sys.excepthook = hook
