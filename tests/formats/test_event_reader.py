"""Events read again, when the file has changed or gone meanwhile."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracetui.formats.chrome_json.event_builder import Chunk
from tracetui.formats.chrome_json.event_reader import FileReader
from tracetui.formats.source import open_source
from tracetui.trace import load

Event = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path, event: Callable[..., Event]) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([event(ts=i, args={"i": i}) for i in range(5000)]))
    return path


def test_a_deleted_file_can_still_be_read(path):
    trace = load(path)
    path.unlink()
    assert trace.args(4321) == {"i": 4321}


def test_a_replaced_file_is_not_confused_with_the_old_one(path):
    trace = load(path)
    other = path.with_name("other")
    other.write_text("something else")
    os.replace(other, path)
    assert trace.args(1) == {"i": 1}


def test_an_overwritten_or_cut_file_gives_nothing(path):
    trace = load(path)
    data = path.read_bytes()
    path.write_bytes(b"x" * 100)
    assert trace.args(1) == {}
    path.write_bytes(data[::-1])
    assert trace.event(2) == {}
    assert trace.args_of([1, 2, 3]) == [{}, {}, {}]


def test_sources_that_do_not_exist(path):
    assert load(path).reader.read([-1, 1 << 60, (1 << 28) - 1]) == [{}, {}, {}]


@pytest.mark.parametrize(("offset", "length", "fits"), [
    (0, 10, True), (4, 6, True), (10, 0, True), (4, 7, False), (11, 0, False), (-1, 5, False), (3, -1, False)
])  # fmt: skip
def test_kept_places_lie_within_the_file(path, offset, length, fits):
    """Of ten bytes."""
    source = open_source(str(path))
    with source.file:
        text = FileReader(source, [Chunk(0, 10), Chunk(offset, length)], {}).pack()
        if fits:
            assert FileReader.unpack(source, text, 10).pack() == text
        else:
            with pytest.raises(ValueError):
                FileReader.unpack(source, text, 10)


def test_neighbours_come_from_memory(path, load_in, monkeypatch):
    trace = load_in(path, 20_000)
    reads = []
    read = FileReader._read
    monkeypatch.setattr(
        FileReader, "_read", lambda self, offset, length: reads.append(offset) or read(self, offset, length)
    )
    assert [trace.args(i)["i"] for i in range(400)] == list(range(400))
    assert len(reads) <= 3
    assert [a["i"] for a in trace.args_of(range(4999, -1, -1))] == list(range(4999, -1, -1))
    assert len(reads) <= len(set(reads)) + 3


def test_from_several_threads(path, load_in):
    trace = load_in(path, 3_000)
    wrong: list[int] = []

    def ask(first: int) -> None:
        wrong.extend(i for i in range(first, 5000, 37) if trace.args(i) != {"i": i})

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
