"""The server of `tracetui serve`: whom it answers, and what it passes on between browsers and viewers.

Each browser gets a process of its own, the viewer, with Textual's driver for that purpose
(`tracetui.tui.browser_driver`). Its standard output and input carry packets: a letter (D: text, M: JSON, P:
part of a file), four bytes with the length, and that many bytes. The page and the server exchange messages
over a WebSocket, in the form that the script of textual-serve has, which draws the page. Of textual-serve,
only that script, its style and its font are used: its server ends in tracebacks, or waits for ever, where a
browser or a viewer does not do its part.
"""

from __future__ import annotations

import asyncio
import hmac
import html
import ipaddress
import json
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError

from tracetui.cli.common import warn
from tracetui.core.cells import TALLEST, WIDEST
from tracetui.core.safe_text import plain

LOCAL = ("127.0.0.1", "localhost", "::1")
ANY = ("0.0.0.0", "::", "")
MOST_VIEWERS = 40
"""At a time, as each is a process that holds the trace."""
MOST_INPUT = 1 << 20
"""Bytes of one message, and of what a viewer has not yet read. A pasted text is one message."""
PIECE = 1 << 14
"""Bytes that are sent to a browser at a time."""
PATIENCE = 30.0
"""Seconds in which a browser takes what it is sent, and a viewer sends the next part of a file."""
HEARTBEAT = 15.0
"""Seconds from one question whether the browser is still there to the next."""
FAREWELL = 2.0
"""Seconds for saying why a page ends."""
MOST_FILES = 4
"""Files of a viewer that can be downloaded: the last ones, as it holds them in memory until then."""
LAST_WORDS = 4096
"""Bytes of a viewer's standard error that are kept."""

MUST_END = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address has the token
    "X-Content-Type-Options": "nosniff",
}
CONTENT_SECURITY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' 'nonce-{}'"
)


class Stdin(msgspec.Struct, array_like=True, tag="stdin"):
    text: str


class Size(msgspec.Struct):
    width: int
    height: int


class Resize(msgspec.Struct, array_like=True, tag="resize"):
    size: Size


class Ping(msgspec.Struct, array_like=True, tag="ping"):
    sent: msgspec.Raw


class Blur(msgspec.Struct, array_like=True, tag="blur"):
    pass


class Focus(msgspec.Struct, array_like=True, tag="focus"):
    pass


decode_message = msgspec.json.Decoder(Stdin | Resize | Ping | Blur | Focus).decode
"""What a browser may send, such as `["resize", {"width": 80, "height": 24}]`. Raises ValueError, and
RecursionError."""


class Ended(Exception):
    """A viewer must end; the message says why, for the page."""


def clamped(size: Size) -> Size:
    """The nearest size that a screen may have."""
    return Size(min(max(size.width, 1), WIDEST), min(max(size.height, 1), TALLEST))


def asked_size(query: Any) -> Size:
    """The size in the address of a WebSocket; 80 x 24 where it makes no sense, as the page says it again."""
    try:
        return clamped(Size(int(query["width"]), int(query["height"])))
    except (KeyError, ValueError):
        return Size(80, 24)


def host_name(host: str) -> str:
    """The name or number in a Host header or an option, in lower case, without a port, brackets or a final
    dot; "" if there is none."""
    bare = host.count(":") > 1 and "[" not in host
    with suppress(ValueError):
        parts = urlsplit(f"//[{host}]" if bare else f"//{host}")
        if not set(host) & set("/?#@\\*, ") and parts.port != -1:  # raises ValueError where it is none
            return (parts.hostname or "").removesuffix(".")
    return ""


def own_names(host: str) -> set[str]:
    """The names by which a browser may know a server that listens on `host`."""
    names = {"localhost", host_name(host)}
    if host not in LOCAL:
        own = socket.gethostname().lower()
        names |= {own, own.partition(".")[0], socket.getfqdn().lower()}
    return names - {""}


def is_own_number(name: str) -> bool:
    """Whether this is an IP address of this machine: it can be bound to."""
    with suppress(ValueError, OSError):
        address = ipaddress.ip_address(name)
        if address.is_loopback:
            return True
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((name, 0))
            return True
    return False


def refusal(host: str, origin: str | None, names: Iterable[str]) -> str | None:
    """Why a request with these headers (Host and Origin) is not answered; None if it is.

    A browser lets any page open a WebSocket to any address: not here, unless we served the page. And the name
    of any page may be made to lead here: we go by the names of this machine only.
    """
    name = host_name(host)
    if name not in names and not is_own_number(name):
        return f"this server does not go by the name {plain(name, 80)!r} (tracetui serve --allow-host NAME)"
    if origin is not None and origin.lower().partition("//")[2] != host.lower():
        return "this page belongs to another site"
    return None


class Viewer:
    """The process that draws for one browser, and the connection to that browser."""

    def __init__(self, connection: web.WebSocketResponse) -> None:
        self.connection = connection
        self.files: dict[str, dict[str, Any]] = {}
        """What can be downloaded, by key."""
        self.parts: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        """Of files, with their keys; b"" ends a file, and ("", b"") all of them."""
        self.downloading = asyncio.Lock()
        self._said = b""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, command: Sequence[str], size: Size) -> None:
        """Start the process. Raises Ended."""
        pipe = asyncio.subprocess.PIPE
        environment = os.environ | {
            "TRACETUI_SERVED": "1",
            "TEXTUAL_DRIVER": "tracetui.tui.browser_driver:BrowserDriver",
            "TEXTUAL_COLOR_SYSTEM": "truecolor",
            "TEXTUAL_FPS": "60",
            "COLUMNS": str(size.width),
            "ROWS": str(size.height),
        }
        try:
            # In a process group of its own, so that what it starts ends with it.
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                limit=PIECE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise Ended(f"The viewer cannot be started: {error.strerror}.") from None

    async def stop(self) -> None:
        """End the process and what it has started; nothing in it is to be kept."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            if process.returncode is not None:
                pass
            elif sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def tell(self, kind: bytes, data: bytes) -> None:
        """Send the process a packet. Raises Ended if it does not read what it is sent."""
        assert self._process is not None
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(kind + len(data).to_bytes(4, "big") + data)
            if stdin.transport.get_write_buffer_size() > MOST_INPUT:
                raise Ended("The viewer has ended: more was typed than it can take.")

    def tell_json(self, **facts: object) -> None:
        self.tell(b"M", json.dumps(facts).encode())

    async def part(self, key: str) -> bytes:
        """The next part of a file; b"" after the last one. Raises Ended."""
        self.tell_json(type="deliver_chunk_request", key=key, size=PIECE)
        of = part = None
        while of != key:  # else of one that was not fetched to its end
            of, part = await self.parts.get()
            if of == "":
                raise Ended("The viewer has ended.")
        assert part is not None
        return part

    async def _send(self, data: bytes | str) -> None:
        """Send the browser something. Raises Ended, and ConnectionError if it has gone."""
        send = self.connection.send_str if isinstance(data, str) else self.connection.send_bytes
        try:
            await asyncio.wait_for(send(data), PATIENCE)
        except asyncio.TimeoutError:
            raise Ended("The viewer has ended: the browser took nothing for a while.") from None

    async def listen(self) -> None:
        """Pass on what the browser sends, until it leaves. Raises Ended."""
        async for message in self.connection:
            if message.type == WSMsgType.ERROR:  # it does not answer
                return
            try:
                if message.type != WSMsgType.TEXT:
                    raise ValueError("not text")
                said = decode_message(message.data)
            except (ValueError, RecursionError) as error:
                await self._send(json.dumps(["log", f"refused: {plain(str(error), 200)}"]))
                continue
            if isinstance(said, Stdin):
                self.tell(b"D", said.text.encode())
            elif isinstance(said, Resize):
                size = clamped(said.size)
                self.tell_json(type="resize", width=size.width, height=size.height)
            elif isinstance(said, Ping):
                await self._send(f'["pong",{bytes(said.sent).decode()}]')
            else:
                self.tell_json(type="blur" if isinstance(said, Blur) else "focus")

    async def draw(self) -> None:
        """Pass on what the process draws, until it ends. Raises Ended to say why."""
        assert self._process is not None
        hear, code = asyncio.create_task(self._hear_errors()), 0
        try:
            # It has ended, or has not even begun.
            with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._pass_on()
            with suppress(asyncio.TimeoutError):  # what it still has to say
                code = await asyncio.wait_for(self._process.wait(), FAREWELL)
            await self.stop()
            await hear
        finally:
            hear.cancel()
        lines = plain_lines(self._said) if code else []
        raise Ended(f"The viewer has ended{': ' + lines[-1].removeprefix('tracetui: ') if lines else '.'}")

    async def _hear_errors(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(LAST_WORDS):
            self._said = (self._said + said)[-LAST_WORDS:]

    async def _pass_on(self) -> None:
        assert self._process is not None
        output = self._process.stdout
        assert output is not None
        while await output.readuntil() != b"__GANGLION__\n":
            pass
        while True:
            kind, size = await output.readexactly(1), int.from_bytes(await output.readexactly(4), "big")
            if kind == b"D":  # may be a large picture: never hold all of it
                while size:
                    piece = await output.readexactly(min(size, PIECE))
                    size -= len(piece)
                    await self._send(piece)
                continue
            packet = await output.readexactly(size)
            if kind == b"P":
                key, _, part = packet.partition(b"\n")
                self.parts.put_nowait((key.decode(), part))
                continue
            said = json.loads(packet)
            if said["type"] == "exit":
                return
            if said["type"] == "deliver_file_start":
                self.files[said["key"]] = said
                if len(self.files) > MOST_FILES:
                    del self.files[next(iter(self.files))]
                await self._send(json.dumps(["deliver_file_start", said["key"]]))


def is_our_error(record: logging.LogRecord) -> bool:
    """Whether what aiohttp reports is an error here, not a request that is no HTTP: it answers those."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def plain_lines(said: bytes) -> list[str]:
    """The lines of a process's output that are not empty, safe to show."""
    lines = (plain(line.strip(), 1000) for line in said.decode(errors="replace").splitlines())
    return [line for line in lines if line]


class Server:
    """Shows what `command` draws in browsers.

    `names` are the names in the Host headers that are answered; `token` must be in every address; None for no
    token.
    """

    def __init__(
        self, command: Sequence[str], title: str, host: str, port: int, names: set[str], token: str | None
    ) -> None:
        self.command, self.title, self.host, self.port = command, title, host, port
        self.names, self.token = names, token
        self.viewers: set[Viewer] = set()
        self.ended: asyncio.Future[int] | None = None

    @property
    def address(self) -> str:
        """Where a browser finds the page, with the token."""
        name = socket.gethostname() if self.host in ANY else self.host
        name = f"[{name}]" if ":" in name else name
        return f"http://{name}:{self.port}/{f'?token={self.token}' if self.token else ''}"

    def run(self, listening: Callable[[], object]) -> int:
        """Serve until a signal ends the program; returns its number. Calls `listening` once browsers can
        connect. Raises OSError."""
        return asyncio.run(self._run(listening))

    async def _run(self, listening: Callable[[], object]) -> int:
        loop = asyncio.get_running_loop()
        self.ended = loop.create_future()
        for name in MUST_END:
            number = getattr(signal, name, None)
            # Where it is ignored (nohup), a closed terminal is nothing to us.
            if number is not None and not (name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN):
                with suppress(NotImplementedError):  # Windows: KeyboardInterrupt
                    loop.add_signal_handler(number, self._end, number)
        log = logging.getLogger("tracetui.serve")
        log.addFilter(is_our_error)
        runner = web.AppRunner(self.app(), access_log=None, logger=log, shutdown_timeout=FAREWELL / 4)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.host, self.port).start()
            listening()
            return await self.ended
        finally:
            await asyncio.gather(*(viewer.stop() for viewer in self.viewers))
            await runner.cleanup()

    def _end(self, number: int) -> None:
        if self.ended is not None and not self.ended.done():
            self.ended.set_result(number)

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        spec = find_spec("textual_serve")
        assert spec is not None
        assert spec.origin is not None
        app.add_routes(
            [
                web.get("/", self._page),
                web.get("/ws", self._view),
                web.get("/download/{key}", self._download),
                web.static("/static", Path(spec.origin).parent / "static"),
            ]
        )
        return app

    @web.middleware  # type: ignore[untyped-decorator]
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        headers = request.headers
        why = refusal(headers.get("Host", ""), headers.get("Origin"), self.names)
        given = request.query.get("token", "").encode(errors="replace")
        if why is None and self.token and not hmac.compare_digest(given, self.token.encode()):
            why = "open the address that tracetui serve printed: it ends in a token"
        if why is not None:
            raise web.HTTPForbidden(text=why + "\n", headers=HEADERS)
        response: web.StreamResponse = await handler(request)
        return response

    async def _page(self, request: web.Request) -> web.Response:
        nonce = secrets.token_urlsafe()
        text = files("tracetui.cli").joinpath("page.html").read_text(encoding="utf-8")
        token = f"?token={self.token}" if self.token else ""
        for field, value in (("NONCE", nonce), ("TOKEN", token), ("NAME", html.escape(self.title))):
            text = text.replace(f"{{{{{field}}}}}", value)
        headers = HEADERS | {"Content-Security-Policy": CONTENT_SECURITY.format(nonce)}
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _view(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=MOST_INPUT, timeout=FAREWELL)
        await connection.prepare(request)
        viewer, tasks = Viewer(connection), set[asyncio.Task[None]]()
        why = ""
        try:
            if len(self.viewers) >= MOST_VIEWERS:
                raise Ended(f"{MOST_VIEWERS} are looking at this trace already.")
            self.viewers.add(viewer)
            await viewer.start(self.command, asked_size(request.query))
            tasks = {asyncio.create_task(viewer.draw()), asyncio.create_task(viewer.listen())}
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        except ConnectionError:
            pass  # the browser has left
        except Ended as error:
            why = str(error).replace(os.path.abspath(self.command[-1]), self.title)
        finally:
            await viewer.stop()  # first: `wait_for` of Python 3.11 may swallow that a task is canceled
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.viewers.discard(viewer)
            viewer.parts.put_nowait(("", b""))
            await self._say_why(connection, request, why)
        return connection

    async def _say_why(self, connection: web.WebSocketResponse, request: web.Request, why: str) -> None:
        """Close a connection; the page shows the reason."""
        if self.ended is not None and self.ended.done():
            why = "The server has ended."
        elif why not in ("", "The viewer has ended."):
            with suppress(OSError, ValueError):
                warn(why)
        reason = why.encode()[:120].decode(errors="ignore").encode()  # more does not fit
        try:
            await asyncio.wait_for(connection.close(message=reason), FAREWELL)
        except asyncio.TimeoutError:  # what was sent before has not been taken
            if request.transport is not None:
                request.transport.abort()

    async def _download(self, request: web.Request) -> web.StreamResponse:
        key = request.match_info["key"]
        viewer = next((one for one in self.viewers if key in one.files), None)
        if viewer is None:
            raise web.HTTPNotFound(text="there is no such file (any more)\n")
        file = viewer.files.pop(key)
        named = f"attachment; filename*=UTF-8''{quote(os.path.basename(file['path']), '')}"
        response = web.StreamResponse(headers=HEADERS | {"Content-Disposition": named})
        response.content_type = file["mime_type"] or "application/octet-stream"
        async with viewer.downloading:
            await response.prepare(request)
            try:
                while part := await asyncio.wait_for(viewer.part(key), PATIENCE):
                    await asyncio.wait_for(response.write(part), PATIENCE)
            except (Ended, asyncio.TimeoutError):
                if request.transport is not None:
                    request.transport.abort()  # or the browser would take what it has for the whole file
        return response
