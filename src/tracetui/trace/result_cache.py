"""Keeps what was found out about a large file beside its kept trace, as JSON."""

from __future__ import annotations

from typing import Any, TypeVar
from zlib import crc32

from msgspec import Raw, Struct
from msgspec.json import Decoder, decode, encode

from tracetui.core.plugins import installed
from tracetui.core.writing import written
from tracetui.formats.source import Source
from tracetui.trace.saved import (
    ANSWERS,
    file_of,
    is_on,
    is_worth,
    keeps,
    key_of,
    limit,
    make_folder,
    opened,
    program_of,
)
from tracetui.trace.saved_file import Key, is_safe, write_at

T = TypeVar("T")
_MOST_ANSWERS, _LARGEST_ANSWERS = 32, 1 << 22
"""The most files of answers, and the most bytes in one."""
_MAKES_ANSWERS = (".",)
"""All of the program: who asks stands above this room, and is not named here."""


class _Answers(Struct):
    key: Key
    program: str
    """`program_of` for all modules that make the answers."""
    answers: dict[str, Raw]


_ANSWERS = Decoder(_Answers)


def load_result(source: Source, name: str, kind: type[T]) -> T | None:
    """What `store_result` has kept of an opened file under this name. None if nothing was kept, if it is
    damaged, or if this version of the program might give another answer."""
    try:
        found = load_results(source).get(name)
        return None if found is None or not _is_safe(found) else decode(found, type=kind)
    except Exception:  # as in `saved.find`
        return None


def load_results(source: Source) -> dict[str, Raw]:
    """All that `load_result` may find, as JSON by name: not safe to show yet."""
    if not is_on() or not is_worth(source) or installed():
        return {}
    try:
        with opened(file_of(source.path, ANSWERS)) as file:
            data = file.read(_LARGEST_ANSWERS)  # the checksum of a longer file would not match
        checksum, text = data[:4], data[4:]
        if crc32(text).to_bytes(4, "little") != checksum:
            return {}
        found = _ANSWERS.decode(text)
        same = found.key == key_of(source) and found.program == program_of(_MAKES_ANSWERS)
        return found.answers if same else {}
    except Exception:  # as in `saved.find`
        return {}


def store_result(source: Source, name: str, found: object, kind: Any) -> bool:
    """Keep something that was found out about a file, as JSON. Returns whether it was kept and would be read
    back as the same `kind` of object with the same values. Other answers that are still valid are kept beside
    it."""
    if not keeps(source) or installed():  # what plugins say is not ours to keep: they change without us
        return False
    try:
        key, file, raw = key_of(source), file_of(source.path, ANSWERS), encode(found)
        if key is None or not _is_safe(raw) or decode(raw, type=kind) != found:
            return False
        every = load_results(source) | {name: Raw(raw)}
        text = encode(_Answers(key, program_of(_MAKES_ANSWERS), every))
        if len(text) > min(_LARGEST_ANSWERS - 4, limit()):
            return False
        make_folder()
        others = sorted(file.parent.glob(f"*{ANSWERS}"), key=lambda one: one.stat().st_mtime)
        for other in others[: max(0, len(others) - _MOST_ANSWERS + 1)]:
            other.unlink(missing_ok=True)
        with written(file, private=True) as out:
            write_at(out, 0, crc32(text).to_bytes(4, "little") + text)
        return True
    except Exception:  # a full disk, a home that is read-only, or values that JSON cannot express
        return False


def _is_safe(text: bytes | Raw) -> bool:
    """Whether each line of each text of an answer can be shown as it is."""
    left: list[Any] = [decode(text)]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += (*one, *one.values())
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str) and not all(is_safe(line) for line in one.split("\n")):
            return False
    return True
