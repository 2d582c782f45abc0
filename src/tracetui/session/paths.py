"""Paths as people type them, and names of traces."""

from __future__ import annotations

import os
from pathlib import Path


def typed_path(text: str) -> Path:
    """A path that was typed, `~` made a home; as in a shell, one of nobody stays as it is. Never raises."""
    return Path(os.path.expanduser(text.strip()))


def trace_stem(path: str | Path) -> str:
    """A trace's file name without .json or .json.gz: what a capture's other files begin with."""
    return Path(path).name.removesuffix(".gz").removesuffix(".zst").removesuffix(".json")


def meta_file(path: str | Path) -> Path:
    """The file beside a trace that says how tracetui captured it, where it did."""
    return Path(path).parent / f"{trace_stem(path)}.meta.json"
