"""The socket at which PyTorch processes ask whether they should record.

Kineto, PyTorch's profiler library, does so about once a second where KINETO_USE_DAEMON is set, by datagrams
to a Unix socket named `dynolog` in KINETO_IPC_SOCKET_DIR (or, without that variable, to an abstract one). A
message is a u64 size, a type of 32 bytes, and the body; the process waits 90 ms for the answer. The layouts
are those of Kineto's IpcFabricConfigClient.

This file imports the standard library alone, as it is also a program: `python listener.py FOLDER PID`
answers "nothing to record" as long as that process or others that ask are there. Who wants a recording
(see `ask`) puts a socket of its own in the place of this one, by a rename, and this one comes back when
the lock of the folder is free again, a twentieth of a second later.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import socket
import struct
import sys
import time
from pathlib import Path
from typing import NamedTuple

NAME = "dynolog"
ABSTRACT = b"\0dynolog\0"
"""The socket's name without a folder; the last NUL belongs to it."""
LOCK = "lock"
"""The file whose lock says who may answer with more than "nothing"."""
LONGEST = 65536
"""Most bytes of a message."""
PROMPT_SECONDS = 0.06
"""We give no answer later than this: the process has gone on, or is about to. It would read that answer a
second later in place of the next one, and so every one after it."""
MOST_PIDS = 64
"""A process names itself and its ancestors."""
ALONE_SECONDS = 60.0
"""The answering ends this long after the first process has ended, if no other has asked since."""
POLL_SECONDS = 1.0
"""How often the answering process checks whether it is still its turn, and whether the job has ended."""
HANDOVER_SECONDS = 0.05
"""The same while somebody records: nobody answers until it is back."""

_HEADER = struct.Struct("=Q32s")
_REQUEST = struct.Struct("=iiq")
_CREDENTIALS = struct.Struct("=3i")
_TIME = struct.Struct("@ll")
_SO_TIMESTAMPNS = 35
"""Linux: the kernel says when a message was sent. Python's `socket` has no name for it."""


class ConfigPoll(NamedTuple):
    """One question of one process."""

    pid: int
    """As the kernel gives it; in a container the process may know itself by another one."""
    own_pid: int
    """The process's id as it knows it itself."""
    recording: bool
    """Whether it is recording."""
    address: str | bytes
    sent: float
    """When it asked, in seconds since the epoch."""


class Listener:
    """Answers the processes that ask in a folder, or, with None, at the abstract name.

    Raises OSError, EADDRINUSE if another daemon has the abstract name.
    """

    def __init__(self, folder: str | None) -> None:
        # To the letter as the processes know it: if the path of the socket that answers does not begin with
        # its KINETO_IPC_SOCKET_DIR and a slash, Kineto ends the process (std::terminate).
        self.folder = folder
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._socket.setblocking(False)
            if folder is None:
                self._socket.bind(ABSTRACT)
                self._inode = 0
            else:
                # Bound under another name, then renamed: no instant without a socket, even if one is there.
                new = f"{folder}/{NAME}.{os.getpid()}"
                Path(new).unlink(missing_ok=True)
                self._socket.bind(new)
                self._inode = os.stat(new).st_ino
                os.rename(new, f"{folder}/{NAME}")
        except OSError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Stop listening; the name stays if another socket has taken it."""
        if self.folder is not None and self.listens():
            with contextlib.suppress(OSError):
                os.unlink(f"{self.folder}/{NAME}")
        self._socket.close()

    def listens(self) -> bool:
        """Whether the name still leads to this socket."""
        if self.folder is None:
            return True
        try:
            return os.stat(f"{self.folder}/{NAME}").st_ino == self._inode
        except OSError:
            return False

    def receive(self, seconds: float) -> ConfigPoll | None:
        """The next question from a process of this user; waits for up to `seconds`."""
        if not select.select([self._socket], [], [], max(0.0, seconds))[0]:
            return None
        try:
            room = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(_TIME.size)
            message, ancillary, _, address = self._socket.recvmsg(LONGEST, room)
        except OSError:
            return None
        said = {kind: data for _, kind, data in ancillary}
        sender, when = said.get(socket.SCM_CREDENTIALS, b""), said.get(_SO_TIMESTAMPNS, b"")
        if len(sender) != _CREDENTIALS.size or len(message) < _HEADER.size or not address:
            return None
        sent = time.time()
        if len(when) == _TIME.size:
            whole, part = _TIME.unpack(when)
            sent = whole + part / 1e9
        pid, user, _ = _CREDENTIALS.unpack(sender)
        if user != os.getuid():
            return None  # the abstract name is open to everybody
        size, kind = _HEADER.unpack_from(message)
        body = message[_HEADER.size :]
        if size != len(body):
            return None
        kind = kind.rstrip(b"\0")
        if kind == b"ctxt":  # it introduces itself, and wants to know how many there are
            self._send(address, b"ctxt", struct.pack("=i", 1))
        elif kind == b"req" and len(body) >= _REQUEST.size + 4:
            state, count, _ = _REQUEST.unpack_from(body)
            if 0 < count <= MOST_PIDS and len(body) >= _REQUEST.size + 4 * count:
                (own,) = struct.unpack_from("=i", body, _REQUEST.size)
                return ConfigPoll(pid, own, not state & 2, address, sent)
        return None

    def answer(self, knock: ConfigPoll, configuration: str = "") -> bool:
        """Tell it what to record. Returns whether that was sent: not if it has waited for too long."""
        return time.time() - knock.sent < PROMPT_SECONDS and self._send(
            knock.address, b"req", configuration.encode()
        )

    def _send(self, address: str | bytes, kind: bytes, body: bytes) -> bool:
        if self.folder is not None:
            # By the name alone: a container knows the folder by another path. No other place is answered.
            text = address if isinstance(address, str) else os.fsdecode(address)
            address = f"{self.folder}/{os.path.basename(text)}"
        try:
            self._socket.sendto(_HEADER.pack(len(body), kind) + body, address)
        except OSError:  # it has ended, or does not read
            return False
        return True


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did; None if there is none (or only a
    zombie)."""
    fields = facts(pid)
    return None if len(fields) < 20 or fields[0] in "ZX" else int(fields[19])


def facts(pid: int) -> list[str]:
    """What `/proc/PID/stat` says after the name: state, parent, ...; nothing if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped it."""
    return facts(pid)[:1] in (["T"], ["t"])


def foreign(folder: str) -> bool:
    """Whether a daemon that is not ours answers in a folder: ours leave a lock file there."""
    if os.path.exists(f"{folder}/{LOCK}") or not os.path.exists(f"{folder}/{NAME}"):
        return False
    return answered(f"{folder}/{NAME}")


def answered(path: str) -> bool:
    """Whether a process listens at a socket, rather than having ended and left it behind."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


def lock(folder: str) -> int | None:
    """Take the lock of a folder: a descriptor to close, or None if somebody else has it. Raises OSError."""
    import fcntl

    descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.truncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())
    return descriptor


def stopped(folder: str) -> bool:
    """Whether the process that has the lock of a folder is stopped: then nobody waits for it."""
    try:
        with open(f"{folder}/{LOCK}", encoding="ascii") as file:
            return is_stopped(int(file.read(20)))
    except (OSError, ValueError):
        return False


def main(folder: str, pid: int) -> None:
    """Answer "nothing to record" until the process has ended and nobody asks any more."""
    first = started(pid)
    listener: Listener | None = None
    heard = time.monotonic()
    while True:
        wait = POLL_SECONDS
        if listener is None or not listener.listens():
            try:
                free = lock(folder)
            except OSError:
                return  # the folder is gone
            if free is not None:
                if listener is not None:
                    listener.close()
                listener = Listener(folder)
                os.close(free)
            else:
                heard, wait = time.monotonic(), HANDOVER_SECONDS  # somebody records here
        knock = None
        if listener is not None:
            knock = listener.receive(wait)
        else:
            time.sleep(wait)
        if knock is not None and listener is not None:
            heard = time.monotonic()
            listener.answer(knock)
        elif time.monotonic() - heard > ALONE_SECONDS and started(pid) != first:
            free = lock(folder)
            if free is not None:
                shutil.rmtree(folder, ignore_errors=True)
                return


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        main(sys.argv[1], int(sys.argv[2]))
