"""Servers that answer as vLLM and SGLang do, and what is made of their answers, files and failures."""

import gzip
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tracetui.capture.live import files, procfs, products, servers
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Stage, Status
from tracetui.capture.live.servers import record_server

TRACE = json.dumps({"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]})
PACKED = gzip.compress(TRACE.encode())
SHORT = RecordRequest(duration=0.05)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "TICK", 0.05)
    monkeypatch.setattr(servers, "POLL", 0.01)
    for name in (products.KEY, products.ADMIN_KEY):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For files that will not come."""
    monkeypatch.setattr(servers, "FILES_SECONDS", 0.2)
    monkeypatch.setattr(servers, "PATIENCE_SECONDS", 0.5)


class Standin:
    """A server in a thread. `answers`: "METHOD /path" to a status and a body, or what makes them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: dict[str, Any] = {}
        standin = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length)) if length else None
                standin.asked.append((f"{self.command} {self.path}", body))
                standin.headers.append(dict(self.headers))
                answer = standin.answers.get(f"{self.command} {self.path}", (404, '{"detail":"Not Found"}'))
                answer = answer(body) if callable(answer) else answer
                if answer is None:  # the connection closes
                    self.close_connection = True
                    return
                status, text, *more = answer
                data = text if isinstance(text, bytes) else text.encode()
                self.send_response(status)
                for name, value in more:
                    self.send_header(name, value)
                if "Content-Length" not in dict(more):
                    self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:  # we closed the connection in the middle
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def posted(self) -> list[str]:
        return [path for path, _ in self.asked if path.startswith("POST")]


@pytest.fixture
def standin() -> Iterator[Standin]:
    server = Standin()
    yield server
    server.end()


@pytest.fixture
def vllm(standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """A vLLM with two ranks and a front end on this machine, with a folder."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "rank0.111.pt.trace.json.gz").write_bytes(PACKED)  # from an earlier recording

    def stop(_: object) -> tuple[int, str]:
        (folder / "host_77.async_llm.223.pt.trace.json.gz").write_bytes(PACKED)
        (folder / "dp0_pp0_tp1_rank1.222.pt.trace.json.gz").write_bytes(PACKED)
        (folder / "dp0_pp0_tp0_rank0.221.pt.trace.json.gz").write_bytes(PACKED)
        (folder / "profiler_out_0.txt").write_text("a table")
        return 200, ""

    standin.answers = {
        "GET /version": (200, '{"version": "0.15.0"}'), "POST /start_profile": (200, ""),
        "POST /stop_profile": stop
    }  # fmt: skip
    runs_here(monkeypatch, arguments=["--profiler-config.torch_profiler_dir", str(folder)])
    return standin


def runs_here(monkeypatch: pytest.MonkeyPatch, **facts: Any) -> None:
    """What is found of the server's process."""
    known = {"arguments": [], "environment": {}, "owner": os.geteuid(), "our_files": True, **facts}
    monkeypatch.setattr(servers, "local_process", lambda _: products.Process(os.getpid(), **known))


@pytest.fixture
def sglang(standin: Standin) -> Standin:
    """An SGLang of one rank, which the tests' own process is: it is found as one on this machine."""
    folder: list[Path] = []

    def start(body: dict[str, Any]) -> tuple[int, str]:
        if folder:
            return 500, "Internal Server Error"  # it records already
        folder.append(Path(body["output_dir"]))
        if body.get("num_steps"):
            threading.Timer(0.1, stop, (None,)).start()
        return 200, "Start profiling.\n"

    def stop(_: object) -> tuple[int, str]:
        if not folder:
            return 500, "Internal Server Error"
        (folder.pop() / "1700000000.5-TP-0.trace.json.gz").write_bytes(PACKED)
        return 200, "Stop profiling. This will take some time.\n"

    info = {"model_path": "/models/llama", "tp_size": 1, "dp_size": 1, "version": "0.5.2"}
    standin.answers = {
        "GET /get_server_info": (200, json.dumps(info)), "GET /get_model_info": (200, "{}"),
        "POST /start_profile": start, "POST /stop_profile": stop
    }  # fmt: skip
    return standin


def record(standin: Standin, output: Path, wanted: RecordRequest = SHORT) -> tuple[list[LiveEvent], Recorded]:
    events = list(record_server(standin.url, wanted, output))
    recorded = events.pop()
    assert isinstance(recorded, Recorded)
    assert all(isinstance(event, Status) for event in events)
    return events, recorded


def failure(standin: Standin, output: Path, wanted: RecordRequest = SHORT) -> str:
    with pytest.raises(AttachError) as caught:
        list(record_server(standin.url, wanted, output))
    message = str(caught.value)
    assert message.isprintable()
    assert not output.exists() or not list(output.iterdir())
    return message


def stages(events: list[LiveEvent]) -> list[Stage]:
    found = [event.stage for event in events if isinstance(event, Status)]
    return [stage for stage, before in zip(found, [None, *found], strict=False) if stage is not before]


def test_vllm_is_started_stopped_and_its_new_files_are_copied_rank_0_first(vllm, tmp_path):
    events, recorded = record(vllm, tmp_path / "out", RecordRequest(duration=0.2))
    assert vllm.posted == ["POST /start_profile", "POST /stop_profile"]
    assert stages(events) == [Stage.ASKING, Stage.RECORDING, Stage.WRITING]
    assert [path.name.split(".")[0] for path in recorded.paths] == [
        "dp0_pp0_tp0_rank0", "dp0_pp0_tp1_rank1", "host_77"
    ]  # fmt: skip
    assert [gzip.decompress(path.read_bytes()).decode() for path in recorded.paths] == [TRACE] * 3
    assert sorted(tmp_path.joinpath("out").iterdir()) == sorted(recorded.paths)  # nothing else
    assert len(list(tmp_path.joinpath("profiles").iterdir())) == 5  # and none was taken away
    assert recorded.notes == (
        "host_77.async_llm.223.pt.trace.json.gz is from vLLM's front end, which uses no GPU",
    )


def test_the_server_records_for_as_long_as_asked(vllm, tmp_path):
    times: list[float] = []
    for path in ("POST /start_profile", "POST /stop_profile"):
        answer = vllm.answers[path]

        def timed(body: object, answer: Any = answer) -> Any:
            times.append(time.monotonic())
            return answer(body) if callable(answer) else answer

        vllm.answers[path] = timed
    began = time.monotonic()
    record(vllm, tmp_path / "out", RecordRequest(duration=0.3, start_in=0.2))
    assert times[0] - began >= 0.2
    assert 0.3 <= times[1] - times[0] < 60


def test_a_trace_of_the_same_name_is_never_overwritten(vllm, tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    taken = output / "dp0_pp0_tp0_rank0.221.pt.trace.json.gz"
    taken.write_bytes(b"mine")
    _, recorded = record(vllm, output)
    assert taken.read_bytes() == b"mine"
    assert recorded.paths[0].name == "dp0_pp0_tp0_rank0.221.pt.trace-2.json.gz"


def test_what_a_kill_left_in_the_output_goes_a_day_later(vllm, tmp_path):
    output = tmp_path / "out"
    for name in (".attach-old", ".attach-new"):
        (output / name / "server").mkdir(parents=True)
    os.utime(output / ".attach-old", (1, 1))
    record(vllm, output)
    assert [path.name for path in output.glob(".*")] == [".attach-new"]


def test_what_vllm_cannot_do_is_said(vllm, tmp_path):
    asked = RecordRequest(0.05, steps=3, with_stack=True, record_shapes=True, profile_memory=True)
    _, recorded = record(vllm, tmp_path / "out", asked)
    assert recorded.notes[:3] == (
        "vLLM cannot be asked for a number of steps: recorded 50.0 ms instead",
        "--record-shapes had no effect: vLLM does that only if started with "
        '"torch_profiler_record_shapes": true in its --profiler-config',
        "--profile-memory had no effect: vLLM does that only if started with "
        '"torch_profiler_with_memory": true in its --profiler-config',
    )
    vllm.answers["GET /version"] = (200, '{"version": "0.9.1"}')
    _, recorded = record(vllm, tmp_path / "again", RecordRequest(0.05, profile_memory=True))
    assert "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY=1" in recorded.notes[0]


def test_a_vllm_that_counts_its_steps_itself_says_so(tmp_path):
    words = ["--profiler-config.max_iterations=5", "--profiler-config", '{"delay_iterations": 2}']
    plan = products.plan_for("vLLM 0.15.0", {}, SHORT, products.Process(1, words, {}, 0, False), tmp_path)
    assert plan.notes == (
        "vLLM was started with delay_iterations 2, max_iterations 5: so it records fewer of its steps",
    )
    zero = products.Process(1, ["--profiler-config.max_iterations=0"], {}, 0, False)
    assert not products.plan_for("vLLM 0.15.0", {}, SHORT, zero, tmp_path).notes


@pytest.mark.parametrize(("version", "way"), [
    ("0.15.0", """--profiler-config '{"profiler": "torch", "torch_profiler_dir": "/FOLDER"}'"""),
    ("0.12.1", "VLLM_TORCH_PROFILER_DIR=/FOLDER in its environment"), ("1.2.0", "--profiler-config")
])  # fmt: skip
@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_vllm_that_was_not_started_for_it_says_how_to_start_it(vllm, tmp_path, version, way, status):
    vllm.answers["GET /version"] = (200, json.dumps({"version": version}))
    vllm.answers["POST /start_profile"] = (status, '{"detail":"Not Found"}')
    message = failure(vllm, tmp_path / "out")
    assert f"(vLLM {version}) was not started for profiling: start it with " in message
    assert way in message
    assert vllm.posted == ["POST /start_profile"]


def test_a_recording_of_somebody_else_is_not_stopped(sglang, tmp_path):
    sglang.answers["POST /start_profile"] = (500, "Internal Server Error")
    message = failure(sglang, tmp_path / "out")
    assert "refuses to record (500: Internal Server Error); perhaps it is already recording" in message
    assert sglang.posted == ["POST /start_profile"]


def test_news_come_while_a_stop_takes_long(vllm, tmp_path):
    stop = vllm.answers["POST /stop_profile"]

    told = threading.Event()

    def slowly(body: object) -> Any:
        assert told.wait(60)
        return stop(body)

    vllm.answers["POST /stop_profile"] = slowly
    events = list[LiveEvent]()
    for event in record_server(vllm.url, SHORT, tmp_path / "out"):
        events.append(event)
        if events.count(Status(Stage.WRITING, "this can take minutes")) == 4:
            told.set()
    assert told.is_set()
    assert isinstance(events[-1], Recorded)
    assert len(events[-1].paths) == 3


@pytest.mark.parametrize("suffix", [".pt.trace.json.gz", ".pt.trace.json"])
def test_a_half_written_file_is_waited_for(vllm, tmp_path, suffix):
    data = PACKED if suffix.endswith(".gz") else TRACE.encode()
    file = tmp_path / "profiles" / f"rank0.5{suffix}"

    def stop(_: object) -> tuple[int, str]:
        file.write_bytes(data[:-20])
        threading.Timer(0.2, lambda: file.write_bytes(data)).start()
        return 200, ""

    vllm.answers["POST /stop_profile"] = stop
    _, recorded = record(vllm, tmp_path / "out")
    assert [path.read_bytes() for path in recorded.paths] == [data]


@pytest.mark.usefixtures("impatient")
def test_a_file_that_is_never_finished(vllm, tmp_path):
    folder = tmp_path / "profiles"

    def stop(_: object) -> tuple[int, str]:
        (folder / "rank0.5.pt.trace.json.gz").write_bytes(PACKED[:-20])
        return 200, ""

    vllm.answers["POST /stop_profile"] = stop
    assert f"recorded, but its file was never finished in {folder}" in failure(vllm, tmp_path / "out")

    def partly(_: object) -> tuple[int, str]:
        (folder / "rank1.6.pt.trace.json.gz").write_bytes(PACKED)
        (folder / "rank0.6.pt.trace.json.gz").write_bytes(PACKED[:-20])
        return 200, ""

    vllm.answers["POST /stop_profile"] = partly
    _, recorded = record(vllm, tmp_path / "out")
    assert [path.name for path in recorded.paths] == ["rank1.6.pt.trace.json.gz"]
    assert recorded.notes == ("rank0.6.pt.trace.json.gz was never finished",)


@pytest.mark.usefixtures("impatient")
def test_no_file_at_all(vllm, tmp_path):
    vllm.answers["POST /stop_profile"] = (200, "")
    assert "recorded, but no trace came in " in failure(vllm, tmp_path / "out")


@pytest.mark.usefixtures("impatient")
def test_a_link_in_the_folder_is_not_followed(vllm, tmp_path):
    (tmp_path / "secret").write_bytes(PACKED)

    def stop(_: object) -> tuple[int, str]:
        (tmp_path / "profiles" / "rank0.5.pt.trace.json.gz").symlink_to(tmp_path / "secret")
        return 200, ""

    vllm.answers["POST /stop_profile"] = stop
    assert "no trace came" in failure(vllm, tmp_path / "out")


def test_files_of_others_in_a_shared_folder_are_not_the_servers(tmp_path):
    (tmp_path / "x-TP-0.trace.json.gz").write_bytes(PACKED)
    stranger = files.TraceFolder(tmp_path, os.geteuid() + 1)
    assert list(stranger.files()) == ["x-TP-0.trace.json.gz"]
    tmp_path.chmod(0o1777)
    assert list(stranger.files()) == []
    assert list(files.TraceFolder(tmp_path, os.geteuid()).files()) == ["x-TP-0.trace.json.gz"]


def test_names_of_files_are_made_harmless(vllm, tmp_path):
    def stop(_: object) -> tuple[int, str]:
        (tmp_path / "profiles" / ".\x1b[31m rank0.5.pt.trace.json.gz").write_bytes(PACKED)
        return 200, ""

    vllm.answers["POST /stop_profile"] = stop
    _, recorded = record(vllm, tmp_path / "out")
    assert [path.name for path in recorded.paths] == ["__31m_rank0.5.pt.trace.json.gz"]


def test_the_files_of_a_server_elsewhere_are_said_to_be_there(vllm, sglang, tmp_path, monkeypatch):
    monkeypatch.setattr(servers, "local_process", lambda _: None)
    sglang.answers["POST /start_profile"] = (200, "")
    sglang.answers["POST /stop_profile"] = (200, "")
    message = failure(sglang, tmp_path / "out")
    assert message == (
        "the recording was made, but SGLang 0.5.2 writes the traces to its own disk (127.0.0.1), in "
        "SGLANG_TORCH_PROFILER_DIR, or in /tmp without that, which cannot be read from here: copy them, and "
        "open them with tracetui"
    )
    assert sglang.posted == ["POST /start_profile", "POST /stop_profile"]
    assert "output_dir" not in sglang.asked[1][1]
    message = failure(sglang, tmp_path / "out", RecordRequest(steps=3))
    assert message.startswith("the recording was requested, but ")
    del sglang.answers["GET /get_server_info"]
    sglang.answers["GET /version"] = (200, '{"version": "0.15.0"}')
    assert "(127.0.0.1), in the folder that it was started with, which" in failure(sglang, tmp_path / "out")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("way", ["folder", "file"])
def test_what_is_not_ours_to_read(vllm, tmp_path, monkeypatch, way):
    folder = tmp_path / "profiles"
    access = os.access

    def refuse(path: Any, mode: int) -> bool:
        return access(path, mode) and (path != folder if way == "folder" else path.parent != folder)

    monkeypatch.setattr(os, "access", refuse)
    if way == "folder":
        assert f"in {folder}, which cannot be read from here: copy them" in failure(vllm, tmp_path / "out")
        return
    monkeypatch.setattr(servers, "is_whole", lambda _: False)
    assert f"but its file, which cannot be read from here, lies in {folder}" in failure(
        vllm, tmp_path / "out"
    )


def test_a_vllm_that_was_started_for_another_profiler(vllm, tmp_path, monkeypatch):
    for options in (["--profiler-config.profiler=cuda"], ["--profiler-config", '{"profiler": "cuda"}']):
        runs_here(monkeypatch, arguments=options)
        assert "this vLLM 0.15.0 was started for another profiler: start it" in failure(
            vllm, tmp_path / "out"
        )
    assert vllm.posted == []


def test_a_folder_in_the_cloud_is_not_read(vllm, tmp_path, monkeypatch):
    runs_here(monkeypatch, environment={"VLLM_TORCH_PROFILER_DIR": "gs://bucket/traces"})
    assert "in gs://bucket/traces, which cannot be read from here" in failure(vllm, tmp_path / "out")


def test_sglang_writes_into_a_folder_that_is_only_ours(sglang, tmp_path):
    modes = []
    start = sglang.answers["POST /start_profile"]

    def looked_at(body: dict[str, Any]) -> Any:
        modes.append(stat.S_IMODE(os.stat(body["output_dir"]).st_mode))
        return start(body)

    sglang.answers["POST /start_profile"] = looked_at
    output = tmp_path / "out"
    events, recorded = record(sglang, output, RecordRequest(0.05, record_shapes=True, profile_memory=True))
    assert modes == [0o700]
    body = next(body for path, body in sglang.asked if path == "POST /start_profile")
    assert Path(body.pop("output_dir")).is_relative_to(output.resolve())
    assert body == {"activities": ["CPU", "GPU"], "with_stack": False, "record_shapes": True}
    assert sglang.posted == ["POST /start_profile", "POST /stop_profile"]
    assert [path.name for path in recorded.paths] == ["1700000000.5-TP-0.trace.json.gz"]
    assert list(output.iterdir()) == list(recorded.paths)
    assert recorded.notes == ("--profile-memory had no effect: SGLang does not record memory in a trace",)
    assert stages(events) == [Stage.ASKING, Stage.RECORDING, Stage.WRITING]


def test_sglang_stops_by_itself_after_the_steps(sglang, tmp_path):
    events, recorded = record(sglang, tmp_path / "out", RecordRequest(steps=3))
    assert sglang.posted == ["POST /start_profile"]
    assert Status(Stage.RECORDING, "3 steps, as requests come in") in events
    assert recorded.notes == ("the steps are forward passes of the server",)


def test_all_ranks_of_sglang_are_waited_for(sglang, tmp_path, request):
    def start(body: dict[str, Any]) -> tuple[int, str]:
        for rank, later in ((1, 0.02), (0, 0.15)):
            file = Path(body["output_dir"], f"17.5-TP-{rank}.trace.json.gz")
            threading.Timer(later, file.write_bytes, (PACKED,)).start()
        return 200, ""

    sglang.answers["GET /get_server_info"] = (200, '{"model_path": "m", "tp_size": 2, "version": "0.5"}')
    sglang.answers["POST /start_profile"] = start
    _, recorded = record(sglang, tmp_path / "out", RecordRequest(steps=1))
    assert [path.name for path in recorded.paths] == ["17.5-TP-0.trace.json.gz", "17.5-TP-1.trace.json.gz"]
    request.getfixturevalue("impatient")
    sglang.answers["GET /get_server_info"] = (200, '{"model_path": "m", "tp_size": 3, "version": "0.5"}')
    _, recorded = record(sglang, tmp_path / "less", RecordRequest(steps=1))
    assert len(recorded.paths) == 2
    assert "3 processes were to be recorded, and 2 wrote a trace" in recorded.notes


def test_steps_that_do_not_come_to_an_end_are_stopped(sglang, tmp_path, monkeypatch):
    start = sglang.answers["POST /start_profile"]
    sglang.answers["POST /start_profile"] = lambda body: start({**body, "num_steps": 0})  # no requests come
    monkeypatch.setattr(servers, "STEPS_SECONDS", 0.2)
    _, recorded = record(sglang, tmp_path / "out", RecordRequest(steps=3))
    assert sglang.posted == ["POST /start_profile", "POST /stop_profile"]
    assert len(recorded.paths) == 1


def test_a_server_that_ends_during_its_steps(sglang, tmp_path):
    def start(_: object) -> tuple[int, str]:
        threading.Timer(0.1, sglang.end).start()
        return 200, ""

    sglang.answers["POST /start_profile"] = start
    message = failure(sglang, tmp_path / "out", RecordRequest(steps=3))
    assert f"nothing listens at {sglang.url}: is it still starting, or has it ended?" in message


def test_an_sglang_of_another_user_writes_where_it_always_does(sglang, tmp_path, monkeypatch):
    folder = tmp_path / "profiles"
    folder.mkdir()

    def stop(_: object) -> tuple[int, str]:
        (folder / "17.5-TP-0.trace.json.gz").write_bytes(PACKED)
        return 200, ""

    runs_here(monkeypatch, owner=os.geteuid() + 1, environment={"SGLANG_TORCH_PROFILER_DIR": str(folder)})
    sglang.answers |= {"POST /start_profile": (200, ""), "POST /stop_profile": stop}
    _, recorded = record(sglang, tmp_path / "out")
    assert "output_dir" not in sglang.asked[1][1]
    assert [path.name for path in recorded.paths] == ["17.5-TP-0.trace.json.gz"]


@pytest.mark.parametrize("stage", [Stage.RECORDING, Stage.WRITING])
def test_a_recording_that_is_broken_off_is_stopped_and_leaves_nothing(sglang, tmp_path, stage):
    events = record_server(sglang.url, RecordRequest(duration=0.3), tmp_path / "out")
    for event in events:
        if isinstance(event, Status) and event.stage is stage:
            break
    events.close()  # type: ignore[attr-defined]
    assert sglang.posted == ["POST /start_profile", "POST /stop_profile"]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_recording_that_is_broken_off_before_it_began(vllm, tmp_path):
    events = record_server(vllm.url, RecordRequest(start_in=5), tmp_path / "out")
    for event in events:
        if event == Status(Stage.ASKING, f"{vllm.url} (vLLM 0.15.0)"):
            break
    events.close()  # type: ignore[attr-defined]
    assert vllm.posted == []
    assert list((tmp_path / "out").iterdir()) == []


def test_the_folder_stays_while_the_server_could_still_write(sglang, tmp_path, monkeypatch):
    """SGLang ends if its trace cannot be written."""
    stop = sglang.answers["POST /stop_profile"]
    written = threading.Event()

    def slowly(body: object) -> Any:
        time.sleep(0.3)
        answer = stop(body)
        written.set()
        return answer

    sglang.answers["POST /stop_profile"] = slowly
    monkeypatch.setattr(servers, "CLOSE_SECONDS", 0.05)
    events = record_server(sglang.url, RecordRequest(duration=5), tmp_path / "out")
    assert any(isinstance(event, Status) and event.stage is Stage.RECORDING for event in events)
    events.close()  # type: ignore[attr-defined]
    assert written.wait(60)
    assert len(list((tmp_path / "out").glob(".attach-*/server/*"))) == 1


# --- What is no such server, or a broken one ------------------------------------------------------------
@pytest.mark.parametrize("url", [
    "localhost:8000", "ftp://localhost", "http://", "http://me:secret@host", "http://host:port", "http://[",
    ""
])  # fmt: skip
def test_what_is_no_address(url, tmp_path):
    with pytest.raises(AttachError, match="is not an address such as") as caught:
        list(record_server(url, SHORT, tmp_path / "out"))
    assert caught.value.code == 2


def test_an_address_may_have_a_path(standin, tmp_path):
    standin.answers["GET /llm/version"] = (200, '{"version": "0.15.0"}')
    standin.url += "/llm/v1/"
    assert "was not started for profiling" in failure(standin, tmp_path / "out")
    assert standin.posted == ["POST /llm/start_profile"]


def test_another_server_is_left_alone(standin, tmp_path):
    standin.answers["GET /version"] = (200, '["0.1"]')
    assert "answers, but not like vLLM or SGLang" in failure(standin, tmp_path / "out")
    assert standin.posted == []


@pytest.mark.parametrize(("answer", "message"), [
    (
        (302, "", ("Location", "http://evil.example/\x1b[31m")),
        "redirects /get_server_info to http://evil.example/"
    ),
    ((200, "[" * 100_000), "answers, but not like"), ((200, b"\xff\xfe\x00"), "answers, but not like"),
    ((200, b" " * (products.MAX_REPLY + 1)), "answers /get_server_info with more than 4 MB"),
    (None, "ended instead of answering /get_server_info"),
    ((401, "no"), f"wants an API key: set {products.KEY}"),
    ((200, "short", ("Content-Length", "999")), "ended instead of answering")
])  # fmt: skip
def test_strange_answers(standin, tmp_path, answer, message):
    standin.answers["GET /get_server_info"] = answer if answer is not None else lambda _: None
    assert message in failure(standin, tmp_path / "out")
    assert len(standin.asked) <= 3


def test_a_redirect_is_not_followed(standin, tmp_path):
    other = Standin()
    standin.answers["GET /get_server_info"] = (307, "", ("Location", f"{other.url}/get_server_info"))
    failure(standin, tmp_path / "out")
    other.end()
    assert other.asked == []


def listening(answer: Callable[[socket.socket], object]) -> tuple[socket.socket, str]:
    door = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            while True:
                connection, _ = door.accept()
                with connection:
                    answer(connection)
        except OSError:  # the test is over
            pass

    threading.Thread(target=serve, daemon=True).start()
    return door, f"http://127.0.0.1:{door.getsockname()[1]}"


@pytest.mark.parametrize(("answer", "message", "patience"), [
    (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "does not speak HTTP", 30),
    (lambda c: c.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000), "does not speak HTTP", 30),
    (lambda c: (c.recv(9999), time.sleep(60)), "does not answer", 0.2),
    (
        lambda c: [(c.sendall(b"HTTP/1.1 200 OK\r\nX: "), time.sleep(0.1)) for _ in range(99)],
        "does not answer", 0.2
    )
])  # fmt: skip
def test_what_speaks_no_http_or_never_ends(answer, message, patience, tmp_path, monkeypatch):
    monkeypatch.setattr(products.Server.ask, "__defaults__", (None, patience))
    monkeypatch.setattr(servers, "ANSWER_SECONDS", patience / 2)
    door, url = listening(answer)
    with door, pytest.raises(AttachError, match=message):
        list(record_server(url, SHORT, tmp_path / "out"))


def test_nothing_listens(standin, tmp_path):
    standin.end()
    assert failure(standin, tmp_path / "out").startswith(f"nothing listens at {standin.url}")


def test_a_server_that_ends_in_the_middle(vllm, tmp_path):
    vllm.answers["POST /stop_profile"] = lambda _: None
    assert "ended instead of answering /stop_profile: its log says why" in failure(vllm, tmp_path / "out")


def test_a_server_that_fails_to_stop(vllm, tmp_path):
    vllm.answers["POST /stop_profile"] = (500, '{"error": "RPC call\x1b[2J timed out"}')
    assert 'could not finish the recording (500: {"error": "RPC call␛[2J timed out"})' in failure(
        vllm, tmp_path / "out"
    )


def test_the_key_goes_with_every_request(vllm, tmp_path, monkeypatch):
    monkeypatch.setenv(products.KEY, "sesame")
    record(vllm, tmp_path / "out")
    assert {headers.get("Authorization") for headers in vllm.headers} == {"Bearer sesame"}


def test_sglang_with_two_keys_takes_the_admin_key_for_recording(sglang, tmp_path, monkeypatch):
    """As `decide_request_auth` of its sources has it: either key opens its own endpoints only."""

    def behind(key: str, answer: Any) -> Callable[[object], Any]:
        def opened(body: object) -> Any:
            if sglang.headers[-1].get("Authorization") != f"Bearer {key}":
                return 401, '{"error":"Unauthorized"}'
            return answer(body) if callable(answer) else answer

        return opened

    for path, answer in sglang.answers.items():
        sglang.answers[path] = behind("open" if path.startswith("GET") else "sesame", answer)
    assert f"wants an API key: set {products.KEY}" in failure(sglang, tmp_path / "out")
    monkeypatch.setenv(products.KEY, "open")
    assert f"wants an admin API key: set {products.ADMIN_KEY}" in failure(sglang, tmp_path / "out")
    monkeypatch.setenv(products.ADMIN_KEY, "sesame")
    assert len(record(sglang, tmp_path / "out")[1].paths) == 1


def test_an_output_that_cannot_be_written(vllm, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(AttachError, match=r"cannot write to .*out: File exists"):
        list(record_server(vllm.url, SHORT, tmp_path / "out"))
    assert vllm.posted == []


# --- Where the server is, and what it was started with ----------------------------------------------------
@pytest.mark.parametrize(("arguments", "environment", "folder", "shapes"), [
    ([], {}, None, False),
    (["--profiler-config", '{"profiler": "torch", "torch_profiler_dir": "/a b"}'], {}, "/a b", False),
    (
        ['--profiler-config={"torch_profiler_dir": "/a", "torch_profiler_record_shapes": true}'], {}, "/a",
        True
    ),
    (["--profiler-config.torch_profiler_dir=/a"], {}, "/a", False),
    (["--profiler-config.torch_profiler_dir", "/a"], {}, "/a", False),
    (["--profiler_config.torch-profiler-dir", "/a", "--x"], {}, "/a", False),
    (["--profiler-config.torch_profiler_record_shapes=True"], {}, None, True),
    ([], {"VLLM_TORCH_PROFILER_DIR": "/e", "VLLM_TORCH_PROFILER_RECORD_SHAPES": "1"}, "/e", True),
    (["--profiler-config.torch_profiler_dir=/a"], {"VLLM_TORCH_PROFILER_DIR": "/e"}, "/a", False),
    (["--profiler-config", "{broken"], {}, None, False), (["--profiler-config"], {}, None, False)
])  # fmt: skip
def test_what_vllm_was_started_with(arguments, environment, folder, shapes):
    config = products.vllm_config(arguments, environment)
    assert config.get("torch_profiler_dir") == folder
    assert config.get("torch_profiler_record_shapes", False) is shapes
    assert config["torch_profiler_with_stack"] is True


SERVER = """
import sys
from http.server import *
from pathlib import Path
folder = Path(sys.argv[1])
class Handler(BaseHTTPRequestHandler):
    def answer(self):
        if self.path == "/stop_profile":
            folder.joinpath("rank0.7.pt.trace.json").write_text('{"traceEvents": []}')
        self.send_response(200 if self.path != "/get_server_info" else 404)
        self.end_headers()
        self.wfile.write(b'{"version": "0.15.0"}')
    do_GET = do_POST = answer
    log_message = lambda *_: None
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("relative", [False, True])
def test_the_folder_of_a_server_on_this_machine_is_found(tmp_path, relative):
    folder = tmp_path / "profiles"
    folder.mkdir()
    named = "profiles" if relative else str(folder)
    options = ["--profiler-config", json.dumps({"profiler": "torch", "torch_profiler_dir": named})]
    command = [sys.executable, "-S", "-c", SERVER, str(folder), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        *_, recorded = record_server(f"http://localhost:{port}", SHORT, tmp_path / "out")
        process.kill()
    assert recorded == Recorded((tmp_path / "out" / "rank0.7.pt.trace.json",))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("bound", "host"),
    [
        ("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("0.0.0.0", "localhost"),
        ("127.0.0.1", "localhost")
    ] + ([("::1", "::1"), ("::", "::1"), ("::", "127.0.0.1")] if socket.has_dualstack_ipv6() else [])
)  # fmt: skip
def test_who_listens_at_a_port(bound, host):
    family = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.create_server((bound, 0), family=family, dualstack_ipv6=bound == "::") as door:
        port = door.getsockname()[1]
        assert procfs.listeners(host, port) == [os.getpid()]
        assert procfs.listeners("192.0.2.1", port) == []  # another machine's
        assert procfs.listeners("no such host", port) == []
        if bound == "127.0.0.1":
            assert procfs.listeners("127.0.0.2", port) == []
    assert procfs.listeners(host, port) == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_is_known_of_a_process(tmp_path):
    command = [sys.executable, "-S", "-c", "input()", "--option", "a b"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={"FOLDER": "x=y"}) as process:
        while not procfs.environment(process.pid):  # it is not yet the program
            time.sleep(0.01)
        assert procfs.environment(process.pid)["FOLDER"] == "x=y"
        assert procfs.arguments(process.pid)[-2:] == ["--option", "a b"]
        assert procfs.owner(process.pid) == os.geteuid()
        assert procfs.is_python(process.pid)
        assert procfs.sees_our_files(process.pid)
        assert procfs.seen_from_here(process.pid, "/a/b") == Path("/a/b")
        assert procfs.with_ancestors(process.pid)[:2] == [process.pid, os.getpid()]
        assert procfs.started(process.pid) is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert procfs.started(process.pid) is None  # a zombie
    assert procfs.started(process.pid) is None
    assert not procfs.is_python(process.pid)


def test_the_ranks_in_order():
    names = [
        "host_7.AsyncLLM.1.pt.trace.json", "dp0_pp0_tp10_rank10.3.pt.trace.json",
        "dp0_pp0_tp2_rank2.9.pt.trace.json", "17.5-TP-1-DP-1.trace.json.gz", "17.5-TP-0-DP-1.trace.json.gz",
        "17.5-TP-1-DP-0.trace.json.gz", "17.5-TP-0-DP-0.trace.json.gz"
    ]  # fmt: skip
    assert sorted(names, key=files.by_rank) == [
        "17.5-TP-0-DP-0.trace.json.gz", "17.5-TP-1-DP-0.trace.json.gz", "17.5-TP-0-DP-1.trace.json.gz",
        "17.5-TP-1-DP-1.trace.json.gz", "dp0_pp0_tp2_rank2.9.pt.trace.json",
        "dp0_pp0_tp10_rank10.3.pt.trace.json", "host_7.AsyncLLM.1.pt.trace.json"
    ]  # fmt: skip
