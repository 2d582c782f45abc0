"""Input made to take for ever or to fill the memory: bounded time and memory, no silent loss.

The bounds are wide: what they stand for took minutes, or gigabytes.
"""

import contextlib
import functools
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import threading
import time
import zlib
from typing import Any

import pytest
from tests.kineto import notices

from tracetui.formats import source
from tracetui.formats.chrome_json import chunks, reader
from tracetui.formats.chrome_json.reader import _ENOUGH
from tracetui.formats.chrome_json.recover_text import recover_text, value_at
from tracetui.trace import TraceError, load

Event = dict[str, Any]
HEAD = b'{"traceEvents":['
SOUND = b'{"ph":"X","name":"sound","pid":1,"tid":1,"ts":%d,"dur":1}'
SIZE = 100_000


def filled(head: bytes, piece: bytes, tail: bytes = b"") -> bytes:
    """`piece` again and again, up to 100 kB."""
    return HEAD + head + piece * (SIZE // len(piece)) + tail


def events_with(end: bytes) -> bytes:
    one = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":%d,"dur":1,"x":' + end
    return HEAD + b",".join(one % i for i in range(SIZE // len(one))) + b"]}"


AFTER = b"," + SOUND % 1 + b"," + SOUND % 2 + b"]}"
OPEN = SOUND % 1 + b',{"ph":"X","args":{"a":['
ENDLESS = {
    # what: (text, slices that are sound, "at least one" where the rest is not all broken)
    "openings in openings": (filled(b"", b'{"a":"'), 0),
    "openings with a phase": (filled(b"", b'{"a":"ph", "ph":"'), 0),
    "ends with a backslash": (events_with(rb'"\}'), 0),
    "a lone backslash": (events_with(rb'"C:\d"}'), SIZE // 70),
    "an unclosed list": (filled(OPEN, b"1,"), 1),
    "an unclosed list of objects": (filled(OPEN, b'{"a":1},'), 1),
    "an unclosed list of events": (filled(OPEN, SOUND % 3 + b","), 1000),
    "spaces after a word": (filled(b'{"ph":"X","x":tru', b" ", b'"y"}' + AFTER), 2),
    "spaces after a bracket": (filled(b'{"a":' * 3000 + b"]", b" ", AFTER), 0),
    "nested lists": (filled(b"", b'{"a":[{},'), 0),
    "brackets": (filled(b"", b"["), 0),
    "quotes": (filled(b"", b'"'), 0),
    "quoted quotes": (filled(b"", b'\\"'), 0),
    "backslashes": (filled(b'{"a":"', b"\\"), 0),
    "closing brackets": (filled(SOUND % 1 + b',{"a', b"]"), 1),
    "brackets that might close": (filled(SOUND % 1 + b',{"a', b'],"a":1'), 1),
    "borders": (filled(b"", b'},{"'), 0),
    "events in events": (filled(b"", b'{"ph":"X","ts":1,"a":'), 0),
    "deep values": (filled(b"", b'{"a":' * 900 + b"x" + b"}" * 900 + b","), 0),
    "words": (filled(b'{"ph":"X","a":', b"a ", b'"}'), 0),
    "keys of arrays": (b'{"x":1' + b',"traceEvents":[]' * (SIZE // 17) + b"}", 0),
}


@pytest.mark.parametrize("what", ENDLESS)
def test_an_answer_in_time(what, trace_of):
    text, sound = ENDLESS[what]
    begun = time.process_time()
    try:
        trace = trace_of(text)
    except TraceError:
        assert not sound
    else:
        assert len(trace) >= sound
        assert trace.notices
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("seed", [*range(12), 5009])  # 5009: much is dropped, a little at a time
def test_any_mixture_in_time(seed, trace_of):
    rng = random.Random(seed)
    pieces = [*b'{}[]",:\\ \n1x', b'{"', b'{"ph":"X","ts":1}', b'"a":', b'},{"', b"inf", b"\xff", b'"ph":"X"']
    some = [p if isinstance(p, bytes) else bytes([p]) for p in rng.sample(pieces, rng.randrange(2, 7))]
    text = (HEAD + b"".join(rng.choice(some) for _ in range(SIZE // 2)))[:SIZE]
    begun = time.process_time()
    with contextlib.suppress(TraceError):
        assert trace_of(text).notices
    assert time.process_time() - begun < 5


def test_events_that_run_together_are_counted_one_by_one(trace_of):
    """As after a wrong bit in compressed data: parts are written over, the ends of events, too."""
    broken = b',\n{"ph":"X","name":"a","ts":71398040dur":1,"args":{"External id":35699070' * 5
    trace = trace_of(HEAD + SOUND % 1 + broken + b"\n," + SOUND % 2 + b"," + SOUND % 3 + b"]}")
    assert (len(trace), notices(trace)) == (3, {"broken_event": 5})


def test_where_a_value_ends():
    """What is relied on in the messages of msgspec."""
    for text, expected in (
        (b'{"a":1}', (7, 7)),
        (b'{"a":1}}', (7, 7)),
        (b'{"a":[1,{}]} \n , x', (12, 15)),
        (b'{"a":1', (-1, 6)),
        (b'{"a":"x', (-1, 7)),
        (b'{"a":"' + b"x" * 50, (-1, 56)),
    ):
        assert value_at(text, memoryview(text), 0)[:2] == expected
    for text in (b'{"a":tru}' + b" " * 99, b'{"a" 1}' + b" " * 99, b'{"a":"x\x01"}' + b" " * 99):
        end, failed, _ = value_at(text, memoryview(text), 0)
        assert end == -1
        assert 4 <= failed <= 9


def test_where_nothing_may_be_tried_any_more_what_follows_is_still_found(monkeypatch):
    monkeypatch.setattr("tracetui.formats.chrome_json.recover_text._BUDGET", -(1 << 40))
    text = b'{"ph":"X","name":"open}, ' + SOUND % 1 + b", " + SOUND % 2
    assert len(recover_text(text, "border").events) == 2


def test_after_too_many_deep_values_the_rest_is_not_tried(monkeypatch):
    """Each is read for a long way before it turns out to be one."""
    deep = b'{"a":' * 2000 + b"1" + b"}" * 1999 + b", " + SOUND % 1
    assert len(recover_text(deep, "border").events) == 1
    monkeypatch.setattr("tracetui.formats.chrome_json.recover_text._BUDGET", -(1 << 40))
    assert len(recover_text(deep, "border").events) == 0


def test_two_arrays_of_events(trace_of, event):
    one, two = (json.dumps([event(ts=i) for i in some])[1:-1] for some in (range(5), range(5, 9)))
    for between in ("", '"traceName": "x", "n": {"traceEvents": [1]}, '):
        text = f'{{"schemaVersion": 1, "traceEvents": [{one}], {between}"traceEvents": [{two}], "last": 2}}'
        trace = trace_of(text.encode())
        assert trace.start.tolist() == [i * 1000 for i in range(9)]
        assert notices(trace) == {"second_array": 1}
        expected = {"schemaVersion": 1, "last": 2} | ({"traceName": "x"} if between else {})
        assert trace.info.properties == expected
        assert [trace.event(i)["ts"] for i in range(9)] == list(range(9))
    text = f'{{"traceEvents": [], "traceEvents": [{two}], "traceEvents": [{one}], "traceEvents": 7}}'
    trace = trace_of(text.encode())
    assert (len(trace), notices(trace)) == (9, {"second_array": 2, "bad_header": 1})


def test_two_arrays_in_several_threads(tmp_path, load_in):
    some = [b",\n".join(SOUND % i for i in range(a, b)) for a, b in ((0, 4000), (4000, 9000))]
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents":[\n' + some[0] + b'],\n"x": 1, "traceEvents":[\n' + some[1] + b"]}")
    trace = load_in(path, 10_000, 2, 50_000)
    assert trace.start.tolist() == [i * 1000 for i in range(9000)]
    assert notices(trace) == {"second_array": 1}


def test_metadata_whose_name_is_a_list(trace_of, event):
    for name in (["x"], {"a": 1}, None, 3):
        trace = trace_of([event(), {"ph": "M", "name": name, "pid": 1, "args": {"name": "p"}}, event(ts=5)])
        assert len(trace) == 2


BOMB = 1 << 21
"""In place of gigabytes: the limits are lowered as well."""


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_LONGEST", 1 << 19)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(
    "fill", [b"a", b"\\\\", b"{ ", b"[", b'"},{"', b"x},\n", b"\xff"], ids=lambda fill: repr(fill)
)
def test_an_event_without_end_is_passed_over(fill, trace_of):
    long = b'{"ph":"X","name":"' + fill * (BOMB // len(fill)) + b'","ts":3,"dur":1}'
    trace = trace_of(HEAD + SOUND % 1 + b"," + long + b"," + SOUND % 5 + b"," + SOUND % 7 + b"]}")
    assert {1000, 5000, 7000} <= set((trace.start + 1000).tolist())
    assert sum(n.count for n in trace.notices if n.level == "lost") in (0, *range(1, 2 * BOMB))
    assert trace.notices or len(trace) == 4
    assert [trace.event(i)["name"] for i in range(3)]


@pytest.mark.usefixtures("small_limit")
def test_spaces_without_end(trace_of):
    trace = trace_of(gzip.compress(HEAD + SOUND % 1 + b"," + b" " * BOMB + SOUND % 2 + b"]}"))
    assert (len(trace), notices(trace)) == (2, {})


MEASURE = """
import sys
from tracetui.trace import TraceError, load
try:
    print(len(load(sys.argv[1])), "slices")
except TraceError as error:
    print(error)
print(next(int(x.split()[1]) // 1024 for x in open("/proc/self/status") if x.startswith("VmHWM")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("head", "fill", "tail", "said"), [
    (b"", b" ", b"", "is not a trace"),
    (HEAD + SOUND % 1 + b',{"ph":"X","name":"', b"a", b'"},' + SOUND % 2 + b"]}", "2 slices"),
    (HEAD + b'{"ph":"X","name":"', b"a", b'"}]}', "shorter than 64 MB"),
    (HEAD + SOUND % 1 + b'],"x":[1', b",[]", b"]}", "1 slices"),
], ids=["spaces", "a name", "nothing but a name", "a list at the end"])  # fmt: skip
def test_a_bomb_takes_little_memory(head, fill, tail, said, tmp_path):
    path = tmp_path / "bomb.json.gz"
    block = fill * ((1 << 20) // len(fill))
    # One member, whose middle is the same piece again and again: packed once.
    packer = zlib.compressobj(1, wbits=-15)
    begin, piece = (packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH) for text in (head, block))
    checksum = functools.reduce(lambda crc, text: zlib.crc32(text, crc), [head, *300 * [block], tail], 0)
    size = len(head) + 300 * len(block) + len(tail)
    end = packer.compress(tail) + packer.flush() + struct.pack("<LL", checksum, size)
    path.write_bytes(b"\x1f\x8b\x08" + bytes(7) + begin + 300 * piece + end)
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    )
    answer, megabytes = run.stdout.strip().rsplit("\n", 1)
    assert said in answer
    assert int(megabytes) < 500


def test_more_events_than_memory(monkeypatch, trace_of):
    text = HEAD + b",".join(SOUND % i for i in range(50_000)) + b"]}"
    assert len(trace_of(text)) == 50_000
    monkeypatch.setattr(reader, "memory_for_events", lambda: 1 << 20)
    with pytest.raises(
        TraceError, match=r"has more events than fit in memory: one trace may use 0\.00105 GB"
    ):
        trace_of(text)


@pytest.mark.parametrize("element", [b"{}", b'{"a":1}', b"[]", b"7", b'{"ph":"","ts":1}'])
def test_no_events_without_end(element, trace_of):
    """Given up long before the end; an event of a trace among them is enough to go on."""
    many = (element + b",") * (_ENOUGH + 1) + b" " * (1 << 20)
    begun = time.process_time()
    with pytest.raises(TraceError, match=r"has no trace events$"):
        trace_of(HEAD + many + (b'{"x":[1,2,3]},' * 1_500_000))
    assert time.process_time() - begun < 5
    assert len(trace_of(HEAD + SOUND % 1 + b"," + many + SOUND % 2 + b"]}")) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
def test_an_empty_pipe_and_dev_null(tmp_path):
    with pytest.raises(TraceError, match=r"null: is empty$"):
        load("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"",))
    writer.start()
    with pytest.raises(TraceError, match=r"pipe: is empty$"):
        load(pipe)
    writer.join()


def test_half_pairs_by_the_million(trace_of):
    name = b"\\ud800" * 200_000 + b"\\ud83d\\ude00" * 3000 + b"\\\\ud800"
    trace = trace_of(HEAD + b'{"ph":"X","name":"' + name + b'","ts":1,"dur":1}]}')
    assert notices(trace) == {"bad_escape": 1}
    assert list(trace.names) == ["\ufffd" * 200_000 + "\U0001f600" * 3000 + "\\ud800"]


class Endless:
    """A stream that never ends."""

    def __init__(self, head: bytes, piece: bytes) -> None:
        self.head, self.piece, self.given = head, piece, 0

    def read(self, size: int) -> bytes:
        head, self.head = self.head, b""
        block = (head + self.piece * (size // len(self.piece) + 1))[:size]
        self.given += len(block)
        return block


@pytest.mark.parametrize(("head", "piece", "said"), [
    (b"", b"\0", "is not a trace"), (b"", b"y\n", "is not a trace"), (HEAD, b"{},", "is longer than 0.1 GB")
])  # fmt: skip
def test_endless_input(head, piece, said, monkeypatch):
    monkeypatch.setenv("TRACETUI_SPOOL_GB", "0.1")
    stream = Endless(head, piece)
    monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": stream}))
    with pytest.raises(TraceError, match=said):
        load("-")
    assert stream.given < 110_000_000


def test_a_device_is_no_trace():
    with pytest.raises(TraceError, match=r"is a device, not a trace$"):
        load("/dev/zero")


def test_a_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TraceError, match="standard input: is closed"):
        source.open_source("-")


@pytest.mark.parametrize("header", ['"displayTimeUnit": "us", ', ""])
@pytest.mark.parametrize("end", [', "traceName": "x.json"', ""])
def test_several_objects_one_after_another(header, end, trace_of, event):
    """Triton's Proton writes one a line, for each stream."""
    some = [json.dumps([event(ts=i) for i in range(n, n + 3)]) for n in (0, 3, 6)]
    trace = trace_of("\n".join(f'{{{header}"traceEvents": {events}{end}}}' for events in some).encode())
    assert trace.start.tolist() == [i * 1000 for i in range(9)]
    assert notices(trace) == {"second_array": 2}
    assert [trace.event(i)["ts"] for i in range(9)] == list(range(9))


def test_events_alone_have_no_header(trace_of, event):
    """One a line, without commas and brackets."""
    trace = trace_of("\n".join(json.dumps(event(ts=i)) for i in range(4)).encode())
    assert (len(trace), notices(trace)) == (4, {"separator": 3, "open_array": 1})


@pytest.mark.parametrize("key", ["", ', "traceName": "x.json"'])
def test_a_comma_after_the_last_key(key, trace_of, event):
    trace = trace_of(f'{{"traceEvents": {json.dumps([event()])}{key},\n}}\n'.encode())
    assert (len(trace), notices(trace)) == (1, {"comma": 1})
    assert trace.info.properties == ({"traceName": "x.json"} if key else {})
