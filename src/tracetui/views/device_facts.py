"""The most important facts about a device event: a kernel's launch and resources, a copy's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracetui.analysis.rates.occupancy import residency
from tracetui.core.units import plural, share, significant

_OCCUPANCY = "est. achieved occupancy %"
_BANDWIDTH = "memory bandwidth (GB/s)"


def device_facts(
    args: Mapping[str, Any], device: Mapping[str, Any] | None = None
) -> tuple[list[tuple[str, str]], frozenset[str]]:
    """(label, value) of the facts, and the arguments that they show in full. `device`: its properties.

    Arguments of unexpected types are ignored.
    """
    facts: list[tuple[str, str]] = []
    shown: set[str] = set()
    grid, block = _shape(args.get("grid")), _shape(args.get("block"))
    if grid and block:
        facts.append(("grid", f"{grid} blocks of {block} threads"))
        shown |= {"grid", "block"}
    fits = residency(args, device or {})
    took = []
    estimate = args.get(_OCCUPANCY)
    if isinstance(estimate, int) and not isinstance(estimate, bool):
        shown.add(_OCCUPANCY)
        if estimate > 0:
            took.append(f"{estimate}% (est.)")
        else:  # nothing was estimated, or it is less than half a percent
            took.append(f"{share(fits.occupancy)} (est. by tracetui)" if fits else "not estimated")
    for key, words in (
        ("registers per thread", "{:,} registers per thread"),
        ("shared memory", "{:,} B shared memory"),
    ):
        value = args.get(key)
        if _whole(value):
            took.append(words.format(value))
            shown.add(key)
    if took:
        facts.append(("occupancy" if _OCCUPANCY in shown else "takes", ", ".join(took)))
    if fits:  # the file's own "warps per SM" counts the whole grid, however little of it fits
        room = f"{plural(fits.blocks, 'block')}, {fits.warps} of {fits.most_warps} warps"
        facts.append(("fits on an SM", f"{room}; the grid has {significant(fits.grid)} blocks per SM"))
        shown |= {"blocks per SM", "warps per SM"}
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
