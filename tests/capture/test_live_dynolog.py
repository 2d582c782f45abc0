"""A daemon that answers as dynolog does, and others that do not."""

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tracetui.capture.live import dynolog
from tracetui.capture.live.dynolog import ask_daemon
from tracetui.capture.live.model import AttachError

CONFIG = "ACTIVITIES_LOG_FILE=/tmp/x.json\nACTIVITIES_DURATION_MSECS=500\n"


def packed(reply: object) -> bytes:
    text = json.dumps(reply).encode()
    return struct.pack("=i", len(text)) + text


class Daemon:
    """Knows processes of jobs: job to process to whether a request waits for it."""

    def __init__(self) -> None:
        self.jobs: dict[int, dict[int, bool]] = {}
        self.requests: list[dict[str, Any]] = []
        self.answer: Callable[[socket.socket], object] = self.as_dynolog
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.door.accept()
            except OSError:  # the test is over
                return
            with connection, suppress(OSError):  # the other side has gone
                self.answer(connection)

    def as_dynolog(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as file:
            (size,) = struct.unpack("=i", file.read(4))
            request = json.loads(file.read(size))
        self.requests.append(request)
        assert request["fn"] == "setKinetOnDemandRequest"
        known = self.jobs.get(request["job_id"], {})
        matched = [pid for pid in known if not request["pids"] or pid in request["pids"]]
        free = [pid for pid in matched if not known[pid]][: request["process_limit"]]
        known |= dict.fromkeys(free, True)
        reply = {
            "processesMatched": matched, "eventProfilersTriggered": [], "activityProfilersTriggered": free,
            "eventProfilersBusy": 0, "activityProfilersBusy": len(matched) - len(free)
        }  # fmt: skip
        connection.sendall(packed(reply))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    daemon = Daemon()
    yield daemon
    daemon.door.close()


def test_the_request_is_handed_over(daemon):
    daemon.jobs[0] = {100_000_001: False, 100_000_002: False, 100_000_003: False}
    assert ask_daemon(CONFIG, [100_000_001, 100_000_003], daemon.port) == 2
    assert daemon.requests == [{
        "fn": "setKinetOnDemandRequest", "config": CONFIG, "job_id": 0, "pids": [100_000_001, 100_000_003],
        "process_limit": 1000
    }]  # fmt: skip


def test_a_process_that_has_not_taken_an_earlier_request_is_busy(daemon):
    daemon.jobs[0] = {100_000_001: False, 100_000_002: False}
    assert ask_daemon(CONFIG, [100_000_001], daemon.port) == 1
    with pytest.raises(AttachError, match="has a request for 100000001 that the process has not taken yet"):
        ask_daemon(CONFIG, [100_000_001], daemon.port)
    assert ask_daemon(CONFIG, [100_000_001, 100_000_002], daemon.port) == 1


def test_a_process_that_it_does_not_know(daemon):
    with pytest.raises(AttachError, match="does not know 100000001: start it with KINETO_USE_DAEMON=1"):
        ask_daemon(CONFIG, [100_000_001], daemon.port)


@pytest.mark.parametrize("pids", [[], [0], [-1, 5]])
def test_all_processes_are_never_asked_by_accident(daemon, pids):
    daemon.jobs[0] = {100_000_001: False}
    with pytest.raises(ValueError, match="no process ids"):
        ask_daemon(CONFIG, pids, daemon.port)
    assert daemon.requests == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_processes_of_a_slurm_job_are_asked_by_its_number(daemon):
    with subprocess.Popen(["sleep", "60"], env={"SLURM_JOB_ID": "4711"}) as process:
        while b"sleep" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)
        daemon.jobs = {0: {100_000_001: False}, 4711: {process.pid: False}}
        assert ask_daemon(CONFIG, [process.pid, 100_000_001], daemon.port) == 2
        assert [(request["job_id"], request["pids"]) for request in daemon.requests] == [
            (4711, [process.pid]), (0, [100_000_001])
        ]  # fmt: skip
        process.kill()


def test_an_answer_in_pieces(daemon):
    reply = packed({"activityProfilersTriggered": [1]})

    def slowly(connection: socket.socket) -> None:
        connection.recv(9999)
        for at in range(len(reply)):
            connection.sendall(reply[at : at + 1])
            time.sleep(0.001)

    daemon.answer = slowly
    assert ask_daemon(CONFIG, [100_000_001], daemon.port) == 1


@pytest.mark.parametrize(("reply", "message"), [
    (b"", "closed the connection"), (b"\x01\x00", "closed the connection"),
    (packed({})[:-1], "closed the connection"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a dynolog daemon"),
    (struct.pack("=i", -5) + b"{}", "is not a dynolog daemon"),
    (struct.pack("=i", 0), "is not a dynolog daemon"),
    (struct.pack("=i", 4) + b"\xff\xfe{}", "is not a dynolog daemon"),
    (struct.pack("=i", 100_000) + b"[" * 100_000, "is not a dynolog daemon"),
    (packed([1, 2]), "is not a dynolog daemon"), (packed({"status": "failed"}), "refuses the request"),
    (packed({"activityProfilersTriggered": "many"}), "does not know"),
    (packed({"activityProfilersTriggered": -3, "activityProfilersBusy": None}), "does not know")
])  # fmt: skip
def test_nonsense(daemon, reply, message):
    daemon.answer = lambda connection: (connection.recv(9999), connection.sendall(reply))
    with pytest.raises(AttachError, match=message):
        ask_daemon(CONFIG, [100_000_001], daemon.port)


@pytest.mark.parametrize("drip", [b"", b"\x00"])
def test_a_daemon_that_hangs(daemon, drip, monkeypatch):
    monkeypatch.setattr(dynolog, "SECONDS", 0.2)

    def hang(connection: socket.socket) -> None:
        connection.recv(9999)
        connection.sendall(struct.pack("=i", 1000))
        for _ in range(100):
            connection.sendall(drip)
            time.sleep(0.02)

    daemon.answer = hang
    with pytest.raises(AttachError, match="does not answer"):
        ask_daemon(CONFIG, [100_000_001], daemon.port)


def test_no_daemon(daemon):
    daemon.door.shutdown(socket.SHUT_RDWR)
    daemon.door.close()
    with pytest.raises(AttachError, match=f"no dynolog daemon listens at port {daemon.port}"):
        ask_daemon(CONFIG, [100_000_001], daemon.port)
