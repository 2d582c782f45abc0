"""vLLM's and SGLang's servers: asking one over HTTP, what it is, and what its recording takes."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tracetui.capture.live import procfs
from tracetui.capture.live.files import TraceFolder, reason
from tracetui.capture.live.model import AttachError, RecordRequest
from tracetui.core import units
from tracetui.core.safe_text import plain

KEY = "TRACETUI_SERVER_KEY"
"""The environment variable with the server's API key, where it has one."""
ADMIN_KEY = "TRACETUI_SERVER_ADMIN_KEY"
"""The same with SGLang's `--admin-api-key`: with both, it takes that one alone for recording."""
MAX_REPLY = 4 << 20
ANSWER_SECONDS = 30.0
"""For one question: a server in the middle of a large batch answers late."""


BOUNDS = ("delay_iterations", "max_iterations", "wait_iterations", "warmup_iterations")
"""The part of vLLM's `--profiler-config` that says which of its steps are recorded."""


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes

    @property
    def good(self) -> bool:
        return self.status // 100 == 2

    @property
    def json(self) -> dict[str, Any]:
        """The answer; empty if it is not an object, or an error."""
        try:
            value = json.loads(self.body) if self.good else None
        except (ValueError, RecursionError):
            value = None
        return value if isinstance(value, dict) else {}

    @property
    def text(self) -> str:
        """Its beginning, safe to show."""
        words = " ".join(self.body[:1000].decode(errors="replace").split())
        return f"{self.status}: {plain(words, 200)}" if words else str(self.status)


class Gone(AttachError):
    """There is no server, or it refuses us: it has done nothing of what was asked."""


class Server:
    """An address, and how to ask what is there. Redirects are not followed. Raises AttachError if it is not
    one."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise AttachError(f"{plain(url, 200)} is not an address such as http://localhost:8000", 2)
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.secure else 80)
        self.path = parts.path.rstrip("/").removesuffix("/v1")
        self.name = plain(f"{parts.scheme}://{parts.netloc}{self.path}", 200)

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float = ANSWER_SECONDS
    ) -> Reply:
        """`seconds` for each wait. Raises AttachError: it cannot be reached, or answers nonsense."""
        headers = {"Connection": "close", "Accept": "application/json"}
        variable = ADMIN_KEY if method == "POST" and os.environ.get(ADMIN_KEY) else KEY
        if key := os.environ.get(variable):
            headers["Authorization"] = f"Bearer {key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = json.dumps(body) if body is not None else None
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = kind(self.host, self.port, timeout=seconds)
        try:
            connection.request(method, self.path + path, content, headers)
            response = connection.getresponse()
            text = response.read(MAX_REPLY + 1)
            if response.length and len(text) <= MAX_REPLY:
                raise http.client.IncompleteRead(text, response.length)
        except (
            http.client.RemoteDisconnected,
            http.client.IncompleteRead,
            ConnectionResetError,
            BrokenPipeError,
        ):
            raise AttachError(f"{self.name} ended instead of answering {path}: its log says why") from None
        except (http.client.HTTPException, ValueError):
            raise AttachError(f"{self.name} does not speak HTTP the way a model server does") from None
        except ConnectionRefusedError:
            raise Gone(f"nothing listens at {self.name}: is it still starting, or has it ended?") from None
        except OSError as error:
            raise AttachError(self._unreachable(error, path, seconds)) from None
        finally:
            connection.close()
        if response.status // 100 == 3:
            target = plain(response.getheader("Location", "elsewhere"), 200)
            raise Gone(f"{self.name} redirects {path} to {target}: give the server's own address")
        if response.status in (401, 403):
            known = method == "POST" and os.environ.get(KEY)  # it was taken for what it is
            wanted = f"an admin API key: set {ADMIN_KEY}" if known else f"an API key: set {KEY}"
            raise Gone(f"{self.name} wants {wanted} to the one that it was started with")
        if len(text) > MAX_REPLY:
            raise AttachError(
                f"{self.name} answers {path} with more than {MAX_REPLY >> 20} MB: not such a server"
            )
        return Reply(response.status, text)

    def _unreachable(self, error: OSError, path: str, seconds: float) -> str:
        if isinstance(error, ssl.SSLError):
            return f"{self.name}: no secure connection ({plain(str(error.reason), 100)})"
        if isinstance(error, TimeoutError):
            return f"{self.name} does not answer {path} within {seconds:g} s"
        return f"cannot reach {self.name}: {reason(error)}"

    def identify(self) -> tuple[str, dict[str, Any]]:
        """`vLLM 0.11.0` or `SGLang 0.5.2`, and what SGLang says of itself. Raises AttachError."""
        # vLLM's /server_info, which only some have, inspects the whole machine: it comes last.
        for path in ("/get_server_info", "/version", "/server_info"):
            info = self.ask("GET", path).json
            version = plain(info["version"], 40) if isinstance(info.get("version"), str) else ""
            if path == "/version" and version:
                return f"vLLM {version}", {}
            if path != "/version" and "model_path" in info and "tp_size" in info:
                return f"SGLang {version}".rstrip(), info
        raise AttachError(
            f"{self.name} answers, but not like vLLM or SGLang; another program can be started by "
            "tracetui run -- … and asked by its process id"
        )


@dataclass(frozen=True)
class Process:
    """The server, on this machine and readable to us."""

    pid: int
    arguments: Sequence[str]
    """The arguments of its ancestors and then its own, as it may have renamed itself."""
    environment: Mapping[str, str]
    owner: int
    our_files: bool
    """Whether a path means the same to it as to us."""

    def place(self, path: str) -> TraceFolder | None:
        """The folder that it calls `path`; None for one that we cannot read, or that is in no file system."""
        if "://" in path:
            return None
        if path.startswith("~/"):
            path = self.environment.get("HOME", "") + path[1:]
        try:
            full = os.path.join(os.readlink(procfs.PROC / str(self.pid) / "cwd"), path)
            folder = procfs.seen_from_here(self.pid, os.path.normpath(full))
            if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
                return None
            return TraceFolder(folder, self.owner)
        except OSError:
            return None


def local_process(server: Server) -> Process | None:
    """The server's process: not a proxy or an SSH tunnel that listens in its place."""
    for pid in procfs.listeners(server.host, server.port):
        if procfs.is_python(pid):
            with suppress(OSError):
                words = [word for each in reversed(procfs.with_ancestors(pid)) for word in _words(each)]
                environment = procfs.environment(pid)
                return Process(pid, words, environment, procfs.owner(pid), procfs.sees_our_files(pid))
    return None


def _words(pid: int) -> list[str]:
    try:
        return procfs.arguments(pid)
    except OSError:
        return []


@dataclass(frozen=True)
class Plan:
    """What to ask of a server, and where its files will lie."""

    product: str
    body: dict[str, Any] | None
    """Of /start_profile."""
    place: TraceFolder | None
    """None: not to be read from here."""
    where: str
    """The folder as the server calls it, safe to show."""
    steps: int | None
    """None: it has to be told to stop."""
    files: int
    """The least number of traces that it writes."""
    refusal: str
    """What to do if it has no /start_profile."""
    notes: tuple[str, ...]


def plan_for(
    product: str, info: Mapping[str, Any], wanted: RecordRequest, local: Process | None, scratch: Path
) -> Plan:
    """`product`, `info`: as identified. `scratch`: an absolute path, in which SGLang may get a folder."""
    if product.startswith("SGLang"):
        return _sglang(product, info, wanted, local, scratch)
    return _vllm(product, wanted, local)


def _vllm(product: str, wanted: RecordRequest, local: Process | None) -> Plan:
    config = vllm_config(local.arguments, local.environment) if local is not None else {}
    folder = str(config.get("torch_profiler_dir") or "")
    old = re.match(r"vLLM 0\.(\d|1[0-2])\.", product) is not None
    new = """--profiler-config '{"profiler": "torch", "torch_profiler_dir": "/FOLDER"}'"""
    refusal = f"start it with {'VLLM_TORCH_PROFILER_DIR=/FOLDER in its environment' if old else new}"
    if config.get("profiler") not in (None, "torch"):
        raise AttachError(f"this {product} was started for another profiler: {refusal}")
    notes = []
    if wanted.steps is not None:
        took = units.duration(wanted.duration * 1e9)
        notes.append(f"vLLM cannot be asked for a number of steps: recorded {took} instead")
    for asked, name, option in (
        (wanted.with_stack, "--with-stack", "torch_profiler_with_stack"),
        (wanted.record_shapes, "--record-shapes", "torch_profiler_record_shapes"),
        (wanted.profile_memory, "--profile-memory", "torch_profiler_with_memory"),
    ):
        if asked and not config.get(option):
            way = f'"{option}": true in its --profiler-config'
            if old:
                way = f"VLLM_{option.replace('with_memory', 'with_profile_memory').upper()}=1"
            notes.append(f"{name} had no effect: vLLM does that only if started with {way}")
    if bounds := [f"{name} {config[name]}" for name in BOUNDS if config.get(name, "0") not in ("0", 0)]:
        notes.append(
            f"vLLM was started with {plain(', '.join(bounds), 200)}: so it records fewer of its steps"
        )
    return Plan(
        product=product,
        body=None,
        place=local.place(folder) if local is not None and folder else None,
        where=plain(folder, 300) or "the folder that it was started with",
        steps=None,
        files=1,
        refusal=refusal,
        notes=tuple(notes),
    )


def vllm_config(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What vLLM's command line and environment say of its profiler, by the names of its `--profiler-config`.

    The command line has it as JSON or by dotted names (`--profiler-config.torch_profiler_dir=/DIR`), with
    dashes or underscores; vLLM before 0.13 has variables.
    """
    config: dict[str, Any] = {"torch_profiler_with_stack": True}
    for name, value in environment.items():
        if name.startswith("VLLM_TORCH_PROFILER_"):
            option = name.removeprefix("VLLM_").lower().replace("with_profile_memory", "with_memory")
            config[option] = value if option.endswith("_dir") else _true(value)
    for word, following in zip(arguments, [*arguments[1:], ""], strict=False):
        name, mark, value = word.partition("=")
        value = value if mark else following
        option, _, field = name.replace("-", "_").partition(".")
        if option == "__profiler_config" and field:
            config[field] = (
                value if field.endswith("_dir") or field in ("profiler", *BOUNDS) else _true(value)
            )
        elif option == "__profiler_config":
            with suppress(ValueError, RecursionError):
                given = json.loads(value)
                config |= given if isinstance(given, dict) else {}
    return config


def _true(text: str) -> bool:
    return text.strip().lower() in ("1", "true")


def _sglang(
    product: str, info: Mapping[str, Any], wanted: RecordRequest, local: Process | None, scratch: Path
) -> Plan:
    body: dict[str, Any] = {
        "activities": ["CPU", "GPU"],
        "with_stack": wanted.with_stack,
        "record_shapes": wanted.record_shapes,
    }
    folder = "SGLANG_TORCH_PROFILER_DIR, or in /tmp without that"
    place = None
    if local is not None and local.our_files and local.owner == os.geteuid():
        # No other user could write into a folder that is only ours, and one in a container would not see it.
        place = TraceFolder(scratch / "server", local.owner, ours=True)
        place.folder.mkdir(mode=0o700)
        folder = body["output_dir"] = str(place.folder)
    elif local is not None:
        folder = local.environment.get("SGLANG_TORCH_PROFILER_DIR") or "/tmp"
        place = local.place(folder)
    notes = []
    if wanted.steps is not None:
        body["num_steps"] = wanted.steps
        notes.append("the steps are forward passes of the server")
    if wanted.profile_memory:
        notes.append("--profile-memory had no effect: SGLang does not record memory in a trace")
    ranks = _number(info, "tp_size") * _number(info, "pp_size")
    if not info.get("enable_dp_attention"):
        ranks *= _number(info, "dp_size")
    return Plan(
        product=product,
        body=body,
        place=place,
        where=plain(folder, 300),
        steps=wanted.steps,
        files=max(1, ranks // _number(info, "nnodes")),
        refusal="this version cannot be asked; a newer one can, without preparation",
        notes=tuple(notes),
    )


def _number(info: Mapping[str, Any], key: str) -> int:
    value = info.get(key)
    return value if isinstance(value, int) and 0 < value < 10_000 else 1
