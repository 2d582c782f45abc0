"""The fields of an event that the columns need, as msgspec types; all others are skipped undecoded.

There are two types of event: the times of the fast one are floats, those of the other are as written.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any

import msgspec

from tracetui.core.columns import NO_ID

Id = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An id that fits into a column."""


class Args(msgspec.Struct, gc=False, frozen=True):
    """The two ids in `args`; until 2022 some events spelled the second one in lower case."""

    external: Id = msgspec.field(name="External id", default=NO_ID)
    correlation: Id = NO_ID
    lower: Id = msgspec.field(name="external id", default=NO_ID)


NO_ARGS = Args()


@functools.cache
def decoder(as_text: bool) -> msgspec.json.Decoder[list[Any]]:
    """A decoder of a list of events, with the fields in the order in which Kineto writes them. `as_text`: any
    value serves for `ts` and `dur`; else they are floats."""
    time: tuple[Any, Any] = (msgspec.Raw, msgspec.Raw(b"")) if as_text else (float, float("nan"))
    event = msgspec.defstruct(
        "Event",
        [
            ("ph", str),
            ("cat", str, ""),
            ("name", str, ""),
            ("pid", int | str, ""),
            ("tid", int | str, ""),
            ("ts", *time),
            ("dur", *time),
            ("args", Args, NO_ARGS),
            ("id", int | str | None, None),
            ("bp", str | None, None),
            # An object with events of its own is none.
            ("traceEvents", None, None),
        ],
        gc=False,
    )
    return msgspec.json.Decoder(list[event])  # type: ignore[valid-type]


ONE = msgspec.json.Decoder(msgspec.Raw)
"""Checks a value without decoding it."""
RAW_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])
"""Splits a list into the texts of its elements."""
RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Splits an object into the texts of its fields."""
