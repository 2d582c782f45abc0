"""What the queue waited for, the first use of a device, and the time of devices, at the limits of their rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import Event, kernel, launch, trace_of

from tracetui.analysis.causes import gap_causes
from tracetui.analysis.gaps import find_gaps

BEFORE = (launch(0, 1), kernel(10, 90, 1))
"""A kernel of device 0 that ends at 100 us."""
USUAL = [e for n in (95, 96, 97) for e in (launch(10 * n, n), kernel(10 * n + 9, 1, n))]
"""Later on, launches that take 5 us to arrive: so the median of all is 5 us."""


def elsewhere(number: int, start: float, end: float, device: int = 1) -> Event:
    """A kernel of another device, whose launch was not recorded."""
    return kernel(start, end - start, number) | {
        "pid": device,
        "args": {"device": device, "stream": 7, "correlation": number},
    }


@pytest.mark.parametrize(
    ("spans", "end", "name"),
    [
        ([(50, 250)], 270, "k50"),  # the device 1 was done 20 us before, no longer
        ([(50, 250)], 270.001, ""),
        ([(50, 150), (160, 250), (260, 400)], 262, "k51"),  # the last that was over
        ([(50, 262), (270, 400)], 262, "k50"),
        ([(50, 262.001)], 262, ""),
        ([(50, 100)], 118, ""),  # over when the gap began
        ([(50, 100.001)], 118, "k50"),
        ([(300, 400)], 262, ""),
    ],
)
def test_work_of_another_device(
    tmp_path: Path, spans: list[tuple[float, float]], end: float, name: str
) -> None:
    others = [elsewhere(50 + i, *span) for i, span in enumerate(spans)]
    trace = trace_of(tmp_path, *BEFORE, *others, launch(20, 2), kernel(end, 10, 2), *USUAL)
    causes = gap_causes(trace, find_gaps(trace)[0])
    at = int(causes.waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name
    assert causes.waited_for.tolist()[1:] == [-1] * 3, "the other gaps waited for their launch"


@pytest.mark.parametrize(
    ("end", "name"),
    [(139, ""), (144, ""), (144.001, "k50")],  # it arrives at 139
)
def test_what_is_hardly_queued_waited_for_nothing(tmp_path: Path, end: float, name: str) -> None:
    late = [launch(130, 2), kernel(end, 10, 2, 8)]
    trace = trace_of(tmp_path, *BEFORE, elsewhere(50, 50, 138), *late, *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name


@pytest.mark.parametrize(
    ("end", "stream", "name"),
    [(120, 8, "k1"), (120.001, 8, ""), (120, 7, ""), (101, 8, "k1")],
)
def test_work_of_another_stream(tmp_path: Path, end: float, stream: int, name: str) -> None:
    """What the gap began with, if that was less than a launch's way ago."""
    trace = trace_of(tmp_path, *BEFORE, launch(20, 2), kernel(end, 10, 2, stream), *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name
