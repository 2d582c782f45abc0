"""The sheet of running jobs: the list, what is recorded, following it, and asking again with `c`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracetui.capture.live import launch, meeting_folders, processes, record
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, Rerun, Stage, Status
from tracetui.session.samples import samples
from tracetui.tui.app import TracetuiApp
from tracetui.tui.capture.attach_sheet import AttachSheet
from tracetui.tui.screens.open import OpenScreen
from tracetui.tui.screens.start import StartScreen
from tracetui.tui.screens.trace import TraceScreen

from .conftest import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Kineto can be asked on Linux only")
CLIENT = Path(__file__).resolve().parents[1] / "capture" / "kineto_client.py"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that asks as PyTorch does, and the only one that is seen."""
    monkeypatch.setattr(record, "LEAD_SECONDS", 0.2)
    monkeypatch.setattr(record, "LATE_SECONDS", 0.05)
    monkeypatch.chdir(tmp_path)
    folder = meeting_folders.private(Path(f"/tmp/tt-{os.getpid()}-{time.monotonic_ns() % 10**9}"))
    env = {**os.environ, **launch.environment(folder, {}), "KINETO_ONDEMAND_TRACE_DIR": str(folder)}
    command = [sys.executable, "-I", "-S", str(CLIENT), "60"]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        every = processes.processes
        monkeypatch.setattr("tracetui.tui.capture.attach_sheet.processes", lambda: [
            one for one in every() if one.pid == process.pid
        ])  # fmt: skip
        yield process
        process.kill()


async def test_a_job_is_chosen_recorded_opened_and_recorded_again(job):
    app = TracetuiApp()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("A")
        sheet = app.screen
        assert isinstance(sheet, AttachSheet)
        await until(pilot, lambda: len(sheet.found) == 1)
        assert sheet.found[0].first.pid == job.pid
        assert sheet.line.text == "record 500 ms; the files go to traces/"
        await pilot.press("left", "left", "k", "m", "k", "h")
        assert sheet.line.text == "record 100 ms, with shapes, memory; the files go to traces/"
        await pilot.press("n", "right")
        assert sheet.line.text.startswith("record 10 optimizer steps, with")
        await pilot.press("n", "enter")
        assert sheet.recorder is not None
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert isinstance(app.screen, TraceScreen)
        first = app.screen.trace
        assert "aten::mm" in first.names
        assert Path(first.info.path).parent.name == "traces"
        await pilot.press("c")
        assert isinstance(app.screen, AttachSheet)
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert isinstance(app.screen, TraceScreen)
        both = [recording.trace.info.path for recording in app.screen.navigator.recordings]
        assert both[0] == first.info.path
        assert len(both) == 2


async def test_nothing_to_ask_and_leaving(tmp_path, monkeypatch):
    monkeypatch.setattr("tracetui.tui.capture.attach_sheet.processes", list)
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "enter")
        sheet = app.screen
        assert isinstance(sheet, AttachSheet)
        start = "start a job with: tracetui run"
        await until(pilot, lambda: sheet.table.table is not None and start in sheet.table.table.empty)
        assert sheet.recorder is None
        await pilot.press("escape")
        assert isinstance(app.screen, StartScreen)


def telling(*events: LiveEvent | Exception) -> Rerun:
    def make() -> Iterator[LiveEvent]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield event

    return Rerun("python train.py", make)


async def test_a_failure_is_shown_and_can_be_tried_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracetui.tui.capture.attach_sheet.processes", list)
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        failing = telling(Status(Stage.ASKING, "it"), AttachError("process 4711 ended \x1b[2J before"))
        sheet = AttachSheet(failing)
        app.push_screen(sheet)
        await until(pilot, lambda: sheet.line.role == "bad")
        assert sheet.line.text == "process 4711 ended ␛[2J before"
        await pilot.press("enter")
        await until(pilot, lambda: sheet.line.role == "bad" and sheet.recorder is None)
        broken = AttachSheet(telling(ValueError("a fault of ours")))
        app.push_screen(broken)
        await until(pilot, lambda: broken.line.text == "internal error: ValueError: a fault of ours")


async def test_enter_after_a_failure_records_no_other_job(job):
    """It repeats what failed, as the sheet says, though the list shows another job."""
    made = list[int]()

    def make() -> Iterator[LiveEvent]:
        made.append(1)
        yield Status(Stage.ASKING, "it")
        raise AttachError("process 4711 has ended")

    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        sheet = AttachSheet(Rerun("python train.py", make))
        app.push_screen(sheet)
        await until(pilot, lambda: len(sheet.found) == 1 and sheet.line.role == "bad")
        assert sheet.found[0].first.pid == job.pid
        await pilot.press("enter")
        await until(pilot, lambda: len(made) == 2 and sheet.recorder is None)
        assert sheet.head.title == "python train.py"


async def test_several_traces_are_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracetui.tui.capture.attach_sheet.processes", list)
    ranks = tuple(list(samples().values())[:2])
    app = TracetuiApp()
    async with app.run_test(size=(120, 36)) as pilot:
        app.recorder.attach(telling(Recorded(ranks, ("a note",))), None)
        await until(pilot, lambda: isinstance(app.screen, OpenScreen))
        assert isinstance(app.screen, OpenScreen)
        assert [choice.path for choice in app.screen.traces.choices[:2]] == list(ranks)


async def test_leaving_while_it_records_stops_asking(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracetui.tui.capture.attach_sheet.processes", list)
    closed: list[bool] = []

    def make() -> Iterator[LiveEvent]:
        try:
            while True:
                time.sleep(0.01)
                yield Status(Stage.RECORDING, "0.5 s")
        finally:
            closed.append(True)

    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        sheet = AttachSheet(Rerun("it", make))
        app.push_screen(sheet)
        await until(pilot, lambda: "recording 0.5 s" in sheet.line.text)
        await pilot.press("n", "right", "escape")
        assert isinstance(app.screen, StartScreen)
        await until(pilot, lambda: closed == [True])
