"""Names copies and memsets by their arguments, where a format has left them with Cuspy's bare names."""

from __future__ import annotations

import numpy as np

from tracetui.core.columns import blocks
from tracetui.formats.parsed_file import EventReader
from tracetui.formats.store import TRANSFERS, Tables
from tracetui.formats.transfers import BARE, full_name
from tracetui.trace.model import I8, I32, I64, Kind

_READ = 4096
"""So many events are read at once."""


def name_transfers(kind: I8, name: I32, source: I64, tables: Tables, reader: EventReader) -> None:
    """Give copies and memsets the names that Kineto writes. Changes `name` and `tables` in place."""
    names = tables.names
    if tables.transfers:
        number = np.array([names[full] for full in tables.transfers], dtype=np.int32)
        at = np.flatnonzero(name >= TRANSFERS)
        name[at] = number[name[at] - TRANSFERS]
    for bare in BARE:
        if bare not in names or getattr(reader, "names_transfers", False):
            continue
        of_kind = (kind == int(Kind.MEMCPY)) | (kind == int(Kind.MEMSET))
        at = np.flatnonzero((name == names[bare]) & of_kind)
        at = at[np.argsort(source[at], kind="stable")]
        for first, last in blocks(0, len(at), _READ):
            some = at[first:last]
            found = [full_name(bare, event.get("args")) for event in reader.read(source[some].tolist())]
            name[some] = [names[one] for one in found]
            if set(found) == {bare}:
                break  # another tool's: the others will not say more
