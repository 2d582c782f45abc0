"""What the recordings of a session are to each other: one alone, a pair to compare, or the ranks of a job.

`tui/layouts.py` has the other half: what a screen of each layout looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.session.paths import trace_stem
from tracetui.timeline.scene import Source

PAIR_LETTERS = "AB"
MOST_RANKS = 1_000_000
"""A larger number in a file is not a rank."""


class Layout(Struct, frozen=True, eq=False):
    """What follows from a layout without a screen. Where the tracks of a scene lie is another matter:
    `timeline.track_layout`."""

    name: str
    place: Callable[[Sequence[Source]], Sequence[Source]] = tuple
    """Gives the recordings letters and titles, and puts them on the common clock."""
    counters: bool = False
    """Whether there is room for counters: not side by side."""
    saves_lanes: bool = False
    """Whether the arrangement of the lanes is that of one trace, and saved for its next time."""


def _named(sources: Sequence[Source], letters: Sequence[str], offsets: Sequence[int]) -> Sequence[Source]:
    """The sources with letters and offsets, and with titles that have no endings, and no folder that all have
    in common."""
    folders, names = zip(*(source.title.rpartition("/")[::2] for source in sources), strict=True)
    stems = [trace_stem(name) for name in names]
    if len(set(folders)) > 1:
        stems = [f"{folder}/{stem}" if folder else stem for folder, stem in zip(folders, stems, strict=True)]
    places = zip(sources, stems, letters, offsets, strict=True)
    return tuple(replace(s, title=title, letter=letter, offset=ns) for s, title, letter, ns in places)


def _pair(sources: Sequence[Source]) -> Sequence[Source]:
    """A and B, which begin at the same time."""
    low_a, low_b = (source.trace.first_view[0] for source in sources)
    return _named(sources, PAIR_LETTERS, (0, low_a - low_b))


def _job(sources: Sequence[Source]) -> Sequence[Source]:
    """The ranks by their numbers, or else by their places; on the clock that the files give."""
    infos = [source.trace.info for source in sources]
    ranks = [(info.distributed or {}).get("rank") for info in infos]
    known = all(type(rank) is int and 0 <= rank < MOST_RANKS for rank in ranks) and len(set(ranks)) == len(
        ranks
    )
    letters = [str(rank) for rank in (ranks if known else range(len(ranks)))]
    return _named(sources, letters, [info.zero_ns - infos[0].zero_ns for info in infos])


SINGLE = Layout("single", counters=True, saves_lanes=True)
PAIR = Layout("pair", _pair)
JOB = Layout("job", _job)


def layout_of(count: int) -> Layout:
    """The usual layout of so many recordings."""
    return {1: SINGLE, 2: PAIR}.get(count, JOB)
