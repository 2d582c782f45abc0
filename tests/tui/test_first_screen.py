"""What a newcomer asks is answered on the first screen; the verdict line and the overview, walked."""

import gzip
import json
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.verdict import Verdict
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.core.units import duration
from tracetui.rules import find_findings
from tracetui.trace import Kind, load
from tracetui.tui.panes.details import DetailsPane
from tracetui.tui.panes.overview import OverviewPane
from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.verdict_line import VerdictLine, bar_cells
from tracetui.views.document import Block, Document
from tracetui.views.overview import overviews
from tracetui.views.overview_lines import TWO_COLUMNS, lay_out
from tracetui.views.parts import evidence, time_parts
from tracetui.views.target import Target

from .conftest import app_of, pane_of, screen_of, slice_event, until, visit, write_trace
from .test_app import text

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_traces"
EVERY = sorted(SAMPLES.glob("*.json.gz"))


@lru_cache(maxsize=32)
def results_of(name: str) -> Part:
    return Part(load(SAMPLES / f"{name}.json.gz"))


def whole(results: Part) -> Document:
    *_, last = overviews(results)
    return last


def blocks_of(overview: Document) -> dict[str, Block]:
    """Those of the screen and those of the text alone, by key."""
    return {block.key: block for block in (*overview.left, *overview.right, *overview.more)}


def entries_of(overview: Document) -> int:
    return sum(len(block.entries) for block in overview.blocks)


# The questions
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
@pytest.mark.parametrize(("name", "verdict", "idle"), [
    ("llm_decode", "OVERHEAD-BOUND", "dispatch 46%"), ("matmul_add_4096_eager", "COMPUTE-BOUND", "")
])  # fmt: skip
async def test_is_it_overhead_bound_and_why_is_the_gpu_idle(size, name, verdict, idle):
    async with visit(SAMPLES / f"{name}.json.gz", "overview", size=size) as (app, pilot, _):
        await until(pilot, lambda: verdict in text(app).split("\n")[1])
        line = text(app).split("\n")[1]
        assert "GPU busy" in line
        assert idle in line


async def test_recorded_memory_is_in_view():
    async with visit(SAMPLES / "train_memory.json.gz", "overview") as (app, pilot, _):
        await until(
            pilot, lambda: all(word in text(app) for word in ("delay", "queue", "223M/316M", "338M/338M"))
        )


def test_the_op_that_costs_most_comes_first():
    path = SAMPLES / "llm_decode.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    complete = [e for e in events if e.get("ph") == "X"]
    own = own_times([e for e in complete if e.get("cat") in CPU])
    costliest = max(own, key=lambda name: own[name])
    steps = sum(e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation" for e in complete)
    kernels: dict[str, float] = defaultdict(float)
    for event in complete:
        if event["cat"] in ("kernel", "gpu_memcpy", "gpu_memset"):
            kernels[decode(event["name"]).short] += event["dur"]
    blocks = blocks_of(whole(results_of("llm_decode")))
    first = blocks["ops"].entries[0]
    assert first.name == costliest
    assert (first.values[0] or 0) / 1000 == pytest.approx(own[costliest] / steps, rel=5e-3)
    assert blocks["kernels"].entries[0].name == max(kernels, key=lambda name: kernels[name])


@pytest.mark.parametrize("hint", [False, True])
async def test_what_to_try_is_told_in_full_on_a_small_screen(hint, monkeypatch):
    monkeypatch.setattr("tracetui.tui.screens.trace.wanted", lambda: hint)
    async with visit(SAMPLES / "llm_decode.json.gz", "overview", size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: "Try  " in text(app))
        shown = " ".join(re.sub(r"[█│] *$", "", line, flags=re.M).strip() for line in text(app).split("\n"))
        pane = screen_of(app).area.open
        assert isinstance(pane, OverviewPane)
        assert pane.overview is not None
        assert len(pane.overview.advice) > 80
        assert f"Try  {pane.overview.advice}" in shown
        assert "New here?" in shown if hint else True
        assert pane.overview.fixes is not None
        assert pane.overview.fixes.entries[0].name in shown


async def test_the_findings_have_their_title_on_a_small_screen():
    async with visit(SAMPLES / "llm_decode.json.gz", "overview", size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: " 1 overview  2 details 3 ops 4 kernels 5 " in text(app))
        assert " 8 findings " in text(app)
        await pilot.press("5")
        await until(pilot, lambda: " 5 annotations  6 gaps " in text(app))


def test_times_are_those_of_a_step(tmp_path):
    """Without what lies outside of the steps, and in all where there is one step or none."""

    def overview(steps: int) -> dict[str, Block]:
        events = [slice_event(f"ProfilerStep#{n}", 100 * n, 90, cat="user_annotation") for n in range(steps)]
        events += [slice_event("aten::mm", 10 + 100 * n, 40) for n in range(2)]
        events += [slice_event("aten::mm", 300, 16)]
        path = write_trace(tmp_path / f"{steps}.json", events)
        return blocks_of(whole(Part(load(path))))

    each = overview(2)
    assert each["time"].title == "Where a step's time goes"
    assert each["ops"].note == "self CPU, of 90.0 µs per step"
    assert each["ops"].entries[0].numbers == ("40.0 µs", "44%", "1 ×")
    every = overview(0)
    assert every["time"].title == "Where the time goes"
    assert every["ops"].note == "self CPU, of 96.0 µs in all"
    assert every["ops"].entries[0].numbers == ("96.0 µs", "100%", "3 ×")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name.split(".")[0])
def test_the_kernels_of_a_step_are_those_that_it_launched(path):
    results = results_of(path.name.split(".")[0])
    steps = steps_of(results).rows
    kernels = blocks_of(whole(results))["kernels"]
    trace, time = results.trace, 0
    for event in device_work_of(results):
        launched = (
            int(trace.start[trace.launch[event]]) if trace.launch[event] >= 0 else int(trace.start[event])
        )
        if len(steps) < 2 or any(row.window[0] <= launched < row.window[1] for row in steps):
            time += int(trace.duration[event])
    said = "in all" if len(steps) < 2 else "per step"
    assert kernels.note == f"{duration(time / max(1, len(steps)))} {said}"


CPU = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "overhead")


def own_times(events: list[dict[str, Any]]) -> dict[str, float]:
    """The time of each op without what it calls, µs: a stack, one event after the other."""
    own: dict[str, float] = defaultdict(float)
    threads: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        stack = threads[event["tid"]]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        if event["cat"] == "cpu_op":
            own[event["name"]] += event["dur"]
        if stack and stack[-1]["cat"] == "cpu_op":
            own[stack[-1]["name"]] -= event["dur"]
        stack.append(event)
    return own


# The bar
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name.split(".")[0])
def test_the_parts_add_up_and_each_has_its_evidence(path):
    results = results_of(path.name.split(".")[0])
    parts = time_parts(verdict_of(results))
    assert sum([part.share for part in parts if part.share is not None]) == pytest.approx(1)
    total = sum(part.duration for part in parts)
    for width in (10, 37, 60):
        cells = bar_cells(parts, width)
        for at, part in enumerate(parts):
            eighths = sum(e if first == at else 0 for first, _, e in cells)
            eighths += sum(8 - e for first, last, e in cells if last == at and first != at)
            lost = 8 * sum(last - first > 1 for first, last, _ in cells)  # cells of three parts show two
            assert abs(eighths - 8 * width * part.duration / total) <= 1 + lost
    for part in parts:
        target = evidence(results, part.what)
        if target.gap is not None:
            assert causes_of(results).pieces[target.gap].max() > 0
        elif target.event is not None:
            assert results.trace.duration[target.event] <= results.trace.span[1]
        else:
            assert target.pane


def test_where_the_time_before_the_first_work_went():
    """In the file: the first step begins at 216.5 us, the first kernel at 2360.0 us; 1.49 ms of that is the
    profiler's buffer request, which has no gap of its own."""
    results = results_of("matmul_add_64_20_steps")
    trace = results.trace
    first = min(int(trace.start[i]) for i in range(len(trace)) if trace.kind[i] == Kind.KERNEL)
    for part in ("lead-in", "profiler"):
        target = evidence(results, part)
        assert target.span == (verdict_window(results)[0], first)
        assert target.said.startswith("up to the GPU's first work: profiler 1.49 ms, host 497 µs")
    assert evidence(results, "sync") == Target("gaps")


async def test_a_part_is_told_in_the_same_words_everywhere(tmp_path):
    """Without ops the CPU cannot be outside of one."""
    call = {"cat": "cuda_runtime", "args": {"correlation": 1}}
    work = {"cat": "kernel", "pid": 0, "args": {"correlation": 1, "device": 0, "stream": 7}}
    events = [
        slice_event("cudaLaunchKernel", 1000 * n, 5, **call | {"args": {"correlation": n}}) for n in range(9)
    ]
    events += [
        slice_event("k", 1000 * n + 8, 50, 7, **work | {"args": work["args"] | {"correlation": n}})
        for n in range(9)
    ]
    async with visit(write_trace(tmp_path / "gpu.json", events), "overview") as (app, pilot, _):
        await until(pilot, lambda: bool(screen_of(app).verdict.words))
        assert "in no recorded call" in text(app)
        await pilot.press("h")
        await until(pilot, lambda: "the CPU was in no recorded call; here" in screen_of(app).footer.message)


async def test_a_key_walks_the_parts_and_shows_an_example_of_each():
    async with visit(SAMPLES / "train.json.gz", "overview") as (_, pilot, screen):
        line = screen.query_one(VerdictLine)
        await until(pilot, lambda: line.verdict is not None)
        causes = causes_of(screen.session.active.whole)
        seen = []
        first = line.parts.index(max(line.parts, key=lambda part: part.share or 0.0))
        assert first > 0
        for part in (parts := line.parts[first:] + line.parts[:first]):
            await pilot.press("h")
            assert line.chosen is not None
            seen.append(line.parts[line.chosen].what)
            assert screen.footer.message.startswith(f"{part.what} ")
            if part.idle:
                gap = screen.session.gaps.at
                assert gap is not None
                pieces = causes.pieces[:, CAUSES.index(part.what)]
                assert pieces[gap] > 0
                if (mainly := causes.cause == CAUSES.index(part.what)).any():
                    assert pieces[gap] == pieces[mainly].max()
        assert seen == [part.what for part in parts]
        await pilot.press("H")
        assert line.chosen == first - 2 if first > 1 else len(line.parts) - 1
        while line.chosen is not None:
            await pilot.press("escape")
        await pilot.press("H")
        assert line.chosen == first


async def test_after_an_example_of_a_part_g_goes_to_the_longest_gap():
    """Not to the one after the example; from a row of the gaps' table, to the next row."""
    async with visit(SAMPLES / "train.json.gz", "gaps") as (_, pilot, screen):
        line = screen.query_one(VerdictLine)
        await until(pilot, lambda: line.verdict is not None)
        lengths = gaps_of(screen.session.active.whole).duration
        await pilot.press("h", "h")
        example = screen.session.gaps.at
        assert example is not None
        assert lengths[example] < np.sort(lengths)[-2]
        await pilot.press("g")
        assert screen.session.gaps.at == np.argmax(lengths)
        assert screen.footer.message.startswith("gap 1 of 1,099")
        await pilot.press("6", "down", "down", "enter", "tab", "g")
        assert screen.footer.message.startswith("gap 4 of 1,099")


async def test_a_click_on_the_bar_picks_that_part():
    async with visit(SAMPLES / "train.json.gz", "overview") as (app, pilot, _):
        line = screen_of(app).query_one(VerdictLine)
        await until(pilot, lambda: line.verdict is not None)
        for first, _, part in list(line._places):
            await pilot.click(VerdictLine, offset=(first, 0))
            assert line.chosen == part
            own = [cell for cell, end, what in line._places if end == cell + 1 and what == part]
            shown = line.render_line(0).text
            if line.parts[part].share is not None:  # it stands out of the others
                assert {shown[cell] for cell in own} == {"█"}
                assert shown.count("█") == len(own)
                assert shown.count("▄") > 0


async def test_a_click_on_a_line_of_the_overview_chooses_it_and_again_goes_there():
    async with visit(SAMPLES / "train.json.gz", "overview") as (app, pilot, _):
        pane = pane_of(screen_of(app), OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.advice))
        for name in ("Python between ops", "launches"):
            shown = pane.lines()[pane.top : pane.top + pane.page]
            y, left = next(
                (y, piece.left)
                for y, line in enumerate(shown)
                for piece in line
                if piece.entry >= 0 and pane.entries[piece.entry].name == name
            )
            await pilot.click(OverviewPane, offset=(left + 3, y))
            assert pane.row is not None
            assert pane.entries[pane.row].name == name
        assert screen_of(app).navigator.selected is None
        await pilot.click(OverviewPane, offset=(left + 3, y))
        assert screen_of(app).navigator.selected is not None


async def test_a_trace_of_the_cpu_alone_and_one_of_nothing(tmp_path):
    ops = [slice_event("aten::mm", 0, 75), slice_event("aten::add", 80, 20)]
    for events, told in ((ops, "CPU-ONLY"), ([slice_event("x", 0, 5, cat="blink")], "NOT KNOWN")):
        path = write_trace(tmp_path / f"{told}.json", events)
        async with visit(path, "overview", size=(100, 30)) as (app, pilot, _):
            await until(pilot, lambda app=app, told=told: told in text(app).split("\n")[1])
            line = text(app).split("\n")[1]
            if told == "CPU-ONLY":
                assert "ops 95%" in line
                assert "outside ops 5.0%" in line
            else:
                await pilot.press("h")
                assert "no parts" in screen_of(app).footer.message


async def test_an_empty_trace_says_so_everywhere(tmp_path):
    async with visit(write_trace(tmp_path / "empty.json", []), "overview", size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: "there is nothing to analyze" in " ".join(text(app).split()))  # the pane
        assert "NOT KNOWN   There are no events with a duration here." in text(app)
        assert "nothing to select: no events with a duration" in text(app)
        assert "click an event" not in text(app)


def test_a_verdict_without_a_reason_to_show_still_fits():
    assert time_parts(Verdict("not known", None, None, "There are no GPU events here.")) == ()
    assert bar_cells((), 3) == []


# The overview
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name.split(".")[0])
def test_every_line_fits_and_every_entry_is_there_once(path):
    overview = whole(results_of(path.name.split(".")[0]))
    count = entries_of(overview)
    assert count
    for width in (30, 78, TWO_COLUMNS - 1, TWO_COLUMNS, 118, 198):
        lines = lay_out(overview, width, range(count))
        shown = []
        for line in lines:
            for n, piece in enumerate(line):
                end = line[n + 1].left if n + 1 < len(line) else width
                size = sum(cell_len(text) for text, _ in piece.line)
                assert piece.left + size <= end or width == 30
                shown.append(piece.entry)
        assert set(shown) - {-1} == set(range(count))
    few = lay_out(overview, 118, {0})
    assert {piece.entry for line in few for piece in line} == {-1, 0}


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name.split(".")[0])
def test_every_bar_is_the_share_beside_it(path):
    """In all lists alike, so that one can be compared with the other."""
    overview = whole(results_of(path.name.split(".")[0]))
    entries = [(block.key, entry) for block in overview.blocks for entry in block.entries]
    for width in (103, 118, 198):
        shown = 0
        for piece in (piece for line in lay_out(overview, width, range(len(entries))) for piece in line):
            bars = [n for n, (_, role) in enumerate(piece.line) if role.endswith("|track")]
            key, entry = entries[piece.entry]
            if not bars or key == "steps":
                continue
            lit, rest = piece.line[bars[0]][0], piece.line[bars[0] + 1][0]
            eighths = sum("▏▎▍▌▋▊▉█".index(sign) + 1 for sign in lit.strip())
            share = float(entry.numbers[-2 if len(entry.numbers) > 2 else -1].strip("<%")) / 100
            assert abs(eighths / 8 - share * len(lit + rest)) < 0.19  # an eighth at least
            shown += 1
        assert shown


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_the_overview_is_walked_by_keys_to_every_line(size):
    async with visit(SAMPLES / "train_ddp.json.gz", "overview", size=size) as (_, pilot, screen):
        pane = pane_of(screen, OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        await pilot.press("tab")
        seen = {pane.row}
        for side in ("right", "right", "left", "left"):
            await pilot.press(side, *["up"] * 20)
            seen.add(pane.row)
            for _ in range(len(pane.entries)):
                await pilot.press("down")
                seen.add(pane.row)
                drawn = [strip.text for strip in pane.render_lines(pane.region.reset_offset)]
                assert sum(line.count("▸") for line in drawn) == 1, "also of an entry of several lines"
        assert seen == set(range(len(pane.entries)))


async def test_enter_goes_to_what_a_line_speaks_of():
    async with visit(SAMPLES / "train.json.gz", "overview") as (_, pilot, screen):
        pane = pane_of(screen, OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        await pilot.press("tab")
        for n, entry in enumerate(pane.entries):
            pane._go(n)
            await pilot.press("enter")
            target = entry.target
            if target.gap is not None:
                assert screen.session.gaps.at == target.gap
            elif target.event is not None:
                assert screen.navigator.selected == target.event
            elif target.span is not None:
                view = screen.navigator.view
                assert view.start_ns <= target.span[0] < target.span[1] <= view.end_ns + 1
            if screen.area.open is not pane:
                await pilot.press("1")


async def test_a_number_shows_a_pane_and_gives_it_the_keys():
    async with visit(SAMPLES / "mlp_eager.json.gz", "overview") as (_, pilot, screen):
        for number, pane in ((1, "overview"), (4, "kernels"), (5, "annotations"), (9, "efficiency")):
            await pilot.press(str(number))
            assert screen.area.open is screen.focused
            assert screen.area.tabs.open == pane
            await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("tab", "9")
        assert screen.area.open is screen.focused
        await pilot.press("9")
        assert screen.area.open is None


async def test_annotations_are_not_among_ops_or_kernels_and_totals_stand_below():
    app = app_of(SAMPLES / "train.json.gz", "ops")
    total = averages_of(results_of("train")).total_self_device / 1000
    async with app.run_test(size=(120, 36)) as pilot:
        screen = screen_of(app)
        for key in ("3", "4"):
            await pilot.press("escape", key)
            pane = screen.area.open
            assert pane is not None
            await until(pilot, lambda pane=pane: pane.table is not None)
            names = [pane.table.columns[0].text(row) for row in pane.order.tolist()]  # type: ignore[union-attr]
            assert not any(name == "forward" or name.startswith("ProfilerStep") for name in names)
            foot = pane.render_line(pane.size.height - 1).text
            assert "total" in foot
            assert f"{total:,.3f}" in foot


async def test_it_says_what_to_try_and_the_footer_fits_whoever_has_the_keys():
    async with visit(SAMPLES / "train.json.gz", "overview", size=(120, 36)) as (app, pilot, _):
        await until(pilot, lambda: "Try  " in text(app))
        first = next(f for f in find_findings(results_of("train")) if f.severity in ("high", "medium"))
        assert " ".join(first.advice.split()[:4]) in text(app)
        assert "wasd move" in text(app).split("\n")[-1]
        await pilot.press("tab")
        assert "Enter show it" in text(app).split("\n")[-1]
        await pilot.press("tab")
        assert "wasd move" in text(app).split("\n")[-1]


async def test_e_explains_the_row_that_has_the_keys():
    async with visit(SAMPLES / "mlp_eager.json.gz", "kernels") as (app, pilot, screen):
        pane = screen.area.open
        assert pane is not None
        await until(pilot, lambda: pane.table is not None)
        await pilot.press("tab", "down", "e")
        await until(pilot, lambda: "Explain" in text(app))
        event = screen.navigator.selected
        assert event is not None
        averages = averages_of(results_of("mlp_eager"))
        assert int(averages.row_of[event]) == pane.row
        same = averages.row_of == pane.row
        assert screen.trace.duration[event] == screen.trace.duration[same].max()


@pytest.mark.parametrize(("pane", "keys", "title"), [
    ("gaps", "down", "Explain: idle "), ("steps", "", "Explain: ProfilerStep#2"),
    ("findings", "", "Explain: "), ("efficiency", "", "Explain: aten::mm"), ("overview", "", "Explain: ")
])  # fmt: skip
async def test_e_explains_the_row_of_every_pane(pane, keys, title):
    async with visit(SAMPLES / "mlp_eager.json.gz", pane) as (app, pilot, screen):
        shown = screen.area.open
        assert shown is not None
        await until(pilot, lambda: shown.table is not None and len(shown.order) > 0)
        await pilot.press("tab", *keys.split())
        await until(pilot, lambda: shown.about() is not None)
        assert screen.navigator.selected is None
        await pilot.press("e")
        await until(pilot, lambda: title in text(app))
        assert screen.navigator.selected is not None


async def test_e_on_a_row_about_no_event_says_so_instead_of_explaining_another():
    async with visit(SAMPLES / "mlp_eager.json.gz", "steps") as (app, pilot, screen):
        pane = screen.area.open
        assert pane is not None
        await pilot.press("right")
        assert screen.navigator.selected is not None
        await until(pilot, lambda: pane.table is not None and len(pane.order) > 0)
        await pilot.press("tab", "end", "e")
        await pilot.pause()
        assert "not about a single event or gap" in screen.footer.message
        assert app.screen is screen


async def test_the_overview_follows_the_part_that_is_walked():
    async with visit(SAMPLES / "train.json.gz", "overview") as (_, pilot, screen):
        pane, line = screen.area.open, screen.query_one(VerdictLine)
        assert isinstance(pane, OverviewPane)
        await until(pilot, lambda: line.verdict is not None and bool(pane.overview and pane.overview.fixes))
        await pilot.press("h", "h")
        assert line.chosen is not None
        assert pane.entries[pane.row or 0].style == line.parts[line.chosen].what
        assert " a step)" in screen.footer.message


async def test_the_header_and_the_overview_give_a_step_one_length():
    app = app_of(SAMPLES / "train_ddp.json.gz", "overview")  # its steps are uneven
    rows = steps_of(results_of("train_ddp")).rows
    mean = duration(sum(row.window_length for row in rows) / len(rows))
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: f"3 steps, mean {mean}" in text(app).split("\n")[0])
    assert f"{mean}, mean of 3" in blocks_of(whole(results_of("train_ddp")))["time"].note


async def test_a_kernel_has_one_name_in_bars_tables_and_the_line_and_its_full_one_in_the_details():
    async with visit(SAMPLES / "mlp_eager.json.gz", "kernels", size=(200, 50)) as (_, pilot, screen):
        pane = screen.area.open
        assert pane is not None
        await until(pilot, lambda: pane.table is not None)
        await pilot.press("tab", "enter")
        await until(pilot, lambda: screen.navigator.selected is not None)
        assert pane.table is not None
        event, short = screen.navigator.selected or 0, pane.table.columns[0].text(pane.row or 0)
        full = screen.trace.name_of(event)
        assert decode(full).short == short != full
        line = screen.query_one(SelectionBar)
        assert line.render_lines(line.region.reset_offset)[0].text.startswith(f" {short}  at ")
        await pilot.press("2")
        details = pane_of(screen, DetailsPane)
        await until(pilot, lambda: ("full name", full) in [(f.label, f.value) for f in details.facts])


# What to fix first

QUESTIONS = {
    "train": ("GPU busy 12.4%", "PyTorch's ops", "6.23 ms", "CUDA graphs"),
    "llm_decode": ("GPU busy 7.3%", "PyTorch's ops", "2.22 ms", "CUDA graphs"),
    "mlp_eager": ("GPU busy 95.8%", "mul, gelu", "67.3 µs", "Fuse them"),
    "mlp_compile": ("GPU busy 92.4%", "triton poi: gelu mul", "55.7 µs", "narrower type"),
    "attention_naive": ("GPU busy 99.1%", "attention", "1.06 ms", "scaled_dot_product_attention"),
    "matmul_add_64_cold": ("99% not counted", "first calls", "21.5 ms", "Do not count it"),
    "train_ddp": ("GPU busy 98.1%", "gelu_backward, copy, mul", "1.97 ms", "Fuse them"),
}
"""Why it is slow, what to fix first, how much that is, and what to do."""


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_newcomers_questions_are_answered_on_the_first_screen(name, size):
    why, what, much, then = QUESTIONS[name]
    async with visit(SAMPLES / f"{name}.json.gz", "overview", size=size) as (app, pilot, _):
        pane = pane_of(screen_of(app), OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        lines = text(app).split("\n")
        assert why in lines[1]
        assert any("What to fix first" in line and "in this recording" in line for line in lines)
        (row,) = (line for line in lines if what in line and much in line)
        assert "%" in row
        assert then in " ".join(line.strip() for line in lines)
        await pilot.press("tab", "enter")  # where: what the row is about comes into view
        await until(pilot, lambda: screen_of(app).navigator.selected is not None)


@pytest.mark.parametrize("name", QUESTIONS)
async def test_the_first_screen_has_few_numbers(name):
    async with visit(SAMPLES / f"{name}.json.gz", "overview", size=(120, 36)) as (app, pilot, _):
        pane = pane_of(screen_of(app), OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        await until(pilot, lambda: "GPU busy" in text(app))
        assert len(re.findall(r"\d[\d,.]*", text(app))) <= 45


async def test_enter_fits_the_gap_and_what_to_try_follows_the_cursor():
    async with visit(SAMPLES / "train.json.gz", "overview", size=(120, 36)) as (app, pilot, _):
        screen = screen_of(app)
        pane = pane_of(screen, OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        assert "larger batches" in text(app)
        await pilot.press("tab", "down", "down")
        await until(pilot, lambda: "Look at what Python does between the ops" in text(app))
        assert "larger batches" not in text(app)
        await pilot.press("enter")
        gaps, at = gaps_of(screen.session.active.whole), screen.session.gaps.at
        assert at is not None
        view = screen.navigator.view
        assert view.start_ns <= gaps.start[at]
        assert gaps.start[at] + gaps.duration[at] <= view.end_ns
        assert causes_of(screen.session.active.whole).pieces[at, CAUSES.index("host")] > 0


async def test_enter_on_a_finding_of_idle_time_fits_the_gap():
    async with visit(SAMPLES / "train.json.gz", "findings", size=(120, 36)) as (app, pilot, _):
        screen = screen_of(app)
        pane = screen.area.open
        assert pane is not None
        await until(pilot, lambda: pane.table is not None and len(pane.order) > 0)
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: screen.session.gaps.at is not None)
        gaps, at = gaps_of(screen.session.active.whole), screen.session.gaps.at
        assert at is not None
        assert gaps.after[at] == find_findings(results_of("train"))[0].evidence[0]
        assert screen.navigator.view.start_ns <= gaps.start[at]


async def test_without_colors_a_part_has_one_letter_in_bar_and_rows(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with visit(SAMPLES / "train.json.gz", "overview", size=(120, 36)) as (app, pilot, _):
        pane = pane_of(screen_of(app), OverviewPane)
        await until(pilot, lambda: pane.overview is not None and bool(pane.overview.more))
        bar = text(app).split("\n")[1]
        for row, letter in (("PyTorch's ops", "d"), ("launches", "l"), ("Python between ops", "h")):
            line = next(line for line in text(app).split("\n") if line.lstrip(" ▸").startswith(row))
            assert letter * 3 in line
            assert letter * 3 in bar
