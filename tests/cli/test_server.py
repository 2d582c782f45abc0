"""A real server of `tracetui serve`, and clients that do not do their part."""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("textual_serve")
aiohttp = pytest.importorskip("aiohttp")

if sys.platform == "win32":
    pytest.skip("needs POSIX signals", allow_module_level=True)

from tracetui.cli import server as module  # noqa: E402
from tracetui.cli.serve import VIEWER  # noqa: E402
from tracetui.cli.server import Size, clamped, host_name, own_names, refusal  # noqa: E402
from tracetui.core import threads  # noqa: E402

LLAMA = Path(__file__).resolve().parent.parent / "data" / "llama_train.json.gz"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
DRAWN = b"ProfilerStep#2"
floods = pytest.mark.parametrize("seconds", [0.5, pytest.param(8, marks=pytest.mark.long)])
"""For which a client sends all that it can."""


class Served:
    """`tracetui serve` in a process of its own, and what it has started."""

    def __init__(self, trace: Path, folder: Path, *options: str, before: str = "") -> None:
        """`before`: Python that is run first."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.errors = folder / "errors"
        code = f"{before}\nfrom tracetui.cli import main; main()"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, "serve", str(trace), "--port", str(self.port), *options],
                env=os.environ | {"TRACETUI_STATE": str(folder / "state")}, stdout=subprocess.PIPE,
                stderr=errors, text=True
            )  # fmt: skip
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        match = re.search(r"http://\S+", self.said)
        assert match, self.errors.read_text()
        self.address = match[0]

    @property
    def below(self) -> set[int]:
        """The processes that the server has started, and those that they have."""
        rows = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
        parents = {int(child): int(parent) for child, parent in map(str.split, rows.splitlines())}
        found = {self.process.pid}
        for _ in range(4):
            found |= {child for child, parent in parents.items() if parent in found}
        return {pid for pid in found - {self.process.pid} if is_there(pid)}  # not `ps` itself

    @asynccontextmanager
    async def viewer(self, size: str = "?width=100&height=30", drawn: bytes = DRAWN) -> AsyncIterator[Any]:
        """A browser's socket, once the trace has been drawn."""
        joint = "&" if "?" in size else "?"
        token = f"{joint}{self.address.partition('?')[2]}" if "token" in self.address else ""
        url = f"http://127.0.0.1:{self.port}/ws{size}{token}"
        async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as found:
            await read(found, drawn)
            yield found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def is_there(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(state) and not state.startswith("Z")


async def until(true: Callable[[], bool], seconds: float) -> bool:
    """Whether something became so in this time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


async def read(connection: Any, wanted: bytes, seconds: float = 60) -> bytes:
    """What comes until this is in it."""
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen:
        message = await connection.receive(timeout=max(0.01, deadline - time.monotonic()))
        assert isinstance(message.data, bytes | str), (message, seen[-500:])
        seen += message.data if isinstance(message.data, bytes) else message.data.encode()
    return seen


async def told(connection: Any, kind: str, seconds: float = 60) -> Any:
    """What comes with the next message of this kind."""
    deadline = time.monotonic() + seconds
    while True:
        message = await connection.receive(timeout=max(0.01, deadline - time.monotonic()))
        assert isinstance(message.data, bytes | str), message
        if isinstance(message.data, str) and (said := json.loads(message.data))[0] == kind:
            return said[1]


async def closed(connection: Any, seconds: float = 60) -> str:
    """Why the server closes a connection."""
    deadline = time.monotonic() + seconds
    while True:
        message = await connection.receive(timeout=max(0.01, deadline - time.monotonic()))
        if message.type == aiohttp.WSMsgType.CLOSE:
            return str(message.extra)
        assert isinstance(message.data, bytes | str), message


def shake_hands(served: Served) -> socket.socket:
    """A browser's socket without a library, that reads and answers nothing by itself."""
    found = socket.create_connection(("127.0.0.1", served.port))
    key = base64.b64encode(os.urandom(16)).decode()
    found.sendall(
        "GET /ws?width=200&height=60 HTTP/1.1\r\nHost: localhost\r\n"
        "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert b"101" in found.recv(1000)
    return found


def memory(pid: int, what: str = "VmRSS") -> int:
    """MB of a process."""
    return int(re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) // 1024  # type: ignore[index]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without a token, which every test must leave as it was: with nobody looking."""
    served = Served(LLAMA, tmp_path_factory.mktemp("served"), "--no-token")
    yield served
    served.stop()
    assert served.errors.read_text() == ""


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts servers for one test."""
    started: list[Served] = []

    def start(*options: str, trace: Path = LLAMA, before: str = "") -> Served:
        started.append(Served(trace, tmp_path, *options, before=before))
        return started[-1]

    yield start
    for served in started:
        served.stop()


# Whom it answers
@pytest.mark.parametrize(("host", "name"), [
    ("localhost:8000", "localhost"), ("LocalHost.:8000", "localhost"), ("127.0.0.1", "127.0.0.1"),
    ("[::1]:8000", "::1"), ("::1", "::1"), ("box.example:80", "box.example"), ("", ""), ("[x", ""),
    ("localhost:port", ""), ("localhost:99999", ""), ("localhost/evil", ""), ("evil@localhost", ""), ("*", "")
])  # fmt: skip
def test_the_name_in_a_host_header(host, name):
    assert host_name(host) == name


def test_a_server_goes_by_the_names_of_its_machine(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Box")
    monkeypatch.setattr(socket, "getfqdn", lambda: "box.example")
    assert own_names("127.0.0.1") == {"localhost", "127.0.0.1"}
    assert own_names("0.0.0.0") == {"localhost", "0.0.0.0", "box", "box.example"}
    assert "lan.example" in own_names("Lan.Example")


NAMES = ("localhost", "box")


@pytest.mark.parametrize(("host", "origin", "answered"), [
    ("localhost:8000", None, True),  # curl
    ("localhost:9000", "http://localhost:9000", True),  # through a tunnel
    ("LOCALHOST:9000", "http://localhost:9000", True),
    ("127.0.0.1:8000", "http://127.0.0.1:8000", True),
    ("[::1]:8000", "http://[::1]:8000", True),
    ("box:8000", "https://box:8000", True),  # behind a proxy
    ("BOX.", None, True),
    ("localhost:8000", "https://evil.example", False),
    ("localhost:8000", "http://localhost:3000", False),
    ("localhost:8000", "null", False),
    ("localhost:8000", "", False),
    ("evil.example:8000", "http://evil.example:8000", False),  # a name made to lead here
    ("evil.example:8000", None, False),
    ("localhost.evil.example", None, False),
    ("box.evil.example", None, False),
    ("evil.localhost@evil.example", None, False),
    ("192.0.2.1:8000", None, False),  # a number of no machine
    ("", None, False),
    ("[x", None, False),
])  # fmt: skip
def test_only_our_own_page_is_answered(host, origin, answered):
    assert (refusal(host, origin, NAMES) is None) is answered


def test_a_number_of_this_machine_is_answered():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        try:
            out.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("no network")
        own = out.getsockname()[0]
    assert refusal(f"{own}:8000", f"http://{own}:8000", NAMES) is None


async def get(served: Served, path: str, **headers: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{served.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def test_without_the_token_nothing_is_answered(alone):
    served = alone()
    token = served.address.partition("?token=")[2]
    assert len(token) >= 43
    for path in ("/", "/ws", "/static/js/textual.js", "/download/x", "/nothing"):
        for wrong in ("", "?token=", f"?token={token[:-1]}", f"?token={token}x", "?token=%ff%f0\udcff"):
            status, text = await get(served, path + wrong)
            assert (status, len(text.splitlines())) == (403, 1), path
            assert "address that tracetui serve printed" in text
    assert (await get(served, f"/static/js/textual.js?token={token}"))[0] == 200
    assert (await get(served, f"/?token={token}", Host="evil.example"))[0] == 403
    assert (await get(served, f"/ws?token={token}", Origin="http://evil.example"))[0] == 403
    status, text = await get(served, f"/?token={token}")
    assert status == 200
    assert f"textual.js?token={token}" in text
    async with served.viewer():
        pass
    assert alone().address.partition("?token=")[2] != token
    assert served.errors.read_text() == ""


async def test_names_can_be_added_on_any_address(alone):
    served = alone("--no-token", "--host", "0.0.0.0", "--allow-host", "Box.Example", "--allow-host", "x")
    for host, status in (
        ("box.example", 200),
        ("x:80", 200),
        ("localhost:1234", 200),
        (f"{socket.gethostname()}:{served.port}", 200),
        ("evil.example", 403),
        ("sub.box.example", 403),
    ):
        assert (await get(served, "/", Host=host))[0] == status, host
    assert "--allow-host" in (await get(served, "/", Host="evil.example"))[1]


async def test_the_page_says_what_it_shows(tmp_path, alone):
    trace = tmp_path / "<b> & {{TOKEN}}.json.gz"
    trace.write_bytes(LLAMA.read_bytes())
    _, text = await get(alone("--no-token", trace=trace), "/")
    assert "<title>&lt;b&gt; &amp; {{TOKEN}}.json.gz</title>" in text
    assert "Opening &lt;b&gt; &amp; {{TOKEN}}.json.gz …" in text
    assert 'rel="icon"' in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


# Sizes
@pytest.mark.parametrize(("size", "expected"), [
    ((80, 24), (80, 24)), ((0, -5), (1, 1)), ((10**30, 100_000), (1000, 500)), ((-(10**30), 1), (1, 1))
])  # fmt: skip
def test_sizes_are_bounded(size, expected):
    assert clamped(Size(*size)) == Size(*expected)


@pytest.mark.parametrize(("query", "expected"), [
    ({"width": "100", "height": "30"}, (100, 30)),
    ({"width": "-1", "height": "99999999999999999999"}, (1, 500)), ({"width": "100"}, (80, 24)),
    ({}, (80, 24)), ({"width": "wide", "height": "1e3"}, (80, 24)),
    ({"width": "NaN", "height": ""}, (80, 24)), ({"width": "9" * 5000, "height": "1"}, (80, 24))
])  # fmt: skip
def test_the_size_in_an_address(query, expected):
    assert module.asked_size(query) == Size(*expected)


@LINUX
@pytest.mark.parametrize("size", ["?width=100000&height=100000", "?width=-3&height=0", "?width=x", ""])
async def test_any_size_can_be_asked_for(shared, size):
    async with shared.viewer(size, b"\x1b[") as browser:
        await asyncio.sleep(1)
        for width, height in ((10**6, 10**6), (0, 0), (-1, 5), (10**40, 1)):
            await browser.send_json(["resize", {"width": width, "height": height}])
        await browser.send_json(["resize", {"width": 100, "height": 30}])
        await read(browser, DRAWN)
        (pid,) = shared.below
        assert memory(pid, "VmHWM") < 250
    assert await until(lambda: not shared.below, 5)


# Messages

WRONG: list[str | bytes] = [
    "", "no JSON", "null", "1", '"stdin"', "{}", "[]", "[1]", "[[]]", '["nothing"]', '["stdin"]',
    '["stdin", 1]', '["stdin", "\\ud800"]', '["resize"]', '["resize", 5]', '["resize", {}]',
    '["resize", {"width": 80}]', '["resize", {"width": "80", "height": "24"}]',
    '["resize", {"width": 1e999, "height": 24}]', '["resize", {"width": NaN, "height": null}]', '["ping"]',
    "[" * 100_000, '["ping", ' + "[" * 100_000 + "]" * 100_000 + "]", b"", b'["stdin", "q"]', b"\xff" * 1000
]  # fmt: skip


async def test_what_is_no_message_is_refused_in_one_line(shared):
    async with shared.viewer() as browser:
        for wrong in WRONG:
            await (browser.send_bytes if isinstance(wrong, bytes) else browser.send_str)(wrong)
            said = await told(browser, "log")
            assert said.startswith("refused: "), wrong
            assert len(said.splitlines()) == 1
        await browser.send_json(["ping", {"still": "there"}])
        assert await told(browser, "pong") == {"still": "there"}
        await browser.send_json(["stdin", "c"])
        await read(browser, b"off in a browser")
    assert await until(lambda: not shared.below, 5)


BROKEN = {
    "too large": b"\x81\xff" + struct.pack(">Q", 2 << 20) + bytes(4) + b"[" * (2 << 20),
    "far too large": b"\x81\xff" + b"\x7f" * 8 + bytes(4), "not UTF-8": b"\x81\x82" + bytes(4) + b"\xff\xfe",
    "no frame": b"\xff" * 100, "not compressed": b"\xc1\x84" + bytes(4) + b"\xff" * 4
}  # fmt: skip


async def test_a_broken_frame_ends_one_viewer(shared):
    async with shared.viewer() as other:
        for kind, frame in BROKEN.items():
            with shake_hands(shared) as browser:
                assert await until(lambda: len(shared.below) == 2, 10), kind
                with suppress(ConnectionError):
                    browser.sendall(frame)
                assert await until(lambda: len(shared.below) == 1, 5), kind
            await other.send_json(["ping", 1])
            assert await told(other, "pong") == 1


FLOODS: dict[str, list[Any]] = {
    "keys": ["stdin", "wsad" * 500], "mouse": ["stdin", "\x1b[<35;20;10M\x1b[<35;40;12M" * 100],
    "paste": ["stdin", "\x1b[200~" + "x" * 2000], "sizes": ["resize", {"width": 999, "height": 499}],
    "pings": ["ping", "x" * 10_000], "nonsense": ["nonsense", "x" * 10_000], "focus": ["focus"]
}  # fmt: skip


@LINUX
@floods
async def test_a_flood_takes_little_memory(alone, seconds):
    """Nothing of what comes back is read. The viewer may end, and nobody else."""
    served = alone("--no-token")
    async with served.viewer() as other:
        (first,) = served.below
        for kind, message in FLOODS.items():
            async with served.viewer() as browser:
                (pid,), text = served.below - {first}, json.dumps(message)

                async def flood(browser: Any = browser, text: str = text) -> None:
                    with suppress(ConnectionError):
                        while not browser.closed:
                            await browser.send_str(text)

                before, flooding = memory(served.process.pid), asyncio.create_task(flood())
                for _ in range(int(10 * seconds)):
                    await asyncio.sleep(0.1)
                    if is_there(pid):
                        assert memory(pid) < 250, kind
                assert memory(served.process.pid) - before < 60, kind
                flooding.cancel()
                await asyncio.wait([flooding])
            assert await until(lambda: served.below == {first}, 20), kind
            await other.send_json(["ping", 1])
            assert await told(other, "pong") == 1
    assert "Traceback" not in served.errors.read_text()


def start_viewer(drawn: Path, server: int = 0) -> subprocess.Popen[bytes]:
    """A viewer without a server, that writes into a file."""
    driver = "tracetui.tui.browser_driver:BrowserDriver"
    with open(drawn, "wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", VIEWER, str(server or os.getpid()), "open", "--", str(LLAMA)],
            stdin=subprocess.PIPE, stdout=file,
            env=os.environ | {"TRACETUI_SERVED": "1", "TEXTUAL_DRIVER": driver}, start_new_session=True
        )  # fmt: skip


def test_a_viewer_ends_with_its_input_or_its_server(tmp_path):
    with start_viewer(tmp_path / "drawn") as viewer:
        deadline = time.monotonic() + 30
        while DRAWN not in (tmp_path / "drawn").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert viewer.stdin is not None
        viewer.stdin.close()
        assert viewer.wait(1) == -signal.SIGKILL
    with start_viewer(tmp_path / "nothing", server=1) as viewer:
        assert viewer.wait(10) == -signal.SIGKILL


@LINUX
@floods
@pytest.mark.parametrize(
    ("kind", "packet"),
    [(b"D", b"wsad" * 100), (b"D", b"\x1b[<35;20;10M\x1b[<35;40;12M" * 20), (b"M", b'{"type": "focus"}')],
    ids=["keys", "mouse", "focus"],
)
def test_a_viewer_takes_no_more_than_it_can_deal_with(tmp_path, kind, packet, seconds):
    viewer = start_viewer(tmp_path / "drawn")
    try:
        assert viewer.stdin is not None
        deadline = time.monotonic() + 30
        while DRAWN not in (tmp_path / "drawn").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.set_blocking(viewer.stdin.fileno(), False)
        whole = kind + len(packet).to_bytes(4, "big") + packet
        before, rest, deadline = memory(viewer.pid), b"", time.monotonic() + seconds
        while time.monotonic() < deadline:
            rest = rest or whole * 20
            try:
                rest = rest[os.write(viewer.stdin.fileno(), rest) :]
            except BlockingIOError:
                time.sleep(0.001)
        assert memory(viewer.pid) - before < 30
    finally:
        viewer.kill()
        viewer.wait()


@LINUX
async def test_a_viewer_has_a_bound_of_memory(shared):
    async with shared.viewer():
        (pid,) = shared.below
        limits = Path(f"/proc/{pid}/limits").read_text()
    match = re.search(r"Max data size +(\d+)", limits)
    assert match, limits
    assert threads.MARGIN < int(match[1]) < threads.MARGIN + (400 << 20)


@LINUX
def test_beyond_its_bound_there_is_no_memory():
    code = (
        "from tracetui.core import threads; threads.limit_memory(1000)\n"
        "some = bytearray(threads.MARGIN // 2)\n"
        "try: more = bytearray(threads.MARGIN)\n"
        "except MemoryError: print('enough')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("enough\n", "")


async def test_input_that_is_no_key_is_ignored(shared):
    async with shared.viewer() as browser:
        for text in ("", "\x1b[97;1:3u", "c"):
            await browser.send_json(["stdin", text])
        await read(browser, b"off in a browser")


# Who leaves, and how
async def test_a_browser_that_vanishes_takes_its_viewer_along(shared):
    with shake_hands(shared) as polite:
        assert await until(lambda: len(shared.below) == 1, 10)
        polite.shutdown(socket.SHUT_RDWR)
        assert await until(lambda: not shared.below, 1)
    rude = shake_hands(shared)
    assert await until(lambda: len(shared.below) == 1, 10)
    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    rude.close()  # with a reset
    assert await until(lambda: not shared.below, 1)
    async with shared.viewer():
        pass
    assert await until(lambda: not shared.below, 1)


@LINUX
async def test_a_browser_that_reads_nothing_is_let_go(alone):
    served = alone(
        "--no-token", before="from tracetui.cli import server; server.HEARTBEAT, server.PATIENCE = 2, 3"
    )
    before = memory(served.process.pid)
    with shake_hands(served) as idle:
        assert await until(lambda: len(served.below) == 1, 10)
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1000)
        await asyncio.sleep(3)
        # Much to draw, and nobody to take it.
        body = json.dumps(["stdin", "ws" * 20_000]).encode()
        idle.sendall(b"\x81\xfe" + struct.pack(">H", len(body)) + bytes(4) + body)
        assert await until(lambda: not served.below, 15)
    assert memory(served.process.pid) - before < 30


async def test_a_viewer_that_ends_says_so_on_its_page_only(alone):
    served = alone("--no-token")
    async with served.viewer() as other:
        async with served.viewer() as browser:
            await browser.send_json(["stdin", "q"])
            assert await closed(browser) == "The viewer has ended."
        (left,) = served.below
        async with served.viewer() as browser:
            (killed,) = served.below - {left}
            os.kill(killed, signal.SIGKILL)
            assert await closed(browser) == "The viewer has ended."
        await other.send_json(["ping", 1])
        assert await told(other, "pong") == 1
    assert served.errors.read_text() == ""


async def test_a_viewer_that_cannot_start_says_why(tmp_path, alone):
    trace = tmp_path / "gone.json.gz"
    trace.write_bytes(LLAMA.read_bytes())
    served = alone("--no-token", trace=trace)
    trace.unlink()
    with pytest.raises(AssertionError, match=r"gone\.json\.gz: no such file or directory"):
        async with served.viewer():
            pass
    assert served.errors.read_text().splitlines() == [
        "tracetui: note: The viewer has ended: gone.json.gz: no such file or directory"
    ]


async def test_only_so_many_viewers(monkeypatch):
    from aiohttp.test_utils import TestClient, TestServer

    monkeypatch.setattr(module, "MOST_VIEWERS", 1)
    sleeper = [sys.executable, "-c", "import time; print('__GANGLION__', flush=True); time.sleep(60)"]
    served = module.Server(sleeper, "x", "127.0.0.1", 1, {"localhost"}, None)
    async with TestClient(TestServer(served.app())) as client:
        async with client.ws_connect("/ws"):
            async with client.ws_connect("/ws") as second:
                assert await closed(second) == "1 are looking at this trace already."
            assert len(served.viewers) == 1
        assert await until(lambda: not served.viewers, 5)
        async with client.ws_connect("/ws"):
            assert await until(lambda: len(served.viewers) == 1, 5)


@pytest.mark.parametrize(("name", "started"), [
    *((name, True) for name in ("SIGTERM", "SIGKILL")), *((name, False) for name in ("SIGINT", "SIGKILL")),
    *(pytest.param(name, True, marks=pytest.mark.long) for name in ("SIGINT", "SIGQUIT", "SIGHUP")),
    *(pytest.param(name, False, marks=pytest.mark.long) for name in ("SIGTERM", "SIGHUP", "SIGQUIT"))
])  # fmt: skip
async def test_nothing_is_left_of_a_server(alone, name, started):
    served = alone("--no-token")
    async with served.viewer("?width=80&height=24", DRAWN if started else b""):
        assert await until(lambda: len(served.below) == 1, 5)
        below, number = served.below, getattr(signal, name)
        served.process.send_signal(number)
        assert served.process.wait(2) == (-number if name == "SIGKILL" else 128 + number)
        assert await until(lambda: not any(map(is_there, below)), 1)
    assert served.errors.read_text() == ""


async def test_the_page_learns_that_the_server_ends(alone):
    served = alone("--no-token")
    async with served.viewer() as browser:
        served.process.send_signal(signal.SIGTERM)
        assert await closed(browser) == "The server has ended."


async def test_nohup_is_respected(tmp_path, alone):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        served = alone("--no-token")
    finally:
        signal.signal(signal.SIGHUP, before)
    served.process.send_signal(signal.SIGHUP)
    async with served.viewer():
        pass


def test_a_port_in_use_is_one_line(shared):
    words = ["serve", str(LLAMA), "--port", str(shared.port)]
    done = subprocess.run([sys.executable, "-m", "tracetui", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"tracetui: cannot listen on 127.0.0.1:{shared.port}: Address already in use\n"


async def test_what_is_no_http_is_no_traceback(shared):
    for sent in (
        b"\0" * 10_000,
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%zz?%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", shared.port)) as client:
            client.sendall(sent)
            client.settimeout(5)
            client.recv(100)
    assert (await get(shared, "/"))[0] == 200
    assert shared.errors.read_text() == ""


# Downloads
async def export(browser: Any, name: str) -> str:
    """The key of a file to download."""
    for _ in range(20):  # while the overview grows, the question stays
        for keys in ("\x1b", "E", "\x7f" * 60, name, "\r"):
            await browser.send_json(["stdin", keys])
            await asyncio.sleep(0.3)
        try:
            return str(await told(browser, "deliver_file_start", 1))
        except asyncio.TimeoutError:
            continue
    raise AssertionError("no download")


async def test_a_table_is_downloaded_once_and_whole(shared):
    async with shared.viewer() as browser:
        key = await export(browser, 'a;"é.csv')
        url = f"http://127.0.0.1:{shared.port}/download/{key}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%3B%22%C3%A9.csv"
            text = await answer.text()
        assert "PyTorch's ops" in text
        assert text.endswith("\n")
        assert (await get(shared, f"/download/{key}"))[0] == 404
        # Of those that nobody fetches, only the last ones are kept.
        keys = [await export(browser, f"{i}.csv") for i in range(module.MOST_FILES + 2)]
        found = [(await get(shared, f"/download/{key}"))[0] for key in keys]
        assert found == [404] * 2 + [200] * module.MOST_FILES


async def test_a_download_whose_viewer_ends_is_no_whole_file(shared):
    async with shared.viewer() as browser:
        key = await export(browser, "x.csv")
        (pid,) = shared.below
        os.kill(pid, signal.SIGSTOP)
        download = asyncio.create_task(get(shared, f"/download/{key}"))
        await asyncio.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(aiohttp.ClientError):
            await download


# In a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """A page of a headless Chromium, by its DevTools protocol."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._calls = connection, 0
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._calls += 1
        await self._connection.send_json({"id": self._calls, "method": method, "params": parameters})
        while True:
            said = await self._connection.receive_json(timeout=60)
            if said.get("id") == self._calls:
                assert "result" in said, said
                return dict(said["result"])
            self.events.append((said["method"], said["params"]))

    async def value(self, expression: str) -> Any:
        return (await self.call("Runtime.evaluate", expression=expression))["result"].get("value")

    async def press(self, key: str, code: int) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    def of(self, *methods: str) -> list[dict[str, Any]]:
        return [parameters for method, parameters in self.events if method in methods]

    async def received(self, wanted: bytes) -> bool:
        """Whether this comes over the page's WebSocket, within a while."""
        for _ in range(200):
            await self.value("0")
            frames = [found["response"] for found in self.of("Network.webSocketFrameReceived")]
            if wanted in b"".join(base64.b64decode(f["payloadData"]) for f in frames if f["opcode"] == 2):
                return True
            await asyncio.sleep(0.1)
        return False


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Page]:
    """Raises TimeoutError where it does not answer."""
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
    command = [str(CHROMIUM), *flags, "--remote-debugging-port=0", "--window-size=1400,800"]
    profile = folder / "profile"
    folder.mkdir()
    with open(folder / "said", "wb") as said:
        browser = subprocess.Popen([*command, f"--user-data-dir={profile}", "about:blank"], stderr=said)
    try:
        port = profile / "DevToolsActivePort"
        if not await until(lambda: port.exists() and "\n" in port.read_text(), 60):
            raise asyncio.TimeoutError
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port.read_text().split()[0]}/json") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as connection:
                found = Page(connection)
                for domain in ("Page", "Network", "Runtime"):
                    await asyncio.wait_for(found.call(f"{domain}.enable"), 30)
                yield found
    finally:
        browser.kill()
        browser.wait(30)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    async with AsyncExitStack() as stack:
        for attempt in range(3):  # on a machine with much to do, it sometimes begins to do nothing
            with suppress(asyncio.TimeoutError):
                yield await stack.enter_async_context(chromium(tmp_path / f"chromium {attempt}"))
                return
        pytest.fail("Chromium does not answer")


@pytest.mark.long
async def test_a_page_in_chromium(page, tmp_path, alone):
    served = alone()
    await page.call("Page.navigate", url=served.address)
    while await page.value("document.readyState") != "complete":
        await asyncio.sleep(0.01)
    assert await page.value("document.title") == LLAMA.name
    assert await page.value("document.querySelector('#opening').innerText") == f"Opening {LLAMA.name} …"
    icon = await page.value("document.querySelector('link[rel=icon]').href")
    await page.value(f"window.icon = new Image(); icon.src = {json.dumps(icon)}")
    assert await page.received(DRAWN)
    assert await page.value("icon.naturalWidth") > 0
    assert await page.value("getComputedStyle(document.querySelector('#terminal')).visibility") == "visible"
    assert await page.value("getComputedStyle(document.querySelector('#opening')).display") == "none"
    await asyncio.sleep(2)
    drawn = await page.picture()
    (tmp_path / "drawn.png").write_bytes(drawn)
    assert len(drawn) > 40_000  # text and colors: an empty page has a tenth

    await page.call("Input.insertText", text="c")  # has the focus without a click
    assert await page.received(b"off in a browser")
    await page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "files"))
    file = tmp_path / "files" / "llama_train-overview.csv"
    await page.press("Escape", 27)
    await asyncio.sleep(0.5)
    await page.call("Input.insertText", text="E")
    assert await page.received(b"export to:")
    for _ in range(40):  # while the overview grows, the question stays
        await page.press("Enter", 13)
        if await until(file.exists, 0.5):
            break
    assert "aten::mm" in file.read_text()

    await page.call("Input.insertText", text="q")
    assert await until(lambda: not served.below, 5)
    while not (why := await page.value("document.querySelector('#why').innerText")):
        await asyncio.sleep(0.05)
    assert why == "The viewer has ended."
    await page.value("document.querySelector('button').click()")  # Open again
    assert await until(lambda: len(served.below) == 1, 20)
    await page.call("Page.navigate", url="about:blank")
    assert await until(lambda: not served.below, 2)

    asked = {one["request"]["url"] for one in page.of("Network.requestWillBeSent")}
    asked |= {one["url"] for one in page.of("Network.webSocketCreated")}
    sites = {urlsplit(url).netloc for url in asked if urlsplit(url).scheme not in ("data", "about")}
    assert sites == {f"127.0.0.1:{served.port}"}
    assert {f"{urlsplit(url).scheme}:{urlsplit(url).path}" for url in asked} >= {"ws:/ws", "http:/"}
    assert not page.of("Runtime.exceptionThrown")
    assert "Traceback" not in served.errors.read_text()


@pytest.mark.long
async def test_a_page_says_why_there_is_no_viewer(page, tmp_path, alone):
    trace = tmp_path / "gone.json.gz"
    trace.write_bytes(LLAMA.read_bytes())
    served = alone(trace=trace)
    trace.unlink()
    await page.call("Page.navigate", url=served.address)
    while not (why := await page.value("document.querySelector('#why')?.innerText")):
        await asyncio.sleep(0.05)
    assert why == "The viewer has ended: gone.json.gz: no such file or directory"
    assert await page.value("getComputedStyle(document.querySelector('#opening')).display") == "none"
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(5)
