"""The most important facts about a device event: a kernel's launch and resources, a copy's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracetui.units import significant

_OCCUPANCY = "est. achieved occupancy %"
_BANDWIDTH = "memory bandwidth (GB/s)"


def device_facts(args: Mapping[str, Any]) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """(label, value) of the facts, and the arguments that they show in full.

    Arguments of unexpected types are ignored.
    """
    facts: list[tuple[str, str]] = []
    shown: set[str] = set()
    grid, block = _shape(args.get("grid")), _shape(args.get("block"))
    if grid and block:
        facts.append(("grid", f"{grid} blocks of {block} threads"))
        shown |= {"grid", "block"}
    took = []
    for key, words in (
        (_OCCUPANCY, "{}% (est.)"),
        ("registers per thread", "{:,} registers per thread"),
        ("shared memory", "{:,} B shared memory"),
    ):
        value = args.get(key)
        if _whole(value):
            took.append(words.format(value))
            shown.add(key)
    if took:
        facts.append(("occupancy" if _OCCUPANCY in shown else "takes", ", ".join(took)))
    moved, speed = args.get("bytes"), args.get(_BANDWIDTH)
    if _whole(moved):
        rate = ""
        if isinstance(speed, int | float) and not isinstance(speed, bool) and 0 < speed < 1e9:
            rate = f" at {significant(speed)} GB/s"
        facts.append(("moves", f"{moved:,} bytes{rate}"))
        shown.add("bytes")
    return facts, frozenset(shown)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shape(value: object) -> str:
    """A grid or a block: `1024 × 1 × 1`; "" if it is not one."""
    if not isinstance(value, list) or not 1 <= len(value) <= 3 or not all(map(_whole, value)):
        return ""
    return " × ".join(str(n) for n in value)
