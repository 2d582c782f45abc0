"""The fields of an event that the columns need, as msgspec types; all others are skipped undecoded.

There are several types of event, from the fastest to the most tolerant. `Literal` phases and categories
decode to existing strings, which needs no memory, and their hashes are cached.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from tracetui.core.columns import NO_ID, NO_TIME

_PHASES = ("X", "B", "E", "i", "I", "C", "s", "t", "f", "M", "b", "n", "e", "S", "T", "F")
_CATEGORIES = (
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "overhead", "kernel"),
    *("gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "cuda_event", "cpu_instant_event"),
    *("graph_event_node",),
    *("ac2g", "fwdbwd", "Trace", "async_cpu_to_gpu", "async"),
    *("Operator", "Kernel", "Memcpy", "Memset", "Runtime", "hip_runtime", "xpu_runtime", ""),
)


Id = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""An id that fits into a column."""


Time = Annotated[int, msgspec.Meta(gt=NO_TIME)]


class Args(msgspec.Struct, gc=False, frozen=True):
    """The two ids in `args`; until 2022 some events spelled the second one in lower case."""

    external: Id = msgspec.field(name="External id", default=NO_ID)
    correlation: Id = NO_ID
    lower: Id = msgspec.field(name="external id", default=NO_ID)


NO_ARGS = Args()


class Mode(NamedTuple):
    """Which type to decode with."""

    known: bool
    """Only phases and categories that Kineto writes."""
    time: str
    """How `ts` is decoded: "float", "int", or "text" (accepts anything; `dur` likewise)."""


FASTEST = Mode(True, "float")


@functools.cache
def decoder(mode: Mode) -> msgspec.json.Decoder[list[Any]]:
    """A decoder of a list of events, with the fields in the order in which Kineto writes them."""
    real, whole, text = (float, float("nan")), (Time, NO_TIME), (msgspec.Raw, msgspec.Raw(b""))
    time: tuple[Any, Any] = {"float": real, "int": whole, "text": text}[mode.time]
    duration: tuple[Any, Any] = text if mode.time == "text" else real
    event = msgspec.defstruct(
        "Event",
        [
            ("ph", Literal[_PHASES] if mode.known else str),
            ("cat", Literal[_CATEGORIES] if mode.known else str, ""),
            ("name", str, ""),
            ("pid", int | str, ""),
            ("tid", int | str, ""),
            ("ts", *time),
            ("dur", *duration),
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
