"""Where the memory of a `[memory]` record is, by its type of device."""

import pytest
from tests.kineto import Event, cpu, trace_of

from tracetui.analysis.calls.memory import change
from tracetui.trace.memory import memory_records


@pytest.mark.parametrize(("kind", "size", "where"), [
    *((kind, 512, -1) for kind in (0, 2, 5)), *((kind, 512, 3) for kind in (1, 6, 12, 20)),
    *((kind, 0, 3) for kind in (3, 4, 7, 11, 13, 19, 21, None, "CUDA"))
])  # fmt: skip
def test_memory_is_the_hosts_or_the_devices_by_its_type(tmp_path, kind, size, where):
    """By c10::DeviceType; PyTorch's own table leaves other types out."""
    args = {"Bytes": 512, "Device Type": kind, "Device Id": 3}
    event = {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": 5, "args": args}
    records = memory_records(trace_of(tmp_path, cpu("a", 0, 10), event))
    assert (records.size.tolist(), records.where.tolist()) == ([size], [where])
    assert (records.allocated.tolist(), records.reserved.tolist()) == ([-1], [-1])


def memory(at: float, size: int, kind: int = 1, device: int = 0, **more: int) -> Event:
    args = {"Bytes": size, "Device Type": kind, "Device Id": device} | {
        k.replace("_", " "): v for k, v in more.items()
    }
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": at, "args": args}


def test_memory(tmp_path):
    trace = trace_of(
        tmp_path,
        cpu("aten::mm", 0, 100),
        memory(10, 512, Total_Allocated=512, Total_Reserved=2048),
        memory(20, 64, 0, -1, Total_Allocated=64),
        memory(30, -512, Total_Allocated=0, Total_Reserved=2048),
        memory(40, 1000, 99),  # of a type that PyTorch's table does not count
        memory(50, 7, 12, -1),
    )
    records = memory_records(trace)
    assert (records.time // 1000).tolist() == [10, 20, 30, 40, 50]
    assert records.size.tolist() == [512, 64, -512, 0, 7]
    assert records.where.tolist() == [0, -1, 0, 0, 0]
    assert records.allocated.tolist() == [512, 64, 0, -1, -1]
    assert records.reserved.tolist() == [2048, -1, 2048, -1, -1]
    assert change(records, 10_000, 20_000) == (64, 512)
    assert change(records, 10_001, 30_000) == (64, -512)
    assert change(records, 20_001, 50_000) == (0, -505)
