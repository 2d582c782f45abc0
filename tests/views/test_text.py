"""Lines, bars, columns and Markdown: what reports are made of."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from tests.kineto import cpu, kernel, launch, trace_of
from tests.recorded import load

from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.cli.main import main
from tracetui.core.cells import fit, wrap
from tracetui.views import markdown, terminal
from tracetui.views.averages import format_share, format_time
from tracetui.views.document_text import report_lines
from tracetui.views.efficiency_text import efficiency_blocks
from tracetui.views.findings_text import findings_lines, findings_markdown
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.jsonable import dumps, share
from tracetui.views.lines import bar, columns, plain_text
from tracetui.views.steps import steps_answer
from tracetui.views.summary import summary_answer

SAMPLES = sorted((Path(__file__).parent.parent.parent / "sample_traces").glob("*.json.gz"))


@given(st.text(max_size=30), st.integers(0, 20))
def test_fit_is_never_wider(text, width):
    assert cell_len(fit(text, width)) <= width
    if cell_len(text) <= width:
        assert fit(text, width) == text


def test_fit_keeps_both_ends():
    assert fit("nvjet_sm90_tst_256x128_coopA_TNT", 16) == "nvjet_sm90…A_TNT"
    assert fit("计算计算计算计算", 9) == "计…算计算"


@pytest.mark.parametrize(("share", "text"), [
    (0, "    "), (1, "████"), (0.5, "██  "), (0.28125, "█▏  "), (1e-9, "▏   "), (7, "████"), (-1, "    ")
])  # fmt: skip
def test_bar(share, text):
    assert bar(share, 4) == text


@given(st.lists(st.sampled_from(["the", "step", "12.3 µs", "1.06 TB/s", "3 calls", "reduce-overhead"])))
def test_wrapped_text_keeps_numbers_with_their_units(words):
    text = " ".join(words)
    lines = wrap(text, 20)
    assert " ".join(lines) == text
    assert all(len(line) <= 20 for line in lines)
    for line in lines:
        assert not re.search(r"12\.3$|1\.06$|reduce-$", line)
        assert not re.match(r"µs|TB/s|overhead", line)


def test_a_trace_of_nothing_that_pytorch_records_says_so(tmp_path):
    strange = trace_of(tmp_path, cpu("paint", 0, 10, "blink"), cpu("layout", 20, 10, "devtools"))
    told = "No events of PyTorch's profiler"
    summary = summary_answer(Part(strange))
    assert told in plain_text(findings_lines(Part(strange), 120))
    assert told in " ".join(summary.text(120).split())
    assert told in findings_markdown(Part(strange))
    assert told in summary.markdown()
    compiled = Part(trace_of(tmp_path, cpu("bytecode_tracing", 0, 10, "dynamo_timed")))
    assert "phases of torch.compile" in plain_text(findings_lines(compiled, 120))
    known = Part(trace_of(tmp_path, cpu("aten::mm", 0, 10)))
    assert plain_text(findings_lines(known, 120)) == "No findings in this trace.\n"
    device = [{"ph": "M", "name": "process_labels", "pid": 3, "args": {"labels": "MTIA 3"}}]
    device.append(cpu("run", 20, 10, "mtia_ccp_events") | {"pid": 3})
    not_judged = Part(trace_of(tmp_path, cpu("aten::mm", 0, 10), *device))
    assert "not judged" in plain_text(findings_lines(not_judged, 120))
    assert "Nothing could be analysed" not in summary_answer(known).text(120)


def test_columns_line_up():
    lines = columns([["a", "1"], [("计算", "accent"), "234"]], "<>")
    assert plain_text(lines) == "  a       1\n  计算  234\n"
    assert lines[1][1] == ("计算", "accent")


def test_markdown_cells_hold():
    rows = [[markdown.cell("a|b<c>[d](e)"), markdown.code("x|`y`")]]
    assert markdown.table(["one", "two"], rows, "<>") == (
        "| one | two |\n| --- | ---: |\n| a\\|b\\<c\\>\\[d\\](e) | `` x\\|`y` `` |\n"
    )
    assert markdown.cell("aten::_foreach_mul_ a_b") == "aten::\\_foreach_mul\\_ a_b"
    assert markdown.code("") == ""


def test_json_is_strict():
    text = dumps({"nan": float("nan"), "inf": float("inf"), "n": 1.5})
    assert json.loads(text) == {"nan": None, "inf": None, "n": 1.5}
    assert text.endswith("}\n")


@pytest.mark.parametrize(("us", "text"), [
    (0, "0.000us"), (999.9996, "1000.000us"), (1000, "1.000ms"), (1_234_567, "1.235s"), (0.0005, "0.001us")
])  # fmt: skip
def test_times_as_pytorch_writes_them(us, text):
    assert format_time(us) == text


def test_shares_as_pytorch_writes_them():
    assert format_share(1, 3) == "33.33%"
    assert format_share(0, 0) == "NaN"


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.name.split(".")[0])
def test_no_line_is_wider_than_the_terminal(path, width):
    results = Part(load(path))
    lines = [
        *summary_answer(results).lines(width), *gaps_answer(results).lines(width),
        *steps_answer(results).lines(width), *findings_lines(results, width),
        *report_lines(efficiency_blocks(efficiency_of(results)), width)
    ]  # fmt: skip
    for line in plain_text(lines).splitlines():
        assert cell_len(line) <= width, line


def test_a_recording_of_a_thread_that_did_nothing(tmp_path):
    """What other threads did meanwhile is not recorded, unless all are."""
    span = cpu("PyTorch Profiler (0)", 0, 900, "Trace") | {"pid": "Spans", "tid": "PyTorch Profiler"}
    assert "profile_all_threads=True" in plain_text(findings_lines(Part(trace_of(tmp_path, span)), 200))


def test_shares_that_are_none():
    assert share(0.25) == 0.25
    assert share(None) is share(float("nan")) is share(float("inf")) is None


@pytest.mark.parametrize("width", [80, 90, 130, 200])
@pytest.mark.parametrize("report", ["gaps", "steps", "summary", "findings", "efficiency"])
def test_screens_of_any_width(samples, monkeypatch, report, width):
    monkeypatch.setattr(terminal, "terminal_width", lambda: width)
    path = str(samples / "attention_naive.json.gz")
    lines = CliRunner().invoke(main, [report, path]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    if width == 200:  # sentences are not read in lines of any length
        prose = [line for line in lines if line.endswith((".", ",")) and "  " not in line.strip()]
        assert all(len(line) <= 104 for line in prose)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_sentences_about_gaps_are_wrapped_not_cut(tmp_path, width):
    """Six causes: in no width does an ellipsis stand in one."""
    busy = cpu("Activity Buffer Request", 5, 300, cat="overhead", tid=0, pid=-1)
    events = [cpu("aten::mm", 0, 400), launch(310, 1), kernel(320, 5, 1), launch(420, 2), kernel(600, 5, 2)]
    trace = trace_of(tmp_path, busy, *events, deviceProperties=[{"id": 0, "name": "NVIDIA H200"}])
    text = gaps_answer(Part(trace)).text(width).partition("\nLongest")[0]
    assert "…" not in text
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "profiler itself was at work" in " ".join(text.split())


def test_evidence_keeps_its_times(tmp_path):
    """A long name gives way, from the same place in each line."""
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [cpu(name, 123_456.0 * i, 100_000, cat="user_annotation") for i in range(3)]
    work = [
        e for i in range(3) for e in (launch(123_456.0 * i + 110_000, i), kernel(123_456 * i + 111_000, 9, i))
    ]
    lines = plain_text(findings_lines(Part(trace_of(tmp_path, *events, *work)), 80)).splitlines()
    told = [line for line in lines if line.startswith("  > enumerate")]
    assert told
    assert all(line.endswith("µs, 100 ms") and " at " in line for line in told)
    assert all(cell_len(line) <= 80 for line in told)
