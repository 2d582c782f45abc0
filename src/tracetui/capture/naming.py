"""What the files of a capture of the user's own code are called: what ran, and with which arguments."""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from unicodedata import normalize

from tracetui.core.safe_text import plain

LONGEST = 80
"""UTF-8 bytes. What may follow (_cold_compile_max-autotune_rank0-2.averages.json) is short too: file systems
allow 255."""
LONGEST_VALUE = 32
"""Characters of a value. Longer ones are prompts or keys, which do not belong into the name of a file."""

_SECRET = re.compile(
    r"secret|passw|passphrase|credential|bearer|cookie|authorization|webhook|jwt|(api|access)_?key"
    r"|(token|key|(^|_)(auth|pass|pwd|pw))$"
)
"""Matches names of options, in snake_case, whose values are nobody else's business."""
_NUMBER = re.compile(r"-\.?\d")


def program_stem(target: str, args: Iterable[str] = (), *, module: bool = False) -> str:
    """The files' name without suffix for a script.py, a "module:function", or a dotted module (`module`).

    "train-sleep=0.01,amp" for `train.py --sleep 0.01 --amp`. Any arguments give a legal name of at most
    `LONGEST` bytes, without secrets as far as options' names tell. Where something is left out because it is
    long, a hash of all arguments keeps two captures apart.
    """
    if module:
        program = ".".join(target.removesuffix(".__main__").split(".")[-2:])
    elif target.endswith(".py"):
        program = PurePath(target).stem
    else:
        program = target.rpartition(":")[2]
    pairs, words, whole = list(_pairs(args)), [], True
    for name, value in pairs:
        if value is None:
            words.append(name)
        elif len(value) <= LONGEST_VALUE:
            words.append(f"{name}={value}" if name else value)
        else:
            words += [name] if name else []
            whole = False
    stem = _legal(f"{program}-{','.join(words)}" if words else program)
    if whole and len(stem.encode()) <= LONGEST:
        return stem
    mark = f"@{zlib.crc32(repr((program, pairs)).encode()):08x}"
    return stem.encode()[: LONGEST - len(mark)].decode(errors="ignore") + mark


def _pairs(args: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Names and values of arguments: ("lr", "0.1"), ("amp", None) for a flag, ("", "word")."""
    left, options = deque(args), True
    while left:
        word = left.popleft()
        name, equals, value = word.partition("=")
        if options and word == "--":
            options = False
        elif options and word.startswith("-") and word.strip("-") and not _NUMBER.match(word):
            name = name.lstrip("-")
            if equals or (left and _is_value(left[0], _is_secret(name))):
                yield name, _shown(name, value if equals else left.popleft())
            else:
                yield name, None
        elif equals and re.fullmatch(r"[\w.+~@-]+", name):  # as Hydra takes them
            yield name, _shown(name, value)
        else:
            yield "", _shown("", word)


def _is_value(word: str, secret: bool) -> bool:
    """Whether the word after an option belongs to it. A secret may begin with a dash."""
    return not word.startswith("--" if secret else "-") or word == "-" or _NUMBER.match(word) is not None


def _shown(name: str, value: str) -> str | None:
    """What may be shown of a value: of a path the last part, of a URL neither user nor query.

    None if it is a secret: of this option, or named in the value, as in "Authorization: Bearer x".
    """
    if "://" in value:
        value = re.split("[?#]", value.partition("://")[2])[0].rpartition("@")[2]
    if any(map(_is_secret, (name, *re.split("[:=]", value)[:-1]))):
        return None
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1]


def _is_secret(name: str) -> bool:
    snake = re.sub(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_")
    return _SECRET.search(snake.lower()) is not None


def _legal(text: str) -> str:
    """The text as the beginning of a file's name, on any system."""
    text = re.sub(r"[^\w.=+,@-]", "_", plain(normalize("NFC", text)))
    text = re.sub(r"^[.-]", "_", text) or "_"
    # Otherwise it would be taken for a file beside a trace.
    return re.sub(r"\.(meta|averages)$", r"_\1", text, flags=re.IGNORECASE)
