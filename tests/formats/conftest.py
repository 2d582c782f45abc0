"""Small traces for the tests of what reads them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracetui.formats.chrome_json.reader import read
from tracetui.formats.source import open_source
from tracetui.trace import Trace, load
from tracetui.trace.build import build

Event = dict[str, Any]


@pytest.fixture(scope="session")
def event() -> Callable[..., Event]:
    """`event(ts=5, name="x")`: a slice with what is not given filled in."""

    def make(**fields: Any) -> Event:
        return {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 1} | fields

    return make


@pytest.fixture
def trace_of(tmp_path: Path) -> Callable[..., Trace]:
    """`trace_of([event, ...])` or `trace_of(b"text of a file")`: what the loader makes of it."""

    def make(content: bytes | list[Event], name: str = "trace.json") -> Trace:
        path = tmp_path / name
        if isinstance(content, list):
            content = json.dumps({"traceEvents": content}).encode()
        path.write_bytes(content)
        return load(path)

    return make


@pytest.fixture
def load_in() -> Callable[..., Trace]:
    """`load_in(path, size)`: load with chunks of `size` bytes, in `workers` threads with segments of
    `block`."""

    def make(path: Path, size: int, workers: int = 1, block: int = 1 << 24) -> Trace:
        source = open_source(path)
        return build(read(source, lambda done, total: None, workers, size, block), source.path, source.size)

    return make
