"""A process that summarizes files: paths come on standard input, summaries leave on standard output."""

from __future__ import annotations

import os
import pickle
import struct
import sys

from tracetui.core.errors import TraceError
from tracetui.ranks.summary import RankSummary, summarize

LENGTH = struct.Struct("<Q")


def attempt(path: str) -> RankSummary | str:
    """The summary of a file, or the line that says why there is none."""
    try:
        return summarize(path)
    except TraceError as error:
        return str(error)
    except MemoryError:
        return f"{path}: not enough memory for this trace"


def main() -> None:
    """Until standard input ends: a length and a path, answered by a length and a pickle."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    while len(head := sys.stdin.buffer.read(LENGTH.size)) == LENGTH.size:
        path = os.fsdecode(sys.stdin.buffer.read(LENGTH.unpack(head)[0]))
        found = pickle.dumps(attempt(path), pickle.HIGHEST_PROTOCOL)
        out.write(LENGTH.pack(len(found)) + found)
        out.flush()
