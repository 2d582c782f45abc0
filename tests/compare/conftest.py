"""Pairs of traces: a sample, and what a test makes of its events."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import SAMPLES

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare
from tracetui.compare.model import Comparison
from tracetui.trace import load

Events = list[dict[str, Any]]
Pair = Callable[[str, Callable[[Events], Events | None]], Comparison]


def events_of(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def compared(one: Path, other: Path) -> Comparison:
    return compare(Part(load(one)), Part(load(other)))


def comparison(folder: Path, a: Events, b: Events) -> Comparison:
    """Two traces of these events, compared."""
    for name, events in (("a", a), ("b", b)):
        (folder / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    return compared(folder / "a.json", folder / "b.json")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """A sample against itself with its events changed by a function, which may return others."""

    def make(sample: str, change: Callable[[Events], Events | None]) -> Comparison:
        changed = events_of(SAMPLES / f"{sample}.json.gz")
        paths = tmp_path / "a.json", tmp_path / "b.json"
        paths[0].write_text(json.dumps(changed))
        changed["traceEvents"] = change(changed["traceEvents"]) or changed["traceEvents"]
        paths[1].write_text(json.dumps(changed))
        return compared(*paths)

    return make
