"""Paths as people type them, and names of traces."""

from __future__ import annotations

import os
from pathlib import Path


def typed_path(text: str) -> Path:
    """A typed path with `~` expanded; as in a shell, `~` of an unknown user stays. Never raises."""
    return Path(os.path.expanduser(text.strip()))


PLAIN_ENDINGS = (".json", ".pftrace")
COMPRESSED = (".gz", ".zst")
TRACE_ENDINGS = tuple(name + packed for name in PLAIN_ENDINGS for packed in ("", *COMPRESSED))
"""Endings of the file names of traces."""
BESIDE = (".meta.json", ".averages.json")
"""Endings of the files that a capture writes beside its trace."""


def may_be_trace(name: str) -> bool:
    """Whether a file of this name may be a trace."""
    return name.endswith(TRACE_ENDINGS) and not name.endswith(BESIDE)


def is_file_name(word: str) -> bool:
    """Whether a word ends like a file name; the file need not exist."""
    return word.endswith((*TRACE_ENDINGS, *COMPRESSED))


def trace_stem(path: str | Path) -> str:
    """A trace's file name without its ending: the prefix of a capture's other files."""
    name = Path(path).name
    for ending in (*COMPRESSED, *PLAIN_ENDINGS):
        name = name.removesuffix(ending)
    return name


def meta_file(path: str | Path) -> Path:
    """The file beside a trace that says how it was captured; only tracetui's own captures have one."""
    return Path(path).parent / f"{trace_stem(path)}.meta.json"
