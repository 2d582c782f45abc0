"""Recording processes that are running, with a stand-in for PyTorch that asks as Kineto does."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tracetui.capture.live import launch, listener, meeting_folders, processes, procfs, record
from tracetui.capture.live.listener import Listener, started
from tracetui.capture.live.model import (
    AttachError,
    LiveEvent,
    Recorded,
    RecordRequest,
    Stage,
    Status,
    seconds,
)
from tracetui.cli import attach
from tracetui.cli.main import main
from tracetui.trace import load
from tracetui.views.jobs import jobs_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Kineto can be asked on Linux only")
CLIENT = Path(__file__).with_name("kineto_client.py")
SHORT = RecordRequest(duration=0.05)
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The stand-in begins at once, with no second to wait for; but on a busy machine it may be late."""
    monkeypatch.setattr(listener, "PROMPT_SECONDS", 2.5)
    monkeypatch.setattr(listener, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(record, "TRIES", 3)
    monkeypatch.setattr(record, "LEAD_SECONDS", 0.1)
    monkeypatch.setattr(record, "COMMON_LEAD_SECONDS", 0.3)
    monkeypatch.setattr(record, "LATE_SECONDS", 0.05)
    monkeypatch.setattr(record, "DROPPED_SECONDS", 0.5)
    monkeypatch.setattr(record, "SOON_SECONDS", 0.1)
    monkeypatch.setattr(record, "PATIENCE_SECONDS", 30)
    monkeypatch.setattr(meeting_folders, "TEMPORARY", tmp_path_factory.mktemp("tmp"))


@pytest.fixture
def meeting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a short path, as sockets need one."""
    folder = meeting_folders.private(Path(f"/tmp/tracetui-test-{os.getpid()}-{time.monotonic_ns()}"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def job(meeting: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts stand-ins that meet in a folder of their own."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, **variables: str) -> subprocess.Popen[str]:
        env = {**os.environ, **launch.environment(meeting, {}), **variables}
        env["KINETO_ONDEMAND_TRACE_DIR"] = str(meeting_folders.recording_root())
        env["STOP"] = str(meeting / "stop")
        command = [sys.executable, "-I", "-S", str(CLIENT), *words]
        running.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout is not None
        running[-1].stdout.readline()
        wait_for(lambda: processes.find(running[-1].pid) is not None)
        return running[-1]

    yield start
    for one in running:
        with one:
            one.kill()


def wait_for(true: Callable[[], object], most: float = 300.0) -> None:
    end = time.monotonic() + most
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def found(process: subprocess.Popen[str], interval: int | None = None) -> processes.Process:
    """With an interval: so long it may be late with its first question, beside the common patience."""
    one = processes.find(process.pid)
    assert one is not None
    return one if interval is None else replace(one, interval=interval)


def follow(events: Iterator[LiveEvent]) -> tuple[Recorded, list[Stage]]:
    stages: list[Stage] = []
    for event in events:
        if isinstance(event, Recorded):
            return event, stages
        assert isinstance(event, Status)
        stages += [event.stage] if stages[-1:] != [event.stage] else []
    raise AssertionError("it ended without a recording")


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


# What is asked
@pytest.mark.parametrize(("text", "value"), [
    ("500ms", 0.5), ("2", 2.0), ("2s", 2.0), ("1.5 h", 5400.0), ("10m", 600.0), ("250us", 0.00025),
    (".5s", 0.5), ("5\u03bcs", 5e-6)
])  # fmt: skip
def test_times(text, value):
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "ms", "-1s", "1e9s", "5 years", "1s2", "٣s" * 9, "9" * 40])
def test_no_times(text):
    with pytest.raises(ValueError, match="is not a time"):
        seconds(text)


def test_the_configuration_for_a_time_and_for_steps():
    timed = record.configuration(RecordRequest(duration=0.25, with_stack=True), Path("/tmp/t.json"), 12.3456)
    lines = dict(line.split("=") for line in timed.splitlines())
    assert lines["ACTIVITIES_LOG_FILE"] == "/tmp/t.json"
    assert lines["ACTIVITIES_DURATION_MSECS"] == "250"
    assert lines["PROFILE_START_TIME"] == "12346"
    assert (lines["PROFILE_WITH_STACK"], lines["PROFILE_REPORT_INPUT_SHAPES"]) == ("true", "false")
    steps = dict(
        line.split("=") for line in record.configuration(
            RecordRequest(steps=7, record_shapes=True, profile_memory=True), Path("/t.json"), 0
        ).splitlines()
    )  # fmt: skip
    assert steps["ACTIVITIES_ITERATIONS"] == "7"
    assert "ACTIVITIES_DURATION_MSECS" not in steps
    assert "PROFILE_START_TIME" not in steps
    assert (steps["PROFILE_REPORT_INPUT_SHAPES"], steps["PROFILE_PROFILE_MEMORY"]) == ("true", "true")


def test_the_environment_keeps_what_is_set(meeting):
    own = meeting / "own.conf"
    own.write_text("ACTIVITIES_WARMUP_PERIOD_SECS=1")
    found = launch.environment(meeting, {"KINETO_CONFIG": str(own), "KINETO_LOG_LEVEL": "2"})
    assert found["KINETO_USE_DAEMON"] == "1"
    assert found["KINETO_IPC_SOCKET_DIR"] == str(meeting)
    assert found["KINETO_LOG_LEVEL"] == "2"
    assert Path(found["KINETO_CONFIG"]).read_text().splitlines() == [
        "ACTIVITIES_WARMUP_PERIOD_SECS=1", "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=1"
    ]  # fmt: skip


def test_a_folder_that_others_can_enter_is_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(AttachError, match="is open to other users"):
        meeting_folders.private(tmp_path / "open")
    (tmp_path / "link").symlink_to(tmp_path / "open")
    with pytest.raises(AttachError, match="is not a folder of this user"):
        meeting_folders.private(tmp_path / "link")
    with pytest.raises(AttachError, match="too long for a socket"):
        launch.environment(tmp_path / ("x" * 100), {})


# Answering
def knock(path: Path, kind: bytes, body: bytes, size: int | None = None) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    client.bind(str(path.with_name(f"client{time.monotonic_ns()}")))
    client.settimeout(0.3)  # in which nothing comes; what does come is there already
    client.sendto(struct.pack("=Q32s", len(body) if size is None else size, kind) + body, str(path))
    return client


def request(*pids: int, state: int = 3) -> bytes:
    return struct.pack(f"=iiq{len(pids)}i", state, len(pids), 0, *pids)


def test_a_question_and_its_answer(meeting):
    here = Listener(str(meeting))
    with knock(meeting / "dynolog", b"req", request(77, 5, state=1)) as client:
        asked = here.receive(1)
        assert (asked.pid, asked.own_pid, asked.recording) == (os.getpid(), 77, True)
        assert here.answer(asked, "A=1\n")
        assert client.recv(100) == struct.pack("=Q32s", 4, b"req") + b"A=1\n"
    with knock(meeting / "dynolog", b"ctxt", struct.pack("=iiq", 0, 1, 0)) as client:
        assert here.receive(1) is None
        assert client.recv(100)[40:] == struct.pack("=i", 1)
    here.close()
    assert not (meeting / "dynolog").exists()


def test_a_late_answer_is_not_given(meeting, monkeypatch):
    """The process would take it for the answer to its next question."""
    monkeypatch.setattr(listener, "PROMPT_SECONDS", 0.06)
    here = Listener(str(meeting))
    with knock(meeting / "dynolog", b"req", request(1)) as client:
        time.sleep(0.1)
        asked = here.receive(1)
        assert time.time() - asked.sent > 0.1
        assert not here.answer(asked, "A=1")
        with pytest.raises(TimeoutError):
            client.recv(100)
    here.close()


@pytest.mark.parametrize("ending", ["", "/", "//", "/./."])
def test_answers_come_from_the_folder_to_the_letter(ending, meeting):
    """Kineto ends the process otherwise: "Unexpected socket name"."""
    folder = f"{meeting}{ending}"
    here = Listener(folder)
    with knock(meeting / "dynolog", b"req", request(1)) as client:
        asked = here.receive(1)
        assert asked is not None
        here.answer(asked)
        _, sender = client.recvfrom(100)
    assert sender.startswith(f"{folder}/")
    here.close()


def test_nonsense_is_dropped(meeting):
    here = Listener(str(meeting))
    random.seed(5)
    bad = [b"", b"\0" * 40, request(1)[:15], struct.pack("=iiq", 3, 2**31 - 1, 0), request(*range(65))]
    bad += [random.randbytes(random.randrange(200)) for _ in range(200)]
    for body in bad:
        for size in (None, 2**63, 0):
            with knock(meeting / "dynolog", random.choice([b"req", b"ctxt", b"\xff" * 32]), body, size):
                asked = here.receive(0.05)
                assert asked is None or asked.pid == os.getpid()
    here.close()


def test_a_socket_elsewhere_gets_no_answer(meeting, tmp_path):
    outside = meeting / "outside"
    outside.mkdir(mode=0o700)
    here = Listener(str(meeting))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.bind(str(outside / "dynoconfigclient"))
        body = request(1)
        client.sendto(struct.pack("=Q32s", len(body), b"req") + body, str(meeting / "dynolog"))
        asked = here.receive(1)
        assert asked is not None
        assert not here.answer(asked, "ACTIVITIES_LOG_FILE=/x")
    here.close()


def test_the_answerer_comes_back_and_ends_with_the_job(meeting, monkeypatch):
    """It gives way to who records, answers again afterwards, and removes the folder at the end."""
    monkeypatch.setattr(listener, "ALONE_SECONDS", 0.2)
    folder = meeting / "job"
    folder.mkdir(mode=0o700)
    first = subprocess.Popen(["sleep", "60"])
    try:
        answerer = threading.Thread(target=listener.main, args=(str(folder), first.pid), daemon=True)
        answerer.start()
        wait_for((folder / "dynolog").exists)
        held: list[int | None] = []
        wait_for(lambda: held.append(listener.lock(str(folder))) or held[-1])
        descriptor = held[-1]
        assert descriptor is not None
        mine = Listener(str(folder))
        with knock(folder / "dynolog", b"req", request(1)):
            assert mine.receive(1) is not None
        time.sleep(0.3)
        assert mine.listens(), "it leaves us alone while we have the lock"
        mine.close()
        os.close(descriptor)
        wait_for((folder / "dynolog").exists)
        with knock(folder / "dynolog", b"req", request(1)) as client:
            client.settimeout(60)
            assert client.recv(100) == struct.pack("=Q32s", 0, b"req")
    finally:
        first.kill()
        first.wait()
    answerer.join(300)
    assert not answerer.is_alive()
    assert not folder.exists()


# Finding
def test_a_process_that_asks_is_found_and_others_are_not(job):
    begun = time.time()
    one = found(job("600"))
    assert one.folder is not None
    assert one.interval == 1
    assert one.command[-2:] == (str(CLIENT), "600")
    assert begun - 1 < one.since < time.time() + 1, "to a tick of the clock"
    assert processes.find(os.getpid()) is None
    assert one.pid in {process.pid for process in processes.processes()}
    assert "was not started for this" in processes.why_not(os.getpid())
    assert "there is no process" in processes.why_not(2**22 - 1)
    assert processes.why_not(one.pid) == ""


def test_what_a_process_forks_is_not_asked(job):
    parent = job("600", "0.05", "fork")
    child = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
    found = {one.pid for one in processes.processes()}
    assert parent.pid in found
    assert child not in found
    result = run("attach", str(child), "--no-open")
    assert result.exit_code == 1
    assert f"process {child} was forked by {parent.pid}" in result.stderr


def process(pid: int, parent: int = 1, rank: int | None = None, launch: str = "") -> processes.Process:
    return processes.Process(
        pid, pid, parent, pid, ("python", "train.py"), "me", "/m", 1, None, rank, 2, launch
    )


def test_ranks_of_one_launch_are_a_job_without_their_launcher():
    launcher, worker = process(10), process(14, parent=11, rank=0, launch="a")
    ranks = [process(12, 10, 1, "a"), process(11, 10, 0, "a")]
    others = [process(20, 19, 0, "b"), process(30), process(31, 30), process(40)]
    every = sorted([launcher, worker, *ranks, *others], key=lambda one: one.pid)
    assert [[one.pid for one in job.processes] for job in processes.jobs(every)] == [
        [11, 12], [20], [30, 31], [40]
    ]  # fmt: skip


def test_below_a_fork_server_they_belong_to_the_same_job(monkeypatch):
    server = {31: [31, 30]}  # has no PyTorch
    monkeypatch.setattr(procfs, "with_ancestors", lambda pid: server.get(pid, [pid]))
    every = [process(30), process(32, 31), process(33, 31)]
    assert [[one.pid for one in job.processes] for job in processes.jobs(every)] == [[30, 32, 33]]


def test_what_a_target_names():
    every = processes.jobs([process(11, 10, 0, "a"), process(12, 10, 1, "a"), process(40)])
    named = lambda *words: [[one.pid for one in job.processes] for job in processes.jobs_of(every, *words)]  # noqa: E731
    assert named(None, False) == [[11, 12], [40]]
    assert named("train", False) == [[11, 12], [40]]
    assert named("serve", False) == []
    assert named("12", False) == [[12]]
    assert named("12", True) == [[11, 12]]
    assert named("40", False) == [[40]]


# Recording
def test_a_recording(job, tmp_path):
    process = job("600")
    one = found(process)
    process.send_signal(signal.SIGSTOP)
    events = record.record([one], replace(SHORT, start_in=1.0), tmp_path)
    first = next(events)
    assert isinstance(first, Status)
    assert first.stage is Stage.ASKING
    process.send_signal(signal.SIGCONT)
    recorded, stages = follow(events)
    assert Stage.WARMING_UP in stages
    assert stages == sorted(stages, key=list(Stage).index), "and so to the end"
    assert recorded.notes == ()
    (path,) = recorded.paths
    assert path.parent == tmp_path
    assert path.name.startswith("kineto_client-")
    trace = load(path)
    assert "aten::mm" in trace.names
    assert "Optimizer.step#SGD.step" in trace.names
    assert list(meeting_folders.recording_root().iterdir()) == [], "nothing is left behind"
    again, _ = follow(record.record([one], RecordRequest(steps=3), tmp_path))
    assert again.paths[0] != path


def test_all_ranks_start_at_one_time(job, tmp_path):
    ranks = [found(job("600", "0.1", RANK=str(n), WORLD_SIZE="2", MASTER_PORT="1")) for n in (1, 0)]
    (both,) = [found for found in processes.jobs(processes.processes()) if found.first.pid == ranks[1].pid]
    assert [one.rank for one in both.processes] == [0, 1]
    recorded, _ = follow(record.record(both.processes, SHORT, tmp_path))
    assert [path.name[-10:] for path in recorded.paths] == ["rank0.json", "rank1.json"]
    firsts = [json.loads(path.read_text())["traceEvents"][0]["ts"] for path in recorded.paths]
    assert firsts[0] == firsts[1]


@pytest.mark.long
def test_a_rank_that_misses_the_common_start_is_waited_for(job, tmp_path):
    """All are recorded again, with more time before the start."""
    often, seldom = found(job("600"), interval=0), found(job("600", "0.5"), interval=0)
    for late in (seldom, found(job("600", "0.05", "drop"))):
        recorded, _ = follow(record.record([often, late], SHORT, tmp_path))
        firsts = {json.loads(path.read_text())["traceEvents"][0]["ts"] for path in recorded.paths}
        assert (len(recorded.paths), len(firsts), recorded.notes) == (2, 1, ())
        assert len(list(tmp_path.glob("*.json"))) == 2, "what the others recorded before is not kept"
        for path in recorded.paths:
            path.unlink()
    never = found(job("600", "0.05", "never"))
    recorded, _ = follow(record.record([often, never], SHORT, tmp_path))
    assert len(recorded.paths) == 1
    assert recorded.notes == (f"process {never.pid} missed the common start",)
    assert list(meeting_folders.recording_root().iterdir()) == []


def test_a_trace_that_takes_long_to_make_is_waited_for(job, tmp_path, monkeypatch):
    """The process says that it still records, and its file does not grow."""
    monkeypatch.setattr(record, "PATIENCE_SECONDS", 1)
    recorded, _ = follow(record.record([found(job("600", "0.05", "slow"), 30)], SHORT, tmp_path))
    assert len(recorded.paths) == 1


def test_a_file_that_gets_its_name_while_it_is_looked_at(job, tmp_path, monkeypatch):
    """Kineto renames the file from `.tmp` at any moment."""
    look, gone = record._Once._file, list[Path]()

    def file(self: record._Once, one: record._Asked, suffix: str) -> Path | None:
        path = look(self, one, suffix)
        if path is not None and suffix and not gone:
            gone.append(path)
            wait_for(lambda: not path.exists())
        return path

    monkeypatch.setattr(record._Once, "_file", file)
    recorded, _ = follow(record.record([found(job("600", "0.05", "slow"))], SHORT, tmp_path))
    assert (len(recorded.paths), len(gone)) == (1, 1)


def test_nothing_ran_is_said_and_asked_again(job, tmp_path):
    recorded, _ = follow(record.record([found(job("600", "0.1", "empty"))], SHORT, tmp_path))
    assert len(recorded.paths) == 1
    assert "aten::mm" in load(recorded.paths[0]).names
    with pytest.raises(AttachError, match="nothing ran in 3 recordings"):
        follow(record.record([found(job("600", "0.1", "always-empty"))], SHORT, tmp_path))


def test_of_several_those_in_which_nothing_ran_are_named(job, tmp_path):
    full, empty = found(job("600")), found(job("600", "0.1", "always-empty"))
    recorded, _ = follow(record.record([empty, full], SHORT, tmp_path))
    assert [path.name.endswith(f"-{full.pid}.json") for path in recorded.paths] == [True]
    assert recorded.notes == (f"nothing ran in process {empty.pid}: its trace is not kept",)


@pytest.mark.parametrize(("switch", "interval", "patience", "message"), [
    ("die", 30, 30, "ended before its recording was complete"),
    ("never", 30, 0.2, "wrote no trace: it may be running under a profiler already"),
    ("unfinished", 30, 0.2, "wrote no trace: its file was never finished"),
    ("exec", 30, 0.2, r"runs another program now \(exec\)"),
    ("close", 30, 0.2, "has closed the socket on which PyTorch asks"),
    ("busy", 0, 1, "is already recording, for another profiler or an earlier request")
])  # fmt: skip
def test_what_goes_wrong_is_said(switch, interval, patience, message, job, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "PATIENCE_SECONDS", patience)
    one = found(job("600", "0.1", switch), interval)
    with pytest.raises(AttachError, match=f"process {one.pid} {message}") as caught:
        follow(record.record([one], SHORT, tmp_path))
    assert caught.value.gone is (switch == "die")


@pytest.mark.parametrize("how", ["drop", "late"])
def test_a_request_that_was_dropped_is_made_again(how, job, tmp_path):
    """PyTorch opens the file of a recording for which it is too late, and leaves it empty."""
    recorded, _ = follow(record.record([found(job("600", "0.1", how))], SHORT, tmp_path))
    assert len(recorded.paths) == 1


def test_steps_wait_for_their_start_too(job, tmp_path):
    one, begun = found(job("600")), time.monotonic()
    follow(record.record([one], RecordRequest(steps=2, start_in=0.5), tmp_path))
    assert time.monotonic() - begun > 0.5


def test_steps_of_a_process_that_never_begins_are_given_up(job, tmp_path, monkeypatch):
    monkeypatch.setattr(record, "PATIENCE_SECONDS", 0.2)
    one = found(job("600", "0.1", "never"), interval=30)
    with pytest.raises(AttachError, match="wrote no trace: it may be running under a profiler already"):
        follow(record.record([one], RecordRequest(steps=2), tmp_path))
    monkeypatch.setattr(record, "SMALL", 1 << 62)
    with pytest.raises(AttachError, match="wrote no trace: the disk is full"):
        follow(record.record([one], RecordRequest(steps=2), tmp_path))


def test_a_recording_that_cannot_be_moved_is_not_lost(job, tmp_path, monkeypatch):
    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    one = found(job("600"))
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "move", full)
        with pytest.raises(AttachError, match="No space left on device") as said:
            follow(record.record([one], SHORT, tmp_path))
    assert "aten::mm" in load(str(said.value).rpartition("the recording is ")[2]).names
    assert list(tmp_path.glob("*.json*")) == []


def test_a_trace_has_its_name_when_it_is_whole(tmp_path, monkeypatch):
    """Whoever looks into the folder, or kills us, finds no half file under it, on either kind of disk."""
    out = tmp_path / "out"
    out.mkdir()
    move, seen = shutil.move, list[Path]()

    def look(*paths: Path) -> None:
        seen.extend(out.glob("*.json"))
        move(*paths)

    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(shutil, "move", look)
    for number, name in enumerate(("a.json", "a-2.json", "a-3.json")):
        if number == 2:
            monkeypatch.setattr(os, "link", no_links)
        (tmp_path / "trace").write_text(name)
        assert record.keep(tmp_path / "trace", out, "a") == out / name
        assert len(seen) == number * (number + 1) // 2, "those that were there"
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        name: name for name in ("a.json", "a-2.json", "a-3.json")
    }


def test_what_a_kill_left_in_the_output_goes_a_day_later(job, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    names = ".a-20260102-030405-1.json.part", ".a-20260102-030405-rank0.json.part", ".a.json.part", "b.json"
    for name in names:
        (out / name).touch()
    for name in (names[0], *names[2:]):
        os.utime(out / name, (1, 1))
    recorded, _ = follow(record.record([found(job("600"))], SHORT, out))
    assert {path.name for path in out.iterdir()} == {*names[1:], recorded.paths[0].name}


def test_a_stopped_process_is_named(job, tmp_path, monkeypatch):
    process = job("600")
    one = found(process)
    process.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(record, "PATIENCE_SECONDS", 0.2)
        with pytest.raises(AttachError, match=r"is stopped \(SIGSTOP\): it cannot record until it goes on"):
            follow(record.record([replace(one, interval=0)], SHORT, tmp_path))
    process.send_signal(signal.SIGCONT)
    recorded, _ = follow(record.record([one], SHORT, tmp_path))
    assert len(recorded.paths) == 1


@pytest.mark.parametrize(
    "wanted", [RecordRequest(duration=0.5), pytest.param(RecordRequest(steps=10**5), marks=pytest.mark.long)]
)
def test_stopped_while_it_records(wanted, job, tmp_path, monkeypatch):
    """That is bounded, and the folder stays: without it, PyTorch would print an error later."""
    monkeypatch.setattr(record, "DROPPED_SECONDS", 30)
    process = job("600", "0.05", "slow")
    events = record.record([found(process)], wanted, tmp_path)
    while next(events).stage is not Stage.RECORDING:  # type: ignore[union-attr]
        pass
    wait_for(lambda: list(meeting_folders.recording_root().rglob("*.tmp")))
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(record, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(AttachError, match=r"is stopped \(SIGSTOP\)"):
        follow(events)
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: list(meeting_folders.recording_root().rglob("trace_*.json")))
    assert process.poll() is None


def test_the_folder_of_a_recording_that_is_removed_is_named(job, tmp_path):
    events = record.record([found(job("600"))], RecordRequest(duration=60), tmp_path)
    while next(events).stage is not Stage.RECORDING:  # type: ignore[union-attr]
        pass
    (folder,) = meeting_folders.recording_root().iterdir()
    shutil.rmtree(folder)
    with pytest.raises(AttachError, match=f"wrote no trace: {folder} was removed"):
        follow(events)


def test_what_is_left_of_a_job_that_forked_and_ended_is_not_asked(job):
    """As a daemon does: its child has the socket, but nothing that asks."""
    parent = job("600", "0.05", "fork")
    child = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
    assert processes.forked_by(parent.pid) == [child]
    os.kill(child, signal.SIGSTOP)  # else it ends with its parent
    parent.kill()
    parent.wait()
    try:
        assert child not in {one.pid for one in processes.processes()}
        assert "was forked by one that has ended, and cannot be asked" in processes.why_not(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_job_that_has_ended_is_not_asked_for_ever(job, tmp_path):
    process = job("600")
    one = found(process)
    process.kill()
    wait_for(lambda: started(one.pid) is None)  # a zombie, and then not even that
    for _ in range(2):
        with pytest.raises(AttachError, match=f"process {one.pid} ") as said:
            follow(record.record([one], SHORT, tmp_path))
        assert said.value.gone
        process.wait()


def test_another_process_of_the_same_id_is_not_asked(job, tmp_path):
    one = replace(found(job("600")), ticks=1)
    with pytest.raises(AttachError, match="ended before"):
        follow(record.record([one], SHORT, tmp_path))


def test_two_that_attach_at_once_take_turns(job, tmp_path):
    one = found(job("600"))
    first, second = (record.record([one], SHORT, tmp_path) for _ in range(2))
    next(first)
    waiting = Status(Stage.WAITING, "until another tracetui has recorded there")
    assert [next(second), next(second)] == [waiting, waiting]
    recorded, stages = follow(first)
    assert Stage.WAITING not in stages
    assert recorded.paths != follow(second)[0].paths


def test_a_daemon_that_runs_already_is_asked_by_its_port(job, meeting, tmp_path, monkeypatch):
    """Its socket stays its own: it hands the request on when the process asks."""
    one = found(job("600"))
    (meeting / "lock").unlink(missing_ok=True)
    daemon = Listener(str(meeting))
    requests: list[tuple[str, list[int]]] = []

    def hand_on() -> None:
        while not requests:
            time.sleep(0.01)
        while (knock := daemon.receive(1)) is None or knock.pid != one.pid:
            pass
        daemon.answer(knock, requests[0][0])

    monkeypatch.setattr(record, "ask_daemon", lambda config, pids: requests.append((config, list(pids))))
    thread = threading.Thread(target=hand_on, daemon=True)
    thread.start()
    recorded, _ = follow(record.record([one], SHORT, tmp_path))
    thread.join(300)
    assert len(recorded.paths) == 1
    assert requests[0][1] == [one.pid]
    assert daemon.listens()
    daemon.close()


def test_one_that_is_stopped_with_the_lock_is_not_waited_for(job, meeting, tmp_path):
    one = found(job("600"))
    code = (
        "import os, signal, sys; from tracetui.capture.live import listener\n"
        "kept = listener.lock(sys.argv[1]); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(meeting)]) as holder:
        wait_for(lambda: listener.stopped(str(meeting)))
        assert listener.lock(str(meeting)) is None
        recorded, _ = follow(record.record([one], SHORT, tmp_path))
        holder.kill()
    assert len(recorded.paths) == 1


def stopped(pid: int) -> bool:
    """Whether every thread of it is: a signal takes its time on a busy machine."""
    states = [
        stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return set(states) == {"T"}


@pytest.mark.parametrize("until", [Stage.ASKING, Stage.WARMING_UP, Stage.RECORDING])
def test_leaving_early_leaves_the_job_alone(until, job, meeting, tmp_path):
    process = job("600", EXIT="7")
    one = found(process)
    if until is Stage.ASKING:  # else it may be told before we have looked
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: stopped(process.pid))
    ahead = 60.0 if until is Stage.WARMING_UP else 0.0
    events = record.record([one], RecordRequest(duration=60, start_in=ahead), tmp_path)
    with contextlib.closing(events):  # type: ignore[type-var]
        while next(events).stage is not until:  # type: ignore[union-attr]
            pass
    process.send_signal(signal.SIGCONT)
    (meeting / "stop").touch()
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 7
    assert out.endswith("done\n")


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from tracetui.capture.live import record, processes
from tracetui.capture.live.model import RecordRequest
record.LEAD_SECONDS = 0.1; record.LATE_SECONDS = 0.05
random.seed(11)
for _ in range(int(sys.argv[3])):
    read, write = os.pipe()
    if (attach := os.fork()) == 0:
        process = processes.find(int(sys.argv[1]))
        for _ in record.record([process], RecordRequest(duration=0.1), Path(sys.argv[2])):
            os.write(write, b".")
        os._exit(0)
    assert os.read(read, 1) == b"."
    time.sleep(random.random() * 0.4)
    os.kill(attach, signal.SIGKILL)
    os.waitpid(attach, 0)
    os.close(read)
    os.close(write)
"""


def test_killed_at_any_moment_the_job_goes_on(job, tmp_path):
    """Fifty times; TRACETUI_KILLS of them here."""
    process = job("600", EXIT="3")
    number = os.environ.get("TRACETUI_KILLS", "6")
    subprocess.run([sys.executable, "-c", KILLED, str(process.pid), str(tmp_path), number], check=True)
    recorded, _ = follow(record.record([found(process)], SHORT, tmp_path))
    assert len(recorded.paths) == 1, "and it can still be asked"
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    out, _ = process.communicate()
    lines = out.splitlines()
    assert lines == [f"step {n}" for n in range(2, len(lines) + 2)]


def test_the_job_killed_at_any_moment_is_said(job, tmp_path):
    random.seed(12)
    for _ in range(4):
        process = job("600")
        one = found(process)
        threading.Timer(random.random() * 0.3, process.kill).start()
        with contextlib.suppress(AttachError):
            follow(record.record([one], SHORT, tmp_path))
        process.wait()


# The commands
@pytest.fixture
def meetings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's runtime directory."""
    runtime = meeting_folders.private(Path(f"/tmp/tt-{os.getpid()}-{time.monotonic_ns() % 10**6}"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    for name in [name for name in os.environ if name.startswith("KINETO_")]:
        monkeypatch.delenv(name)
    yield runtime
    wait_for(lambda: not _signalled(str(runtime), signal.SIGKILL))
    shutil.rmtree(runtime)


def started_by_run(*words: str, **more: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tracetui", "run", "--", *words]
    return subprocess.Popen(command, stdout=-1, stderr=-1, **more)  # type: ignore[call-overload, no-any-return]


def test_run_is_the_command_itself(meetings):
    """Its output, its exit code, its process id, its children, its signals."""
    code = (
        "import os, signal, sys, subprocess\n"
        "print(os.getpid(), os.getppid(), signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)\n"
        "open('/dev/stderr', 'w').write('to stderr')\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read().split())\n"
        "print(os.environ['KINETO_IPC_SOCKET_DIR'], sys.argv[1:])\n"
        "sys.exit(41)"
    )
    with started_by_run(sys.executable, "-c", code, "--help", "a b") as job:
        out, err = job.communicate(timeout=300)
    first, children, folder = out.decode().splitlines()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=-1, env={**os.environ, "KINETO_IPC_SOCKET_DIR": ""}
    ) as plain:
        same = plain.communicate()[0].decode().splitlines()
    assert first == f"{job.pid} {os.getpid()} {same[0].split()[2]}"
    assert (err, children, job.returncode) == (b"to stderr", "[]", 41)
    assert folder.startswith(str(meetings / "tracetui"))
    assert folder.endswith("['--help', 'a b']")
    bare = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(meetings), "A": "b=c"}
    with started_by_run("env", env=bare) as job:
        found = dict(line.split("=", 1) for line in job.communicate()[0].decode().splitlines())
    assert found.pop("TRACETUI_RUN") == str(job.pid)
    assert {name: value for name, value in found.items() if not name.startswith("KINETO_")} == bare
    assert len(found) == len(bare) + 5
    with started_by_run("sleep", "30") as job:
        wait_for(lambda: Path(f"/proc/{job.pid}/cmdline").read_bytes() == b"sleep\x0030\0")
        job.terminate()
        assert job.wait(300) == -signal.SIGTERM


def test_run_says_what_it_cannot_start(meetings, tmp_path):
    with started_by_run(str(tmp_path / "nothing")) as job:
        assert job.communicate()[1].decode().endswith("nothing: no such command\n")
    assert job.returncode == 127
    (tmp_path / "text").write_text("hello")
    with started_by_run(str(tmp_path / "text")) as job:
        job.communicate()
    assert job.returncode == 126


def test_a_command_that_cannot_be_asked_runs_all_the_same(tmp_path):
    """/tmp is read-only, say: here there is none."""
    code = (
        "import sys; from pathlib import Path; from tracetui.capture.live import meeting_folders\n"
        f"meeting_folders.TEMPORARY, meeting_folders.OTHERS = Path({str(tmp_path / 'a' / 'b')!r}), ()\n"
        "from tracetui.cli.main import main; main(['run', 'env'])"
    )
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/dev/null"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.returncode, "KINETO_" in done.stdout) == (0, False)
    assert f"this command cannot be recorded: {tmp_path}/a/b is not a folder: set TMPDIR to" in done.stderr


def test_what_has_our_name_in_tmp_is_left_alone():
    """Another user may have made it; here it is a file."""
    temporary = Path(tempfile.mkdtemp(prefix="t", dir="/tmp"))  # sockets need a short path
    (temporary / f"tracetui-{os.getuid()}").touch()
    code = (
        "import sys; from pathlib import Path; from tracetui.capture.live import meeting_folders\n"
        f"meeting_folders.TEMPORARY, meeting_folders.OTHERS = Path({str(temporary)!r}), ()\n"
        "from tracetui.cli.main import main; main(sys.argv[1:])"
    )
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/dev/null"}
    for words in (["run", "env"], ["env"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, check=True
        )
        folder = re.search(r"KINETO_ONDEMAND_TRACE_DIR=(.*)", done.stdout)
        assert re.fullmatch(rf"{temporary}/tracetui-{os.getuid()}-\w{{8}}", folder[1])
        assert done.stderr == ""
    wait_for(lambda: not _signalled(str(temporary), signal.SIGKILL))
    shutil.rmtree(temporary)


def test_a_job_is_found_from_any_environment(meetings, tmp_path):
    """As over ssh, or from cron: by what the process has open, not by our variables."""
    with started_by_run(sys.executable, "-I", "-S", str(CLIENT), "600") as job:
        wait_for(lambda: processes.find(job.pid) is not None)
        command = [sys.executable, "-m", "tracetui", "attach", str(job.pid), "--no-open", "-o", "out"]
        env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "TMPDIR": "/nowhere"}
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
        job.kill()
    assert done.returncode == 0, done.stderr
    assert "aten::mm" in load(tmp_path / done.stdout.strip()).names


def test_a_job_of_run_is_answered_recorded_and_unchanged(meetings, tmp_path):
    stop = tmp_path / "stop"
    with started_by_run(
        sys.executable, "-I", "-S", str(CLIENT), "600", env={**os.environ, "EXIT": "5", "STOP": str(stop)}
    ) as job:
        wait_for(lambda: processes.find(job.pid) is not None)
        one = processes.find(job.pid)
        assert one.folder is not None
        wait_for((Path(one.folder) / "dynolog").exists)
        listed = json.loads(run("attach", "--list", "--json").stdout)
        assert [row["command"] for row in listed if row["pid"] == job.pid] == [one.name]
        result = run("attach", str(job.pid), "--no-open", "--duration", "50ms", "-o", str(tmp_path / "out"))
        assert result.exit_code == 0, result.stderr
        (path,) = result.stdout.split()
        assert "aten::mm" in load(path).names
        wait_for((Path(one.folder) / "dynolog").exists)
        stop.touch()
        out, err = job.communicate(timeout=300)
    assert (err, job.returncode) == (b"", 5)
    lines = out.decode().splitlines()
    assert lines == [*(f"step {n}" for n in range(1, len(lines))), "done"]


def _signalled(folder: str, what: signal.Signals) -> bool:
    """Whether there was an answerer of this folder, or of one in it, to send a signal to."""
    found = False
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            words = procfs.arguments(int(entry.name))
            of = words[words.index(listener.__file__) + 1]
            if f"{of}/".startswith(f"{folder}/"):
                os.kill(int(entry.name), what)
                found = True
    return found


def test_the_answerer_killed_or_stopped_changes_nothing(meetings, tmp_path):
    for what in (signal.SIGKILL, signal.SIGSTOP):
        stop = tmp_path / what.name
        command = [sys.executable, "-I", "-S", str(CLIENT), "600"]
        with started_by_run(*command, env={**os.environ, "STOP": str(stop)}) as job:
            wait_for(lambda: processes.find(job.pid) is not None)
            one = processes.find(job.pid)
            assert one.folder is not None
            # Not before it answers: until then it may have the lock without having said so.
            wait_for((Path(one.folder) / "dynolog").exists)
            wait_for(partial(_signalled, one.folder, what))
            recorded, _ = follow(record.record([one], SHORT, tmp_path))
            assert len(recorded.paths) == 1
            stop.touch()
            out, err = job.communicate(timeout=300)
        assert (err, job.returncode, out.splitlines()[-1]) == (b"", 0, b"done")


def test_every_and_keep_until_the_job_ends(job, meeting, tmp_path):
    process = job("600")
    out = tmp_path / "out"
    seen = set[Path]()

    def stop_after_three() -> None:
        while len(seen) < 3:
            seen.update(out.glob("*.json"))
            time.sleep(0.01)
        (meeting / "stop").touch()

    threading.Thread(target=stop_after_three, daemon=True).start()
    words = ["--every", "100ms", "--keep", "2", "--duration", "20ms", "--no-open", "-o", str(out)]
    result = run("attach", str(process.pid), *words)
    assert result.exit_code == 0, result.stderr
    assert f"process {process.pid} " in result.stderr
    printed = [Path(line) for line in result.stdout.split()]
    assert len(printed) > 2
    assert sorted(out.iterdir()) == sorted(printed[-2:])


def test_a_job_that_was_started_again_is_recorded_on(job, tmp_path, monkeypatch):
    words = "600", "0.05", str(tmp_path)  # other tests' jobs have the same name
    first, second = job(*words), list[subprocess.Popen[str]]()

    def sleep(_: float) -> None:
        first.kill()
        first.wait()
        if not second:
            second.append(job(*words))
        else:
            second[0].kill()
            second[0].wait()

    monkeypatch.setattr(
        "tracetui.cli.attach.time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep, time=time.time)
    )
    result = run("attach", str(tmp_path), "--every", "1s", "--duration", "50ms", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.stderr
    assert [path.rpartition("-")[2] for path in result.stdout.split()] == [
        f"{one.pid}.json" for one in (first, second[0])
    ]
    assert f"process {second[0].pid} has ended" in result.stderr


def test_what_cannot_be_asked_is_said(tmp_path):
    assert "was not started for this" in run("attach", str(os.getpid())).stderr
    assert "there is no process" in run("attach", "4194300").stderr
    missing = run("attach", "no such job", "--no-wait")
    assert (missing.exit_code, missing.stdout) == (1, "")
    text = "no process with no such job in its command can be recorded: start it with: tracetui run COMMAND"
    assert missing.stderr == f"tracetui: {text}\n"
    for words, text in {
        ("--duration", "soon"): "is not a time",
        ("--duration", "0"): "between 1ms and 24h",
        ("--keep", "2"): "--keep needs --every",
        ("--json",): "--json needs --list",
        ("--inject",): "needs the id of a process",
    }.items():
        result = run("attach", *words)
        assert (result.exit_code, text in result.stderr) == (2, True), result.stderr
    assert "cannot write to" in run("attach", "1", "-o", str(tmp_path / "a" / "b")).stderr
    (tmp_path / "file").touch()
    assert "it is not a folder" in run("attach", "1", "-o", str(tmp_path / "file")).stderr


def test_one_that_has_not_imported_pytorch_is_said(meeting):
    with subprocess.Popen(["sleep", "600"], env={**os.environ, **launch.environment(meeting, {})}) as early:
        wait_for(lambda: procfs.arguments(early.pid) == ["sleep", "600"])
        result = run("attach", str(early.pid), "--no-wait")
        early.kill()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"tracetui: process {early.pid} has not imported PyTorch, at least not yet\n"


def test_one_that_has_closed_its_socket_is_said(meeting, monkeypatch):
    env = {**os.environ, **launch.environment(meeting, {})}
    monkeypatch.setattr(procfs, "has_torch", lambda pid: True)
    monkeypatch.setattr("tracetui.cli.attach.SOCKET_SECONDS", 0.1)
    with subprocess.Popen(["sleep", "600"], env=env) as closed:
        wait_for(lambda: procfs.arguments(closed.pid) == ["sleep", "600"])
        results = [run("attach", str(closed.pid), *words) for words in ([], ["--no-wait"])]
        closed.kill()
    for result in results:
        assert (result.exit_code, result.stdout) == (1, "")
    first, last = results[0].stderr.splitlines()
    assert first == f"tracetui: waiting for process {closed.pid} to open a socket on which it asks"
    assert last.startswith(f"tracetui: process {closed.pid} has closed the socket on which PyTorch asks")
    assert results[1].stderr.endswith(
        f"process {closed.pid} has no socket on which it asks, at least not now\n"
    )


def only(monkeypatch: pytest.MonkeyPatch, *those: subprocess.Popen[str]) -> None:
    """Other tests' jobs are not seen."""
    every = {one.pid for one in those}
    monkeypatch.setattr(
        "tracetui.cli.attach._jobs",
        lambda: processes.jobs([one for one in processes.processes() if one.pid in every]),
    )


def test_the_only_job_is_named_and_taken_if_run_started_it(job, tmp_path, monkeypatch):
    words = "attach", "--no-open", "--duration", "50ms", "-o", str(tmp_path)
    one = job("600")
    only(monkeypatch, one)
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tracetui: the only job is {one.pid} python")
    assert result.stderr.endswith(
        f'not started by "tracetui run": to record it, name it: tracetui attach {one.pid}\n'
    )
    assert list(tmp_path.glob("*.json")) == []
    two = job("600", TRACETUI_RUN="1")
    only(monkeypatch, two)
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith(f"tracetui: the only job is {two.pid} python")
    assert re.search(r"\(runs for \d+ s\)\n$", result.stderr)
    only(monkeypatch, one, two)
    assert run(*words).exit_code == 2, "one of two is never picked"


def test_a_job_that_nobody_named_is_asked_about(job, monkeypatch):
    one = job("600")
    only(monkeypatch, one)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("tracetui.cli.attach.sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    asked = list[str]()
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text))
    with pytest.raises(AttachError, match="nothing was recorded"):
        attach._confirm(attach._jobs()[0])
    assert re.fullmatch(rf"Record {one.pid} python.* \(runs for \d+ s\)\?", asked[0])


def test_another_job_is_not_the_same_started_again(job, monkeypatch):
    one, other = job("600"), job("601")
    before = found(one)
    only(monkeypatch, other)
    with pytest.raises(AttachError, match=f"process {one.pid} has ended") as said:
        attach._started_again(None, False, before)
    assert said.value.gone
    same, third = job("600"), job("600")
    only(monkeypatch, same, other)
    assert [found.pid for found in attach._started_again(None, False, before)] == [same.pid]
    only(monkeypatch, same, third)
    with pytest.raises(AttachError, match="several jobs could be meant now"):
        attach._started_again(None, False, before)


def test_others_processes_and_folders_are_said(job, monkeypatch):
    one = job("600")
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_same", lambda pid, folder: False)
        assert re.fullmatch(
            rf"process {one.pid} sees another folder as /\S+, as in a container: "
            "mount this machine's there, under the same path",
            processes.why_not(one.pid),
        )
    monkeypatch.setattr(procfs, "owner", lambda pid: os.getuid() + 1)
    result = run("attach", str(one.pid))
    text = f"process {one.pid} belongs to another user: run tracetui as that user"
    assert (result.exit_code, result.stderr) == (1, f"tracetui: {text}\n")
    assert one.pid not in {each.pid for each in processes.processes()}


def test_gpus_that_are_not_known(monkeypatch, tmp_path):
    """Without nvidia-ml-py nobody tells which GPU a process uses: that is not the same as none."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    for devices, text in ((str(tmp_path),), "?"), ((str(tmp_path / "none"),), "-"):
        monkeypatch.setattr(processes, "GPU_DEVICES", devices)
        table = jobs_table(processes.jobs(processes.with_gpus([process(40)])), time.time())
        (gpu,) = [column for column in table.columns if column.key == "gpu"]
        assert gpu.text(0) == text
    monkeypatch.setattr("tracetui.cli.attach._jobs", lambda: processes.jobs([process(40)]))
    (row,) = json.loads(run("attach", "--list", "--json").stdout)
    assert row["gpus"] == []


def test_several_jobs_are_named_not_guessed(job, tmp_path):
    words = "600", "0.05", str(tmp_path)  # other tests' jobs have the same name
    pids = {job(*words).pid, job(*words).pid}
    result = run("attach", str(tmp_path), "--no-open")
    assert result.exit_code == 2
    assert "several jobs can be recorded" in result.stderr
    assert all(str(pid) in result.stderr for pid in pids)


STOPPED = """
import os, signal, sys
where, number = sys.argv[1], int(sys.argv[2])
if number == signal.SIGHUP:
    signal.signal(number, signal.SIG_DFL)  # nohup ignores it
class Import:  # the signal comes when this module is looked for
    def find_spec(self, name, *_):
        if name == where:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Import())
from tracetui.cli import main
main(["attach", "no such job"])
"""


@pytest.mark.parametrize(("where", "number", "code", "said"), [
    ("click", signal.SIGINT, -signal.SIGINT, ""),  # for a shell, 130
    ("click", signal.SIGHUP, -signal.SIGHUP, ""),
    ("tracetui.cli.attach", signal.SIGINT, 130, ""),
    ("tracetui.capture.live.processes", signal.SIGINT, 130, "tracetui: nothing was recorded\n"),
    ("tracetui.capture.live.processes", signal.SIGTERM, 143, "tracetui: nothing was recorded\n"),
    ("tracetui.capture.live.processes", signal.SIGHUP, 129, "tracetui: nothing was recorded\n"),
])  # fmt: skip
def test_stopped_in_its_first_moments(where, number, code, said, tmp_path):
    command = [sys.executable, "-c", STOPPED, where, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)
    assert [path.name for path in tmp_path.rglob("*")] == (["traces"] if said else [])


def test_stopped_while_it_waits_for_a_job(tmp_path):
    command = [sys.executable, "-m", "tracetui", "attach", "no such job"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=tmp_path) as waiting:
            assert waiting.stderr is not None
            assert waiting.stderr.readline().startswith("tracetui: waiting for a process with no such job")
            waiting.send_signal(number)
            out, err = waiting.communicate(timeout=300)
        assert (waiting.returncode, out, err) == (128 + number, "", "tracetui: nothing was recorded\n")


def test_stopped_at_the_question_which_job(job, tmp_path):
    """The terminal is as it was; it has a Ctrl+C of its own."""
    import termios  # not on Windows

    for _ in range(2):
        job("600", "0.05", str(tmp_path))
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    command = [sys.executable, "-m", "tracetui", "attach", str(tmp_path), "-o", str(tmp_path / "out")]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    terminal = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-c", terminal, *command]
    with subprocess.Popen(command, start_new_session=True, **streams) as asking:  # type: ignore[call-overload]
        seen = b""
        while b"Which one" not in seen:
            seen += os.read(ours, 1000)
        for _ in range(9):  # Python may miss one that comes just before it waits: then it is pressed again
            os.write(ours, b"\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                asking.wait(5)
                break
        else:
            asking.kill()
        assert asking.returncode == 130
    assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    with contextlib.suppress(OSError):  # the end of what a terminal had
        while part := os.read(ours, 1000):
            seen += part
    os.close(ours)
    assert b"Traceback" not in seen
    assert seen.rstrip().endswith(b"tracetui: nothing was recorded")


def test_it_asks_before_anything_slow_is_imported():
    code = (
        "import sys, tracetui.cli.main, tracetui.cli.attach, tracetui.capture.live.record\n"
        "assert not {'numpy', 'textual', 'rich'} & sys.modules.keys()\n"
        "tracetui.cli.attach._warm()\n"
        "assert {'numpy', 'textual', 'tracetui.tui.app'} <= sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_env_for_each_way_to_start_a_job(meetings):
    plain = dict(line.split("=", 1) for line in run("env", "--format", "plain").stdout.splitlines())
    assert plain == json.loads(run("env", "--format", "json").stdout)
    assert "TRACETUI_RUN" not in plain
    assert plain["KINETO_IPC_SOCKET_DIR"] == str(meetings / "tracetui" / "shared")
    told = subprocess.run(
        ["sh", "-c", 'eval "$1"; env', "sh", run("env").stdout], capture_output=True, text=True, check=True
    )
    assert set(plain.items()) <= {
        tuple(line.split("=", 1)) for line in told.stdout.splitlines() if "=" in line
    }
    fish = run("env", "--format", "fish").stdout.splitlines()
    assert f"set -gx KINETO_IPC_SOCKET_DIR '{plain['KINETO_IPC_SOCKET_DIR']}'" in fish
    assert "is open to other users" in run("env", "--dir", "/tmp").stderr


def test_started_is_none_for_no_process():
    assert started(2**22 - 1) is None
    assert started(os.getpid()) is not None
