"""The timeline and the gaps agree on when a device was busy."""

from __future__ import annotations

from collections.abc import Callable

from tracetui.analysis.gaps import find_gaps
from tracetui.timeline.busy import overall
from tracetui.timeline.frame import paint
from tracetui.timeline.scene import Scene
from tracetui.trace.model import Trace


def test_a_kernel_without_length_ends_a_gap(
    make: Callable[..., Trace], make_scene: Callable[..., Scene]
) -> None:
    trace = make([(0, 0, 100_000, "k"), (0, 1_000_000, 0, "empty")], streams=[0])
    (gaps,) = find_gaps(trace)
    assert (gaps.busy, gaps.last - gaps.first) == (100_000, 1_000_000)
    scene = make_scene(trace)
    assert overall(scene.source.devices.values()) == 0.1
    assert "GPU 10%" in paint(scene, 10).text(0)
