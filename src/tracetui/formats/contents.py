"""What a format makes of a file: columns, what the file says of itself, and the way back to its events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tracetui.formats.store import Store


class EventReader(Protocol):
    """Reads the whole events behind `source` values again."""

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """The events as JSON objects, in the order asked for. {} for one that cannot be read any more."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All that is read of a file."""

    store: Store
    reader: EventReader
    text_size: int
    """Bytes of the file without its encoding."""
    base_ns: int | None = None
    """Nanoseconds that are added to each time for its place on the clock, None where the file has none."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """Properties of the devices, as Kineto writes them."""
    distributed: Mapping[str, Any] | None = None
    """Rank, world size, ..., as Kineto writes them."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """What else the file says of itself, if it is small."""
