"""The themes of the timeline: what every color means, and which colors names may take.

A color means one thing. Red is idle time (dark behind bars), magenta a search match, white (black on white)
the selection, pale yellow (dark gray on white) its namesakes, cyan (blue) a flow, lavender (purple) a mark,
and the green of the overview how busy the devices were. Names take blues (operators), soft tones
(annotations), tans (the runtime) and olive to orange (kernels). Tests check that these stay away from the
colors above, that text has a contrast of at least 4.5 to 1 to its background, and bars of at least 3 to 1 to
the paper, those of a device to the red below them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.timeline.canvas import INK, PAPER
from tracetui.trace.model import Kind


class Theme(Struct, frozen=True, eq=False):
    """Every color and glyph choice of a picture. Numbers as in `Canvas`."""

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
    """No family of names has a color like one of these seven."""
    band: int
    """Behind a selected range."""
    window: int
    """Behind the part of the overview that is on the screen."""
    busy: int
    """Busy share in the overview and on a device's own line."""
    idle: int
    """The ground of a device's lanes while it is idle; the paper where a texture shows that."""
    idle_lit: int
    """The same behind a selected range, and in the part of the overview that is on the screen."""
    area: int
    """Counters."""
    many: int
    """Crowded cells of a thread in which no name prevails."""
    many_device: int
    """The same on a device."""
    families: Mapping[Kind, tuple[int, ...]]
    """The hues that the names of a kind share out among themselves."""
    plain: bool = False
    """No colors at all: bars are reversed, and neighbors are told apart by a line."""
    ascii: bool = False

    @property
    def grounded(self) -> bool:
        """Whether the ground has a color of its own while a device is idle."""
        return self.idle != self.paper

    @property
    def grounds(self) -> tuple[int, ...]:
        """What is no bar."""
        return self.paper, self.band, self.idle, self.idle_lit, self.frame


_ROLES = """
             dark  light  high-contrast  color-blind  16-color
paper         233    231             16           233          0
text          252    235            231           252          7
dim           246    240            252           246          7
line          239    249            244           239          8
frame         234    255             16           234          0
selected      231     16            231           231         15
same          229    237            229           229         11
hint          187    242            187           187          3
match         207    163            207           226         13
gap           167    160            203           203          9
flow           51     20             51           208         15
mark          183     92            183           207         14
band          236    253            237           236          8
window        239    250            241           239          8
busy           35     30             41            36          2
idle           52    224             52            52          0
idle_lit       88    217             88            88          8
area          243    245            248           243          7
many           67     24            153            67          4
many_device   100     23            142           100          2
"""
_NAMES, *_ROWS = (row.split() for row in _ROLES.strip().splitlines())
_COLORS: dict[str, dict[str, Any]] = {
    name: {role: int(colors[n]) for role, *colors in _ROWS} for n, name in enumerate(_NAMES)
}


def _theme(name: str, dark: bool, /, **families: tuple[int, ...]) -> Theme:
    """A theme of the table. `families`: the hues of each family; copies and sets of memory share one."""
    kinds = {
        Kind.CPU_OP: families["ops"],
        Kind.OTHER: families["ops"],
        Kind.ANNOTATION: families["soft"],
        Kind.GPU_ANNOTATION: families["soft"],
        Kind.PYTHON: families["python"],
        Kind.RUNTIME: families["runtime"],
        Kind.OVERHEAD: families["overhead"],
        Kind.KERNEL: families["kernels"],
        Kind.MEMCPY: families["copies"][:1],
        Kind.MEMSET: families["copies"][1:],
        Kind.SYNC: families["sync"],
        Kind.SPAN: families["span"],
    }
    return Theme(name, dark, families=kinds, **_COLORS[name])


DARK = _theme(
    "dark",
    True,
    ops=(75, 110, 74, 73, 69, 104, 38, 105, 39, 111, 68, 37),
    soft=(103, 109, 139, 108, 138, 146),
    python=(108, 66, 109, 72, 101, 65),
    runtime=(180, 179, 181),
    kernels=(143, 208, 107, 172, 70, 106, 137, 149, 142, 113),
    copies=(178, 136),
    sync=(97, 98),
    overhead=(101, 144),
    span=(102,),
)
LIGHT = _theme(
    "light",
    False,
    ops=(33, 67, 31, 63, 61, 32, 62, 25, 68, 26),
    soft=(60, 66, 96, 65, 95, 103),
    python=(65, 66),
    runtime=(137, 131),
    kernels=(58, 64, 28, 130, 29, 22),
    copies=(94, 89),
    sync=(97, 98),
    overhead=(101,),
    span=(138,),
)
HIGH_CONTRAST = _theme(
    "high-contrast",
    True,
    ops=(75, 117, 81, 111, 45, 80, 116),
    soft=(146, 110, 182, 151, 181, 109),
    python=(115, 108, 109),
    runtime=(180, 223, 179),
    kernels=(148, 208, 149, 178, 112, 106, 113, 143),
    copies=(220, 214),
    sync=(140,),
    overhead=(144,),
    span=(145,),
)
COLOR_BLIND = _theme(
    "color-blind",
    True,
    ops=(39, 75, 110, 69, 74, 33, 32, 68),
    soft=(109, 146, 103, 139),
    python=(66, 73),
    runtime=(180, 144, 137),
    kernels=(178, 143, 136, 172, 142, 179),
    copies=(215, 137),
    sync=(97,),
    overhead=(101,),
    span=(102,),
)
"""Blue against yellow, safe with every common color blindness; lit things are lighter than all else."""
_PLAIN: dict[str, Any] = dict.fromkeys(_COLORS["dark"], INK) | dict.fromkeys(
    ("paper", "frame", "band", "window", "idle", "idle_lit"), PAPER
)
PLAIN = replace(DARK, name="plain", plain=True, families=dict.fromkeys(Kind, (INK,)), **_PLAIN)
SIXTEEN = _theme(
    "16-color",
    True,
    **dict.fromkeys(("soft", "python", "runtime", "span"), (6,)),
    **dict.fromkeys(("sync", "overhead"), (5,)),
    ops=(4, 12),
    kernels=(10, 2),
    copies=(5, 5),
)
"""Only the terminal's own colors: one or two per kind."""

THEMES: Mapping[str, Theme] = {
    theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST, COLOR_BLIND, PLAIN, SIXTEEN)
}
