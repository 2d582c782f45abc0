"""The colors and textures of the parts of a step's time, for every widget that shows them."""

from __future__ import annotations

from tracetui.analysis.idle.parts import BUSY_PARTS, CAUSES, CPU_PARTS

PARTS = (*BUSY_PARTS, *CAUSES, *(part for part in CPU_PARTS if part not in BUSY_PARTS))
"""The parts, in the order of the bar."""

TEXTURES = {
    "compute": "█", "ops": "█", "communication": "m", "copies": "c", "data loading": "D", "outside ops": "o",
    "dispatch": "d", "host": "h", "launch": "l", "sync": "s", "allocation": "a", "queued": "q",
    "back to back": "b", "unlinked": "u", "initialisation": "i", "profiler": "p", "graph capture": "g",
    "in flight": "f", "not recorded": "n",
}  # fmt: skip
"""What fills the bar of a part without colors, wherever it is: a letter of its name stays one in ASCII."""
NOT_COUNTED = "·"


def css_name(part: str) -> str:
    """The name of a part in style sheets: `back-to-back`."""
    return part.replace(" ", "-")


def component_css(widget: str) -> str:
    """Style rules that color the component class of each part in a widget."""
    rules = (f"{widget} > .part--{css_name(part)} {{ color: $part-{css_name(part)}; }}" for part in PARTS)
    return "\n".join(rules)


COMPONENTS = {f"part--{css_name(part)}" for part in PARTS}
"""The component classes."""


def texture(part: str) -> str:
    """What fills the bar of a part without colors."""
    return TEXTURES.get(part, "█")
