"""What numpy starts as it is imported, and the memory that threads share."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tracetui.core.threads import share_free_memory

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
    machine.share_free_memory()
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
def test_numpy_is_imported_without_threads_of_its_own(wanted: str | None) -> None:
    """What the environment says about them stays as it is."""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    if wanted is not None:
        environment["OPENBLAS_NUM_THREADS"] = wanted
    said = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, check=True)
    assert said.stdout.decode().split() == ["1", str(wanted)]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="only of glibc")
def test_threads_share_one_arena(tmp_path: Path) -> None:
    def arenas(how: str, **wanted: str) -> int:
        told = tmp_path / "malloc.xml"
        environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
        command = [sys.executable, "-c", ARENAS, str(told), how]
        subprocess.run(command, env=environment | wanted, check=True)
        return told.read_text().count("<heap nr=")

    assert arenas("shared") == 1
    assert arenas("not shared") > 1
    assert arenas("shared", MALLOC_ARENA_MAX="2") == 2  # as the user says


def test_other_libraries_of_c_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def library(name: str | None) -> object:
        asked.append(name)
        return object()

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    monkeypatch.setattr("ctypes.CDLL", library)
    share_free_memory.__wrapped__()
    assert asked == [None]
