"""How many processes read a file, and how much memory its events may take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tracetui.core import threads
from tracetui.core.threads import memory_for_events, usable_cores
from tracetui.formats.chrome_json import segments
from tracetui.formats.chrome_json.segments import worth

MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu.max": "250000 100000"}, 2.5),
        ({"cpu.max": "50000 100000 more"}, 0.5),
        ({"cpu.max": "nonsense"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3.0),
        ({"cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "2"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "0", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "0"}, None),
    ],
)
def test_the_quota_of_a_control_group(files: dict[str, str], cores: float | None, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert threads._quota(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [(None, 6), (2.5, 3), (0.5, 1), (0.0, 1), (64.0, 6)])
def test_the_cores_that_may_be_used(quota: float | None, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_quota", lambda folder: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6 if pid == 0 else 9)), raising=False)
    assert usable_cores() == cores
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == cores
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_a_process_more_for_every_fifty_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [0, 95 * MEGABYTE, 96 * MEGABYTE, 143 * MEGABYTE, 144 * MEGABYTE, 480 * MEGABYTE, 1 << 40]
    for cores, expected in ((64, [1, 1, 3, 3, 4, 11, 16]), (4, [1, 1, 3, 3, 4, 4, 4]), (1, [1] * 7)):
        monkeypatch.setattr(segments, "usable_cores", lambda cores=cores: cores)
        assert [worth(size) for size in sizes] == expected


def test_the_memory_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__, raising=False)
    read = Path.read_text
    limits: dict[str, str] = {}

    def text(path: Path, *args: str, **more: str) -> str:
        if path.is_relative_to("/sys/fs/cgroup") or path == Path("/proc/self/cgroup"):
            try:
                return limits[path.as_posix().removeprefix("/sys/fs/cgroup/")]
            except KeyError:
                raise FileNotFoundError from None
        return read(path, *args, **more)

    monkeypatch.setattr(Path, "read_text", text)
    found = threads.memory.__wrapped__
    assert found() == 4_096_000
    limits["memory.max"] = "max"
    assert found() == 4_096_000
    limits["memory.max"] = "1000000"
    assert found() == 1_000_000
    limits["memory/memory.limit_in_bytes"] = "600000"
    assert found() == 600_000
    limits.clear()
    limits["memory/memory.limit_in_bytes"] = "9999999999"
    assert found() == 4_096_000
    # A job of a cluster is in a group of its own, and the limit may be one further up.
    limits["/proc/self/cgroup"] = "12:cpu,cpuacct:/job\n4:memory:/slurm/job_7/step_0\n0::/user/app\nodd\n"
    assert found() == 4_096_000
    limits["memory/slurm/job_7/memory.limit_in_bytes"] = "500000"
    assert found() == 500_000
    limits["user/app/memory.max"] = "400000"
    assert found() == 400_000
    limits["job/memory.max"] = "1"  # of another kind
    assert found() == 400_000


def test_events_may_take_two_thirds_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "memory", lambda: 3_500)
    assert memory_for_events() == 2_333
    assert not threads.is_short_of_memory(10)
    assert threads.is_short_of_memory(11)
