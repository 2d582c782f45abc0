"""Asking processes through a dynolog daemon that already runs on this machine, by its own port.

Kineto's processes ask one daemon. Where that is dynolog's, taking its socket would cut off whoever uses it.
So the request goes through its RPC port: a native int32 of length and then JSON, both ways. It hands the
configuration to the processes when they ask the next time.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tracetui.capture.live import procfs
from tracetui.capture.live.model import AttachError

PORT = 1778
SECONDS = 5.0
"""For connecting, and again for the whole answer, which it gives at once."""
MAX_REPLY = 1 << 20
LIMIT = 1000
"""Most processes of one request: dynolog's own default. A process counts once more for each child that uses
PyTorch, so the number of ids would be too few."""

_HEADER = struct.Struct("=i")


def ask_daemon(config: str, pids: Sequence[int], port: int = PORT) -> int:
    """Have the daemon hand `config` (`KEY=VALUE` lines) to these processes and their children.

    Returns how many will get it. Raises AttachError: no daemon answers, what answers is not dynolog, it knows
    none of the processes, or all of them still wait for an earlier request.
    """
    if not pids or min(pids) <= 0:
        raise ValueError("no process ids: dynolog would take that for all processes")
    jobs: defaultdict[int, list[int]] = defaultdict(list)
    for pid in pids:
        jobs[_job(pid)].append(pid)
    triggered = busy = 0
    for job, members in jobs.items():
        request = {
            "fn": "setKinetOnDemandRequest",
            "config": config,
            "job_id": job,
            "pids": members,
            "process_limit": max(LIMIT, len(members)),
        }
        reply = _call(request, port)
        triggered += _count(reply, "activityProfilersTriggered")
        busy += _count(reply, "activityProfilersBusy")
    if triggered:
        return triggered
    shown = ", ".join(map(str, pids[:8])) + (", …" if len(pids) > 8 else "")
    if busy:
        raise AttachError(
            f"dynolog has a request for {shown} that the process has not taken yet: try again in seconds"
        )
    raise AttachError(
        f"the dynolog daemon at port {port} does not know {shown}: start it with KINETO_USE_DAEMON=1, "
        "or with tracetui run -- …; one that is just starting is known after a few seconds"
    )


def _job(pid: int) -> int:
    """The job under which Kineto registers a process: that of Slurm, or 0. As strtoll reads it."""
    try:
        text = procfs.environment(pid).get("SLURM_JOB_ID", "").strip()
    except OSError:
        return 0
    return int(text) if text.isascii() and text.isdigit() else 0


def _call(request: Mapping[str, Any], port: int) -> dict[str, Any]:
    message = json.dumps(request).encode()
    end = time.monotonic() + SECONDS
    try:
        with socket.create_connection(("localhost", port), SECONDS) as connection:
            connection.sendall(_HEADER.pack(len(message)) + message)
            (length,) = _HEADER.unpack(_exactly(connection, _HEADER.size, end))
            reply = json.loads(_exactly(connection, length, end) if 0 < length <= MAX_REPLY else b"")
    except TimeoutError:
        raise AttachError(f"the dynolog daemon at port {port} does not answer: is it stopped?") from None
    except ConnectionRefusedError:
        raise AttachError(
            f"no dynolog daemon listens at port {port}, though something holds Kineto's socket: end that, or "
            "start the job with tracetui run -- …"
        ) from None
    except EOFError:
        raise AttachError(
            f"what listens at port {port} closed the connection: not a dynolog daemon?"
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be reached"
        raise AttachError(f"the dynolog daemon at port {port}: {reason}") from None
    except (ValueError, RecursionError):  # no JSON, or no text
        reply = None
    if not isinstance(reply, dict):
        raise AttachError(f"what listens at port {port} is not a dynolog daemon")
    if "activityProfilersTriggered" not in reply:
        raise AttachError(f"the dynolog daemon at port {port} refuses the request: does it know GPU traces?")
    return reply


def _exactly(connection: socket.socket, size: int, end: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        connection.settimeout(max(0.001, end - time.monotonic()))
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _count(reply: Mapping[str, Any], key: str) -> int:
    """A list of process ids, or a number of them."""
    value = reply.get(key)
    if isinstance(value, list):
        return len(value)
    return value if isinstance(value, int) and value > 0 else 0
