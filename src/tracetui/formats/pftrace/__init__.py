"""Perfetto's protobuf traces (.pftrace), as PyTorch's Cuspy and Perfetto's own tools write them."""

from __future__ import annotations

from tracetui.formats.pftrace.event_reader import FileReader
from tracetui.formats.pftrace.read import read, read_beginning
from tracetui.formats.pftrace.sniff import sniff

__all__ = ["read", "read_beginning", "sniff", "unpack"]

unpack = FileReader.unpack
