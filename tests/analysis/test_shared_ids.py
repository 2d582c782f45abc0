"""Events that share one id take about as much work as those with one each. Calls are counted, not time."""

import cProfile
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import module_at

from tracetui.compare.naming import listed

BENCHMARK = module_at(Path(__file__).resolve().parents[2] / "benchmarks" / "shared_ids.py")


def calls(command: str, files: list[Path]) -> int:
    """How many functions a command calls, Python's and C's."""
    profile = cProfile.Profile()
    profile.runcall(BENCHMARK.seconds, command, files)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("events", [2000, pytest.param(6000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", [kind for kind in BENCHMARK.KINDS if kind != "time"])
@pytest.mark.parametrize("command", ["findings", "compare"])
def test_an_id_for_all_takes_about_the_calls_of_one_each(kind, command, events, tmp_path):
    counted = []
    for shared, count in ((False, 60), (False, events), (True, events)):  # first a few, for the imports
        files = [
            BENCHMARK.write(tmp_path / f"{shared}_{side}.json", kind, count, shared, side) for side in (0, 1)
        ]
        counted.append(calls(command, files))
    _, own, one = counted
    assert one < 1.5 * own + 1000


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: Any) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)


def test_many_names_are_not_each_compared_with_all():
    names = [Name(f"op{i}") for i in range(2000)]
    assert "others" in listed(names)
    assert Name.compared < 10 * len(names)
