"""Reads the texts of this folder: files with sections, a sentence on all of a section, and names with texts.

# section

> A sentence on all of it.

name, or a pattern of names
  Its text, in indented lines.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from typing import NamedTuple


class Section(NamedTuple):
    about: str
    texts: dict[str, str]


def text_of(file: str) -> str:
    """The text of `file`.md."""
    return resources.files(__package__).joinpath(f"{file}.md").read_text(encoding="utf-8")


@lru_cache(maxsize=16)
def sections(file: str) -> dict[str, Section]:
    """The sections of `file`.md, by title."""
    found: dict[str, Section] = {}
    for part in re.split(r"^# ", text_of(file), flags=re.M)[1:]:
        title, _, body = part.partition("\n")
        about = " ".join(re.findall(r"^> (.+)", body, re.M))
        names = re.findall(r"^([^>\s].*)\n((?:  .*\n)+)", body, re.M)
        found[title] = Section(about, {name: " ".join(lines.split()) for name, lines in names})
    return found


@lru_cache(maxsize=16)
def patterns(file: str, section: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The patterns of a section, with their texts, in the order of the file."""
    return tuple((re.compile(name), text) for name, text in sections(file)[section].texts.items())
