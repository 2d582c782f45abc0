"""Events that share one id take about as much work as those with one each. Calls are counted, not time."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tracetui.compare.naming import listed

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "shared_ids.py"


def shared_ids() -> ModuleType:
    spec = importlib.util.spec_from_file_location("shared_ids", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCHMARK = shared_ids()


def calls(command: str, files: list[Path]) -> int:
    """How many functions a command calls, Python's and C's."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        BENCHMARK.seconds(command, files)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("kind", [kind for kind in BENCHMARK.KINDS if kind != "time"])
@pytest.mark.parametrize("command", ["findings", "compare"])
def test_an_id_for_all_takes_about_the_calls_of_one_each(kind: str, command: str, tmp_path: Path) -> None:
    counted = []
    for shared in (False, True):
        files = [
            BENCHMARK.write(tmp_path / f"{shared}_{side}.json", kind, 6000, shared, side) for side in (0, 1)
        ]
        BENCHMARK.seconds(command, files)  # what is imported, and kept for all traces
        counted.append(calls(command, files))
    own, one = counted
    assert one < 1.5 * own + 1000


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: Any) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def test_many_names_are_not_each_compared_with_all() -> None:
    names = [Name(f"op{i}") for i in range(2000)]
    assert "others" in listed(names)
    assert Name.compared < 10 * len(names)
