"""The commands. Each parses its arguments and calls one function.

A command's module is imported only when that command runs, so `tracetui --help` stays instant.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal`, without what that imports first

_usual = _signal.getsignal(_signal.SIGINT)
_ours = _usual is _signal.default_int_handler  # neither nohup's, nor the one of a program that imports us


def _handle(handler: object) -> None:
    try:  # noqa: SIM105
        _signal.signal(_signal.SIGINT, handler)
    except ValueError:  # not the main thread
        pass


if _ours:  # Ctrl+C before there is anything to stop ends us at once, without a traceback
    _handle(_signal.SIG_DFL)

from tracetui.cli.main import main  # noqa: E402

if _ours:
    _handle(_usual)

__all__ = ["main"]
