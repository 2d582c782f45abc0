"""What numpy starts as it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tracetui.formats.machine import in_small_pieces

CODE = """
import os
from tracetui.formats.machine import import_numpy, in_small_pieces
import_numpy()
import numpy
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
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


def test_what_is_kept_of_free_memory_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, what: int, size: int) -> int:
            asked.append((what, size))
            return 1

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("ctypes.CDLL", lambda name: Library())
    with suppress(KeyError), in_small_pieces():
        assert asked == [(-3, 1 << 21), (-1, 1 << 22)]
        raise KeyError
    assert asked[2:] == [(-3, 1 << 25), (-1, 1 << 26)]
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())  # another library of C
    with in_small_pieces():
        pass
