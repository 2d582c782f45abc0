"""The processes on this machine that can be asked for a trace, as Linux describes them in /proc.

A process can be asked if KINETO_USE_DAEMON was in its environment when it started and it has imported
PyTorch since, which then holds a socket of its own.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracetui.capture.live import procfs
from tracetui.capture.live.launch import INTERVAL, STARTED
from tracetui.capture.live.listener import is_stopped, started
from tracetui.core.copying import replace

KINETO_SECONDS = 5
"""How often a process asks if nothing else is set: Kineto's default."""
CLIENT = "dynoconfigclient"
CLOSED = "has closed the socket on which PyTorch asks (os.closerange): it cannot be recorded any more"
GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri/renderD128")
"""NVIDIA's, AMD's, that of Windows for Linux, and the first of any kind: without them there is no GPU."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that a process uses."""

    index: int
    memory: int | None
    """Bytes that the process has there, where the driver reports them."""
    others: tuple[int, ...]
    """Process ids of the others that use it."""


@dataclass(frozen=True)
class Process:
    """A process that has PyTorch and asks whether to record."""

    pid: int
    own_pid: int
    """Its id as it knows it itself: another one in a container."""
    parent: int
    ticks: int
    """When it started, in clock ticks since the machine did: with `pid` its identity."""
    command: tuple[str, ...]
    user: str
    folder: str | None
    """Where its socket and that of its daemon are, to the letter as it knows it; None for abstract names."""
    interval: int
    """Seconds from one question to the next."""
    trace_root: Path | None
    """The only folder, besides /tmp, that it may write traces to; None if it does not say."""
    rank: int | None = None
    world: int | None = None
    launch: str = ""
    """What all ranks of one launch have in common."""
    gpus: tuple[Gpu, ...] | None = None
    """None: not known."""
    socket: str = ""
    """Where it waits for answers. A forked child has its parent's socket, but no thread that asks."""
    by_run: bool = False
    """Whether it was started by `tracetui run`."""

    @property
    def since(self) -> float:
        """When it started, in seconds since the epoch."""
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return boot + self.ticks / os.sysconf("SC_CLK_TCK")

    @property
    def name(self) -> str:
        """The command without the path of the interpreter."""
        words = list(self.command) or [f"process {self.pid}"]
        words[0] = os.path.basename(words[0])
        return shlex.join(words)


@dataclass(frozen=True)
class Job:
    """Processes that belong together: one alone, or the ranks of one launch, rank 0 first."""

    processes: tuple[Process, ...]

    @property
    def first(self) -> Process:
        return self.processes[0]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else None


def _own_socket(pid: int) -> str | None:
    """The path of the socket at which a process waits for Kineto's answers; None before it has one."""
    inodes = {str(inode) for inode in procfs.sockets(pid)}
    if not inodes:
        return None
    with open(f"/proc/{pid}/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            words = line.rstrip("\n").split(None, 7)
            if len(words) == 8 and words[6] in inodes and CLIENT in words[7]:
                return words[7]
    return None


def find(pid: int) -> Process | None:
    """The process if it can be asked: it is this user's, was started for it, and has imported PyTorch."""
    place = Path(f"/proc/{pid}")
    try:
        if procfs.owner(pid) != os.getuid():
            return None
        variables = procfs.environment(pid)
        if "KINETO_USE_DAEMON" not in variables:
            return None
        socket = _own_socket(pid)
        ticks = started(pid)
        if socket is None or ticks is None:
            return None
        status = dict(
            line.split(":", 1)
            for line in (place / "status").read_text(errors="replace").splitlines()
            if ":" in line
        )
        if status.get("Threads", "").strip() == "1":
            return None  # forked, by one that has ended since: a process that asks has a thread for that
        command = procfs.arguments(pid)
        folder = None if socket.startswith("@") else socket[: socket.rindex("/")]
        if folder is not None and not _same(pid, folder):
            return None
    except (OSError, ValueError):
        return None  # it has ended, or hides what it is
    root = variables.get("KINETO_ONDEMAND_TRACE_DIR")
    rank, world = _number(variables.get("RANK")), _number(variables.get("WORLD_SIZE"))
    launch = [
        variables.get(name, "")
        for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT")
    ]
    return Process(
        pid=pid,
        own_pid=int(status.get("NSpid", str(pid)).split()[-1]),
        parent=int(status["PPid"]),
        ticks=ticks,
        command=tuple(command),
        user=_user(os.getuid()),
        folder=folder,
        interval=_interval(pid, variables.get("KINETO_CONFIG")),
        trace_root=Path(root) if root else None,
        rank=rank if world is not None and world > 1 else None,
        world=world,
        launch="|".join(launch) if rank is not None else "",
        socket=socket,
        by_run=STARTED in variables,
    )


def forked_by(pid: int) -> list[int]:
    """What a process has forked: it shares the socket, and cannot be asked itself."""
    found = list[int]()
    with contextlib.suppress(OSError):
        own = _own_socket(pid)
        for name in os.listdir("/proc") if own is not None else ():
            if name.isdecimal() and pid in procfs.with_ancestors(int(name))[1:]:
                with contextlib.suppress(OSError):
                    found += [int(name)] if _own_socket(int(name)) == own else []
    return sorted(found)


def hindrance(process: Process) -> str:
    """Why a process that could be asked cannot record now, or any more; "" if nothing shows."""
    pid = process.pid
    if is_stopped(pid):
        return "is stopped (SIGSTOP): it cannot record until it goes on"
    try:
        if procfs.owner(pid) != os.getuid():
            return "has become another user's: it cannot be recorded any more"
        if process.folder is not None and not _same(pid, process.folder):
            return "sees other folders now (chroot): it cannot be recorded any more"
        if _own_socket(pid) is None:
            if procfs.arguments(pid) != list(process.command):
                return "runs another program now (exec)"
            return CLOSED
    except OSError:  # it has ended
        pass
    return ""


def _same(pid: int, folder: str) -> bool:
    """Whether a folder of the process has the same path here; it has not in a container that mounts
    another."""
    try:
        return os.path.isabs(folder) and os.path.samefile(folder, f"/proc/{pid}/root{folder}")
    except OSError:
        return False


def _user(number: int) -> str:
    try:
        import pwd  # not on Windows

        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _interval(pid: int, configuration: str | None) -> int:
    if configuration:
        with contextlib.suppress(OSError, ValueError):
            text = procfs.seen_from_here(pid, os.path.abspath(configuration)).read_text("utf-8")
            for line in text.splitlines():
                key, _, value = line.partition("=")
                if key.strip() == INTERVAL:
                    return max(1, min(int(value), 60))
    return KINETO_SECONDS


def processes() -> list[Process]:
    """All that can be asked, the oldest first. Threads and descriptors of others are never touched.

    What a process forks (a DataLoader's workers) has its socket, but not its thread that asks: left out.
    """
    found = (find(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    by_socket = dict[str, Process]()
    for one in sorted((one for one in found if one is not None), key=lambda one: (one.ticks, one.pid)):
        by_socket.setdefault(one.socket, one)
    return list(by_socket.values())


def jobs(found: Sequence[Process]) -> list[Job]:
    """The processes by job: the ranks of one launch, or a process with those that it started.

    A rank's own children (a DataLoader's workers) carry its rank, too: the one that started first is it. A
    launcher (torchrun) asks as well, as it imports PyTorch, and has nothing to record: where its ranks are
    there, it is left out.
    """
    by_pid = {one.pid: one for one in found}
    ranked = dict[tuple[object, ...], dict[int, Process]]()
    trees = dict[int, list[Process]]()
    for one in found:
        if one.rank is not None:
            ranked.setdefault((one.folder, one.launch), {}).setdefault(one.rank, one)
            continue
        root = one
        # Not by the parent alone: between them may be one without PyTorch, such as a fork server.
        while (above := next(filter(by_pid.get, procfs.with_ancestors(root.parent)), None)) is not None:
            if by_pid[above].rank is not None:
                break
            root = by_pid[above]
        trees.setdefault(root.pid, []).append(one)
    launchers = {one.parent for ranks in ranked.values() for one in ranks.values()}
    made = [tuple(ranks[rank] for rank in sorted(ranks)) for ranks in ranked.values()]
    made += [tuple(one for one in tree if one.pid not in launchers) for tree in trees.values()]
    return sorted((Job(members) for members in made if members), key=lambda job: job.first.ticks)


def jobs_of(found: Sequence[Job], target: str | None, ranks: bool) -> list[Job]:
    """The jobs that `target` means: all without one, those with this text in a command line, or those of a
    process id: that process alone, or with `ranks` its job; for a launcher, all that it started."""
    if target is None:
        return list(found)
    if not target.isdecimal():
        return [job for job in found if any(target in one.name for one in job.processes)]
    pid = int(target)
    for job in found:
        for one in job.processes:
            if one.pid == pid:
                return [job if ranks or (one is job.first and one.rank is None) else Job((one,))]
    below = [tuple(one for one in job.processes if pid in procfs.with_ancestors(one.parent)) for job in found]
    return [Job(members) for members in below if members]


def why_not(pid: int) -> str:
    """Why a process cannot be asked; "" if it may be able to later, once it has imported PyTorch."""
    again = "next time, start it with: tracetui run COMMAND"
    try:
        if procfs.owner(pid) != os.getuid():
            return f"process {pid} belongs to another user: run tracetui as that user"
        variables = procfs.environment(pid)
        if "KINETO_USE_DAEMON" in variables:
            folder = variables.get("KINETO_IPC_SOCKET_DIR", "")
            if folder and not _same(pid, folder):
                return (
                    f"process {pid} sees another folder as {folder}, as in a container: "
                    "mount this machine's there, under the same path"
                )
            own = _own_socket(pid)
            for above in procfs.with_ancestors(pid)[1:] if own is not None else ():
                with contextlib.suppress(OSError):
                    if _own_socket(above) == own:
                        return f"process {pid} was forked by {above} and cannot be asked itself: ask {above}"
            if own is not None and find(pid) is None and started(pid) is not None:
                return f"process {pid} was forked by one that has ended, and cannot be asked itself"
            return ""
    except FileNotFoundError:
        return f"there is no process {pid}"
    except OSError as error:
        return f"process {pid} cannot be inspected: {error.strerror or error}; {again}"
    return f"process {pid} was not started for this: {again} (on Python 3.14, --inject can do without)"


def with_gpus(found: Iterable[Process]) -> list[Process]:
    """The same jobs with the GPUs that they use, if nvidia-ml-py is installed and there is a driver."""
    none = not any(os.path.exists(device) for device in GPU_DEVICES)
    listed = [replace(one, gpus=() if none else None) for one in found]
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, no driver, or another version's error
        return listed
    uses = dict[int, list[Gpu]]()
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            running = {
                int(p.pid): p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
            }
            for pid, memory in running.items():
                others = tuple(sorted(set(running) - {pid}))
                uses.setdefault(pid, []).append(
                    Gpu(index, int(memory) if memory is not None else None, others)
                )
    except Exception:
        return listed  # what the driver does not report is not known
    finally:
        with contextlib.suppress(Exception):
            pynvml.nvmlShutdown()
    return [replace(one, gpus=tuple(uses.get(one.pid, ()))) for one in listed]
