"""What was wrong with a file, counted by kind."""

from __future__ import annotations

from msgspec import Struct, field


class Notice(Struct, frozen=True):
    """One kind of problem that was repaired, lost or implausible in a file, and how often."""

    kind: str
    """A stable word for scripts, e.g. "truncated", "bad_utf8", "unclosed", "negative_duration"."""
    level: str
    """One of "repaired" (nothing lost), "lost" (an event or a part of one is gone), "odd" (kept, but hard to
    believe)."""
    count: int
    offset: int
    """Byte offset (in the uncompressed text) of the first one, -1 if not applicable."""
    text: str
    """One line for people, without the count. Safe to show."""


KINDS: dict[str, tuple[str, str]] = {
    # kind: (level, one line for people)
    "control_characters": ("repaired", "raw control characters inside text"),
    "bad_utf8": ("repaired", "text that is not UTF-8: bad bytes are shown as \ufffd"),
    "bad_escape": ("repaired", "a lone backslash or half of a surrogate pair in text"),
    "quotes": ("repaired", "quotation marks in a name, without a backslash"),
    "bare_value": ("repaired", "a value that JSON does not allow (inf, nan, N/A): read as null"),
    "comma": ("repaired", "an extra comma"),
    "unquoted": ("repaired", "a word without quotes"),
    "separator": ("repaired", "something that does not belong between two events"),
    "second_array": ("repaired", "another event array in the file: all are read"),
    "listed": ("repaired", "a trace that is an element of a list: its events are read"),
    "torch_trace": (
        "repaired",
        "a TORCH_TRACE log: its events are torch.compile's phases, for the rest use tlparse",
    ),
    "open_array": ("repaired", "the event array is not closed (allowed by the format)"),
    "bad_header": ("lost", "the file's header fields could not be read"),
    "broken_event": ("lost", "an event that cannot be read"),
    "too_long": ("lost", "more than 64 MB without the end of an event: skipped to the next one"),
    "not_an_event": ("lost", "an array element that is not an object"),
    "truncated": ("lost", "the file is cut off"),
    "not_read": ("lost", "a part of the file of a kind that is not read"),
    "dropped": ("lost", "packets that the recorder lost before this one: its buffer was full"),
    "no_time": ("lost", "an event without a readable time"),
    "bad_gzip": ("lost", "the compressed data is damaged: the rest cannot be read"),
    "bad_zstd": ("lost", "the compressed data is damaged: the rest cannot be read"),
    "trailing": ("lost", "what follows the compressed data is not compressed like it: not read"),
    "bad_checksum": ("odd", "the compressed data does not match its checksum"),
    "other_base": (
        "odd",
        "another baseTimeNanoseconds than that of the event array before: its times are not moved",
    ),
    "undescribed": ("odd", "a name or a track that the file does not describe"),
    "defined_twice": ("odd", "a number that stands for two texts: the first one is taken"),
    "other_clock": ("odd", "a time of a clock that the file does not relate to the others: taken as it is"),
    "wrong_type": ("odd", "an event with a field of the wrong type: the field is ignored"),
    "unclosed": ("odd", "a start event without an end: drawn to the end of the trace"),
    "unopened": ("odd", "an end event without a start: ignored"),
    "async_unclosed": ("odd", "an asynchronous start without an end: drawn to the end of the trace"),
    "async_unopened": ("odd", "an asynchronous end without a start: ignored"),
    "no_duration": ("odd", "an event without a duration: drawn as zero"),
    "negative_duration": ("odd", "a negative duration: drawn as zero, left out of the averages"),
    "impossible_duration": ("odd", "a duration far beyond the rest of the trace: left out of the averages"),
    "clipped_duration": (
        "odd",
        "a GPU event far longer than the rest of the trace: cut where the next one on its stream begins",
    ),
    "impossible_time": (
        "odd",
        "a time of more than 140 years, or a duration of more than 100 days: left out of the averages",
    ),
    "no_time_given": (
        "odd",
        "an event at time 0, long before all others: its time is missing, so it is left out everywhere",
    ),
    "stray": ("odd", "an event far away in time from all others: left out of the averages"),
    "before_launch": ("odd", "a GPU event that starts before its launch"),
    "foreign_ids": ("odd", "a call whose id is not that of an op: it belongs to the op around it, if any"),
    "other_op": ("odd", "a call with the id of an op that it is not in: it belongs to the op around it"),
    "several_writers": (
        "odd",
        "several programs wrote this file, each about its own GPU: whose GPU did what is not known",
    ),
    "unfinished": (
        "odd",
        "an op or annotation that had not ended when the profiler stopped: nobody knows when it did",
    ),
    "outlasting_frame": (
        "odd",
        "a Python frame that had not returned when the profiler stopped, though its caller had: cut there",
    ),
    "whose_calls": (
        "odd",
        "a call on a lane without a name that more than one thread may have made: it stays there",
    ),
}
"""Every kind of notice. "repaired" lost nothing, "lost" did, "odd" is kept unchanged."""


class Diagnostics(Struct):
    """Counts each kind of notice; keeps the byte offset of the first one, and a detail."""

    found: dict[str, list[int]] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, offset: int = -1, count: int = 1, detail: str = "") -> None:
        """Count `kind`, seen at `offset` in the text. `detail`, safe to show, becomes part of its line."""
        if count <= 0:
            return
        entry = self.found.get(kind)
        if entry is None:
            self.found[kind] = [count, offset]
        else:
            entry[0] += count
            if 0 <= offset < entry[1] or entry[1] < 0:
                entry[1] = offset
        if detail:
            self.details.setdefault(kind, detail)

    def absorb(self, other: Diagnostics) -> None:
        for kind, (count, offset) in other.found.items():
            self.note(kind, offset, count, other.details.get(kind, ""))

    @property
    def lost(self) -> int:
        return sum(count for kind, (count, _) in self.found.items() if KINDS[kind][0] == "lost")

    def notices(self) -> tuple[Notice, ...]:
        """The worst first: lost, odd, repaired; within each of these in the order of `KINDS`."""
        notices = []
        for kind in KINDS:
            if kind in self.found:
                (level, text), (count, offset) = KINDS[kind], self.found[kind]
                detail = self.details.get(kind)
                notices.append(Notice(kind, level, count, offset, f"{text} ({detail})" if detail else text))
        return tuple(sorted(notices, key=lambda notice: ("lost", "odd", "repaired").index(notice.level)))
