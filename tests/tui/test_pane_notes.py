"""What panes say of a trace in words: what the CPU was in during a gap, and what the verdict is."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.kineto import cpu, kernel, launch, run, trace_of

from tracetui.analysis.part import Part
from tracetui.core.cells import wrap
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.tui.panes.view import ViewPane
from tracetui.views.gaps import gaps_table

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_the_gaps_table_says_when_many_small_ops_fill_a_gap(tmp_path: Path) -> None:
    ops = [cpu("aten::add" if n % 3 else "aten::mul", 105 + 20 * n, 15) for n in range(9)]
    one = [cpu("aten::mm", 320, 90), launch(400, 3), kernel(410, 10, 3)]
    trace = trace_of(
        tmp_path, launch(0, 1), kernel(10, 90, 1), *ops, launch(290, 2), kernel(300, 10, 2), *one
    )
    table = gaps_table(Part(trace))
    (column,) = [c for c in table.columns if c.key == "activity"]
    assert [column.text(row) for row in range(table.rows)] == ["9 ops, most in aten::add", "aten::mm"]
    assert column.values is not None
    assert list(column.values()) == ["9 ops, most in aten::add", "aten::mm"]


def test_the_verdict_in_the_app_says_how_much_is_communication(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *run(100, 300, 1), *run(400, 500, 2, NCCL, stream=13), *run(900, 200, 3))
    (show,) = ViewPane(Session([Recording(trace)]), "findings").compute()
    assert isinstance(show, partial)
    note = show.args[0].note
    assert note.endswith("; communication alone 50.0% of the busy time")
    quiet = trace_of(tmp_path, *run(100, 300, 1), *run(400, 20, 2, NCCL, stream=13), *run(420, 200, 3))
    (show,) = ViewPane(Session([Recording(quiet)]), "findings").compute()
    assert isinstance(show, partial)
    assert "communication" not in show.args[0].note
    (show,) = ViewPane(Session([Recording(trace)]), "steps").compute()
    assert isinstance(show, partial)
    assert "communication while nothing computes, 49.8%" in show.args[0].leads_to(0, 0).said


def test_wrapped_sentences_keep_numbers_with_their_units() -> None:
    text = "It waits (2.04 ms) at 1.06 TB/s, 873 µs of it in 3 calls."
    for width in range(10, 60):
        lines = wrap(text, width)
        assert " ".join(lines) == text
        assert not any(line.endswith(("2.04", "1.06", "873")) for line in lines)
    assert wrap("12345 ms", 4) == ["1234", "5 ms"]
