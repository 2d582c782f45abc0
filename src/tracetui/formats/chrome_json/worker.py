"""The worker process that reads segments of a trace; `workers` starts it and talks to it.

A request on standard input is a line "begin end final sent", followed by the text if it is sent; the reply on
standard output is two lengths, a pickled header, and the bytes of the arrays. The file is an inherited
descriptor. The process exits when its input ends.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable
from typing import IO

from tracetui.formats.chrome_json.chunks import Ending, Reader
from tracetui.formats.chrome_json.event_builder import EventBuilder
from tracetui.formats.chrome_json.scan import Separator
from tracetui.formats.chrome_json.segments import Segment
from tracetui.formats.encodings.plain import Range
from tracetui.formats.window import ReadInto, Window

LENGTHS = struct.Struct("<QQ")


def read_text(text: bytes) -> ReadInto:
    """A `ReadInto` for text in memory."""
    rest = memoryview(text)

    def read(view: memoryview) -> int:
        nonlocal rest
        count = min(len(view), len(rest))
        view[:count] = rest[:count]
        rest = rest[count:]
        return count

    return read


def write_all(pipe: IO[bytes], data: bytes) -> None:
    """Write all of `data` to an unbuffered pipe."""
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) or 0 :]


def read_segment(
    descriptor: int, segment: Segment, reader: Reader, advance: Callable[[int], None] | None = None
) -> Ending:
    """Read the events of one segment into a new builder of `reader`. `advance`: see `Reader.read`."""
    begin, end = segment.begin, segment.end
    reader.builder = EventBuilder(begin, end - begin)
    read = Range(descriptor, begin, end).readinto if segment.text is None else read_text(segment.text)
    return reader.read(Window(read, begin), segment.final, advance)


def main(descriptor: int, within: list[bool], size: int, separator: tuple[bytes, int, int]) -> None:
    """Answer requests until standard input ends."""
    # Ctrl+C goes to the whole process group; the parent ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    reader = Reader(EventBuilder(), within, size)
    reader.separator = Separator(*separator)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    source = sys.stdin.buffer
    while line := source.readline():
        begin, end, final, sent = map(int, line.split())
        text = source.read(end - begin) if sent else None
        ending = read_segment(descriptor, Segment(0, begin, end, bool(final), text), reader)
        packed, arrays = reader.builder.pack()
        body = [array.tobytes() for array in arrays]
        shapes = [(array.dtype.str, len(array)) for array in arrays]
        head = pickle.dumps((ending, shapes, packed), protocol=pickle.HIGHEST_PROTOCOL)
        for part in (LENGTHS.pack(len(head), sum(map(len, body))), head, *body):
            write_all(out, part)
