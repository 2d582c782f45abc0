"""What a format returns for a file: columns, metadata, and a reader for the original events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from tracetui.formats.source import Source
from tracetui.formats.store import Store


class EventReader(Protocol):
    """Reads complete events from the file again, given their `source` values."""

    source: Source
    """The file."""

    def pack(self) -> bytes:
        """JSON from which `registry.unpack` makes the reader again. Raises ValueError if there is none."""

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        """The events as JSON objects, in the order of `sources`; {} where one can no longer be read."""


class ParsedFile(Struct, frozen=True):
    """Everything read from a file."""

    store: Store
    reader: EventReader
    text_size: int
    """Size of the decompressed text in bytes."""
    base_ns: int | None = None
    """Nanoseconds to add to each time to get clock time; None if the file does not say."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """Device properties, as Kineto writes them."""
    distributed: Mapping[str, Any] | None = None
    """Rank, world size, ..., as Kineto writes them."""
    properties: Mapping[str, Any] = field(default_factory=dict)
    """Other small top-level values of the file."""


SoFar = Callable[[int, int, Callable[[Source, int], ParsedFile]], object]
"""Called now and then while a file is read, with (bytes of text read, bytes of the file done, a function that
copies the slices read so far: of the file opened again, for the reader, and of so many bytes of text)."""
