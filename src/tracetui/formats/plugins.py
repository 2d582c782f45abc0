"""Formats of other packages: whatever happens in them, a file is a trace or costs one line.

What they read is not cached (`trace.saved`): it would outlive them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from tracetui.core.copying import replace
from tracetui.core.errors import Cancelled, Report, TraceError
from tracetui.core.plugins import Plugin, attempt, failed, loaded
from tracetui.core.safe_text import plain
from tracetui.formats.parsed_file import EventReader, ParsedFile, SoFar
from tracetui.formats.source import Source


class PluginFormat:
    """A `registry.Format` of another package."""

    def __init__(self, plugin: Plugin, module: Any) -> None:
        self.plugin, self.module = plugin, module

    def sniff(self, head: bytes, name: str) -> bool:
        return bool(attempt(self.plugin, lambda: self.module.sniff(head, name)))

    def read(
        self, source: Source, report: Report, workers: int | None = None, *, so_far: SoFar | None = None
    ) -> ParsedFile:
        try:
            parsed_file: ParsedFile = self.module.read(source, report, workers, so_far=so_far)
            return replace(parsed_file, reader=PluginReader(self.plugin, parsed_file.reader))
        except (TraceError, Cancelled) as error:
            raise type(error)(plain(str(error), 200)) from None
        except (OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            failed(self.plugin, error)
            raise TraceError(f"cannot be read by the {self.plugin.what}: {plain(str(error), 200)}") from None

    def read_beginning(self, source: Source, report: Report, length: int) -> ParsedFile:
        raise TraceError("is not read in parts")

    def unpack(self, source: Source, text: bytes | msgspec.Raw, size: int) -> EventReader:
        raise ValueError


class PluginReader:
    """A plugin's `contents.EventReader`."""

    def __init__(self, plugin: Plugin, reader: EventReader) -> None:
        self.plugin, self.reader, self.source = plugin, reader, reader.source

    def pack(self) -> bytes:
        raise ValueError

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        return attempt(self.plugin, partial(self.reader.read, sources)) or [{}] * len(sources)


def formats_of_plugins() -> tuple[PluginFormat, ...]:
    """Those that can be loaded."""
    return tuple(PluginFormat(plugin, module) for plugin, module in loaded("formats"))
