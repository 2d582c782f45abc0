"""The commands. Each parses its arguments and calls one function.

A command's module is imported only when that command runs, so `tracetui --help` stays instant.
"""

from __future__ import annotations

from tracetui.cli.main import main

__all__ = ["main"]
