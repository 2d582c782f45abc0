"""The file in which a trace is kept: a few fixed bytes, the columns as they are in memory, and a header with
everything else, as JSON.

It is untrusted, like any input. Checksums say whether it is what was written, and every index in it is
checked before it becomes a `Trace`, in several threads. Nothing is allocated that the file does not hold.

Changes to the file afterward do no harm (see `in_memory`).
"""

from __future__ import annotations

import bisect
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np

from tracetui.core.columns import Array
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.core.threads import run_parallel, usable_cores
from tracetui.formats.diagnostics import Notice
from tracetui.formats.parsed_file import EventReader
from tracetui.formats.registry import unpack
from tracetui.formats.source import Source
from tracetui.trace import nesting
from tracetui.trace.in_memory import in_memory
from tracetui.trace.model import Counters, Instants, Kind, Lane, Process, Trace, TraceInfo

try:
    from isal.isal_zlib import crc32
except ImportError:  # a platform without a wheel
    from zlib import crc32

FORMAT = 2
"""Change this whenever what is written changes."""
_MAGIC = b"tracetui"
_PREFIX = struct.Struct("<8sQQQ")
"""`_MAGIC`, offset and length of the header, its CRC-32."""
_ALIGNED = 64
"""Each column begins at a multiple of this."""
_BLOCK = 1 << 24
"""Bytes of a column per checksum: with smaller blocks, threads wait for each other."""
_ROWS = 1 << 18
"""Rows to check at a time: with fewer, threads wait for each other."""

_COLUMNS = {
    "slices": {
        "i8": "start duration correlation external_id source",
        "i4": "name lane depth parent launch op",
        "i2": "category",
        "i1": "kind",
        "?": "implausible",
    },
    "flows": {"i4": "flow_from flow_to", "i1": "flow_category"},
    "instants": {"i8": "start source", "i4": "name lane", "i2": "category"},
    "counters": {"i8": "start", "f8": "value", "i4": "series"},
    "clipped": {"i8": "clipped"},
}
"""The kinds of rows, each with its columns by type, in the order of the file."""

_CHECKED = "start duration name lane depth parent launch op category kind"
"""The same numbers as in nesting.c."""

Columns = dict[str, dict[str, Array]]
"""The columns' types, by kind of rows and name."""


class Key(msgspec.Struct, frozen=True):
    """What must be equal for a kept trace to be used."""

    format: int
    program: str
    identity: tuple[int, ...]
    """`Source.identity`."""
    samples: str
    """A hash of some of the file's bytes."""


class About(msgspec.Struct):
    """Which trace is kept."""

    key: Key
    path: str
    """The path of the trace. Not safe to show."""


class Header(About):
    """Everything but the columns."""

    rows: dict[str, int]
    """Number of rows, by the keys of `_COLUMNS`."""
    sums: list[int]
    """The CRC-32 of each block of each column."""
    info: TraceInfo
    """Without its path and size."""
    names: list[str]
    categories: tuple[str, ...]
    processes: tuple[Process, ...]
    lanes: tuple[Lane, ...]
    flow_kind: tuple[str, ...]
    series_names: tuple[str, ...]
    series_process: tuple[int, ...]
    series_device: tuple[int, ...]
    notices: tuple[Notice, ...]
    phases: dict[str, int]
    first_view: tuple[int, int]
    reader: msgspec.Raw
    """What `EventReader.pack` returned."""


_ABOUTS, _HEADERS = msgspec.json.Decoder(About), msgspec.json.Decoder(Header)


class Unusable(ValueError):
    """A file cannot be used, or a trace cannot be written."""


class _Place(NamedTuple):
    """Where a column is in the file."""

    group: str
    name: str
    dtype: np.dtype[Any]
    begin: int
    end: int

    @property
    def blocks(self) -> list[slice]:
        """The parts that have a checksum each."""
        return [slice(at, min(at + _BLOCK, self.end)) for at in range(self.begin, self.end, _BLOCK)]


def _places(rows: Mapping[str, int]) -> tuple[list[_Place], int]:
    """All columns, in the order of the file, and where they end."""
    at, found = _ALIGNED, []
    if rows.keys() != _COLUMNS.keys() or min(rows.values()) < 0:
        raise Unusable
    for group, types in _COLUMNS.items():
        for code, names in types.items():
            for name in names.split():
                dtype = np.dtype(code)
                end = at + rows[group] * dtype.itemsize
                found.append(_Place(group, name, dtype, at, end))
                at = -(-end // _ALIGNED) * _ALIGNED
    return found, at


# -- writing


def write(out: IO[bytes], trace: Trace, key: Key, going_on: Callable[[], bool]) -> None:
    """Write a trace to an empty file. Raises OSError, or Unusable if `going_on`, which is called between
    blocks, returns False, or if JSON cannot express something in the trace."""
    header, columns = _taken_apart(trace, key)
    places, end = _places(header.rows)
    for place in places:
        column = np.ascontiguousarray(columns[place.group][place.name])
        if column.dtype != place.dtype:
            raise Unusable
        data = memoryview(column.view(np.uint8))  # type: ignore[arg-type]
        for block in place.blocks:
            if not going_on():
                raise Unusable
            part = data[block.start - place.begin : block.stop - place.begin]
            header.sums.append(crc32(part))
            write_at(out, block.start, part)
    text = msgspec.json.encode(header)
    if _HEADERS.decode(text) != header:
        raise Unusable
    write_at(out, end, text)
    write_at(out, 0, _PREFIX.pack(_MAGIC, end, len(text), crc32(text)))


def size_of(trace: Trace) -> int:
    """About how many bytes `write` will write."""
    names = sum(map(len, trace.names))
    return 70 * len(trace) + 30 * (len(trace.instants.start) + len(trace.counters.start)) + 2 * names


def _taken_apart(trace: Trace, key: Key) -> tuple[Header, Columns]:
    clipped = np.array(sorted(trace.clipped), dtype=np.int64)
    owners: dict[str, Any] = dict.fromkeys(_COLUMNS, trace)
    owners |= {"instants": trace.instants, "counters": trace.counters}
    columns: Columns = {
        group: {name: getattr(owners[group], name) for names in types.values() for name in names.split()}
        for group, types in _COLUMNS.items()
        if group != "clipped"
    }
    columns["clipped"] = {"clipped": clipped}
    header = Header(
        key=key,
        path=os.path.realpath(trace.info.path),
        rows={group: len(next(iter(arrays.values()))) for group, arrays in columns.items()},
        sums=[],
        info=replace(trace.info, path="", size=0),
        names=list(trace.names),
        categories=trace.categories,
        processes=trace.processes,
        lanes=trace.lanes,
        flow_kind=trace.flow_kind,
        series_names=trace.counters.series_names,
        series_process=trace.counters.series_process,
        series_device=trace.counters.series_device,
        notices=trace.notices,
        phases=dict(trace.phases),
        first_view=trace.first_view,
        reader=msgspec.Raw(trace.reader.pack()),
    )
    return header, columns


def write_at(out: IO[bytes], offset: int, data: bytes | memoryview) -> None:
    """Write all of the data to a file."""
    out.seek(offset)
    done = 0
    while done < len(data):
        done += out.write(data[done:])


# -- reading


def about(file: IO[bytes]) -> About:
    """Which trace a file keeps. Raises ValueError, OSError."""
    found: About = _read_header(file, _ABOUTS)[0]
    return found


def read(file: IO[bytes], key: Key | None, source: Source, there: Callable[[], object]) -> Trace:
    """The trace of an opened `source`, if the file has this key; `there` is then called before the columns
    are read. Raises Unusable or another error if not, or if the file is damaged."""
    header: Header
    header, end = _read_header(file, _HEADERS)
    if header.key != key:
        raise Unusable
    if header.info.text_size != source.size and source.encoding.IN_PLACE:
        raise Unusable

    there()

    def rest() -> EventReader:  # Python's work, while threads read the columns
        if not all(map(is_safe, _texts(header))):
            raise Unusable
        return unpack(source, header.reader, header.info.text_size)

    tasks: list[Callable[[], Any]] = [partial(_read_columns, file, header, end), rest]
    (columns, keep), reader = run_parallel(tasks, 2)
    if not _is_sound(header, columns):
        raise Unusable
    keep()
    return Trace(
        **columns["slices"],
        **columns["flows"],
        info=replace(header.info, path=source.path, size=source.size),
        names=header.names,
        categories=header.categories,
        processes=header.processes,
        lanes=header.lanes,
        flow_kind=header.flow_kind,
        instants=Instants(**columns["instants"]),
        counters=Counters(
            **columns["counters"],
            series_names=header.series_names,
            series_process=header.series_process,
            series_device=header.series_device,
        ),
        notices=header.notices,
        phases=header.phases,
        first_view=header.first_view,
        clipped=frozenset(columns["clipped"]["clipped"].tolist()),
        reader=reader,
    )


def _read_header(file: IO[bytes], decoder: msgspec.json.Decoder[Any]) -> tuple[Any, int]:
    """The header, and where the columns end."""
    magic, begin, length, checksum = _PREFIX.unpack(_read(file, 0, _PREFIX.size))
    if magic != _MAGIC or begin + length != os.fstat(file.fileno()).st_size:
        raise Unusable
    text = _read(file, begin, length)
    if crc32(text) != checksum:
        raise Unusable
    return decoder.decode(text), begin


def _read(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)
    text = file.read(length)
    if len(text) != length:
        raise Unusable
    return text


def _read_columns(file: IO[bytes], header: Header, end: int) -> tuple[Columns, Callable[[], None]]:
    """The columns, and what to call once they are used."""
    places, expected = _places(header.rows)
    if end != expected:
        raise Unusable
    blocks = [block for place in places for block in place.blocks]
    if len(blocks) != len(header.sums):
        raise Unusable
    found = in_memory(file, end)
    view = memoryview(found.bytes)  # type: ignore[arg-type]

    def is_there(block: slice, checksum: int) -> bool:
        with view[block] as part:
            return found.bring(block) and crc32(part) == checksum

    if not _all(is_there, blocks, header.sums):
        raise Unusable
    columns: Columns = {group: {} for group in _COLUMNS}
    for place in places:
        part = found.bytes[place.begin : place.end]
        if place.dtype == np.bool_ and not _within(part, 0, 2):
            raise Unusable
        columns[place.group][place.name] = part.view(place.dtype)
    return columns, found.keep


def _all(holds: Callable[..., bool], *arguments: Iterable[Any]) -> bool:
    """Whether `holds` is true for every tuple of arguments, checked in several threads."""
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(min(8, usable_cores()), "kept trace")
    try:
        return all(pool.map(holds, *arguments))
    finally:
        pool.shutdown(cancel_futures=True)


# -- checking


def _within(values: Array, low: int, high: int) -> bool:
    """Whether low <= value < high."""
    return not len(values) or (int(values.min()) >= low and int(values.max()) < high)


def is_safe(text: str) -> bool:
    return (text.isascii() and text.isprintable()) or plain(text) == text


def _texts(header: Header) -> Iterator[str]:
    """Every text that is shown as it is."""
    yield from header.names
    yield from (*header.categories, *header.flow_kind, *header.series_names, *header.phases)
    for process in header.processes:
        yield from (process.pid, process.name, process.labels, process.rank)
    for lane in header.lanes:
        yield from (lane.tid, lane.name, lane.kind)
    for notice in header.notices:
        yield from (notice.kind, notice.level, notice.text)


def _is_sound(header: Header, columns: Columns) -> bool:
    """Whether every index points to something, and everything that must be in order is: then no analysis can
    fail or loop forever. The checksums guard what the values mean."""
    slices, flows, counters, instants = (columns[g] for g in ("slices", "flows", "counters", "instants"))
    n, lanes, processes = header.rows["slices"], header.lanes, len(header.processes)
    place = 0
    for lane in lanes:
        if not (lane.first == place < lane.last and 0 <= lane.process < processes):
            return False
        if not (-1 <= lane.device < 1 << 20 and 0 < lane.rows <= lane.last - lane.first):
            return False
        place = lane.last
    return (
        place == n
        and -(1 << 63) <= header.first_view[0] <= header.first_view[1] < 1 << 63
        and all(notice.count > 0 for notice in header.notices)
        and all(-1 <= process < processes for process in header.series_process)
        and len(header.series_process) == len(header.series_names) == len(header.series_device)
        and _within(flows["flow_from"], 0, n)
        and _within(flows["flow_to"], 0, n)
        and _within(flows["flow_category"], 0, len(header.flow_kind))
        and _within(columns["clipped"]["clipped"], 0, n)
        and _within(instants["name"], 0, len(header.names))
        and _within(instants["category"], 0, len(header.categories))
        and _within(instants["lane"], -1, len(lanes))
        and bool((instants["start"][1:] >= instants["start"][:-1]).all())
        and _within(counters["series"], 0, len(header.series_names))
        and bool((counters["series"][1:] >= counters["series"][:-1]).all())
        and _all(_checker(slices, header), range(0, n, _ROWS))
    )


def _checker(slices: Mapping[str, Array], header: Header) -> Callable[[int], bool]:
    """Checks the same for the `_ROWS` slices from a number on."""
    n, lanes, library = header.rows["slices"], header.lanes, nesting.LIBRARY
    if library is None or n >> 31:
        return lambda at: _rows_are_sound(slices, at, header)
    columns = np.array([slices[name].ctypes.data for name in _CHECKED.split()], dtype=np.uintp)
    firsts = np.array([*(lane.first for lane in lanes), n], dtype=np.int64)
    rows = np.array([lane.rows for lane in lanes], dtype=np.int64)
    limits = np.array([len(header.names), len(header.categories), len(Kind), n], dtype=np.int32)

    def are_sound(at: int) -> bool:
        given = [a.ctypes.data for a in (columns, firsts, rows, limits)]
        stop = min(at + _ROWS, n)
        return bool(library.are_sound(given[0], at, stop, given[1], given[2], len(rows), given[3]))

    return are_sound


def _rows_are_sound(slices: Mapping[str, Array], at: int, header: Header) -> bool:
    """Checks the same, without the library."""
    n, stop = header.rows["slices"], min(at + _ROWS, header.rows["slices"])
    part = {name: column[at:stop] for name, column in slices.items()}
    begin = bisect.bisect_right(header.lanes, at, key=lambda lane: lane.first) - 1
    end = bisect.bisect_left(header.lanes, stop, key=lambda lane: lane.first)
    lanes = header.lanes[begin:end]
    counts = [min(lane.last, stop) - max(lane.first, at) for lane in lanes]

    def spread(values: Iterable[int]) -> Array:
        return np.repeat(np.fromiter(values, dtype=np.int32, count=len(counts)), counts)

    depth, parent = part["depth"], part["parent"]
    later = np.diff(slices["start"][max(0, at - 1) : stop]) >= 0
    # The first slice of a lane may be earlier than the last one of the lane before.
    later[[lane.first - max(1, at) for lane in lanes if lane.first >= max(1, at)]] = True
    return (
        np.array_equal(part["lane"], spread(range(begin, end)))
        and bool(later.all())
        and bool((parent < np.arange(at, stop, dtype=np.int32)).all())
        and not ((parent < spread(lane.first for lane in lanes)) & (parent != -1)).any()
        and _within(depth, 0, 1 << 31)
        and bool((depth < spread(lane.rows for lane in lanes)).all())
        and _within(part["duration"], 0, 1 << 62)
        and _within(part["name"], 0, len(header.names))
        and _within(part["category"], 0, len(header.categories))
        and _within(part["kind"], 0, len(Kind))
        and _within(part["launch"], -1, n)
        and _within(part["op"], -1, n)
    )
