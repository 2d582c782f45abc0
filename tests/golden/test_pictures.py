"""Pictures of the timeline: the text of each line, and a digest of its colors and attributes."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import asdict, replace
from tests.golden.made import write_made
from tests.recorded import load
from tests.timeline.conftest import scene_of

from tracetui.analysis.idle.gaps import find_gaps
from tracetui.timeline import moves, viewport
from tracetui.timeline.arrangement import devices_of
from tracetui.timeline.frame import paint
from tracetui.timeline.scene import Idle, Scene
from tracetui.timeline.series import launches, memory
from tracetui.timeline.themes import DARK, LIGHT, PLAIN, Theme
from tracetui.timeline.themes import THEMES as ALL_THEMES
from tracetui.timeline.track_layout import Of, lay_out
from tracetui.trace import Kind, Trace

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
HEIGHT = 26
THEMES = {"dark": DARK, "light": LIGHT, "plain": PLAIN, "ascii": replace(DARK, ascii=True)}


@cache
def sample(name: str) -> Trace:
    return load(SAMPLES / f"{name}.json.gz")


@pytest.fixture
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    return load(write_made(tmp_path)) if request.param == "made" else sample(request.param)


def opened(trace: Trace, theme: str = "dark", width: int = 86) -> Scene:
    """The scene as the viewer opens it: with gaps, memory, delay and queue."""
    scene = scene_of(trace, width=width, height=HEIGHT - 2, theme=THEMES[theme])
    series = (*scene.source.series, *memory(trace), *launches(trace))
    layout = scene.layout.with_counters(len(series), devices=devices_of(series))
    gaps = {gaps.device: Idle(gaps.start, gaps.end) for gaps in find_gaps(trace)}
    return replace(scene.having(series=series, gaps=gaps), layout=layout)


def picture(scene: Scene, height: int = HEIGHT) -> str:
    canvas = paint(scene, height)
    digests = [hashlib.sha1(canvas.styles()[y].tobytes()).hexdigest()[:6] for y in range(canvas.height)]
    return "\n".join(f"{digest} {canvas.text(y)}" for y, digest in enumerate(digests))


def busiest(trace: Trace) -> int:
    """The longest slice of a device."""
    return int(np.argmax(np.where(trace.launch >= 0, trace.duration, -1)))


SCENES: dict[str, Callable[[Scene], Scene]] = {
    "all of it": lambda scene: scene, "twice as close": lambda scene: moves.zoomed(scene, 2, None),
    "a kernel chosen": lambda scene: moves.revealed(
        moves.chosen(scene, busiest(scene.source.trace)), busiest(scene.source.trace), HEIGHT, closer=True
    ),
    "20 times about it": lambda scene: moves.zoomed(
        moves.chosen(scene, busiest(scene.source.trace)), 20, None
    ),
    "gap 2 of device 0": lambda scene: moves.gap_shown(replace(scene, gap=(0, 0, 2)), 0, 0, 2, HEIGHT),
    "range, marks, an instant": lambda scene: replace(
        moves.gone_to(moves.zoomed(scene, 3, None), (3 * scene.span[0] + 2 * scene.span[1]) // 5),
        band=((2 * scene.span[0] + scene.span[1]) // 3, (scene.span[0] + scene.span[1]) // 2),
        marks=((scene.span[0] + (scene.span[1] - scene.span[0]) // 2, "half"), (scene.span[1] - 1, "end"))
    ),
    "matches": lambda scene: scene.having(
        matches=np.array(["add" in n for n in scene.source.trace.names])[scene.source.trace.name]
    ),
    "deep in": lambda scene: moves.look(
        scene,
        viewport.Viewport(float(scene.source.trace.start[busiest(scene.source.trace)]) - 500.5, 37.0, 86)
    ),
    "all rows, scrolled": lambda scene: moves.scrolled(
        moves.arranged(scene, scene.layout.with_all(99), HEIGHT), 7, HEIGHT
    ),
    "a lane pinned, one hidden": lambda scene: replace(
        scene, layout=replace(scene.layout.with_shown(0, 0), pinned=(scene.layout.track_of(Of.LANE, 1),))
    )
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("trace", ["made", "mlp_eager", "train_ddp"], indirect=True)
def test_picture(trace, name, request, golden):
    which = request.node.callspec.params["trace"]
    golden(f"pictures_{which}", name, picture(SCENES[name](opened(trace))))


@pytest.mark.parametrize("theme", ["light", "plain", "ascii"])
@pytest.mark.parametrize("trace", ["made", "mlp_cuda_graph"], indirect=True)
def test_theme(trace, theme, request, golden):
    which = request.node.callspec.params["trace"]
    scene = SCENES["range, marks, an instant"](opened(trace, theme, 61))
    golden(f"pictures_{which}", f"theme {theme}", picture(replace(scene, selected=busiest(trace)), 18))


@pytest.mark.parametrize("trace", ["made", "mlp_eager"], indirect=True)
def test_walk(trace, request, golden):
    """Where the arrow keys lead."""
    scene, told = opened(trace), []
    keys = "down down next next down next up next next down down previous up up next"
    for direction in 4 * keys.split():
        event = moves.stepped(scene, direction)
        found = None if event is None else event.slice
        told.append(f"{direction:9} {'-' if found is None else f'{found} {trace.name_of(found)}'}")
        if found is not None:
            scene = moves.revealed(moves.chosen(scene, found), found, HEIGHT, closer=False)
            told[-1] += f" at {scene.view.start_ns}+{scene.view.cell}, {scene.flows}"
        if len(told) % 11 == 0:
            scene = moves.zoomed(scene, 1.7, None)
    golden(f"pictures_{request.node.callspec.params['trace']}", "a walk", "\n".join(told))


@pytest.mark.parametrize("name", ALL_THEMES)
def test_colors(name, golden):
    fields = vars_of(ALL_THEMES[name])
    golden("themes", name, "\n".join(f"{key} {value}" for key, value in fields.items()))


def vars_of(theme: Theme) -> dict[str, object]:
    """The fields, with the families by their kind's name."""
    fields = asdict(theme)
    return fields | {"families": {Kind(kind).name: colors for kind, colors in theme.families.items()}}


@pytest.mark.parametrize("trace", ["made", "mlp_eager", "train_ddp"], indirect=True)
def test_layouts(trace, request, golden):
    """How many rows each track shows on screens of any height, and what is pinned."""
    lines = []
    for height in range(1, 60, 2):
        layout = lay_out([trace], height)
        kinds = "".join("lpdc"[of] for of in layout.of.tolist())
        lines.append(f"{height} {kinds} {layout.ref.tolist()} {layout.shown.tolist()} {layout.pinned}")
        lines.append(
            f"  {layout.with_counters(3, devices=[-1, 0, 0]).shown.tolist()} {layout.headings.tolist()}"
        )
    golden("layouts", request.node.callspec.params["trace"], "\n".join(lines))


@pytest.mark.parametrize("trace", ["made", "train_ddp"], indirect=True)
def test_small_screens(trace, request, golden):
    scene = opened(trace, width=86)
    which = request.node.callspec.params["trace"]
    small = replace(scene, view=viewport.resize(scene.view, 34), labels=9, selected=busiest(trace))
    for height in (1, 2, 3, 9):
        golden(
            f"pictures_{which}", f"34 cells, {height} lines",
            picture(moves.arranged(small, small.layout, height), height)
        )  # fmt: skip
