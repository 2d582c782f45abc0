"""Recorded traces, read once for all tests of a process."""

from functools import lru_cache
from pathlib import Path

from tracetui import trace
from tracetui.trace import Trace

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "sample_traces", ROOT / "tests" / "data", ROOT.parent / "shared" / "traces")
_load = lru_cache(maxsize=24)(trace.load)


def load(path: str | Path) -> Trace:
    """`tracetui.trace.load`, which reads a file that a test has written each time."""
    recorded = any(folder in Path(path).parents for folder in FOLDERS)
    return _load(str(path)) if recorded else trace.load(path)
