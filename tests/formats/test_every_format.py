"""What holds for every format. A new one needs an example here; what is special about it, its own tests."""

import gzip
import json
import os
import random
import time
import tracemalloc
from pathlib import Path

import pytest
from perfetto.trace_builder.proto_builder import TraceProtoBuilder
from tests.formats.test_fuzz import assemble, mutate, spans_of_lines

from tracetui.formats.registry import FORMATS, Format, read_beginning
from tracetui.formats.source import open_source
from tracetui.trace import Trace, TraceError, load, saved

HUGE = 320_000_000
"""Bytes without the end of a line."""

EVENTS = [
    {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": 7, "ts": 10.5 * n, "dur": 7.25} for n,
    (cat, name, pid) in enumerate([("cpu_op", "aten::mm", 1), ("cpu_op", "é ✓", 1), ("kernel", "k", 0)])
]  # fmt: skip
TYPE_BEGIN, TYPE_END = 1, 2


def packets() -> bytes:
    """The same as packets: begins and ends, and GPU work."""
    builder = TraceProtoBuilder()
    track = builder.add_packet().track_descriptor
    track.uuid = 5
    track.thread.pid, track.thread.tid = 1, 7
    for event in EVENTS:
        start, duration = (round(1000 * event[key]) for key in ("ts", "dur"))  # type: ignore[operator]
        for moment in (start, start + duration)[: 1 + (event["cat"] != "kernel")]:
            packet = builder.add_packet()
            packet.timestamp, packet.trusted_packet_sequence_id = moment, 1
            if event["cat"] == "kernel":
                packet.interned_data.gpu_specifications.add(iid=3, name="Kernel")
                stage = packet.gpu_render_stage_event
                stage.duration, stage.name, stage.stage_iid = duration, event["name"], 3
                continue
            begin = moment == start
            packet.track_event.track_uuid = 5
            packet.track_event.type = TYPE_BEGIN if begin else TYPE_END
            if begin:
                packet.track_event.name = event["name"]
                packet.track_event.categories.append(event["cat"])
    return builder.serialize()


def log() -> bytes:
    """The events as TORCH_TRACE writes them."""
    line = 'V1127 11:59:00.555000 31 torch/_dynamo/utils.py:2350] {"chromium_event": {}, "frame_id": 0}'
    payload = (json.dumps(event, indent=0).replace("\n", "\n\t") for event in EVENTS)
    return "".join(f"{line}\n\t{text}\n" for text in payload).encode()


EXAMPLES: dict[str, bytes] = {
    "chrome_json": json.dumps({"traceEvents": EVENTS}, indent=1).encode(), "pftrace": packets(),
    "torch_trace": log()
}  # fmt: skip
"""By the module's name: a small file of the format, with a few slices."""

both = pytest.mark.parametrize("name", EXAMPLES)


def module(name: str) -> Format:
    return next(f for f in FORMATS if getattr(f, "__name__", "").endswith(f".{name}"))


@pytest.fixture
def path(name: str, tmp_path: Path) -> Path:
    """The example of the format as a file whose name says nothing."""
    path = tmp_path / "trace"
    path.write_bytes(EXAMPLES[name])
    return path


def check(trace: Trace) -> None:
    """The events behind the slices are what the columns say."""
    assert len(trace)
    for i, event in enumerate(trace.reader.read(trace.source.tolist())):
        assert event["ph"] == "X"
        assert (event["name"], event["cat"]) == (trace.name_of(i), trace.categories[trace.category[i]])
        zero = trace.info.zero_ns - (trace.info.base_ns or 0)
        assert round(event["ts"] * 1000) - zero == trace.start[i]
        assert round(event["dur"] * 1000) == trace.duration[i]


def test_every_format_has_an_example():
    assert {f.__name__.rpartition(".")[2] for f in FORMATS if hasattr(f, "__name__")} == set(EXAMPLES)


@both
def test_is_recognised_by_its_own_format_first(name):
    assert [f for f in FORMATS if f.sniff(EXAMPLES[name], "trace")][:1] == [module(name)]


@both
def test_events_are_read_again_from_the_file(path):
    trace = load(path)
    check(trace)
    sources = trace.source.tolist()
    assert trace.reader.read(sources[::-1]) == trace.reader.read(sources)[::-1]


@both
def test_of_a_file_that_was_overwritten_nothing_is_said(name, path):
    for other in (b"something else", EXAMPLES[name] * 2):  # the second has the same events at these places
        path.write_bytes(EXAMPLES[name])
        trace = load(path)
        path.write_bytes(other)
        assert trace.reader.read(trace.source.tolist()) == [{}] * len(trace)


@both
def test_compressed(name, path):
    plain = load(path)
    path.write_bytes(gzip.compress(EXAMPLES[name]))
    zipped = load(path)
    check(zipped)
    assert (zipped.start.tolist(), zipped.phases) == (plain.start.tolist(), plain.phases)
    assert zipped.info.text_size == len(EXAMPLES[name])


@both
def test_a_trace_of_it_is_kept(path, cache, monkeypatch):
    monkeypatch.setattr("tracetui.formats.source._SETTLED", -(10**12))
    assert saved.save(load(path))
    kept = saved.find(open_source(path))
    assert kept is not None
    check(kept)


@both
def test_its_beginning(name, path):
    """Of a large file it is drawn first."""
    whole, source = load(path), open_source(path)
    for length in range(0, len(EXAMPLES[name]) + 10, 7):
        try:
            contents = read_beginning(source, lambda done, total: None, length)
        except TraceError:
            continue
        assert len(contents.store.slices) <= len(whole)


@both
def test_a_line_without_end_takes_little_time_and_memory(name, path):
    """The line in which the example ends goes on, with zeros, which take no room on the disk."""
    slices, text, begun = len(load(path)), EXAMPLES[name].rstrip()[:-1], time.process_time()
    path.write_bytes(text)
    os.truncate(path, len(text) + HUGE)

    def in_time(done: int, total: int) -> None:
        assert time.process_time() - begun < 10

    tracemalloc.start()
    try:
        trace = load(path, in_time, workers=1)
        in_time(0, 0)
        assert tracemalloc.get_traced_memory()[1] < 1.4 * HUGE
    finally:
        tracemalloc.stop()
    assert len(trace) >= slices - 1, "what comes before is read"
    assert trace.notices, "what is passed over is counted"


@both
def test_any_bytes_are_a_trace_or_an_error_of_one_line(name, path):
    text = EXAMPLES[name]
    lines = spans_of_lines(text)
    for number in range(200):
        path.write_bytes(mutant := assemble(text, mutate(text, lines, random.Random(number))))
        try:
            trace = load(path)
        except TraceError as error:
            if not str(error).isprintable():
                pytest.fail(f"{mutant!r}: {error!r}")
            continue
        assert len(trace.reader.read(trace.source.tolist())) == len(trace), mutant
