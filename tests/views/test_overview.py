"""The overview of two steps whose times can be added up in one's head, and where each part of it stands."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import SAMPLES
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of
from tests.recorded import ROOT

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.steps.scope import step_table_of
from tracetui.rules import find_findings
from tracetui.trace import load
from tracetui.views import markdown
from tracetui.views.document import Block, Document, Entry
from tracetui.views.lines import plain_text
from tracetui.views.overview import _costs, overviews
from tracetui.views.overview_lines import FEW_LINES, _grid, _lines, lay_out
from tracetui.views.summary import summary_answer
from tracetui.views.target import Target


def one_step(at: float, first: int) -> list[Event]:
    """900 us, of which the device works 450: 300 and 100 at kernels, 50 at a copy."""
    return [
        cpu("aten::mm", at + 50, 100), launch(at + 100, first), kernel(at + 110, 300, first, name="gemm"),
        cpu("aten::add", at + 200, 40), launch(at + 210, first + 1),
        kernel(at + 420, 100, first + 1, name="add_kernel"),
        launch(at + 590, first + 2, name="cudaMemcpyAsync"), memcpy(at + 600, 50, first + 2),
    ]  # fmt: skip


AFTER = [cpu("aten::mm", 2100, 500), launch(2200, 99), kernel(2300, 40, 99, name="gemm")]
"""Outside of the steps."""


@pytest.fixture
def two_steps(tmp_path: Path) -> Part:
    events = [step(0, 0, 900), *one_step(0, 1), step(1, 1000, 900), *one_step(1000, 11), *AFTER]
    return Part(trace_of(tmp_path, *events, cpu("aten::add", 1250, 20)))


def last(results: Part) -> Document:
    *_, found = overviews(results)
    return found


def every(overview: Document) -> dict[str, Block]:
    """All blocks, by key: those of the screen, and those of the text alone."""
    return {block.key: block for block in (*overview.left, *overview.right, *overview.more)}


def said(overview: Document) -> dict[str, list[tuple[str, ...]]]:
    """Of each block the name, the numbers and the text of its entries."""
    blocks = every(overview).values()
    return {block.key: [(e.name, *e.numbers, e.text) for e in block.entries] for block in blocks}


def test_of_two_steps(two_steps):
    found = last(two_steps)
    verdict, *findings = find_findings(two_steps)
    assert [one.rule for one in (verdict, *findings)] == ["overhead_bound", "hotspot", "exposed_copies"]
    assert said(found) == {
        "fixes": [
            ("Python between ops", "420 µs", "44%", "CPU outside PyTorch"),
        ],
        "devices": [("GPU 0", "42.2%", "idle 1.29 ms in 6 gaps; 110 µs before its first event")],
        "time": [
            ("compute", "400 µs", "42%", "kernels at work"),  # of (1,000 + 900) / 2
            ("copies", "50.0 µs", "5.3%", "exposed copies"),
            ("host", "420 µs", "44%", "CPU outside any op"),
            ("dispatch", "50.0 µs", "5.3%", "CPU in PyTorch ops"),
            ("launch", "20.0 µs", "2.1%", "launch on its way"),
            ("queued", "10.0 µs", "1.1%", "queued, not started"),
        ],
        "findings": [("low", one.title) for one in findings],
        "file": [],
        "ops": [  # less the 4 us of a launch
            ("aten::mm", "96.0 µs", "11%", "1 ×", ""),
            ("aten::add", "46.0 µs", "5.1%", "1.5 ×", ""),
        ],
        "kernels": [
            ("gemm", "300 µs", "67%", "1 ×", ""),
            ("add", "100 µs", "22%", "1 ×", ""),
            ("memcpy HtoD pinned", "50.0 µs", "11%", "1 ×", ""),
        ],
        "counters": [],
        "steps": [("step 0", "1.00 ms", "45.0%", ""), ("step 1", "900 µs", "50.0%", "mixed")],
    }
    assert [(block.title, block.note) for block in found.blocks] == [
        ("What to fix first", "worth, in this recording"),
    ]
    tables = every(found)
    assert [
        (tables[key].title, tables[key].note) for key in ("time", "findings", "ops", "kernels", "steps")
    ] == [
        ("Where a step's time goes", "950 µs, mean of 2"),
        ("Findings", ""),
        ("Ops", "self CPU, of 900 µs per step"),
        ("Kernels and copies", "450 µs per step"),
        ("Steps", "length, GPU busy"),
    ]
    parts = {key: [entry.part for entry in block.entries] for key, block in tables.items()}
    assert parts["kernels"] == [300 / 450, 100 / 450, 50 / 450]  # the shares beside them
    assert parts["ops"] == [96 / 900, 46 / 900]
    assert parts["steps"] == [0.45, 0.45]  # busy, of the longest step
    assert [entry.of for entry in tables["steps"].entries] == [1, 0.9]
    assert {entry.of for key, block in tables.items() if key != "steps" for entry in block.entries} == {1}
    assert parts["time"] == pytest.approx([400 / 950, 50 / 950, 420 / 950, 50 / 950, 20 / 950, 10 / 950])
    steps = [(entry.target.span, entry.target.said) for entry in tables["steps"].entries]
    assert steps == [((0, 1_000_000), "step 0: 1.00 ms"), ((1_000_000, 1_900_000), "step 1: 900 µs")]
    kernels = tables["kernels"].entries
    assert [two_steps.trace.start[entry.target.event] for entry in kernels[1:]] == [420_000, 600_000]
    assert [entry.target.said for entry in kernels] == [f"the longest of {n} calls" for n in (3, 2, 2)]


def test_of_one_step_and_of_a_part(tmp_path, two_steps):
    part = last(two_steps.in_scope(step_table_of(two_steps).scope(1)))
    assert every(part)["time"].title == "Where the time goes"
    assert said(part)["kernels"][0] == ("gemm", "300 µs", "67%", "1 ×", "")
    assert said(part)["ops"] == []  # not for the CPU's time, and nothing says which op launched a kernel
    assert said(part)["steps"] == []
    alone = Part(trace_of(tmp_path, step(0, 0, 900), *one_step(0, 1), *AFTER))
    found = last(alone)
    assert every(found)["time"].title == "Where the time goes"
    assert said(found)["kernels"][0] == ("gemm", "340 µs", "69%", "2 ×", "")  # of 490
    assert said(found)["steps"] == []


def test_steps_without_work_are_not_what_the_verdict_is_about(tmp_path):
    events = [step(0, 0, 100), cpu("aten::mm", 0, 90), step(1, 100, 100), *AFTER]
    found = last(Part(trace_of(tmp_path, *events)))
    time = every(found)["time"]
    assert (time.title, time.note) == (
        "Where the time goes",
        "2.51 ms of the recording that count",
    )
    assert said(found)["kernels"] == [("gemm", "40.0 µs", "100%", "1 ×", "")]


def test_what_a_step_launched_is_its_own_wherever_it_runs(tmp_path):
    """Here by the first slice of all."""
    events = [launch(10, 1), launch(20, 2)]
    events += [
        kernel(30, 5, 2), kernel(300, 40, 1, name="late"),
        *(step(n, 100 * n, 100) | {"tid": 10} for n in range(2))
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    assert 0 in trace.launch
    kernels = said(last(Part(trace)))["kernels"]
    assert kernels == [("late", "20.0 µs", "89%", "0.5 ×", ""), ("k2", "2.50 µs", "11%", "0.5 ×", "")]


def test_of_many_steps_eight_are_named(tmp_path):
    events = [event for n in range(10) for event in (step(n, 1000 * n, 900), *one_step(1000 * n, 10 * n + 1))]
    names = said(last(Part(trace_of(tmp_path, *events, *({"ph": "X", "name": "no time"} for _ in range(3))))))
    assert [entry[0] for entry in names["steps"]] == [*(f"step {n}" for n in range(8)), "2 steps more"]
    assert names["file"] == [("lost", "3 × an event without a readable time")]


def test_several_devices(tmp_path):
    other = kernel(150, 150, 2) | {"pid": 1, "args": {"correlation": 2, "device": 1, "stream": 7}}
    late = kernel(400, 50, 3) | {"pid": 1, "args": {"correlation": 3, "device": 1, "stream": 7}}
    trace = trace_of(tmp_path, launch(0, 1), launch(10, 2), launch(20, 3), kernel(100, 100, 1), other, late)
    found = last(Part(trace))
    devices = every(found)["devices"]
    assert [(e.name, e.numbers, e.part) for e in devices.entries] == [
        ("GPU 0", ("100.0%",), 1.0), ("GPU 1", ("66.7%",), 200 / 300)
    ]  # fmt: skip
    assert [e.target.span for e in devices.entries] == [(100_000, 200_000), (150_000, 450_000)]
    assert every(found)["time"].note.endswith(", 2 GPUs together")


@pytest.mark.parametrize("name", ["train", "train_ddp", "llm_decode", "matmul_add_64_cold"])
def test_screen_text_markdown_and_json_say_the_same(name):
    part = Part(load(SAMPLES / f"{name}.json.gz"))
    answer, document = summary_answer(part), last(part)
    text, screen = answer.text(110), "\n".join(placed(document, 63))
    rows = [[cell.strip(" `") for cell in line.split("|")] for line in answer.markdown().splitlines()]
    sections = {one["section"]: one for one in answer.data()["sections"]}
    assert [*sections] == [block.key for block in (*document.blocks, *document.more)]
    for block in document.blocks:
        assert f"\n{block.title}" in text
        for entry, record in zip(block.entries, sections[block.key]["rows"], strict=True):
            assert (record["name"], record["text"]) == (entry.name, entry.text)
            cells = [entry.name, *map(markdown.cell, entry.numbers)]
            listed = f"- {entry.name}: {markdown.cell(entry.text)}" in answer.markdown()
            assert listed if not entry.numbers else any(row[1 : len(cells) + 1] == cells for row in rows)
            for number in entry.numbers:
                assert number in text
                assert number in screen
    assert document.reason in " ".join(text.split())
    assert document.advice in " ".join(text.split())
    assert document.advice in " ".join(line.strip() for line in placed(document, 63))
    assert answer.data()["advice"] == document.advice


# Where it stands
def placed(overview: Document, width: int, height: int = 0, without: int = -1) -> list[str]:
    """The lines as the screen shows them; each entry's first cell, and its place in reading order."""
    count = sum(len(block.entries) for block in (*overview.left, *overview.right))
    lines = []
    for pieces in lay_out(overview, width, {*range(count)} - {without}, height):
        line = ""
        for piece in pieces:
            assert len(line) <= piece.left
            line = line.ljust(piece.left) + "".join(text for text, _ in piece.line)
        lines.append(
            f"{line.rstrip()} {[piece.entry for piece in pieces if piece.entry >= 0] or ''}".rstrip()
        )
    return lines


def entry(name: str, *numbers: str, part: float | None = None, text: str = "") -> Entry:
    return Entry(name, numbers, part, "", text, Target("details"))


SMALL = Document(
    "It is so. Because of that.",
    "Do this. Or do that.",
    (
        Block("time", "Time", "1 ms", (entry("work", "9 µs", "90%", part=0.9, text="at work"),)),
        Block("file", "File", "", (entry("odd", text="one two three four five six seven eight nine ten"),)),
    ),
    (
        Block("ops", "Ops", "5 µs", (entry("aten::mm", "5 µs", part=1.0, text="1 ×"),)),
        Block("kernels", "Kernels", "", (entry("gemm", "5 µs", part=1.0), entry("add", "12 µs", part=0.5))),
        Block("numbers", "Step", "", (entry("length", "1 ms", "12 ms"),), ("A", "B")),
    ),
)


def test_what_to_try_is_about_the_row_under_the_cursor():
    rows = (
        replace(entry("load", "4 ms", "40%", part=0.4), advice="Prefetch."),
        entry("ops", "3 ms", "30%", part=0.3),
    )
    fixes = Block("fixes", "What to fix first", "worth", (replace(rows[1], advice="Compile."), rows[0]))
    document = Document("It is so.", "Compile.", (fixes, SMALL.left[1]), ())

    def lines(chosen: int | None, height: int = 0) -> list[str]:
        made = lay_out(document, 60, range(3), height, chosen)
        return ["".join(text for piece in line for text, _ in piece.line).strip() for line in made]

    assert lines(None)[3:5] == lines(0)[3:5] == ["", "Try  Compile."]
    assert lines(1)[3:5] == ["", "Try  Prefetch."]
    assert lines(2)[4] == "Try  Compile.", "of the first, where the line has none of its own"
    assert lines(1, 4)[3] == "Try  Prefetch.", "no empty line where it would push that out of view"
    assert lines(1)[5:7] == ["", "File"]


FULL, HALF = "█" * 20, "█" * 10


def test_one_column():
    """Bars stand below each other."""
    assert placed(SMALL, 63) == [
        " It is so. Because of that.", " Try: Do this. Or do that.", " Ops  5 µs",
        f" aten::mm   5 µs       {FULL}  1 × [2]", " Kernels", f" gemm       5 µs       {FULL} [3]",
        f" add       12 µs       {HALF} [4]", " Time  1 ms",
        f" work       9 µs  90%  {FULL[2:]}    at work [0]", " File",
        " odd  one two three four five six seven eight nine ten [1]", " Step       A      B",
        " length  1 ms  12 ms [5]"
    ]  # fmt: skip


def test_what_costs_most_stands_side_by_side():
    assert placed(SMALL, 64)[2:8] == [
        " Ops  5 µs                        Kernels", " aten::mm  5 µs                   gemm   5 µs [2, 3]",
        "                                  add   12 µs [4]", " Time  1 ms",
        f" work  9 µs  90%  {FULL[2:]}    at work [0]", " File"
    ]  # fmt: skip
    assert placed(SMALL, 64, without=2)[2:4] == [" Kernels", f" gemm   5 µs       {FULL} [3]"]
    assert placed(SMALL, 103)[2] == " Ops  5 µs".ljust(53) + "Kernels"  # 50 cells, and two apart


def test_two_columns():
    """From 104 cells on, the left one a little wider: 53, two apart, 49."""
    lines = [
        " Time  1 ms                                             Ops  5 µs",
        f" work  9 µs  90%  {FULL[2:]}    at work         aten::mm   5 µs  {FULL}  1 × [0, 2]",
        " File                                                   Kernels",
        f" odd  one two three four five six seven eight nine      gemm       5 µs  {FULL} [1, 3]",
        f"      ten                                               add       12 µs  {HALF} [1, 4]",
        "                                                        Step       A      B",
        "                                                        length  1 ms  12 ms [5]",
    ]
    assert placed(SMALL, 104)[2:] == lines
    assert placed(replace(SMALL, left=()), 104)[2:5] == [
        " Ops  5 µs", f" aten::mm   5 µs  {FULL}  1 × [0]", " Kernels"
    ]  # fmt: skip


def test_three_columns():
    """From 160 cells on: the first block of the right side, then the second, then into the shorter one; with
    empty lines between them where all of it can be seen."""
    lines = [
        " Time  1 ms                                            Ops  5 µs"
        "                                             Kernels",
        f" work  9 µs  90%  {FULL[2:]}    at work        aten::mm  5 µs  {FULL}  1 ×"
        f"             gemm   5 µs  {FULL} [0, 2, 3]",
    ]
    below = [
        f"                                                       Step       A      B"
        f"                                   add   12 µs  {HALF} [4]",
        " odd  one two three four five six seven eight nine     length  1 ms  12 ms [1, 5]",
        "      ten [1]",
    ]
    below[0] = " File" + below[0][5:]
    assert placed(SMALL, 160, 8)[2:] == [*lines, *below]
    aired = placed(SMALL, 160, 9)
    assert aired[2:5] == ["", *lines]
    assert aired[5].strip() == f"add   12 µs  {HALF} [4]"
    assert aired[6:] == [
        " File                                                  Step       A      B", *below[1:]
    ]  # fmt: skip
    assert [line.count("Kernels") for line in placed(SMALL, 159)[2:5]] == [0, 0, 1]


@pytest.mark.parametrize("busy", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("of", [1.0, 0.5, 0.04])
def test_a_bar_lies_on_the_whole_that_it_is_a_part_of(busy, of):
    one = replace(entry("step 1", "9 µs", part=busy * of), style="accent", of=of)
    grid = _grid([one], 60)
    (lit, role), (rest, nothing) = _lines(one, grid, 60)[0][-2:]
    assert (role, nothing, len(lit + rest)) == ("accent|track", "", grid.bar)
    assert abs(sum("▏▎▍▌▋▊▉█".index(sign) + 1 for sign in lit.strip()) - 8 * grid.bar * busy * of) <= 1
    assert max(0, len(lit) - 1) <= grid.bar * of <= len(lit) + 0.5
    assert not rest.strip()


def test_where_few_lines_are_seen_the_parts_and_the_advice_come_before_the_reason():
    long = replace(SMALL, reason="It is so; because of that.", advice="Do this; or do that, if it is so.")
    said = [" It is so; because of that.", " Try: Do this; or do that,", " if it is so.", " Ops  5 µs"]
    assert placed(long, 27, FEW_LINES)[:4] == placed(long, 27)[:4] == said
    assert placed(long, 27, FEW_LINES - 1)[:5] == [" █ work 90%", *said]
    assert placed(long, 27, 6)[:4] == [" █ work 90%", *said[1:]]
    assert placed(long, 27, 4)[:3] == [" █ work 90%", " Try: Do this…", " Ops  5 µs"]
    assert placed(long, 27, 2)[:2] == [" █ work 90%", " Try: Do this…"]
    no_time = replace(long, left=long.left[1:])
    assert placed(no_time, 27, 4)[:3] == [said[0], " Try: Do this…", " Ops  5 µs"]
    assert placed(no_time, 21, 6)[:4] == [
        " It is so…", " Try: Do this; or do", " that, if it is so.", " Ops  5 µs"
    ]  # fmt: skip
    assert placed(replace(long, advice=""), 21, 5)[:3] == [" It is so; because of", " that.", " Ops  5 µs"]
    assert placed(replace(long, reason="", advice=""), 20)[0] == " Ops  5 µs"


def test_the_parts_of_the_time_as_far_as_they_fit():
    parts = [entry(name, "9 µs", share, part=0.4) for name, share in (("compute", "40%"), ("host", "60%"))]
    overview = replace(SMALL, left=(Block("time", "Time", "", (*parts, entry("lead-in", "1 µs", "-"))),))
    assert placed(overview, 26, 6)[0] == " █ compute 40%  █ host 60%"
    assert placed(overview, 25, 6)[0] == " █ compute 40%"
    assert placed(overview, 13, 6)[0] == " It is so."


def test_names_give_way_before_numbers_and_texts_before_names():
    long = entry("a_long_name_of_an_op", "5 µs", "100%", part=1.0, text="12 calls of it in all")
    block = Document("", "", (Block("time", "Ops", "a note, which is cut where it must be", (long,)),), ())
    whole = " a_long_name_of_an_op  5 µs  100%"
    assert placed(block, 70)[1] == f"{whole}  {FULL[:12]}  12 calls of it in all [0]"
    assert placed(block, 64)[1] == f"{whole}  ██████  12 calls of it in all [0]"
    assert placed(block, 59)[1] == f"{whole}  ██████  12 calls of it … [0]"
    assert placed(block, 58)[1] == f"{whole}  {FULL} [0]"  # 15 cells of text say nothing
    assert placed(block, 50)[1] == f"{whole}  {FULL[:15]} [0]"
    assert placed(block, 41)[1] == f"{whole}  ██████ [0]"
    assert placed(block, 40)[1] == " a_long_na…_of_an_op  5 µs  100%  ██████ [0]"
    assert placed(block, 43)[0] == " Ops  a note, which is cut where it must be"
    assert placed(block, 42)[0] == " Ops  a note…"


@pytest.mark.parametrize("steps", [1, 2])
def test_marks_of_waiting_are_no_work_of_an_op(tmp_path, steps):
    """`aten::item` waits 300 us for a kernel of 40; PyTorch's table counts the mark of it as GPU time."""
    events = []
    for n in range(steps):
        at, number = 1000.0 * n, 3 * n + 1
        mark = kernel(at + 120, 300, number + 1, cat="cuda_sync", name="Stream Sync")
        mark["args"]["External id"] = 100 + n
        wait = launch(at + 110, number + 1, 320, "cudaStreamSynchronize")
        wait["args"]["External id"] = 100 + n
        gemm, call = kernel(at + 50, 40, number, name="gemm"), launch(at + 20, number)
        for event in (gemm, call):
            event["args"]["External id"] = 200 + n
        events += [step(n, at, 900), cpu("aten::mm", at + 10, 30, **{"External id": 200 + n}), call, gemm]
        events += [cpu("aten::item", at + 100, 350, **{"External id": 100 + n}), wait, mark]
    results = Part(trace_of(tmp_path, *events))
    costs = _costs(results)
    table = averages_of(results)
    spent = dict(zip(table.names, costs.self_device.tolist(), strict=True))
    assert table.self_device[table.names.index("aten::item")] == 300_000 * steps
    assert (spent["aten::item"], spent["Stream Sync"]) == (0, 0)
    assert spent["aten::mm"] == spent["gemm"] == 40_000


@pytest.mark.parametrize("width", range(14, 40))
def test_no_words_of_a_text_are_dropped_where_it_is_narrow(width):
    text = "The moments between kernels take 17% of the steps"
    entries = [Entry("medium", (), None, "", text, Target()), Entry("low", (), None, "", "Short", Target())]
    lines = [plain_text([line]) for line in _lines(entries[0], _grid(entries, width), width)]
    assert "".join("".join(lines).split()) == "medium" + text.replace(" ", "")
    assert max(map(len, lines)) <= width + 1


def test_the_parts_have_their_texts_in_full_if_the_costs_keep_their_room():
    """Here they need 1 + 12 + 9 + 6 + 8 + 20 = 56 cells, and the costs 51 or more."""
    blocks = every(last(Part(load(SAMPLES / "llm_decode.json.gz"))))
    costs = blocks["ops"], blocks["kernels"]
    overview = Document("", "", (blocks["time"],), costs)
    for width in range(104, 119):
        lines = placed(overview, width)
        first = next(line for line in lines if "Ops  " in line)
        assert any("CPU in PyTorch ops " in line for line in lines) is (width >= 109), width
        assert width - first.index("Ops") + 1 >= (width - 2 - 5) // 2


def test_steps_of_no_length_have_no_part_of_the_longest(tmp_path):
    """Two marks at one time: then there is no longest."""
    *_, found = overviews(Part(trace_of(tmp_path, step(1, 5, 0), step(2, 5, 0), cpu("a", 5, 0))))
    (steps,) = (block for block in found.blocks if block.key == "steps")
    assert [(entry.name, entry.numbers[0], entry.part) for entry in steps.entries] == [
        ("step 1", "0 ns", 0.0), ("step 2", "0 ns", 0.0),
    ]  # fmt: skip


def test_kernels_of_the_overview_tell_what_they_reach_of_the_peak():
    results = Part(load(ROOT / "sample_traces" / "mlp_eager.json.gz"))
    *_, found = overviews(results)
    (kernels,) = (b for b in found.more if b.key == "kernels")
    reached = {row.name: row for row in efficiency_of(results).kernels}
    told = 0
    for entry in kernels.entries:
        event = entry.target.event
        row = None if event is None else reached.get(results.trace.name_of(event))
        known = [] if row is None else [row.compute_share, row.memory_share]
        told += entry.text.endswith(" peak")
        assert entry.text.endswith(" peak") == any(part is not None and part <= 1 for part in known)
    assert told
