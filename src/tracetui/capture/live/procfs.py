"""What Linux says about other processes, and who listens at a port. Elsewhere nothing is found."""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path

from tracetui.capture.live.listener import facts
from tracetui.capture.live.listener import started as started

PROC = Path("/proc")
LISTENING = "0A"
MAX_ANCESTORS = 16


def environment(pid: int) -> dict[str, str]:
    """The variables it was started with. Raises OSError: it ended, or it is another user's."""
    entries = os.fsdecode((PROC / str(pid) / "environ").read_bytes()).split("\0")
    return {name: value for name, mark, value in (entry.partition("=") for entry in entries) if mark}


def arguments(pid: int) -> list[str]:
    """Its command line; empty for one that has ended but was not waited for. Raises OSError."""
    return os.fsdecode((PROC / str(pid) / "cmdline").read_bytes()).split("\0")[:-1]


def owner(pid: int) -> int:
    """Its user id. Raises OSError."""
    return (PROC / str(pid)).stat().st_uid


def is_python(pid: int) -> bool:
    """Whether the program that it runs is called python, python3.12, ..."""
    try:
        name = os.path.basename(os.readlink(PROC / str(pid) / "exe").removesuffix(" (deleted)"))
    except OSError:
        return False
    return re.fullmatch(r"python[\d.]*[td]*", name) is not None


def has_torch(pid: int) -> bool:
    """Whether PyTorch's library is loaded. Raises OSError."""
    return maps(pid, r"/libtorch\w*\.so")


def maps(pid: int, library: str) -> bool:
    """Whether a library whose path has this pattern is loaded. Raises OSError."""
    return re.search(library, (PROC / str(pid) / "maps").read_text(errors="replace")) is not None


def sees_our_files(pid: int) -> bool:
    """Whether a path means the same to it as to us: not in a container. Raises OSError."""
    there, here = PROC / str(pid), PROC / "self"
    return os.readlink(there / "ns/mnt") == os.readlink(here / "ns/mnt") and os.path.samestat(
        os.stat(there / "root"), os.stat(here / "root")
    )


def seen_from_here(pid: int, path: str) -> Path:
    """Where its absolute path is for us. Raises OSError."""
    return Path(path) if sees_our_files(pid) else PROC / str(pid) / "root" / path.lstrip("/")


def with_ancestors(pid: int) -> list[int]:
    """It, its parent, and so on, without the first process of the machine."""
    line: list[int] = []
    while pid > 1 and pid not in line and len(line) < MAX_ANCESTORS:
        line.append(pid)
        pid = int((facts(pid) or "00")[1])
    return line


def listeners(host: str, port: int) -> list[int]:
    """The processes of this machine that listen at an address; none if that is another machine's, or if they
    are hidden from us."""
    inodes = _listening(_addresses(host, port), port)
    found: list[int] = []
    if not inodes:
        return found
    for entry in PROC.glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or it is another user's
            if inodes & sockets(int(entry.name)):
                found.append(int(entry.name))
    return sorted(found)


def sockets(pid: int) -> set[int]:
    """The inodes of the sockets that it has open. Raises OSError."""
    found = set()
    for entry in os.scandir(PROC / str(pid) / "fd"):
        with suppress(OSError):
            target = os.readlink(entry.path)
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    return found


def _addresses(host: str, port: int) -> set[bytes]:
    """The host's addresses that are this machine's, in network order."""
    addresses: set[bytes] = set()
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return addresses
    for family, _, _, _, address in resolved:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address[0], 0, *address[2:]))  # works for an address of this machine alone
            addresses.add(socket.inet_pton(family, str(address[0]).partition("%")[0]))
    return addresses


def _listening(addresses: set[bytes], port: int) -> set[int]:
    """Inodes of the sockets that listen at one of the addresses, or at all of the machine's."""
    mapped = {b"\0" * 10 + b"\xff\xff" + address for address in addresses if len(address) == 4}
    wanted = addresses | mapped | ({b"\0" * 4, b"\0" * 16} if addresses else set())
    inodes = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (PROC / "net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[1].partition(":")
                if fields[3] == LISTENING and int(number, 16) == port and _packed(address) in wanted:
                    inodes.add(int(fields[9]))
    return inodes


def _packed(text: str) -> bytes:
    """An address of /proc/net/tcp, groups of four bytes in the machine's order, in network order."""
    groups = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return b"".join(group.to_bytes(4, sys.byteorder) for group in groups)
