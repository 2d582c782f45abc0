"""Decimal microseconds to integer nanoseconds."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import named, notices

from tracetui.formats.chrome_json import rows
from tracetui.formats.chrome_json.chunks import Reader
from tracetui.formats.chrome_json.event_builder import EventBuilder
from tracetui.formats.chrome_json.schema import decoder
from tracetui.formats.chrome_json.times import (
    FLOAT_LIMIT,
    NO_TIME,
    TIME_LIMIT,
    exact,
    from_floats,
    from_texts,
    shrink,
)
from tracetui.formats.store import Tables
from tracetui.trace import Trace, load


@given(st.lists(st.integers(0, int(FLOAT_LIMIT) * 1000 - 1), min_size=1))
def test_floats_below_the_limit_lose_nothing(nanoseconds):
    floats = np.array([float(f"{n // 1000}.{n % 1000:03d}") for n in nanoseconds])
    assert from_floats(floats).tolist() == nanoseconds


@given(st.integers(int(FLOAT_LIMIT) * 900, int(FLOAT_LIMIT) * 1000 - 1))
def test_floats_just_below_the_limit(nanoseconds):
    assert from_floats(np.array([float(Decimal(nanoseconds) / 1000)])).tolist() == [nanoseconds]


def test_the_place_where_one_rounding_is_not_enough():
    # Times 1000 in one go, about every second odd value between 2**42 and 2**52 / 1000 rounds to its
    # neighbor.
    values = range(4_400_000_000_000_001, 4_400_000_000_001_001)
    assert from_floats(np.array([float(Decimal(n) / 1000) for n in values])).tolist() == list(values)


def test_floats_out_of_range():
    found = from_floats(np.array([np.nan, np.inf, -np.inf, 1e300, -2.5]))
    assert found.tolist() == [NO_TIME, TIME_LIMIT, -TIME_LIMIT, TIME_LIMIT, -2500]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("field", ["ts", "dur"])
def test_times_that_floats_would_round_are_read_as_text(field, sign):
    for value in (FLOAT_LIMIT - 1, FLOAT_LIMIT):
        events = decoder(False).decode(f'[{{"ph":"X","name":"x","ts":1,"{field}":{sign * value}}}]')
        if value == FLOAT_LIMIT:
            with pytest.raises(rows.LosesDigits):
                rows.typed_rows(events, False, Tables())
            continue
        found = rows.typed_rows(events, False, Tables())
        time = found.start if field == "ts" else found.duration
        assert time.tolist() == [sign * (int(FLOAT_LIMIT) - 1) * 1000]


def test_integers_in_microseconds_and_in_nanoseconds():
    starts = [b"1606910596297023", b"1714000000000000123", b"0", b""]
    assert from_texts(starts).tolist() == [1_606_910_596_297_023_000, 1_714_000_000_000_000_123, 0, NO_TIME]
    # Where the start counts nanoseconds, so does the duration.
    durations = np.array([13_000, 5_000_000, 7_000, NO_TIME])
    shrink(starts, durations)
    assert durations.tolist() == [13_000, 5_000, 7_000, NO_TIME]


def test_integers_out_of_range():
    """Microseconds whose nanoseconds are too many for 64 bits, but too few to be nanoseconds themselves."""
    starts, durations = [b"90000000000000000", b"-90000000000000000"], np.array([1_000, 1_000])
    assert from_texts(starts).tolist() == [TIME_LIMIT, -TIME_LIMIT]
    shrink(starts, durations)
    assert durations.tolist() == [1_000, 1_000]


@given(
    st.lists(
        st.tuples(st.integers(-(4 * 10**15), 4 * 10**15), st.integers(0, 3), st.integers(0, 999)), max_size=30
    )
)
def test_texts_agree_with_decimals(parts):
    texts = [
        f"{whole}.{fraction:03d}"[: len(str(whole)) + 1 + places].rstrip(".")
        for whole, places, fraction in parts
    ]
    expected = [int(Decimal(text) * 1000) for text in texts]
    assert from_texts([text.encode() for text in texts]).tolist() == expected


@pytest.mark.parametrize(("text", "nanoseconds"), [
    ("1711964646123456.789", 1_711_964_646_123_456_789),
    ("9999999999999999", TIME_LIMIT),
    ("1.0005", 1000),  # as a float64, a little less than a half
    ("1.00049", 1000),
    ("-0.5", -500),
    ("1e3", 1_000_000),
    ("1714000000000000123", 1_714_000_000_000_000_123),
    ('"12.5"', 12_500),
    ("7 ns", 7),
    ("7ms", 7_000_000),
    ("", NO_TIME),
    ("nan", NO_TIME),
    ("inf", TIME_LIMIT),
    ("[1]", NO_TIME),
    ("null", NO_TIME),
    ("1e999999999", TIME_LIMIT),
    ("1e-999999999", 0),
    ("1" * 5000, NO_TIME),
    ("12345678901234567890123456", TIME_LIMIT),
])  # fmt: skip
def test_one_text(text, nanoseconds):
    assert from_texts([text.encode()]).tolist() == [nanoseconds]
    if text:
        assert exact(text) in (nanoseconds, nanoseconds - 1, nanoseconds + 1)


@pytest.mark.parametrize("among", ["{}", '{"ts": "5", "ph": "X"}', '{"ts": [], "ph": "X"}'])
def test_a_duration_beside_nanoseconds_is_in_nanoseconds(among, tmp_path):
    """Whichever way the chunk is read, because of another event in it."""
    path = tmp_path / "trace.json"
    path.write_text(f'[{among}, {{"ph": "X", "name": "a", "ts": 1711964646123456789, "dur": 5000}}]')
    trace = load(path)
    assert trace.duration[[trace.name_of(i) for i in range(len(trace))].index("a")] == 5000


@pytest.mark.parametrize("ts", ['"1700000000000000123"', "1700000000000000123", '" 1700000000000000123 "'])
def test_durations_beside_nanoseconds_are_nanoseconds_too(ts, tmp_path):
    """Also where one of the times is no plain number, and all are read as texts."""
    head = '"ph":"X","cat":"cpu_op","pid":1,"tid":1'
    events = [f'{{{head},"name":"a","ts":{ts},"dur":4500}}', f'{{{head},"name":"b","ts":{ts},"dur":"70000"}}']
    (tmp_path / "t.json").write_text(f'{{"traceEvents":[{",".join(events)}]}}')
    assert sorted(load(tmp_path / "t.json").duration.tolist()) == [4500, 70000]


NEIGHBORS = {
    "alone": "", "floats": ',{"ts":1.5,"dur":1.5}', "integers": ',{"ts":1606910596288053,"dur":1}',
    "texts": ',{"ts":"5","dur":1}', "long texts": ',{"ts":"5000000000000000000000000000000","dur":1}'
}  # fmt: skip
"""What decides how the times of a chunk are decoded."""
TIMES = (
    *("0", "-0", "-5", "0.001", "0.0005", "-0.0005", "0.4995", "123.4575", "1e-7", "5e-324", "1E2", "9e15"),
    *("1e17", "1e18", "-1e30", "1e308", "1e999", "-1e999", "8796093022207.9995", "8796093022208.5"),
    *("1606910596288053.1235", "4611686018427387.903", "4611686018427387.904", "4611686018427388"),
    *("4700000000000000.5", "9007199254740992", "99999999999999999", "100000000000000000.5", str(1 << 63)),
    *(
        str(-(1 << 63)), str(1 - (1 << 63)), "1" * 400, "null", '""', '"7"', '"x"', '"12us"', "true", "[]",
        "{}"
    )
)  # fmt: skip


@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_a_time_is_the_same_beside_any_others(neighbor):
    """However it is decoded: how the text is cut into chunks must not matter."""
    starts = [(ts, dur) for ts in TIMES for dur in ("1", "1.5")]
    for ts, dur in starts + [(ts, dur) for dur in TIMES for ts in ("1", "1606910596288053", "9" * 18)]:
        event = f'{{"ph":"X","ts":{ts},"dur":{dur}}}'
        found = Reader(EventBuilder())._rows(f"[{event}{NEIGHBORS[neighbor]}]".encode())
        if found is not None:  # else they are read one by one
            alone = rows.patient_rows([event.encode()], Tables())
            at = (int(found.start[0]), int(found.duration[0]), 0 in found.wrong)
            assert at == (int(alone.start[0]), int(alone.duration[0]), 0 in alone.wrong), event


Event = dict[str, Any]
Make = Callable[..., Event]
Load = Callable[..., Trace]


@pytest.mark.parametrize(("ts", "dur", "start", "duration"), [
    ("10.5", "2.25", 500, 2250), ("10.0004", "0.0006", 0, 1), ("10.9996", "1", 1000, 1000), ("10", "0", 0, 0),
    ('"10.001"', '"3"', 1, 3000), ('"12us"', '"1ms"', 2_000, 1_000_000), ('"0.00002s"', "1e-3", 10_000, 1),
    ("1.2e1", "1E2", 2_000, 100_000)
])  # fmt: skip
def test_times(trace_of, ts, dur, start, duration):
    """The first event begins at 10 us: the trace's zero."""
    text = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":%d,"ts":%s,"dur":%s}'
    events = [text % ("zero", 1, "10", "1"), text % ("it", 2, ts, dur)]
    trace = trace_of(('{"traceEvents":[' + ",".join(events) + "]}").encode())
    at = named(trace)["it"]
    assert (int(trace.start[at]), int(trace.duration[at])) == (start, duration)
    assert trace.info.zero_ns == 10_000


@pytest.mark.parametrize("offset", [0, 1_606_910_596_297_023, 4_400_473_816_687])
def test_epochs_keep_their_nanoseconds(trace_of, offset):
    text = '{"ph":"X","cat":"cpu_op","name":"a%d","pid":1,"tid":1,"ts":%d.%03d,"dur":0.001}'
    moments = [1, 2, 499, 500, 501, 999]
    events = ",".join(text % (m, offset, m) for m in [0, *moments])
    trace = trace_of(('{"baseTimeNanoseconds": 7, "traceEvents":[' + events + "]}").encode())
    assert trace.start.tolist() == [0, *moments]
    assert set(trace.duration.tolist()) == {1}
    assert (trace.info.zero_ns, trace.info.base_ns) == (offset * 1000 + 7, 7)


def test_old_durations(trace_of, event):
    """Without `dur`, the duration in thread time; without either, none."""
    thread, none, negative = (
        event(name="thread", tdur=3),
        event(name="none", ts=5),
        event(name="minus", tdur=-3),
    )
    for one in (thread, none, negative):
        del one["dur"]
    trace = trace_of([thread, none, negative])
    durations = {name: int(trace.duration[i]) for name, i in named(trace).items()}
    assert durations == {"thread": 3000, "none": 0, "minus": 0}


def test_times_that_are_missing(trace_of, event):
    trace = trace_of([event(name="good", ts=5), event(name="bad", ts=None), event(name="worse", ts="soon")])
    assert list(named(trace)) == ["good"]
    assert notices(trace)["no_time"] == 2
    assert dict(trace.phases) == {"X": 3}


@pytest.mark.parametrize("sign", ["", "-"])
def test_fractions_of_far_times(trace_of, sign):
    """Sixteen digits before the point, on either side of zero."""
    text = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s1606910596297023.%03d,"dur":1}'
    moments = [1, 2, 499, 500, 501, 999]
    trace = trace_of(("[" + ",".join(text % (sign, m) for m in moments) + "]").encode())
    first = moments[-1] if sign else moments[0]
    assert trace.start.tolist() == sorted(abs(m - first) for m in moments)
