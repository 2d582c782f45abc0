"""Reads a file: its header, its events in one or more threads, and its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracetui.core.errors import Report, TraceError
from tracetui.core.patterns import pattern
from tracetui.core.threads import memory_for_events
from tracetui.formats.chrome_json.chunks import BASE, CHUNK, Ending, Reader
from tracetui.formats.chrome_json.event_builder import EventBuilder
from tracetui.formats.chrome_json.event_reader import FileReader
from tracetui.formats.chrome_json.layout import Beginning, find_events, salvage
from tracetui.formats.chrome_json.segments import BLOCK, cut, worth
from tracetui.formats.chrome_json.top_level import ending_keys, fits_end
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings.plain import Range
from tracetui.formats.parsed_file import ParsedFile, SoFar
from tracetui.formats.source import Source
from tracetui.formats.store import Store
from tracetui.formats.window import Window

_KNOWN_PHASES = frozenset("XBEiIRCMstfbneSTFNODPpVvc(),")
_VALUE_LIMIT = 4096
_LAST_COMMA = pattern(rb",[ \t\r\n]*\}[ \t\r\n\x00]*\Z")
OLD_PROPERTIES = {
    "major": "computeMajor", "minor": "computeMinor", "multiProcessorCount": "numSms",
    "maxThreadsPerMultiProcessor": "maxThreadsPerMultiprocessor",
}  # fmt: skip
"""What PyTorch 1.9 called the properties of a device, and what they are called since."""
_ENOUGH = 1 << 17
"""Elements after which a file without a single event of a trace is read no further."""


def read(
    source: Source,
    report: Report,
    workers: int | None = None,
    size: int = CHUNK,
    block: int = BLOCK,
    so_far: SoFar | None = None,
) -> ParsedFile:
    """All events of a source: see `registry.Format`.

    Chunks of `size` bytes are decoded at a time; each thread gets segments of `block` bytes.
    """
    in_place = source.encoding.IN_PLACE
    count = worth(source.size) if workers is None else workers
    builder = EventBuilder(extent=source.size if in_place else 0)
    damage = Diagnostics()
    stream = source.stream(damage)
    sought, room = True, memory_for_events()
    try:
        window = Window(stream.readinto, 0)
        beginning = find_events(window, builder.store.diagnostics)
        reader = Reader(builder, beginning.arrays, size)

        def advance(offset: int) -> None:
            nonlocal sought
            if builder.store.memory > room:
                raise TraceError(f"has more events than fit in memory: one trace may use {room / 1e9:.3g} GB")
            if sought and _elements(builder.store) >= _ENOUGH:
                sought = False
                _expect_events(builder.store)
            done = min(source.size, stream.progress(offset))
            if not in_place:
                # Estimated length of the text, which sizes the columns.
                builder.extent = offset * source.size // max(1, done)
            report(done, source.size)
            if so_far is not None:
                so_far(offset, done, copy_of)

        def copy_of(again: Source, length: int) -> ParsedFile:
            reader = FileReader(again, builder.chunks[:], beginning.header)
            return ParsedFile(builder.store.slices_so_far(), reader, length, None, (), None, {})

        # Compressed text is decoded in a thread of its own, and one scanner keeps up with that. Without the
        # scanner, threads would wait for the interpreter's lock.
        parallel = in_place and count > 1 and reader.learn(window) and reader.scans(window)
        separator = reader.separator if parallel else None
        if separator is not None:
            from tracetui.formats.chrome_json.workers import read_parallel  # only large files need it

            descriptor = source.file.fileno()
            segments = cut(separator, window.offset, source.size, block, descriptor)
            ending = read_parallel(segments, descriptor, reader, count, advance)
            if ending.kind == "lost":
                rest = Range(descriptor, ending.offset, source.size)
                ending = reader.read(Window(rest.readinto, ending.offset), True, advance)
        else:
            ending = reader.read(window, True, advance)
    finally:
        stream.close()
    store = builder.store
    store.diagnostics.absorb(damage)
    top = _judge_ending(ending, beginning, store.diagnostics, cut=bool(damage.lost))
    if ending.arrays[-1] or not store.is_empty:
        _expect_events(store)
    report(source.size, source.size)
    base = top.get(BASE)
    distributed = top.get("distributedInfo")
    devices = top.get("deviceProperties", top.get("computeProperties"))  # PyTorch 1.9
    return ParsedFile(
        store,
        FileReader(source, builder.chunks, top),
        stream.size(),
        base if type(base) is int and abs(base) < 1 << 63 else None,
        tuple(_renamed(d) for d in devices if isinstance(d, dict)) if isinstance(devices, list) else (),
        distributed if isinstance(distributed, dict) else None,
        {key: value for key, value in top.items() if _is_small(key, value)},
    )


def _renamed(device: dict[str, Any]) -> dict[str, Any]:
    """The properties of a device under today's names."""
    return {new: device[old] for old, new in OLD_PROPERTIES.items() if old in device} | device


def read_beginning(source: Source, report: Report, length: int) -> ParsedFile:
    """The events that lie wholly within the first `length` bytes of a text or so, at least one chunk less
    than all of it. Says nothing of what is wrong with them."""
    builder = EventBuilder(extent=length)
    stream = source.stream(Diagnostics())
    try:
        left = length

        def readinto(view: memoryview) -> int:
            nonlocal left
            count = stream.readinto(view[:left]) if left else 0
            left -= count
            return count

        window = Window(readinto, 0)
        beginning = find_events(window, Diagnostics())
        Reader(builder, beginning.arrays).read(window, False, lambda _: report(0, source.size))
    finally:
        stream.close()
    reader = FileReader(source, builder.chunks, beginning.header)
    return ParsedFile(builder.store, reader, length, None, (), None, {})


def _elements(store: Store) -> int:
    """What was read of the array of events, sound or not."""
    found = store.diagnostics.found
    return store.total + sum(found[kind][0] for kind in ("not_an_event", "broken_event") if kind in found)


def _expect_events(store: Store) -> None:
    """Raises TraceError if nothing that was read is an event of a trace."""
    if not any(phase in _KNOWN_PHASES for phase in store.phases()):
        long = "too_long" in store.diagnostics.found
        raise TraceError(f"is JSON, but has no trace events{' shorter than 64 MB' * long}")


def _is_small(key: str, value: Any) -> bool:
    if key == BASE:
        return False
    return isinstance(value, (int, float, bool)) or (isinstance(value, str) and len(value) <= _VALUE_LIMIT)


def _judge_ending(
    ending: Ending, beginning: Beginning, diagnostics: Diagnostics, cut: bool
) -> Mapping[str, Any]:
    """Note what is wrong with the end of the file, unless its compressed data is cut off (`cut`); return the
    file's top-level keys."""
    bare = ending.arrays[-1]
    if ending.keys.get(BASE, beginning.header.get(BASE)) != beginning.header.get(BASE, ending.keys.get(BASE)):
        diagnostics.note("other_base")
    top = {**beginning.header, **ending.keys}
    if ending.kind == "closed":
        tail = ending.tail
        closed = tail if fits_end(tail, bare) else _LAST_COMMA.sub(b"}", tail)
        if closed != tail and fits_end(closed, bare):
            diagnostics.note("comma", ending.offset)
            tail = closed
        if fits_end(tail, bare):
            top.update(ending_keys(tail))
            if top.pop("traceEvents", None):  # events that are no array, or one array too many
                diagnostics.note("bad_header", ending.offset)
            if len(ending.arrays) > 1 and not cut:  # the list around the object is not closed
                diagnostics.note("truncated", ending.offset)
        else:
            whole = ending.tail.rstrip().endswith(b"}")
            diagnostics.note("bad_header" if whole or bare else "truncated", ending.offset)
            top = {**top, **salvage(ending.tail), **top}
    elif ending.tail or not bare:
        if not cut:
            diagnostics.note("truncated", ending.offset)
        top = {**top, **salvage(ending.tail), **top}
    else:
        diagnostics.note("open_array", ending.offset)
    return top
