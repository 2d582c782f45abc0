"""Regular expressions that are compiled when they are first used: compiling all took a fiftieth of the start,
and most traces need a few."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Pattern:
    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)  # next time it is there
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`. The expression itself must be right: nothing is said before its first use."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))
