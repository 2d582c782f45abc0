"""`tracetui serve`: what it says and starts, whom it answers, and a real server with a real viewer."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from tracetui.cli import main, serve
from tracetui.tui.controllers.export import NOT_YET

LLAMA = Path(__file__).resolve().parent.parent / "data" / "llama_train.json.gz"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str, int, str]]:
    """What would be served."""
    found: list[tuple[list[str], str, int, str]] = []

    def make_server(command: list[str], host: str, port: int, title: str) -> SimpleNamespace:
        found.append((command, host, port, title))
        return SimpleNamespace(public_url=f"http://{host}:{port}", serve=lambda: None)

    monkeypatch.setattr(serve, "make_server", make_server)
    monkeypatch.setattr(serve, "find_spec", lambda name: True)
    monkeypatch.delenv("TRACETUI_SERVED", raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["serve", *words])


def test_a_viewer_is_the_viewer_of_one_trace(
    served: list[tuple[list[str], str, int, str]], tmp_path: Path
) -> None:
    trace = tmp_path / "a 'b'; $(touch x) [bold].json"
    trace.write_bytes(LLAMA.read_bytes())
    result = run(str(trace), "--theme", "light", "--ascii", "--port", "81")
    assert (result.exit_code, result.stderr) == (0, "")
    ((command, host, port, title),) = served
    assert command[-6:] == ["open", "--theme", "light", "--ascii", "--", str(trace)]
    assert (host, port, title) == ("127.0.0.1", 81, trace.name)
    assert os.environ["TRACETUI_SERVED"] == "1"


def test_the_options_of_the_viewer_may_come_first(served: list[tuple[list[str], str, int, str]]) -> None:
    for theme in ("light", "colour-blind"):
        assert CliRunner().invoke(main, ["--theme", theme, "serve", str(LLAMA)]).exit_code == 0
    assert served[0][0][-5:] == ["open", "--theme", "light", "--", str(LLAMA)]


def test_more_than_this_machine_is_warned_of(served: list[tuple[list[str], str, int, str]]) -> None:
    assert (
        "anyone who can reach 0.0.0.0:8000 can read this trace" in run(str(LLAMA), "--host", "0.0.0.0").stderr
    )
    assert run(str(LLAMA), "--host", "localhost").stderr == ""


@pytest.mark.parametrize(("words", "code"), [(["-"], 2), ([str(LLAMA.parent)], 2), (["/no/such.json"], 1)])
def test_what_cannot_be_served(
    words: list[str], code: int, served: list[tuple[list[str], str, int, str]]
) -> None:
    result = run(*words)
    assert result.exit_code == code
    assert len(result.stderr.splitlines()) == 1
    assert not served


def test_without_textual_serve_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    result = run(str(LLAMA))
    assert result.exit_code == 1
    assert result.stderr.endswith("-m pip install textual-serve\n")


@pytest.mark.parametrize(
    ("host", "origin", "local", "expected"),
    [
        ("localhost:8000", None, True, True),  # curl
        ("localhost:9000", "http://localhost:9000", True, True),  # through a tunnel
        ("127.0.0.1:8000", "http://127.0.0.1:8000", True, True),
        ("[::1]:8000", "http://[::1]:8000", True, True),
        ("localhost:8000", "https://evil.example", True, False),
        ("localhost:8000", "http://localhost:3000", True, False),
        ("localhost:8000", "null", True, False),
        ("evil.example:8000", "http://evil.example:8000", True, False),  # a name made to lead here
        ("evil.example:8000", None, True, False),
        ("", None, True, False),
        ("[x", None, True, False),
        ("box.example:8000", "http://box.example:8000", False, True),
        ("box.example:8000", "http://evil.example", False, False),
    ],
)
def test_only_our_own_page_is_answered(host: str, origin: str | None, local: bool, expected: bool) -> None:
    assert serve.allowed(host, origin, local) is expected


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server that shows a trace."""
    pytest.importorskip("textual_serve")
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    trace = tmp_path / "a 'b'; $(touch x).json.gz"
    trace.write_bytes(LLAMA.read_bytes())
    server = subprocess.Popen(
        [sys.executable, "-m", "tracetui", "serve", str(trace), "--port", str(found)],
        env=os.environ | {"TRACETUI_STATE": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    assert shlex.quote(str(found)) in server.stdout.readline()
    yield found
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0
    assert not (tmp_path / "state").exists(), "a viewer has left something behind"
    assert sorted(path.name for path in tmp_path.iterdir()) == [trace.name]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
async def test_a_viewer_sees_the_trace_and_nothing_else(port: int) -> None:
    import aiohttp

    url = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession() as session:

        async def page(**headers: str) -> tuple[int, str]:
            for _ in range(100):
                try:
                    async with session.get(url, headers=headers) as answer:
                        return answer.status, await answer.text()
                except aiohttp.ClientConnectorError:
                    await asyncio.sleep(0.1)
            raise AssertionError("the server does not answer")

        status, text = await page(Host="localhost:1234")
        assert status == 200
        assert 'data-session-websocket-url="ws://localhost:1234/ws"' in text
        assert 'src="http://localhost:1234/static/js/textual.js"' in text
        assert "googleapis" not in text
        assert text.count('document.querySelector(".xterm-helper-textarea")?.focus()') == 1
        font = re.search(r'url\("(/static/fonts/[^"]+)"\)', text)
        assert font is not None
        async with session.get(url + font[1]) as answer:
            assert answer.status == 200
        assert (await page(Host="evil.example"))[0] == 403
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(f"{url}/ws", headers={"Origin": "http://evil.example"})

        async with session.ws_connect(f"{url}/ws?width=120&height=36", headers={"Origin": url}) as socket:

            async def read(*until: str) -> str:
                """What comes until one of these is in it."""
                seen, deadline = b"", time.monotonic() + 60
                while not any(text.encode() in seen for text in until):
                    message = await socket.receive(timeout=deadline - time.monotonic())
                    assert isinstance(message.data, bytes | str), seen[-500:]
                    seen += message.data if isinstance(message.data, bytes) else message.data.encode()
                return seen.decode()

            await read("ProfilerStep#2")
            await socket.send_json(["stdin", "\x1b"])
            await asyncio.sleep(0.3)
            await socket.send_json(["stdin", "c"])
            await read("off in a browser")
            await socket.send_json(["stdin", "E"])
            await read("export to:")
            delivered = NOT_YET
            for _ in range(20):  # while the overview grows, the question stays
                await socket.send_json(["stdin", "\r"])
                if NOT_YET not in (delivered := await read("deliver_file_start", NOT_YET)):
                    break
                await asyncio.sleep(0.5)
            key = delivered.rpartition('deliver_file_start", "')[2].partition('"')[0]
            async with session.get(f"{url}/download/{key}") as answer:
                assert "aten::mm" in await answer.text()


def test_the_last_line_offers_what_a_viewer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.tui.footer import Footer

    class Wide(Footer):
        room = 500

    def offered() -> set[str]:
        return {action for _, _, action in Wide().shown}

    everything = offered()
    monkeypatch.setenv("TRACETUI_SERVED", "1")
    assert everything - offered() == {"capture", "compare"}
