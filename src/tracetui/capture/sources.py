"""What a program's sources tell of the profilers that it starts. Used by both sides: stdlib only."""

from __future__ import annotations

import os
import re

CUSPY = re.compile(rb"CuspyConfig|\bcuspy\b")
KINETO = re.compile(rb"ProfilerActivity\b|profiler\.profile\b|profiler import [^\n]*\bprofile\b")
LONGEST = 1 << 20
"""Bytes that are read of a source."""


def source(path: str) -> bytes:
    """The text of a source; empty if it is no file (a pipe would give it away), or cannot be read."""
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(LONGEST)
    except OSError:
        return b""
