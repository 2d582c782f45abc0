"""Values over time as areas."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tracetui.timeline import series
from tracetui.timeline.counters import values_at
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import beside
from tracetui.timeline.scene import EDGE, TOP, Scene
from tracetui.timeline.series import brief_of
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Instants, Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-50, 50)), min_size=1, max_size=80),
    st.integers(-20, 300), st.integers(1, 40), st.integers(1, 20)
)  # fmt: skip
def test_peaks_are_the_largest_values(samples, start, cell, width):
    samples.sort(key=lambda s: s[0])
    one = series.series("m", np.array([t for t, _ in samples]), np.array([float(v) for _, v in samples]))
    borders = start + cell * np.arange(width + 1)
    for i, got in enumerate(one.peaks(borders).tolist()):
        low, high = int(borders[i]), int(borders[i + 1])
        inside = [v for t, v in samples if low <= t < high]
        before = [v for t, v in samples if t <= low][-1:]
        if inside or before:
            assert got == max(inside + before)
        else:
            assert np.isnan(got)


def test_no_peak_gets_lost_among_very_many():
    n = 200_000
    value = np.zeros(n)
    value[123_456] = 9.0
    found = series.series("m", np.arange(n) * 10, value).peaks(np.linspace(0, n * 10, 101).astype(np.int64))
    assert found[61] == 9.0
    assert (found == 9.0).sum() <= 2


def test_launch_delay_and_queue(make):
    slices = [(0, 0, 5, "launch"), (0, 10, 5, "launch"), (1, 100, 50, "k"), (1, 150, 50, "k")]
    delay, queued = series.launches(make(slices, streams=[1], launches={2: 0, 3: 1}))
    assert (delay.name, queued.name) == ("delay", "queue")
    assert delay.start.tolist() == [100, 150, 200]
    assert delay.value[:2].tolist() == [100.0, 140.0]
    assert np.isnan(delay.value[2])
    assert queued.at(np.array([-1, 0, 10, 99, 100, 150])).tolist()[1:] == [1, 2, 2, 1, 0]
    # Where a kernel starts with its launch, or before it, none waits.
    at_once = [(0, 100, 5, "launch"), (0, 200, 5, "launch"), (1, 100, 50, "k"), (1, 190, 50, "k")]
    _, queued = series.launches(make(at_once, streams=[1], launches={2: 0, 3: 1}))
    assert queued.low == queued.high == 0
    assert series.launches(make([(0, 0, 5, "op")])) == []
    assert series.launches(make([])) == []


def test_an_idle_device_has_no_launch_delay(make):
    """It ends with the last event, unless a launch waits; an event of no length counts for a nanosecond."""
    slices = [
        *((0, t, 5, "launch") for t in (0, 130, 900, 2000)),
        *((1, 100, 50, "k"), (1, 400, 50, "k"), (1, 910, 0, "k"), (1, 2100, 10, "k")),
    ]
    delay, queued = series.launches(make(slices, streams=[1], launches={4: 0, 5: 1, 6: 2, 7: 3}))
    times = [99, 100, 149, 160, 399, 449, 450, 905, 910, 911, 1500, 2050, 2100, 2110]
    nan = float("nan")
    np.testing.assert_equal(delay.at(np.array(times)).tolist(), [
        nan, 100, 100, 100, 100, 270, nan, nan, 10, nan, nan, nan, 100, nan
    ])  # fmt: skip
    assert (delay.low, delay.high) == (0.0, 270.0)
    cells = delay.peaks(np.array([0, 50, 200, 500, 800, 1000, 1500]))
    np.testing.assert_equal(cells.tolist(), [nan, 100, 270, nan, 10, nan])
    assert queued.at(np.array([500])).tolist() == [0]


class Memory:
    def __init__(self, args: Sequence[dict[str, Any]]) -> None:
        self.given = args

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        return [{"args": self.given[i]} for i in sources]


def with_memory(trace: Trace, args: list[dict[str, Any]]) -> Trace:
    n = len(args)
    instants = Instants(
        np.arange(n) * 10, np.zeros(n, np.int32), np.zeros(n, np.int16), np.zeros(n, np.int32), np.arange(n)
    )
    return dataclasses.replace(trace, instants=instants, reader=Memory(args))


def test_memory_from_instants(make):
    args = [
        {"Device Id": 0, "Total Allocated": 1024, "Total Reserved": 4096},
        {"Device Id": 0, "Total Allocated": 2048, "Total Reserved": 4096},
        {"Device Id": -1, "Total Allocated": 10, "Total Reserved": 0},
        {"Device Id": 0, "Total Allocated": "?"},
    ]
    found = series.memory(with_memory(make([(0, 0, 100, "[memory]")]), args))
    assert [(one.name, one.value.tolist()) for one in found] == [
        ("reserved", [4096.0, 4096.0]), ("allocated", [1024.0, 2048.0]), ("CPU allocated", [10.0])
    ]  # fmt: skip


def test_memory_of_several_gpus_says_whose_it_is(make):
    args = [{"Device Id": gpu, "Total Allocated": 1024, "Total Reserved": 4096} for gpu in (0, 1)]
    found = series.memory(with_memory(make([(0, 0, 100, "[memory]")]), args))
    names = {one.name for one in found}
    assert names == {f"GPU {gpu} {what}" for gpu in (0, 1) for what in ("allocated", "reserved")}


def test_a_counter_as_an_area(make, make_scene):
    counters = [("mem", 100 * i, float(i % 9)) for i in range(30)]
    trace = make([(0, 0, 3000, "op")], counters=[*counters, ("odd", 0, float("nan"))])
    scene = make_scene(trace, Viewport(0.0, 100.0, 30), width=30)
    scene = replace(scene, layout=scene.layout.with_shown(1, 1))
    canvas = paint(scene, 10)
    assert canvas.text(TOP + 1)[scene.labels : -EDGE] == "".join(" ▁▂▃▄▅▆▇█"[i % 9] for i in range(30))
    assert "mem" in canvas.text(TOP + 1)
    picture = paint(replace(scene, layout=scene.layout.with_shown(1, 4)), 12)
    column = [" ▁▂▃▄▅▆▇█".index(picture.text(TOP + 1 + y)[scene.labels + 4]) for y in range(4)]
    assert column == [0, 0, 8, 8]  # 4 of 8
    near = replace(scene, view=Viewport(0.0, 100.0, 12))
    for one, told in ((near, str(6 % 9)), (scene, str(15 % 9)), (replace(scene, instant=400), "4")):
        assert values_at(one.source, 0, one.cursor) == (f"{told} of 8", f"{told}/8", told)
    assert "most 8" in picture.text(TOP + 2)


@pytest.mark.parametrize("width", [14, 26])
def test_a_counter_s_name_and_value_are_both_read(width):
    room = width - 3
    for name, value, unit in (("delay", 12_345.0, "ns"), ("queued", 1234.0, "count")):
        told, text = beside(name, (series.text_of(value, unit), series.brief_of(value, unit)), room)
        assert told == name
        assert len(told) + 1 + len(text) <= room
    assert beside("delay", ("12.3 µs", "12µs"), room)[1] == ("12µs" if width == 14 else "12.3 µs")
    told, text = beside("allocated", ("1.20 GiB", "1.20G"), room)
    assert (told, text) == (("alloc", "1.20G") if width == 14 else ("allocated", "1.20 GiB"))
    assert beside("a name that has no end to it at all", ("123,456,789", "123M"), 11) == ("a nam…", "123M")
    assert beside("delay", ("", ""), room) == ("delay", "")


@pytest.mark.parametrize(("value", "unit", "text"), [
    (1.2 * 1024.0**3, "bytes", "1.20G"), (512.0, "bytes", "512B"), (12_345.0, "ns", "12µs"),
    (123_456_789.0, "ns", "123ms"), (1234.0, "count", "1234"), (56_789.0, "count", "57k"),
    (-3.5e9, "", "-4G"), (9.99e12, "ns", "9,990s"), (1023 * 1024.0**4, "bytes", "1,023T"),
    (1e12 - 1, "count", "1000G"), (0.123456, "", "0.1235"), (float("nan"), "bytes", "")
])  # fmt: skip
def test_values_in_brief(value, unit, text):
    assert series.brief_of(value, unit) == text
    assert len(text) <= 6


@pytest.mark.parametrize(("value", "unit", "text"), [
    (1536.0, "bytes", "1.50 KiB"), (123 * 1024.0**2, "bytes", "123 MiB"),
    (80 * 1024.0**3, "bytes", "80.0 GiB"), (17.0, "bytes", "17 B"), (12_345.0, "ns", "12.3 µs"),
    (1234.0, "count", "1,234"), (0.25, "", "0.25"), (float("nan"), "ns", "")
])  # fmt: skip
def test_values(value, unit, text):
    assert series.text_of(value, unit) == text


def test_large_counts_in_brief():
    assert [brief_of(value, "count") for value in (1e9, 1.4e9, 999e6, 1e4, 9999)] == [
        "1G", "1G", "999M", "10k", "9999"
    ]  # fmt: skip
