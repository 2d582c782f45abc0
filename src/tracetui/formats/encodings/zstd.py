"""zstd, frame by frame. The library checks the frames' own checksums."""

from __future__ import annotations

import sys
from typing import IO, Any, cast

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings.blocks import Ahead, Blocks, Codec, Marked

SUFFIX, RATIO, IN_PLACE = ".zst", 10, False


def sniff(head: bytes) -> bool:
    # A frame, or one of those that hold other data and are skipped.
    return head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5)


def stream(file: IO[bytes], size: int, offset: int, diagnostics: Diagnostics) -> Ahead:
    return Ahead(Blocks(_FRAMES, file, diagnostics), offset)


def parts(file: IO[bytes], size: int) -> Marked:
    return Marked(_FRAMES, file, size)


def writer(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _library().open(file, "wb"))


def _header(data: bytes) -> int:
    return 0 if sniff(data) else -1  # what the library begins with


def _library() -> Any:
    # Imported here: rarely needed.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _frame(forkable: bool) -> Any:
    return _library().ZstdDecompressor()


_FRAMES = Codec("bad_zstd", sniff, _header, _frame)
