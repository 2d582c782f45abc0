"""Libraries in C, each beside the module that calls it and made from the source there (see hatch_build.py).

They are optional: what they do is done in Python without them, and slower.
"""

from __future__ import annotations

import ctypes
import os
import sys
import zlib
from pathlib import Path

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def load_library(source: Path) -> ctypes.CDLL | None:
    """The library made from `source`; None where it is missing or made from another text.

    TRACETUI_NATIVE=0 does without any, TRACETUI_NATIVE=FOLDER takes those in a folder.
    """
    folder = os.environ.get("TRACETUI_NATIVE") or str(source.parent)
    if folder == "0":
        return None
    try:
        library = ctypes.CDLL(os.path.join(folder, f"lib{source.stem}{SUFFIX}"))
        library.source_checksum.restype = ctypes.c_uint32
        return library if library.source_checksum() == zlib.crc32(source.read_bytes()) else None
    except (OSError, AttributeError):
        return None
