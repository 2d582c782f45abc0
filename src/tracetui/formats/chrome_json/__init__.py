"""Chrome's JSON trace format, as Kineto (torch.profiler) and many others write it."""

from __future__ import annotations

from tracetui.formats.chrome_json.event_reader import FileReader
from tracetui.formats.chrome_json.read import read, read_beginning

__all__ = ["is_certain", "read", "read_beginning", "sniff", "unpack"]

unpack = FileReader.unpack


def sniff(head: bytes, name: str) -> bool:
    """Whether the text looks like JSON; its contents are checked on reading."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def is_certain(head: bytes) -> bool:
    """Whether JSON that begins like this can be nothing else."""
    return sniff(head, "") and (b'"traceEvents"' in head or b'"ph"' in head)
