"""Two recordings compared in a session without a terminal: partners, differences, aligning."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.core.copying import replace
from tracetui.session.layout import PAIR, SINGLE
from tracetui.session.session import Session
from tracetui.timeline.frame import paint
from tracetui.timeline.links import ALONE, THREADS
from tracetui.timeline.scene import Event
from tracetui.timeline.themes import PLAIN
from tracetui.trace import Kind
from tracetui.trace.model import DEVICE_WORK, Trace

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
EAGER, COMPILED = (SAMPLES / f"mlp_{name}.json.gz" for name in ("eager", "compile"))


def opened(*paths: Path, size: tuple[int, int] = (140, 40)) -> Session:
    session = Session.open(*(paths or (EAGER, COMPILED)))
    session.lanes.resize(*size)
    session.comparing.use(session.comparing.compute())
    return session


def traces(session: Session) -> tuple[Trace, Trace]:
    a, b = session.navigator.recordings
    return a.trace, b.trace


def starts(session: Session, a: int, b: int) -> list[int]:
    sources = session.navigator.scene.sources
    return [sources[0].start(a), sources[1].start(b)]


def picture(session: Session) -> list[str]:
    canvas = paint(session.navigator.scene, session.navigator.height)
    return [canvas.text(y) for y in range(canvas.height)]


def named(trace: Trace, part: str, *kinds: Kind) -> list[int]:
    kinds = kinds or DEVICE_WORK
    found = np.flatnonzero(trace.is_kind(*kinds))
    return [i for i in found[np.argsort(trace.start[found])].tolist() if part in trace.name_of(i)]


def in_view(session: Session, event: Event) -> bool:
    scene = session.navigator.scene
    source = scene.sources[event.source]
    start, length = source.start(event.slice), int(source.trace.duration[event.slice])
    lane, depth = int(source.trace.lane[event.slice]), int(source.trace.depth[event.slice])
    rows = [(line.source, line.ref, line.depth) for line in scene.lines(session.navigator.height - 2)]
    shown = start < scene.view.end_ns and start + length >= scene.view.start_ns
    return shown and (event.source, lane, depth) in rows


def test_one_recording_is_not_compared():
    session = Session.open(EAGER)
    assert session.layout is SINGLE
    assert session.comparing.beside() == ()
    assert session.navigator.scene.sources[0].letter == ""


def test_what_is_not_known_yet_is_said():
    session = Session.open(EAGER, COMPILED)
    session.navigator.select(0)
    assert session.layout is PAIR
    assert session.comparing.comparison is None
    assert session.comparing.partner() == (None, "still comparing the two")
    assert session.comparing.next(1) == session.comparing.align() == "still comparing the two"
    assert session.comparing.differences == ()


def test_the_first_matched_steps_are_aligned_and_shown():
    session = opened()
    a, b = traces(session)
    first = [named(trace, "ProfilerStep#", Kind.ANNOTATION)[0] for trace in (a, b)]
    low_a, low_b = starts(session, *first)
    assert low_a == low_b
    view = session.navigator.view
    ends = [
        session.navigator.scene.sources[n].start(i) + int(t.duration[i])
        for n, (i, t) in enumerate(zip(first, (a, b), strict=True))
    ]
    assert view.start_ns <= low_a
    assert max(ends) <= view.end_ns
    assert view.span_ns < 2.5 * (max(ends) - low_a)
    # One who has moved already stays there.
    session = Session.open(EAGER, COMPILED)
    session.lanes.resize(140, 40)
    session.navigator.zoom(3)
    before = session.navigator.view
    session.comparing.use(session.comparing.compute())
    assert session.navigator.view == before


def test_every_matched_event_is_its_partners_partner():
    session = opened()
    links = [source.links for source in session.navigator.scene.sources]
    a, b = traces(session)
    assert links[0] is not None
    assert links[1] is not None
    for mine, its, trace, other in ((links[0], links[1], a, b), (links[1], links[0], b, a)):
        known = np.flatnonzero(mine.partner >= 0)
        assert len(known) > 40
        assert (its.partner[mine.partner[known]] == known).all()
        assert (trace.kind[known] == other.kind[mine.partner[known]]).all()
    # The three GEMMs of each of the three steps, in order; what Inductor made of two kernels is alone.
    gemms = named(a, "nvjet"), named(b, "nvjet")
    assert len(gemms[0]) == 9
    assert links[0].partner[gemms[0]].tolist() == gemms[1]
    assert [links[0].partner[i] for i in named(a, "Gelu")] == [ALONE] * 3
    assert [links[1].partner[i] for i in named(b, "triton_poi")] == [ALONE] * 3
    # Annotations by name and number, steps by their place.
    steps = [named(trace, "ProfilerStep#", Kind.ANNOTATION) for trace in (a, b)]
    assert links[0].partner[steps[0]].tolist() == steps[1]


def test_selecting_lights_the_partner_and_tells_both_times():
    session = opened()
    a, b = traces(session)
    gemm, other = named(a, "nvjet")[3], named(b, "nvjet")[3]
    session.navigator.select(gemm, of=0)
    scene = session.navigator.scene
    assert scene.sources[1].partner == other
    assert scene.local(1).selected == other
    assert in_view(session, Event(1, other))
    told = "".join(text for text, _ in session.comparing.beside())
    took = int(b.duration[other]) - int(a.duration[gemm])
    assert told.startswith("  in B ")
    assert f"B - A = {'+' if took > 0 else '-'}" in told
    # The same from the other side.
    event, said = session.comparing.partner()
    assert event == Event(1, other)
    assert said == "the same in B"
    session.comparing.go_to(event)
    assert session.navigator.scene.event == event
    assert session.navigator.scene.sources[0].partner == gemm
    assert "  in A " in session.comparing.beside()[0]
    session.navigator.select(None)
    assert [source.partner for source in session.navigator.scene.sources] == [-1, -1]


def test_what_only_one_has_is_said_and_has_no_partner():
    session = opened()
    _, b = traces(session)
    session.navigator.select(named(b, "triton_poi")[0], of=1)
    assert session.comparing.beside() == (("  only in ", False), ("B", True))
    event, said = session.comparing.partner()
    assert event is None
    assert said.startswith("only B has this")
    assert session.navigator.scene.sources[0].partner == -1


def test_the_partner_comes_into_view_where_it_would_be_off_the_screen():
    session = opened()
    a, b = traces(session)
    session.navigator.zoom(60)
    for n, gemm in enumerate(named(a, "nvjet")):
        session.navigator.select(gemm, of=0)
        assert in_view(session, Event(0, gemm))
        assert in_view(session, Event(1, named(b, "nvjet")[n]))


def test_aligning_keeps_the_selection_where_it_is():
    session = opened()
    a, b = traces(session)
    gemm, other = named(a, "nvjet")[4], named(b, "nvjet")[4]
    for of, event in ((0, gemm), (1, other)):
        session.comparing.align()
        session.navigator.select(event, of=of)
        column = session.navigator.view.column(session.navigator.scene.source.start(event))
        assert "aligned at " in session.comparing.align()
        assert len(set(starts(session, gemm, other))) == 1
        assert abs(session.navigator.view.column(session.navigator.scene.source.start(event)) - column) <= 1
        session.navigator.select(None)
        assert session.comparing.align() == "aligned at the first step that both have"
    # What only one has is aligned at what comes before it.
    session.navigator.select(named(b, "triton_poi")[0], of=1)
    assert session.comparing.align().startswith("only B has this: aligned at ")
    assert len(set(starts(session, *(named(a, "nvjet")[1], named(b, "nvjet")[1])))) == 1


def test_marks_matches_and_gaps_move_along():
    session = opened()
    _, b = traces(session)
    session.draw_gaps()
    session.search.find("cat:kernel")
    gemm = named(b, "nvjet")[4]
    session.navigator.select(gemm, of=1)
    session.marks.put(session.marks.here()._replace(label="here"))
    assert session.navigator.scene.marks[0][0] == session.navigator.scene.sources[1].start(gemm)
    before = session.navigator.scene.sources[1].offset
    session.comparing.align()
    assert session.navigator.scene.sources[1].offset != before
    scene = session.navigator.scene
    assert scene.marks[0][0] == scene.sources[1].start(gemm)
    times = [
        scene.sources[e.source].start(e.slice) for e in map(session.search.event, range(len(session.search)))
    ]
    assert times == sorted(times)
    lows, highs = zip(*(source.span for source in scene.sources), strict=True)
    assert scene.span == (min(lows), max(highs))
    assert session.gaps.next(1) is not None
    gaps = gaps_of(session.navigator.recordings[1].whole)
    assert session.navigator.scene.event == Event(1, int(gaps.after[session.gaps.at or 0]))


def test_the_differences_one_after_the_other_and_around():
    session = opened()
    comparing = session.comparing
    told = comparing.differences
    assert len(told) > 2
    seen = []
    for n, one in enumerate(told):
        assert comparing.next(1).startswith(f"difference {n + 1} of {len(told)}")
        assert comparing.at == n
        assert comparing.told() == (f"difference {n + 1}", one.text)
        event = session.navigator.scene.event
        if len(one.events_a) or len(one.events_b):
            assert event.slice in ((one.events_a, one.events_b)[event.source]).tolist()
            assert in_view(session, event)
        seen.append(event)
    comparing.next(1)
    assert session.navigator.scene.event == seen[0]
    comparing.next(-1)
    assert comparing.at == len(told) - 1
    # Elsewhere it is no longer told, and it can be left.
    comparing.show(0)
    session.navigator.select(0, of=0)
    assert comparing.told() == ()
    comparing.show(0)
    comparing.leave()
    assert comparing.told() == ()


def test_the_only_difference_is_gone_through_place_by_place():
    session = opened()
    found = session.comparing.compute()
    one = next(one for one in found.comparison.explanations if len(one.places) == 3)
    session.comparing.use(replace(found, comparison=replace(found.comparison, explanations=(one,))))
    said = [session.comparing.next(step) for step in (1, 1, 1, 1, -1)]
    assert [text.partition("; place ")[2][:6] for text in said] == [
        "1 of 3", "2 of 3", "3 of 3", "1 of 3", "3 of 3"
    ]  # fmt: skip


def test_a_difference_is_shown_where_it_is_in_both():
    session = opened()
    a, b = traces(session)
    comparing = session.comparing
    which = next(n for n, one in enumerate(comparing.differences) if one.kind == "fused")
    gelu, mul, triton = named(a, "Gelu"), named(a, "BinaryFunctor"), named(b, "triton_poi")
    assert a.duration[mul].sum() > a.duration[gelu].sum(), "what takes most is shown"
    for n in range(3):
        assert f"place {n + 1} of 3" in comparing.show(which, n)
        scene = session.navigator.scene
        assert scene.event == Event(1, triton[n])
        assert scene.sources[0].partner == mul[n], "both are lit"
        assert starts(session, mul[n], triton[n])[0] == scene.sources[1].start(triton[n])
        assert in_view(session, Event(0, mul[n]))
    comparing.show(which, 3)
    assert session.navigator.scene.event == Event(1, triton[0])


@pytest.mark.parametrize("theme", ["colored", "plain"])
def test_what_only_one_has_is_marked_with_and_without_colors(theme):
    session = opened(size=(160, 40))
    if theme == "plain":
        sources = session.navigator.scene.sources
        recordings = session.navigator.recordings
        plain = [r.source(PLAIN).palette for r in recordings]
        from msgspec.structs import replace

        session.navigator.change(
            sources=tuple(replace(s, palette=p) for s, p in zip(sources, plain, strict=True))
        )
    lines = picture(session)
    rules = {letter: next(line for line in lines if f"{letter} · GPU 0" in line) for letter in "AB"}
    assert "-----" in rules["A"][session.navigator.scene.labels :]
    assert "+" not in rules["A"]
    assert "+++++" in rules["B"]
    text = "\n".join(lines)
    assert "-gelu" in text
    assert "+triton_poi" in text
    assert "-gemm" not in text
    assert "+gemm" not in text


def test_the_marks_on_the_headings_are_where_the_events_are():
    scene = opened().navigator.scene
    for of, source in enumerate(scene.sources):
        links, view, trace = source.links, scene.local(of).view, source.trace
        assert links is not None
        borders = view.borders()
        alone = np.flatnonzero(links.partner == ALONE)
        device = np.array([lane.device for lane in trace.lanes])[trace.lane[alone]]
        for key in (THREADS, 0):
            mine = alone[device == key]
            start, end = trace.start[mine], trace.start[mine] + np.maximum(trace.duration[mine], 1)
            slow = [bool(((start < high) & (end > low)).any()) for low, high in pairwise(borders)]
            assert links.alone_in(key, view).tolist() == slow
        assert not links.alone_in(7, view).any()


def test_a_recording_beside_itself_differs_in_nothing():
    session = opened(EAGER, EAGER)
    comparing = session.comparing
    assert comparing.differences == ()
    assert comparing.next(1) == "no difference to go to: both do the same"
    assert not any(
        "+" in line[session.navigator.scene.labels :] for line in picture(session) if "GPU 0" in line
    )
    session.navigator.select(named(session.active.trace, "nvjet")[0])
    assert comparing.beside()[-1] == ("  B - A = 0", False)


def test_recordings_are_called_by_what_tells_them_apart(tmp_path):
    session = Session.open(EAGER, COMPILED)
    assert [session.navigator.scene.title(of) for of in (0, 1)] == ["A mlp_eager", "B mlp_compile"]
    paths = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "run.json.gz")
        paths[-1].write_bytes(EAGER.read_bytes())
        (tmp_path / name / "run.meta.json").write_text("{}")
    session = Session.open(*paths)
    assert [session.navigator.scene.title(of) for of in (0, 1)] == ["A one/run", "B two/run"]


def test_a_lane_whose_rule_is_scrolled_off_says_whose_it_is():
    session = opened(size=(80, 10))
    _, b = traces(session)
    assert "A stream" not in "\n".join(picture(session))
    session.navigator.select(named(b, "nvjet")[0], of=1)
    assert session.navigator.scene.foot > 0
    labels = [line[: session.navigator.scene.labels] for line in picture(session)]
    assert not any("A · GPU 0" in label for label in labels)
    assert any("A stream 7" in label for label in labels)
    assert not any("B stream 7" in label for label in labels), "its rule is in view"
