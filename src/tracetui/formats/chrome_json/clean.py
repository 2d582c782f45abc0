"""Writes a clean copy of a trace: every readable event, repaired if needed, in JSON that any viewer opens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tracetui.core.errors import TraceError
from tracetui.core.writing import written
from tracetui.formats.chrome_json.event_reader import FileReader
from tracetui.formats.encodings import ENCODINGS
from tracetui.formats.parsed_file import EventReader
from tracetui.formats.source import shown


def write_clean(reader: EventReader, events: int, out: str | Path) -> None:
    """Write all events of a reader to `out`; `events` is the expected number.

    Events keep their text, apart from repairs. `out` is compressed according to its name, and may be the
    input file: see `written`. Raises TraceError if it cannot be written or the input has changed.
    """
    if not isinstance(reader, FileReader):
        raise TraceError(f"{shown(str(out))}: only Chrome traces can be repaired")
    write_texts(out, reader.top, reader.chunks(), events, reader.path)


def write_texts(
    out: str | Path,
    top: Mapping[str, Any],
    chunks: Iterable[Sequence[bytes | msgspec.Raw]],
    events: int,
    path: str,
) -> None:
    """Write a trace with these top-level keys and the texts of events, of the file at `path`: see
    `write_clean`."""
    encoding = next(e for e in ENCODINGS if Path(out).name.endswith(e.SUFFIX))
    try:
        head = msgspec.json.encode({"schemaVersion": 1, **top})[:-1]
    except (msgspec.EncodeError, RecursionError):
        head = b'{"schemaVersion":1'
    try:
        with written(out) as made, encoding.writer(made) as file:
            file.write(head + b',"traceEvents":[')
            count = 0
            for texts in chunks:
                if texts:
                    file.write((b",\n" if count else b"\n") + b",\n".join(texts))
                    count += len(texts)
            file.write(b"\n]}\n")
            if count != events:
                raise TraceError(f"{shown(path)}: changed after it was read")
    except OSError as error:
        reason = (error.strerror or "cannot be written").lower()
        raise TraceError(f"{shown(str(out))}: {reason}") from None
