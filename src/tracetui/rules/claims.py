"""What a finding claims: named values, from which its sentences are made.

A rule yields claims; the function that `says` registers for it makes the sentences of them, and of nothing
else. So a word can change without the detection, and a test reads values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from tracetui.core.units import duration, percent, plural, rate, share, significant, size, verb
from tracetui.trace.slices import Slices


class Share(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """Part of a whole. Reads `45% of the steps`; with the format `1`, `45.3% of the steps`; `bare`, `45%`."""

    part: int | float
    whole: int | float
    """Both in ns, or per second."""
    of: str
    """What the whole is, with its "of": `of the steps`."""

    @property
    def value(self) -> float:
        """From 0 to 1; 0 of nothing."""
        return self.part / self.whole if self.whole else 0.0

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, how: str) -> str:
        text = percent(self.value, 1) if how == "1" else share(self.value)
        return text if how == "bare" else f"{text} {self.of}"


class Time(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """A length of time. Reads `1.25 ms`."""

    ns: int | float

    def __float__(self) -> float:
        return float(self.ns)

    def __format__(self, how: str) -> str:
        return duration(self.ns)


def from_to(low: Time, high: Time) -> str:
    """`1.2 ms to 3.4 ms`; only one of them where they read the same."""
    return f"{low}" if f"{low}" == f"{high}" else f"{low} to {high}"


class Count(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """How many. Reads `1,250`; with the format `copy/copies`, `1,250 copies`; `~take`: `take` or `takes`."""

    n: int

    def __float__(self) -> float:
        return float(self.n)

    def __format__(self, how: str) -> str:
        if how.startswith("~"):
            return verb(self.n, how[1:])
        return plural(self.n, *how.split("/")) if how else f"{self.n:,}"


class Rate(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """Reads `55.5 GB/s`."""

    per_second: float
    unit: str

    def __float__(self) -> float:
        return float(self.per_second)

    def __format__(self, how: str) -> str:
        return rate(self.per_second, self.unit)


class Size(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """Reads `33.6 MB`."""

    bytes: int

    def __format__(self, how: str) -> str:
        return size(self.bytes)


class Ratio(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """Times as much. Reads `2.5`."""

    value: float

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, how: str) -> str:
        return significant(self.value, 2)


class Named(Struct, frozen=True, omit_defaults=True):
    """A name, with how often and for how long, where that is told. Reads `aten::mm (3, 1.25 ms)`."""

    name: str
    calls: int | None = None
    ns: int | float | None = None

    def __str__(self) -> str:
        told = [] if self.calls is None else [f"{self.calls:,}"]
        told += [] if self.ns is None else [duration(self.ns)]
        return f"{self.name} ({', '.join(told)})" if told else self.name


class Names(Struct, frozen=True, tag=str.lower, tag_field="kind"):
    """Several names, the most important first. Reads `a (3), b (2)`; with another format, joined by that."""

    each: tuple[Named, ...]

    def __format__(self, how: str) -> str:
        return (how or ", ").join(map(str, self.each))


Claim = Share | Time | Count | Rate | Size | Ratio | Names | str | bool | None
"""A name is a plain string, safe to show; what is so or not, a bool."""


class Claims(dict[str, Any]):
    """Claims by name, for the functions that make sentences: `c.share`. Those that may be missing: `in`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Words(NamedTuple):
    """The sentences of a finding."""

    title: str
    text: str
    advice: str


SAYS: dict[str, Callable[[Claims], Words]] = {}
"""By rule, what makes its sentences."""


def says(rule: str) -> Callable[[Callable[[Claims], tuple[str, str, str]]], Callable[[Claims], Words]]:
    """Registers a function that makes title, text and advice of the claims of a rule."""

    def register(make: Callable[[Claims], tuple[str, str, str]]) -> Callable[[Claims], Words]:
        SAYS[rule] = lambda claims: Words(*make(claims))
        return SAYS[rule]

    return register


def say(rule: str, claims: Mapping[str, Claim]) -> Words:
    """The sentences of a finding with these claims."""
    words = SAYS[rule](Claims(claims))
    if "others" not in claims:
        return words
    c = Claims(claims)
    title = f"{words.title}; {c.others} others are alike"
    return words._replace(title=title, text=f"{words.text} Alike: {c.alike}.")


def names_of(names: Iterable[str]) -> Names:
    """Names alone."""
    return Names(tuple(map(Named, names)))


class Remedy(Struct, frozen=True, eq=False):
    """What would be done about it to the slices, for a replay of the trace."""

    what: str
    """`remove` them, `speed_up` by `factor`, `overlap` them with other work, or `move` them off the thread or
    stream that others wait for."""
    slices: Slices
    factor: float | None = None
    """Of `speed_up`: how many times as fast, at most; None where that is not known."""


def claims_json(claims: Mapping[str, Claim]) -> dict[str, Any]:
    """The claims as JSON, by name; shares with their value, too."""
    told: dict[str, Any] = msgspec.to_builtins(dict(claims), enc_hook=lambda number: number.item())  # numpy's
    for name, claim in claims.items():
        if isinstance(claim, Share):
            told[name]["value"] = float(claim)
    return told
