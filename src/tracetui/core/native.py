"""Libraries in C, each next to the module that calls it and built from the source there (see hatch_build.py).

They are optional: without them, Python code does the same, more slowly.
"""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from pathlib import Path

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def load_library(source: Path) -> ctypes.CDLL | None:
    """The library built from `source`; None if it is missing or was built from another version.

    TRACETUI_NATIVE=0 turns all of them off, TRACETUI_NATIVE=FOLDER loads them from a folder.
    """
    folder = os.environ.get("TRACETUI_NATIVE") or str(source.parent)
    if folder == "0":
        return None
    try:
        library = ctypes.CDLL(os.path.join(folder, f"{source.stem}.native{SUFFIX}"))
        library.source_checksum.restype = ctypes.c_uint32
        return library if library.source_checksum() == zlib.crc32(source.read_bytes()) else None
    except (OSError, AttributeError):
        return None
