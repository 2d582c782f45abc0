"""Tasks in several threads, what numpy starts, how many processes read a file, and the memory of all."""

import ctypes
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tracetui.core import threads
from tracetui.core.threads import map_blocks, memory_for_events, run_parallel, share_free_memory, usable_cores
from tracetui.formats.chrome_json import segments
from tracetui.formats.chrome_json.segments import worth


@pytest.fixture(params=[1, 2, 5])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(threads, "usable_cores", lambda: request.param)
    return int(request.param)


def squares(low: int) -> list[int]:
    return run_parallel([partial(pow, n, 2) for n in range(low, low + 20)])


@pytest.mark.usefixtures("cores")
def test_tasks_may_have_tasks():
    expected = [[n**2 for n in range(low, low + 20)] for low in range(30)]
    assert run_parallel([partial(squares, low) for low in range(30)]) == expected


@pytest.mark.usefixtures("cores")
def test_an_error_of_a_task_comes_out():
    with pytest.raises(ZeroDivisionError):
        run_parallel([partial(divmod, 1, n % 7) for n in range(50)])
    assert squares(3)[0] == 9


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize("count", [0, 1, 10, 11, 95])
def test_blocks_cover_all_of_it_once(count):
    seen = np.zeros(count, dtype=np.int64)

    def work(some: slice) -> None:
        assert some.stop - some.start <= 10
        seen[some] += 1

    map_blocks(count, work, 10)
    assert seen.tolist() == [1] * count


def test_each_task_waits_for_its_turn(cores, monkeypatch):
    turns: list[int] = []
    monkeypatch.setattr(threads, "yield_to_ui", lambda: turns.append(threading.get_ident()))
    other = threading.Thread(target=squares, args=(0,))
    other.start()
    other.join()
    assert len(turns) == 20
    assert len(set(turns)) <= cores


@pytest.mark.usefixtures("cores")
def test_for_the_main_thread_which_answers_keys_no_task_waits(monkeypatch):
    waited: list[None] = []
    monkeypatch.setattr(threads, "yield_to_ui", lambda: waited.append(None))
    assert squares(3) == [n**2 for n in range(3, 23)]
    assert not waited


CODE = """
import os
from tracetui.core.threads import import_numpy
import_numpy()
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""
ARENAS = """
import ctypes, sys, threading
from tracetui.core import threads
if sys.argv[2] == "shared":
    threads.share_free_memory()
library = ctypes.CDLL(None)
library.fopen.restype = library.malloc.restype = ctypes.c_void_p
barrier = threading.Barrier(4)
def allocate():
    library.malloc(1000)
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
assert library.malloc_info(0, file) == 0
library.fclose(file)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
@pytest.mark.parametrize("wanted", [None, "1"])
def test_numpy_is_imported_without_threads_of_its_own(wanted):
    """What the environment says about them stays as it is."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if wanted is not None:
        environment["OPENBLAS_NUM_THREADS"] = wanted
    said = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True)
    assert said.stdout.decode().split() == ["1", str(wanted)]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="only of glibc")
def test_threads_share_one_arena(tmp_path):
    def arenas(how: str, **wanted: str) -> int:
        told = tmp_path / "malloc.xml"
        environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
        subprocess.run([sys.executable, "-c", ARENAS, str(told), how], env=environment | wanted, check=True)
        return told.read_text().count("<heap nr=")

    assert arenas("shared") == 1
    assert arenas("not shared") > 1
    assert arenas("shared", MALLOC_ARENA_MAX="2") == 2  # as the user says


def test_other_libraries_of_c_are_left_alone(monkeypatch):
    asked: list[str | None] = []

    def library(name: str | None) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    monkeypatch.setattr("ctypes.CDLL", library)
    share_free_memory.__wrapped__()
    assert asked == [None]


MEGABYTE = 1 << 20


@pytest.mark.parametrize(("files", "cores"), [
    ({}, None), ({"cpu.max": "max 100000"}, None), ({"cpu.max": "250000 100000"}, 2.5),
    ({"cpu.max": "50000 100000 more"}, 0.5), ({"cpu.max": "nonsense"}, None),
    ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3.0),
    ({"cpu/cpu.cfs_quota_us": "1", "cpu/cpu.cfs_period_us": "2"}, 0.5),
    ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    ({"cpu/cpu.cfs_quota_us": "0", "cpu/cpu.cfs_period_us": "100000"}, None),
    ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "0"}, None)
])  # fmt: skip
def test_the_quota_of_a_control_group(files, cores, tmp_path):
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert threads._quota(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [(None, 6), (2.5, 3), (0.5, 1), (0.0, 1), (64.0, 6)])
def test_the_cores_that_may_be_used(quota, cores, monkeypatch):
    monkeypatch.setattr(threads, "_quota", lambda folder: quota)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6 if pid == 0 else 9)), raising=False)
    assert usable_cores() == cores
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert usable_cores() == cores
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


def test_a_thread_more_for_every_fifty_megabytes(monkeypatch):
    sizes = [0, 95 * MEGABYTE, 96 * MEGABYTE, 143 * MEGABYTE, 144 * MEGABYTE, 480 * MEGABYTE, 1 << 40]
    for cores, expected in ((64, [1, 1, 3, 3, 4, 10, 10]), (4, [1, 1, 3, 3, 4, 4, 4]), (1, [1] * 7)):
        monkeypatch.setattr(segments, "usable_cores", lambda cores=cores: cores)
        assert [worth(size) for size in sizes] == expected


def test_the_memory_that_may_be_used(monkeypatch):
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


def test_events_may_take_two_thirds_of_the_memory(monkeypatch):
    monkeypatch.setattr(threads, "memory", lambda: 3_500)
    assert memory_for_events() == 2_333
    assert not threads.is_short_of_memory(10)
    assert threads.is_short_of_memory(11)
