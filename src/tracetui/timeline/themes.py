"""The themes of the timeline: what every colour means, and which colours names may take.

A colour means one thing. Red is idle time, magenta a search match, white (black on white) the selection, pale
yellow (dark grey on white) its namesakes, cyan (blue) a flow, lavender (purple) a mark, and the green of the
overview how busy the devices were. Names take blues (operators), soft tones (annotations), tans (the runtime)
and olive to orange (kernels): tests hold the families away from those glossary, every text at a contrast of
4.5 to 1 and more to what lies behind it, and every bar at 2.5 to 1 and more to the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tracetui.timeline.canvas import INK, PAPER
from tracetui.trace.model import Kind

Families = Mapping[Kind, tuple[int, ...]]


def _families(
    ops: tuple[int, ...],
    soft: tuple[int, ...],
    python: tuple[int, ...],
    runtime: tuple[int, ...],
    kernels: tuple[int, ...],
    copies: tuple[int, int],
    sync: tuple[int, ...],
    overhead: tuple[int, ...],
    span: int,
) -> Families:
    return {
        Kind.CPU_OP: ops,
        Kind.OTHER: ops,
        Kind.ANNOTATION: soft,
        Kind.GPU_ANNOTATION: soft,
        Kind.PYTHON: python,
        Kind.RUNTIME: runtime,
        Kind.OVERHEAD: overhead,
        Kind.KERNEL: kernels,
        Kind.MEMCPY: copies[:1],
        Kind.MEMSET: copies[1:],
        Kind.SYNC: sync,
        Kind.SPAN: (span,),
    }


@dataclass(frozen=True, slots=True, eq=False)
class Theme:
    """Every colour and glyph choice of a picture. Numbers as in `Canvas`."""

    name: str
    dark: bool
    paper: int
    """Behind the lanes."""
    text: int
    dim: int
    """Text that may stay in the background: ruler, labels of folded lanes."""
    line: int
    """Rules and grid."""
    frame: int
    """Behind ruler, overview and labels."""
    selected: int
    same: int
    """Bars named like the selected one."""
    hint: int
    """Crowded cells that hold one of those, among others."""
    match: int
    gap: int
    flow: int
    mark: int
    """No family of names has a colour like one of these seven."""
    band: int
    """Behind a selected range."""
    window: int
    """Behind the part of the overview that is on the screen."""
    busy: int
    """Busy share in the overview and on a device's own line."""
    area: int
    """Counters."""
    many: int
    """Crowded cells of a thread in which no name prevails."""
    many_device: int
    """The same on a device."""
    families: Mapping[Kind, tuple[int, ...]]
    """The hues that the names of a kind share out among themselves."""
    plain: bool = False
    """No colours at all: bars are reversed, and neighbours are told apart by a line."""
    ascii: bool = False


DARK = Theme(
    name="dark",
    dark=True,
    paper=233,
    text=252,
    dim=246,
    line=239,
    frame=234,
    selected=231,
    same=229,
    hint=187,
    match=207,
    gap=167,
    flow=51,
    mark=183,
    band=236,
    window=239,
    busy=35,
    area=243,
    many=67,
    many_device=100,
    families=_families(
        ops=(75, 110, 74, 73, 69, 104, 38, 105, 39, 111, 68, 37),
        soft=(103, 109, 139, 108, 138, 146),
        python=(108, 66, 109, 72, 101, 65),
        runtime=(180, 179, 181),
        kernels=(143, 208, 107, 172, 70, 106, 137, 149, 142, 113),
        copies=(178, 136),
        sync=(97, 98),
        overhead=(101, 144),
        span=102,
    ),
)
LIGHT = Theme(
    name="light",
    dark=False,
    paper=231,
    text=235,
    dim=240,
    line=249,
    frame=255,
    selected=16,
    same=237,
    hint=242,
    match=163,
    gap=160,
    flow=20,
    mark=92,
    band=253,
    window=250,
    busy=29,
    area=245,
    many=24,
    many_device=22,
    families=_families(
        ops=(33, 67, 31, 30, 63, 61, 32, 62, 25, 68, 26, 23),
        soft=(60, 66, 96, 65, 95, 103),
        python=(65, 66, 72),
        runtime=(137, 173, 131),
        kernels=(58, 166, 107, 172, 70, 100, 64, 28, 130, 34),
        copies=(136, 94),
        sync=(97, 98),
        overhead=(101,),
        span=138,
    ),
)
HIGH_CONTRAST = replace(
    DARK,
    name="high-contrast",
    paper=16,
    text=231,
    dim=252,
    line=244,
    frame=16,
    gap=203,
    band=237,
    window=241,
    busy=41,
    area=248,
    many=153,
    many_device=142,
    families=_families(
        ops=(75, 117, 81, 111, 45, 80, 116),
        soft=(146, 110, 182, 151, 181, 109),
        python=(115, 108, 109),
        runtime=(180, 223, 179),
        kernels=(148, 208, 149, 178, 112, 106, 113, 143),
        copies=(220, 214),
        sync=(140,),
        overhead=(144,),
        span=145,
    ),
)
COLOUR_BLIND = replace(
    DARK,
    name="colour-blind",
    match=226,
    gap=203,
    flow=208,
    mark=207,
    busy=36,
    families=_families(
        ops=(39, 75, 110, 69, 74, 33, 32, 68),
        soft=(109, 146, 103, 139),
        python=(66, 73),
        runtime=(180, 144, 137),
        kernels=(178, 143, 136, 172, 142, 179),
        copies=(215, 137),
        sync=(97,),
        overhead=(101,),
        span=102,
    ),
)
"""Blue against yellow, which every common colour blindness leaves; what is lit is lighter than all else."""
PLAIN = Theme(
    name="plain",
    dark=True,
    paper=PAPER,
    text=INK,
    dim=INK,
    line=INK,
    frame=PAPER,
    selected=INK,
    same=INK,
    hint=INK,
    match=INK,
    gap=INK,
    flow=INK,
    mark=INK,
    band=PAPER,
    window=PAPER,
    busy=INK,
    area=INK,
    many=INK,
    many_device=INK,
    families=dict.fromkeys(Kind, (INK,)),
    plain=True,
)
SIXTEEN = Theme(
    name="16-colour",
    dark=True,
    paper=0,
    text=7,
    dim=7,
    line=8,
    frame=0,
    selected=15,
    same=11,
    hint=3,
    match=13,
    gap=9,
    flow=15,
    mark=14,
    band=8,
    window=8,
    busy=2,
    area=7,
    many=4,
    many_device=2,
    families={
        **dict.fromkeys(Kind, (6,)),
        Kind.CPU_OP: (4, 12),
        Kind.OTHER: (4, 12),
        Kind.KERNEL: (10, 2),
        Kind.RUNTIME: (6,),
        Kind.MEMCPY: (5,),
        Kind.MEMSET: (5,),
        Kind.OVERHEAD: (5,),
        Kind.SYNC: (5,),
    },
)
"""Few colours, and those are the terminal's own: a kind has one or two."""

THEMES: Mapping[str, Theme] = {
    theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND, PLAIN, SIXTEEN)
}
