"""The colors and textures of the parts of a step's time, for every widget that shows them."""

from __future__ import annotations

from tracetui.analysis.idle.parts import BUSY_PARTS, CAUSES, CPU_PARTS

PARTS = (*BUSY_PARTS, *CAUSES, *(part for part in CPU_PARTS if part not in BUSY_PARTS))
"""The parts, in the order of the bar."""

TEXTURES = {"compute": "█", "ops": "█", "communication": "▓", "data loading": "▓", "copies": "▒"}
"""What fills the bar without colors; idle parts alternate between the texture of gaps and dots."""
IDLE_TEXTURES = "╱░"
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


def texture(parts: list[str], at: int) -> str:
    """The texture of a part of the bar: neighbors differ."""
    return TEXTURES.get(parts[at], IDLE_TEXTURES[at % 2])
