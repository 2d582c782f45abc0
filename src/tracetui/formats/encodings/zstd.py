"""zstd, frame by frame. The library checks the frames' own checksums."""

from __future__ import annotations

import sys
from typing import IO, Any, cast

from tracetui.formats.encodings.blocks import Codec

SUFFIX, RATIO, IN_PLACE = ".zst", 10, False


def sniff(head: bytes) -> bool:
    # A frame, or a skippable frame, which holds other data.
    return head.startswith(b"\x28\xb5\x2f\xfd") or (head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5)


def writer(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _library().open(file, "wb"))


def _library() -> Any:  # imported late: rarely needed
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


_FRAMES = Codec(
    "bad_zstd",
    sniff,
    header=lambda data: 0 if sniff(data) else -1,  # the library reads the header itself
    open=lambda forkable: _library().ZstdDecompressor(),
)
stream, parts = _FRAMES.stream, _FRAMES.parts
