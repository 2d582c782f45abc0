"""Formats and encodings that are recognized but not supported, and what to do with such files."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_EXECUTION = rb'\s*\{\s*"schema":\s*"(?:[^"]*chakra|\d+\.\d+\.\d+",\s*"pid")'
"""The beginning of an execution trace; before it followed Chakra, only its version was there."""


class Foreign(NamedTuple):
    """An unsupported format."""

    sniff: Callable[[bytes, str], bool]
    """Whether text beginning with `head`, in a file called `name`, has this format."""
    advice: str
    """What it is and what to do with it; completes a line that starts with the file's name."""
    certain: bool = False
    """Nothing else starts like this, so don't try to read the file. Otherwise it is tried, and this advice is
    given only if no events are found."""


def _starts(magic: bytes, at: int = 0) -> Callable[[bytes, str], bool]:
    return lambda head, name: head.startswith(magic, at)


def _is_bzip2(head: bytes, name: str) -> bool:
    return head[:3] == b"BZh" and head[4:10] == b"1AY&SY"


def _is_html(head: bytes, name: str) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:14].lower().startswith((b"<!doctype html", b"<html"))


def _is_markdown(head: bytes, name: str) -> bool:
    return name.lower().endswith((".md", ".markdown")) or bool(re.match(rb"\s*#{1,6} \w", head))


def _is_report(head: bytes, name: str) -> bool:
    return name.lower().endswith((".nsys-rep", ".qdrep", ".ncu-rep"))


def _is_snapshot(head: bytes, name: str) -> bool:
    # A pickled dict with one of these as its first key.
    return head[:1] == b"\x80" and any(key in head[:64] for key in (b"segments", b"device_traces"))


def is_xplane(head: bytes, name: str) -> bool:
    """Whether it is a series of messages as Perfetto's are, of planes such as `/host:CPU`."""
    return head[:1] == b"\x0a" and re.search(rb"\x12[\x05-\x7f]/(?:host|device):", head[:256]) is not None


FOREIGN = (
    Foreign(_starts(b"\xfd7zXZ\x00"), "is compressed with xz: run xz -d on it first", True),
    Foreign(_is_bzip2, "is compressed with bzip2: run bzip2 -d on it first", True),
    Foreign(_starts(b"\x04\x22\x4d\x18"), "is compressed with lz4: run lz4 -d on it first", True),
    Foreign(
        _starts(b"7z\xbc\xaf\x27\x1c"),
        "is a 7z archive: unpack it first (7z x), then open the trace inside",
        True,
    ),
    Foreign(
        _starts(b"SQLite format 3\x00"),
        "is an SQLite database, perhaps an Nsight Systems export: open the .nsys-rep in Nsight Systems",
        True,
    ),
    Foreign(_is_report, "is an NVIDIA Nsight report: open it in Nsight"),
    Foreign(_is_snapshot, "is a PyTorch memory snapshot: open it at pytorch.org/memory_viz", True),
    Foreign(
        is_xplane, "is an XPlane profile from JAX or TensorFlow: open it with xprof or TensorBoard", True
    ),
    Foreign(_starts(b"PK\x03\x04"), "is a zip archive: unzip it first, then open the trace inside"),
    Foreign(
        _starts(b"ustar", 257), "is a tar archive: unpack it first (tar -xf), then open the trace inside"
    ),
    Foreign(
        lambda head, name: b"speedscope.app/file-format-schema" in head,
        "is a speedscope profile: open it at speedscope.app",
    ),
    Foreign(
        lambda head, name: re.match(_EXECUTION, head) is not None,
        "is a PyTorch execution trace, which has no times: record one with torch.profiler's "
        "export_chrome_trace",
    ),
    Foreign(
        lambda head, name: re.match(rb"-{20}.*\n *Name  ", head[:4096]) is not None and b"CPU total" in head,
        "is the printed table of key_averages(): open the trace itself (prof.export_chrome_trace)",
    ),
    Foreign(_starts(b"\x1f\x8b"), "is compressed with gzip more than once: run gzip -d on it first"),
    Foreign(
        lambda head, name: head.startswith((b"\xff\xfe", b"\xfe\xff")),
        "is UTF-16 or UTF-32 text: convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)",
    ),
    Foreign(
        _starts(b"version https://git-lfs.github.com/spec/"),
        "is a Git LFS pointer, not the file itself: run git lfs pull",
    ),
    Foreign(
        lambda head, name: (
            re.match(rb'\s*\{\s*"nodes":\s*\[\s*\{\s*"id":\s*\d+,\s*"callFrame"', head) is not None
        ),
        "is a V8 CPU profile (Node.js, Chrome): open it in Chrome's DevTools",
    ),
    Foreign(
        lambda head, name: re.match(rb"\s*\[\s*\[\s*\d", head) is not None,
        "holds numbers, perhaps from export_memory_timeline: open the file that export_chrome_trace wrote",
    ),
    Foreign(
        lambda head, name: re.match(rb"[^\n;{}]{1,999};[^\n]{1,9999} \d{1,18}\r?\n", head) is not None,
        "holds folded stacks, as export_stacks writes them: open them at speedscope.app",
    ),
    Foreign(_is_html, "is an HTML page: open it in a browser"),
    Foreign(
        lambda head, name: name.lower().endswith(".py"),
        "is a Python script, not a trace: tracetui capture SCRIPT.py records one",
    ),
    Foreign(_is_markdown, "is Markdown text, not a trace: open the .json or .json.gz file instead"),
)
"""The first match wins."""


def advice(head: bytes, name: str, certain: bool = False) -> str:
    """Advice for a file whose text begins with `head`; "" if the format is unknown. `certain`: consider only
    formats that nothing else can be mistaken for."""
    known = (f for f in FOREIGN if f.certain or not certain)
    return next((f.advice for f in known if f.sniff(head, name)), "")
