"""Where the memory of a `[memory]` record is, by its type of device."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import cpu, trace_of

from tracetui.trace.memory import memory_records


@pytest.mark.parametrize(
    ("kind", "size", "where"),
    [
        *((kind, 512, -1) for kind in (0, 2, 5)),
        *((kind, 512, 3) for kind in (1, 6, 12, 20)),
        *((kind, 0, 3) for kind in (3, 4, 7, 11, 13, 19, 21, None, "CUDA")),
    ],
)
def test_memory_is_the_hosts_or_the_devices_by_its_type(
    tmp_path: Path, kind: object, size: int, where: int
) -> None:
    """By c10::DeviceType; PyTorch's own table leaves other types out."""
    args = {"Bytes": 512, "Device Type": kind, "Device Id": 3}
    event = {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 5, "args": args}
    records = memory_records(trace_of(tmp_path, cpu("a", 0, 10), event))
    assert records is not None
    assert (records.size.tolist(), records.where.tolist()) == ([size], [where])
    assert (records.allocated.tolist(), records.reserved.tolist()) == ([-1], [-1])
