"""Paths as people type them, and names of traces."""

from __future__ import annotations

import os
from pathlib import Path


def typed_path(text: str) -> Path:
    """A typed path with `~` expanded; as in a shell, `~` of an unknown user stays. Never raises."""
    return Path(os.path.expanduser(text.strip()))


TRACE_ENDINGS = (".json", ".json.gz", ".json.zst")
BESIDE = (".meta.json", ".averages.json")
"""Endings of the files that a capture writes beside its trace."""


def may_be_trace(name: str) -> bool:
    """Whether a file of this name may be a trace."""
    return name.endswith(TRACE_ENDINGS) and not name.endswith(BESIDE)


def trace_stem(path: str | Path) -> str:
    """A trace's file name without .json or .json.gz: the prefix of a capture's other files."""
    return Path(path).name.removesuffix(".gz").removesuffix(".zst").removesuffix(".json")


def meta_file(path: str | Path) -> Path:
    """The file beside a trace that says how it was captured; only tracetui's own captures have one."""
    return Path(path).parent / f"{trace_stem(path)}.meta.json"
