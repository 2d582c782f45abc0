"""A file in memory: its bytes whatever becomes of it, mapped or read."""

import errno
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tracetui.trace import in_memory
from tracetui.trace.in_memory import InMemory

SIZE = 3 * (1 << 20) + 12345


def leases(folder: Path) -> bool:
    """Whether this system maps files here."""
    probe = folder / "probe"
    probe.write_bytes(b"x")
    with probe.open("rb", buffering=0) as file:
        try:
            in_memory._mapped(file.fileno(), 1)
        except (OSError, AttributeError):
            return False
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept"
    path.write_bytes(np.random.default_rng(1).bytes(SIZE))
    return path


@pytest.fixture
def mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pieces of a size that the file is no multiple of."""
    if not leases(path.parent):
        pytest.skip("no leases here")
    monkeypatch.setattr(in_memory, "WORTH", 0)
    monkeypatch.setattr(in_memory, "AFTER", 0.0)
    monkeypatch.setattr(in_memory, "_PIECE", 1 << 20)
    yield
    copied()


def opened(path: Path, size: int = SIZE) -> InMemory:
    with path.open("rb", buffering=0) as file:
        found = in_memory.in_memory(file, size)
        assert found.bring(slice(0, min(size, 10_001)))
        assert found.bring(slice(min(size, 10_001), size))
    return found


def copied() -> None:
    """Wait until nothing is mapped any more."""
    for thread in threading.enumerate():
        if thread.name == "copy kept trace":
            thread.join(60)


def is_leased(path: Path) -> bool:
    """Whether somebody who wants to write has to wait."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        return True
    return False


def mappings(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


@pytest.mark.parametrize("size", [1, 4096, 4097, 1 << 20, SIZE - 1, SIZE])
def test_the_bytes_before_and_after_they_are_copied(size, path, mapped):
    found = opened(path, size)
    assert mappings(path) == 1
    wanted = np.frombuffer(path.read_bytes()[:size], dtype=np.uint8)
    assert np.array_equal(found.bytes, wanted)
    place = found.bytes.ctypes.data
    found.keep()
    copied()
    assert mappings(path) == 0
    assert not is_leased(path)
    path.write_bytes(bytes(SIZE))
    assert found.bytes.ctypes.data == place
    assert np.array_equal(found.bytes, wanted)


def test_small_files_are_read(path):
    assert opened(path).bytes.tobytes() == path.read_bytes()
    if sys.platform == "linux":
        assert mappings(path) == 0


@pytest.mark.parametrize("harm", ["cut", "write", "rewrite"])
def test_who_would_harm_it_waits(harm, path, mapped, monkeypatch):
    monkeypatch.setattr(in_memory, "AFTER", 0.3)
    wanted = path.read_bytes()
    found = opened(path)
    assert is_leased(path)
    found.keep()
    code = {
        "cut": "import os, sys; os.truncate(sys.argv[1], 0)",
        "write": "import sys; open(sys.argv[1], 'r+b').write(bytes(9999))",
        "rewrite": "import sys; open(sys.argv[1], 'wb').write(b'x')",
    }[harm]
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert time.monotonic() - begun > 0.2
    assert found.bytes.tobytes() == wanted
    assert path.read_bytes() != wanted


def test_what_nobody_keeps_is_let_go(path, mapped):
    found = opened(path)
    part = found.bytes[5:10]
    del found
    gc.collect()
    assert is_leased(path)  # a part of it is in use
    assert mappings(path) == 1
    del part
    gc.collect()
    assert not is_leased(path)
    assert mappings(path) == 0


def test_what_is_dropped_before_it_was_copied(path, mapped, monkeypatch):
    monkeypatch.setattr(in_memory, "AFTER", 0.2)
    monkeypatch.setattr(in_memory, "_copy", lambda *args: pytest.fail("is not needed"))
    found = opened(path)
    found.keep()
    del found
    gc.collect()
    copied()
    assert not is_leased(path)


def test_without_memory_it_stays_mapped(path, mapped, monkeypatch):
    monkeypatch.setattr(in_memory, "_copy", lambda *args: False)
    found = opened(path)
    found.keep()
    copied()
    assert is_leased(path)
    assert found.bytes.tobytes() == path.read_bytes()


@pytest.mark.parametrize("missing", ["lease", "populate", "mremap", "processor"])
def test_systems_that_cannot(missing, path, mapped, monkeypatch):
    import fcntl

    def refused(*args: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    class Without:
        def __getattr__(self, name: str) -> object:
            raise AttributeError(name)

    if missing == "lease":
        monkeypatch.setattr(fcntl, "fcntl", refused)
    elif missing == "populate":
        monkeypatch.setattr(in_memory, "_POPULATE_READ", 9999)
    elif missing == "mremap":
        monkeypatch.setattr("ctypes.CDLL", lambda name: Without())
    else:
        monkeypatch.setattr(in_memory, "_PROCESSORS", ())
    gc.collect()  # what tests before this one left open
    before = len(os.listdir("/proc/self/fd"))
    found = opened(path)
    gc.collect()
    assert mappings(path) == 0
    assert found.bytes.tobytes() == path.read_bytes()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("worth", [0, 1 << 40])
def test_a_file_that_is_too_short(worth, path, monkeypatch):
    monkeypatch.setattr(in_memory, "WORTH", worth)
    with path.open("rb", buffering=0) as file:
        assert not in_memory.in_memory(file, SIZE + 4096).bring(slice(0, SIZE + 4096))


def test_a_file_that_somebody_writes_to(path, mapped):
    with path.open("r+b"):
        found = opened(path)
        assert mappings(path) == 0  # no lease: it was read
    assert found.bytes.tobytes() == path.read_bytes()
