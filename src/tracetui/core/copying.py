"""Copies of frozen objects with other values in some fields."""

import sys
from dataclasses import replace as _replace_in_dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers know the fields of both kinds, and take a `Struct` for a dataclass
    from dataclasses import replace as replace
else:

    def replace(thing, /, **changes):
        """A copy of a dataclass or a `msgspec.Struct` with these fields changed; `TypeError` for others."""
        msgspec = sys.modules.get("msgspec")  # not imported for dataclasses: that takes a while
        if msgspec is not None and isinstance(thing, msgspec.Struct):
            return msgspec.structs.replace(thing, **changes)
        return _replace_in_dataclass(thing, **changes)
