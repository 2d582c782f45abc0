"""Capturing from within the app: the form, the progress, cancelling, failing, and opening what came out."""

import importlib.util
import json
import shlex
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from textual.events import Paste

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.events import Cancelled, CaptureResult, Failed, Note, Output, Phase, Progress
from tracetui.capture.options import OPTIONS, CaptureOptions
from tracetui.core.copying import replace
from tracetui.session.recent import ago, recent_traces, remember
from tracetui.tui.app import TracetuiApp
from tracetui.tui.capture.capture_screen import CaptureScreen
from tracetui.tui.capture.form import (
    LONGEST_STACKED,
    asked,
    draft,
    earlier_options,
    form_fields,
    problem,
    rubbed,
    stepped,
    text_of,
    typed,
    value_of,
    with_value,
)
from tracetui.tui.capture.form_screen import FormScreen
from tracetui.tui.capture.progress import capture_lines, phase_lines
from tracetui.tui.screens.start import StartScreen
from tracetui.tui.screens.trace import TraceScreen

from .conftest import DATA, screen_of, slice_event, until, visit, write_trace
from .test_app import text

MLP = CaptureOptions("mlp")


def field(options: CaptureOptions, key: str):  # type: ignore[no-untyped-def]
    return next(f for f in form_fields(options) if f.name == key)


def test_every_workload_has_its_own_options_in_the_form():
    for name, workload in WORKLOADS.items():
        assert [f for f in form_fields(CaptureOptions(name)) if f in workload.params] == [*workload.params]


def test_sizes_double_and_halve_and_other_numbers_count():
    batch = field(MLP, "batch")
    start = value_of(MLP, batch)
    assert value_of(stepped(MLP, batch, 1), batch) == 2 * start
    assert value_of(stepped(MLP, batch, -1), batch) == start // 2
    assert stepped(MLP, field(MLP, "active"), 1).active == 4
    optional = field(CaptureOptions("matmul_add"), "batch")
    one = stepped(CaptureOptions("matmul_add"), optional, 1)
    assert value_of(one, optional) == 1
    assert value_of(stepped(one, optional, -1), optional) is None


def test_choices_go_around_and_flags_turn():
    dtype = field(MLP, "dtype")
    assert [stepped(MLP, dtype, s).dtype for s in (1, -1)] == ["bf16", "fp32"]
    assert stepped(MLP, field(MLP, "compile"), 1).compile
    with_mode = stepped(MLP, field(MLP, "mode"), 1)
    assert (with_mode.mode, with_mode.compile) == ("reduce-overhead", True)
    assert with_value(with_mode, field(MLP, "compile"), False).mode == "default"
    assert problem(with_mode) == ""


def test_what_cuspy_alone_has_chooses_it_and_goes_with_it():
    options = stepped(MLP, field(MLP, "counters"), 1)
    options = stepped(options, field(options, "pftrace"), 1)
    assert (options.profiler, options.counters, options.pftrace) == ("cuspy", "sm,dram,power", True)
    assert not problem(options)
    options = stepped(options, field(options, "profiler"), 1)
    assert options == MLP
    options = typed(options, field(options, "counters"), "l2", True)
    assert "--counters takes sm, dram, power; got 'l2'" in problem(options)


def test_digits_replace_then_append_and_backspace_rubs_out():
    batch = field(MLP, "batch")
    options = typed(MLP, batch, "1", True)
    options = typed(options, batch, "2", False)
    assert value_of(options, batch) == 12
    options = rubbed(rubbed(options, batch), batch)
    assert "above 0" in problem(options)
    assert typed(MLP, batch, "x", True) == MLP


def test_another_target_keeps_the_options_that_it_has():
    options = with_value(MLP, field(MLP, "seq"), 77)
    target = field(options, "target")
    there = with_value(options, target, "attention")
    assert value_of(there, field(there, "seq")) == 77
    assert "hidden" not in there.params
    assert with_value(there, target, "matmul_add").params == {}
    assert problem(with_value(options, target, "no_such")) != ""
    assert text_of(with_value(options, target, "my.module:run"), target) == "my.module:run"


@pytest.mark.parametrize(("target", "first"), [
    ("linear", "workload, batch, in_dim, out_dim, dtype, compile, mode, warm-up, device"),
    ("module:function", "workload, compile, mode, warm-up, device"),
    ("train.py", "workload, arguments, warm-up, device")
])  # fmt: skip
def test_every_option_that_has_a_label_is_in_the_form(target, first):
    """How the program runs comes first; what is recorded follows in the order of the help."""
    options = CaptureOptions(target)
    fields = form_fields(options)
    labels = [f.label or f.name for f in fields]
    then = [
        o.label for o in OPTIONS if o.label and options.kind in o.targets and o.label not in first.split(", ")
    ]
    assert labels == [*first.split(", "), *then]
    assert {"wait", "active", "output"} <= set(then)
    assert not {"force", "averages_json"} & {f.name for f in fields}


def test_options_come_back_from_an_earlier_capture(tmp_path):
    def earlier(meta: object) -> CaptureOptions | None:
        (tmp_path / "a.meta.json").write_text(json.dumps(meta))
        return earlier_options(str(tmp_path / "a.json.gz"))

    options = CaptureOptions("mlp", {"batch": 8}, compile=True)
    assert earlier({"options": asdict(options), "torch": "2.13.0"}) == options
    every = asdict(options) | {"params": options.values(), "new": 1}
    assert earlier({"options": every}) == options
    assert earlier_options(str(tmp_path / "b.json")) is None
    for wrong in ({}, [], {"options": None}, {"options": {}}, {"options": every | {"wait": "long"}}):
        assert earlier(wrong) is None
    assert earlier({"options": {"target": "mlp", "params": {"batch": "many"}}}) is None
    (tmp_path / "a.meta.json").write_text("{" * 100_000)
    assert earlier_options(str(tmp_path / "a.json")) is None


def test_a_capture_comes_back_with_stacks(tmp_path):
    def earlier(options: CaptureOptions, **more: object) -> CaptureOptions | None:
        (tmp_path / "a.meta.json").write_text(json.dumps({"options": asdict(options), **more}))
        return earlier_options(str(tmp_path / "a.json"), stacks=True)

    mlp, function = CaptureOptions("mlp"), CaptureOptions("module:function")
    assert earlier(mlp, counted=[]) == replace(mlp, with_stack=True)
    assert earlier(function) == replace(function, with_stack=True)
    script = CaptureOptions(str(tmp_path / "train.py"), step_on="no_such")
    (tmp_path / "train.py").touch()
    assert earlier(script, counted=["Adam.step"]) == replace(script, with_stack=True)
    # A whole run has no frames unless it is recorded for a time.
    timed = earlier(script, counted=[])
    assert timed == replace(script, with_stack=True, duration=LONGEST_STACKED, step_on=None)
    assert problem(timed) == ""


def test_a_script_comes_back_with_its_arguments_from_wherever_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = CaptureOptions("train.py", script_args=("--name", "a b", "\udcff"))
    meta = {"options": asdict(options), "cwd": str(tmp_path / "project")}
    (tmp_path / "a.meta.json").write_text(json.dumps(meta))
    gone = earlier_options("a.json")
    assert gone == options
    assert "no such script: train.py" in problem(gone)
    there = tmp_path / "project" / "train.py"
    there.parent.mkdir()
    there.touch()
    assert earlier_options("a.json") == replace(options, target=str(there))
    (tmp_path / "train.py").touch()
    assert earlier_options("a.json") == options


def test_arguments_are_a_line_of_a_shell():
    options = CaptureOptions(__file__, script_args=("--name", "it's a b", ""))
    form: CaptureOptions = draft(options)
    line = field(form, "line")
    assert shlex.split(text_of(form, line)) == list(options.script_args)
    assert asked(form) == options
    for character in " 'x":
        form = typed(form, line, character, False)
    assert problem(form) == "arguments: a quote is not closed"
    assert asked(typed(form, line, "'", False)).script_args == (*options.script_args, "x")
    assert problem(typed(draft(options), line, "\\", True)) == "arguments: nothing follows the backslash"
    elsewhere = with_value(form, field(form, "target"), "mlp")
    assert problem(elsewhere) == "", "a workload has no arguments"
    assert asked(elsewhere) == CaptureOptions("mlp")
    assert text_of(with_value(elsewhere, field(form, "target"), __file__), line) == text_of(form, line)


def test_phases_show_their_seconds_and_the_steps_of_the_one_that_runs():
    events = [
        Progress(0.0, Phase.STARTING), Progress(2.0, Phase.IMPORTED, "2.13.0"),
        Progress(2.5, Phase.PROFILING, "active", 2, 5), Output(2.6, "\x1b[31mloud\x1b[0m"),
        Note(2.7, "no_gpu", "no GPU: captures on the CPU")
    ]  # fmt: skip
    lines = phase_lines(events, 3.5, False, 80)
    assert [line.role for line in lines] == ["done", "done", "now"]
    assert lines[0].text.split() == ["2.0", "s", "starting"]
    assert "1.0 s  profiling" in lines[2].text
    assert "2 of 5" in lines[2].text
    shown = capture_lines(events, "tracetui capture mlp", 3.5, False, 80, 20)
    assert any(line.role == "note" for line in shown)
    assert any(line.role == "output" and line.text == "␛[31mloud␛[0m" for line in shown)
    failed = capture_lines(
        [*events, Failed(4.0, "killed", "it was killed", ("last words",))], "x", 4.0, True, 80, 20
    )
    assert [line.text for line in failed if line.role == "error"] == ["it was killed"]
    assert failed[-1].text == "last words"


def test_recent_traces_are_kept_newest_first_and_only_while_they_are_there(tmp_path):
    state, traces = tmp_path / "state", [tmp_path / f"{n}.json" for n in "abc"]
    for path in traces:
        path.touch()
        remember(path, state)
    remember(traces[0], state)
    remember("-", state)
    traces[1].unlink()
    assert [r.path.name for r in recent_traces(state)] == ["a.json", "c.json"]
    (state / "recent.json").write_text("nonsense")
    assert recent_traces(state) == []
    assert [ago(s) for s in (5, 125, 7300, 200_000)] == ["just now", "2 min ago", "2 h ago", "2 d ago"]


@pytest.mark.parametrize("spoilt", [
    "5", "[" * 100_000, '{"traces": 5}',
    '{"traces": [5, {}, {"path": 5, "opened": 1}, {"path": "/", "opened": "1"}]}',
    '{"traces": [{"path": "/%s", "opened": 1}, {"path": "a\\u0000b", "opened": 1}]}' % ("a" * 300),
    '{"traces": [{"path": "FILE", "opened": -Infinity}, {"path": "FILE", "opened": NaN}]}',
    '{"traces": [{"path": "FILE", "opened": 1%s}]}' % ("0" * 400)
])  # fmt: skip
async def test_a_spoilt_list_of_recent_traces_costs_only_what_is_spoilt(spoilt, state):
    mlp = DATA / "mlp_eager.json.gz"
    (state / "recent.json").write_text(spoilt.replace("FILE", str(mlp)))
    assert recent_traces() == []
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        assert isinstance(app.screen, StartScreen)
        await until(pilot, lambda: "a workload or your code" in text(app))
    remember(mlp)
    assert [r.path for r in recent_traces()] == [mlp]


async def test_the_start_screen_offers_recent_traces_samples_and_captures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    remember(DATA / "mlp_eager.json.gz")
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        assert isinstance(app.screen, StartScreen)
        assert "mlp_eager.json.gz" in text(app)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert app.screen.trace.info.path.endswith("mlp_eager.json.gz")  # type: ignore[attr-defined]


async def test_a_bad_recent_trace_leads_back(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    remember(bad)
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "Esc  back" in text(app))
        assert "bad.json" in "".join(text(app).split())  # a long path goes on in the next line
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))


async def test_the_form_by_keys():
    async with visit(DATA / "mlp_eager.json.gz", size=(100, 34)) as (app, pilot, _):
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        form = app.screen.form  # type: ignore[attr-defined]
        while form.options.target != "mlp":
            await pilot.press("right")
        await pilot.press("down", "8")
        assert form.options.params == {"batch": 8}
        assert "tracetui capture mlp --batch 8" in text(app)
        await pilot.press("backspace", "enter")
        assert "above 0" in text(app)
        assert isinstance(app.screen, FormScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_arguments_by_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    app = TracetuiApp()
    results: list[CaptureOptions | None] = []
    async with app.run_test(size=(80, 24)) as pilot:
        screen = FormScreen(CaptureOptions("train.py", script_args=("--lr", "0.1")))
        await app.push_screen(screen, results.append)
        await pilot.press("down")
        assert "--lr 0.1" in text(app)
        await pilot.press("space", *"-q?", "space", "quotation_mark", "a", "space", "space", "b")
        assert "arguments: a quote is not closed" in text(app)
        await pilot.press("enter")
        assert app.screen is screen
        await pilot.press("quotation_mark")
        assert "-- --lr 0.1 '-q?' 'a  b'" in text(app)
        screen.form.post_message(Paste(" --data x \\\r\n\t--amp\n"))
        await pilot.pause()
        shown = '--lr 0.1 -q? "a  b" --data x   --amp'
        assert f"arguments      {shown}▏" in text(app), "all of it"
        screen.form.post_message(Paste(" word" * 20 + " end"))
        await pilot.pause()
        assert "word end▏" in text(app), "of a longer one its end"
        await pilot.press(*["backspace"] * 104)
        assert f"{shown}▏" in text(app)
        await pilot.press(*["backspace"] * 4, "enter")
    assert results[0] is not None
    assert results[0].script_args == ("--lr", "0.1", "-q?", "a  b", "--data", "x", "-")


def fake_python(folder: Path, body: str) -> str:
    script = folder / "python"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


async def test_escape_cancels_a_capture_and_nothing_is_left(tmp_path):
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        options = CaptureOptions(
            "mlp", python=fake_python(tmp_path, "sleep 60"), output=str(tmp_path / "out")
        )
        screen = CaptureScreen(options)
        results: list[object] = []
        await app.push_screen(screen, results.append)
        await until(pilot, lambda: screen.capture.pid is not None)
        await until(pilot, lambda: "starting" in text(app))
        begun = time.monotonic()
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        assert time.monotonic() - begun < 30, "it does not wait for the process to end by itself"
        assert isinstance(screen.capture.end, Cancelled)
        assert results == [None]
        assert not list((tmp_path / "out").rglob("*.json"))


async def test_a_capture_that_fails_says_why_and_leads_back(tmp_path):
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        python = fake_python(tmp_path, "echo '[bold]cannot work[/]' >&2; exit 3")
        options = CaptureOptions("mlp", python=python, output=str(tmp_path / "out"))
        await app.push_screen(CaptureScreen(options))
        await until(pilot, lambda: "[bold]cannot work[/]" in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))


@pytest.mark.torch
@pytest.mark.usefixtures("warm_start")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
async def test_s_stops_a_program_and_keeps_what_is_recorded(tmp_path):
    script = tmp_path / "serve.py"
    script.write_text(
        "import torch, time\nwhile True: torch.ones(2).cos(); time.sleep(0.01); print('served')\n"
    )
    app = TracetuiApp()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = CaptureScreen(CaptureOptions(str(script), device="cpu", output=str(tmp_path / "out")))
        results: list[object] = []
        await app.push_screen(screen, results.append)
        await until(pilot, lambda: "served" in text(app), seconds=60)
        await pilot.press("s")
        await until(pilot, lambda: results, seconds=60)
    (result,) = results
    assert isinstance(result, CaptureResult)
    assert result.trace == tmp_path / "out" / "serve" / "serve.json"


@pytest.mark.torch
@pytest.mark.usefixtures("warm_start")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
async def test_a_capture_on_the_cpu_opens_and_t_goes_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with visit(
        write_trace(tmp_path / "first.json", [slice_event("aten::mm", 0, 10)]), size=(100, 34)
    ) as (app, pilot, _):
        first = screen_of(app)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        form = app.screen.form  # type: ignore[attr-defined]
        form.set_options(CaptureOptions("matmul_add", {"size": 16}, device="cpu"), True)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen) and app.screen is not first, 120)
        captured = screen_of(app)
        assert (tmp_path / "traces" / "matmul_add").is_dir()
        assert any("aten::matmul" in name for name in captured.trace.names)
        await until(pilot, lambda: "CPU only" in text(app))
        await pilot.press("t")
        await until(pilot, lambda: app.screen is first)
        assert "trace 1 of 2" in first.footer.message
        await pilot.press("t")
        await until(pilot, lambda: app.screen is captured)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        assert app.screen.form.options.params == {"size": 16}  # type: ignore[attr-defined]
