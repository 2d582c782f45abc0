"""Ask running processes for a trace, all of them at one time, and bring their files together.

What a process does when it is told to record, as measured with PyTorch 2.11 and 2.13: it looks for work
once a second, so a start less than a second ahead comes too late and is dropped; a start time with a warm-up
before it is dropped, too, if the warm-up would have had to begin already. So: no warm-up, and a start
`LEAD_SECONDS` ahead, in which the profiler gets ready. Steps are counted from the next `Optimizer.step`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracetui.capture.files import move_free
from tracetui.capture.live import cuspy, listener, procfs
from tracetui.capture.live.dynolog import ask_daemon
from tracetui.capture.live.listener import ConfigPoll, Listener, foreign, started
from tracetui.capture.live.meeting_folders import is_guarded, new_recording, recording_root_of, sweep
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Stage, Status
from tracetui.capture.live.processes import Process, forked_by, hindrance
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain

TICK = 0.05
"""How often we check what the processes are doing."""
TOLD_TICK = 0.01
"""The same once all have been told: the picture waits for their files."""
LEAD_SECONDS = 1.05
"""For one process: from the question that we answer to the start of the recording."""
COMMON_LEAD_SECONDS = 1.6
"""For several processes: the same from the last question."""
DROPPED_SECONDS = 1.9
"""A process that was told this long ago, and is idle without a trace, has dropped the request, even if it has
opened the file (it was too late for the start). It is told again, without a time, in case it reads answers
late."""
SOON_SECONDS = 2.0
"""About how long it then takes to begin."""
LATE_SECONDS = 1.02
"""A question that comes less than this before the start comes too late for it."""
PATIENCE_SECONDS = 8.0
"""How long a process may be late, in asking or in beginning to write, before we say so."""
TRIES = 10
"""How many recordings to make until something runs in one: a job that has just started takes a while."""
PATIENT_TRIES = 3
"""How many recordings of several processes to make while one misses the common start. Each has twice the lead
of the one before."""
LONG_SECONDS = 60.0
"""A recording that took longer than this is not repeated because a process missed its start."""
PARTS = ".*-????????-??????-*.json.part"
"""Unfinished traces, left behind where we were killed."""
SMALL = 64 * 1024
"""Bytes: only a file as small as this can hold no event."""


@dataclass
class _Asked:
    """One process of a recording."""

    process: Process
    here: Path = Path()
    """The folder that it writes into, as seen from here and as it sees it."""
    there: Path = Path()
    at: float | None = None
    """When it was told, by the monotonic clock."""
    done: Path | None = None
    lost: str = ""
    """Why there will be no trace of it."""
    again: bool = False
    """Whether it was told twice."""
    late: bool = False
    """Whether it is lost because it missed the common start."""
    silent: str = "is not asking: it is stopped, or hangs"
    """Why it has not been told yet, judging by its questions."""
    names: tuple[str, ...] = ()
    """What the file may be called: a process writes its id into the name, as it knows it itself."""
    written: int = -2
    """Size of the unfinished file in bytes, when we last looked."""
    news: float = 0.0
    """When that last changed."""
    idle: float = 0.0
    """When it last asked without recording, in seconds since the epoch."""
    hindrance: str = ""
    """What keeps it from recording, as of the last look."""
    since: float = 0.0
    """Since when, by the monotonic clock."""
    next_look: float = 0.0


def configuration(wanted: RecordRequest, file: Path, start: float | None) -> str:
    """The configuration for Kineto. `start`: seconds since the epoch; None, and for steps: as soon as it
    can."""
    lines = [f"ACTIVITIES_LOG_FILE={file}"]
    if wanted.steps is not None:
        lines += [
            "PROFILE_START_ITERATION=0",
            "PROFILE_START_ITERATION_ROUNDUP=1",
            f"ACTIVITIES_ITERATIONS={wanted.steps}",
            "ACTIVITIES_WARMUP_ITERATIONS=1",
        ]
    else:
        lines += [
            f"ACTIVITIES_DURATION_MSECS={max(1, round(wanted.duration * 1000))}",
            "ACTIVITIES_WARMUP_PERIOD_SECS=0",
        ]
        lines += [f"PROFILE_START_TIME={round(start * 1000)}"] if start is not None else []
    flags = {
        "PROFILE_REPORT_INPUT_SHAPES": wanted.record_shapes,
        "PROFILE_WITH_STACK": wanted.with_stack,
        "PROFILE_WITH_MODULES": wanted.with_stack,
        "PROFILE_PROFILE_MEMORY": wanted.profile_memory,
    }
    return "\n".join(lines + [f"{name}={str(value).lower()}" for name, value in flags.items()]) + "\n"


def record(targets: Sequence[Process], wanted: RecordRequest, output: Path) -> Iterator[LiveEvent]:
    """Record all targets at one time into `output`, a folder that exists; ends with `Recorded`.

    What is said is repeated, twenty times a second or more, so that whoever follows it can leave. Closing the
    iterator ends the asking; a process that has been told by then records once, and what it writes is removed
    later. Raises AttachError.
    """
    sweep(output, PARTS)
    notes = _of_cuspy(targets)
    missed = 0
    for attempt in range(TRIES):
        once = None
        try:
            once = _Once(targets, wanted if attempt == 0 else replace(wanted, start_in=0.0), 2**missed)
            yield from once.events()
            late = [one.process.pid for one in once.asked if one.late]
            missed += bool(late)
            again = late and missed < PATIENT_TRIES and wanted.duration <= LONG_SECONDS
            paths = once.take(output) if not again else []
        except AttachError as error:
            error.gone = not any(started(one.pid) == one.ticks for one in targets)
            raise
        finally:
            if once is not None:
                once.close()
        if paths:
            yield Recorded(tuple(paths), (*once.notes, *notes))
            return
        why = f"process {late[0]} missed the common start" if again else "nothing ran in that time"
        yield Status(Stage.ASKING, f"{why}: once more")
    nothing = f"nothing ran in {TRIES} recordings of {_length(wanted)}: "
    for one in targets:
        if forked := ", ".join(map(str, forked_by(one.pid)[:8])):
            raise AttachError(
                f"{nothing}the work may be done by what process {one.pid} has forked ({forked}), which "
                "cannot be recorded; processes that it spawns can"
            )
    raise AttachError(f"{nothing}the process is waiting, or busy outside PyTorch; try a longer --duration")


def _of_cuspy(targets: Sequence[Process]) -> list[str]:
    """What to say of processes that may use Cuspy later. Raises AttachError for those that have begun."""
    for one in targets:
        if cuspy.used_by(one.pid):
            raise AttachError(cuspy.refusal(one.pid))
    named = [one for one in targets if cuspy.named_in(one.command, f"/proc/{one.pid}/cwd")]
    return [
        f"process {one.pid} seems to use Cuspy at some time: it will record no GPU then, and write no trace"
        for one in named
    ]


def _length(wanted: RecordRequest) -> str:
    return f"{wanted.steps} steps" if wanted.steps is not None else f"{wanted.duration:g} s"


def _root(process: Process) -> tuple[Path, Path]:
    """The folder that a process may write recordings into, as seen from here and as it sees it, which differs
    in a container. Raises AttachError, OSError."""
    if process.trace_root is not None:
        here = procfs.seen_from_here(process.pid, str(process.trace_root))
        if is_guarded(here) and os.access(here, os.W_OK | os.X_OK):
            return here, process.trace_root
    return recording_root_of(process.pid)


class _Once:
    """One recording."""

    def __init__(self, targets: Sequence[Process], wanted: RecordRequest, ahead: int = 1) -> None:
        self.wanted = wanted
        self.ahead = ahead
        """How many times the usual lead to take, for several processes."""
        self.asked = [_Asked(one) for one in targets]
        self.notes: list[str] = []
        self.start = 0.0
        """In seconds since the epoch; 0 until the first process has asked."""
        self.begun = 0.0
        """By the monotonic clock."""
        self.folders: list[Path] = []
        roots = dict[Path, tuple[Path, Path]]()
        try:
            for one in self.asked:
                here, there = _root(one.process)
                if here not in roots:
                    self.folders.append(new_recording(here))
                    roots[here] = self.folders[-1], there / self.folders[-1].name
                one.here, one.there = roots[here]
        except OSError as error:
            if started(one.process.pid) != one.process.ticks:
                raise AttachError(f"process {one.process.pid} has ended") from error
            raise AttachError(f"cannot make a folder for the traces: {error.strerror or error}") from error
        self.listeners: list[Listener] = []
        self.locks: list[int] = []

    def close(self) -> None:
        for one in self.listeners:
            one.close()
        for descriptor in self.locks:
            os.close(descriptor)
        # What was told to record, and goes on, will write here: without the folder, PyTorch says so on the
        # job's standard error, whatever its log level. `meeting_folders.sweep` removes it.
        if not any(self._may_write(one) for one in self.asked):
            for folder in self.folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _may_write(self, one: _Asked) -> bool:
        if one.at is None or one.done is not None or self._dropped(one):
            return False
        return started(one.process.pid) == one.process.ticks

    def events(self) -> Iterator[LiveEvent]:
        yield from self._listen()
        slowest = max(one.process.interval for one in self.asked)
        self.begun = time.monotonic()
        patience = slowest + PATIENCE_SECONDS + (self.wanted.start_in if self.wanted.steps is not None else 0)
        whom = self._whom()
        while True:
            tick = TICK if any(one.at is None for one in self.asked) else TOLD_TICK
            if not self.listeners:
                time.sleep(tick)
            for one in self.listeners:
                knock = one.receive(tick / len(self.listeners))
                if knock is not None:
                    self._reply(one, knock, slowest)
            self._look(time.monotonic() - self.begun > patience)
            waiting = [one for one in self.asked if one.done is None and not one.lost]
            if not waiting:
                return
            stage = self._stage(waiting)
            details = {Stage.ASKING: whom, Stage.RECORDING: _length(self.wanted)}
            hindered = [f"process {one.process.pid} {one.hindrance}" for one in waiting if one.hindrance]
            yield Status(stage, "; ".join([details.get(stage, ""), *hindered[:1]]).removeprefix("; "))

    def _listen(self) -> Iterator[LiveEvent]:
        """Become the one whom the processes ask."""
        for folder in sorted({one.process.folder for one in self.asked}, key=str):
            if folder is None:
                try:
                    self.listeners.append(Listener(None))
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise AttachError(f"cannot answer the process: {error.strerror or error}") from error
                    self._ask_daemon(None)
                continue
            if foreign(folder):
                self._ask_daemon(folder)
                continue
            try:
                while (descriptor := listener.lock(folder)) is None and not listener.stopped(folder):
                    yield Status(Stage.WAITING, "until another tracetui has recorded there")
                    time.sleep(0.1)
                self.locks += [descriptor] if descriptor is not None else []
                self.listeners.append(Listener(folder))
            except OSError as error:
                raise AttachError(
                    f"cannot answer the process: {folder}: {error.strerror or error}"
                ) from error

    def _ask_daemon(self, folder: str | None) -> None:
        """Let the daemon that answers there ask its processes: they start when all have asked it."""
        theirs = [one for one in self.asked if one.process.folder == folder]
        slowest = max(one.process.interval for one in theirs)
        lead = max(slowest + COMMON_LEAD_SECONDS, self.wanted.start_in)
        self.start = max(self.start, time.time() + lead)
        for one in theirs:
            told = configuration(self.wanted, one.there / "trace.json", self.start)
            ask_daemon(told, [one.process.pid])
            one.at = time.monotonic()
            one.names = tuple(f"trace_{pid}.json" for pid in {one.process.own_pid, one.process.pid})

    def _whom(self) -> str:
        if len(self.asked) > 1:
            return f"{len(self.asked)} processes"
        one = self.asked[0].process
        return plain(f"{one.pid}: {one.name}", 200)

    def _reply(self, here: Listener, knock: ConfigPoll, slowest: int) -> None:
        one = next((one for one in self.asked if one.process.pid == knock.pid), None)
        if one is not None and knock.recording:  # told once it is idle
            one.silent = "is already recording, for another profiler or an earlier request"
            if one.written >= 0:
                one.news = time.monotonic()  # it makes the trace, however long the file stays as it is
        if one is not None and not knock.recording:
            one.idle = knock.sent
        timed = self.wanted.steps is None
        wait = not timed and time.monotonic() - self.begun < self.wanted.start_in
        if (
            one is None
            or one.lost
            or wait  # steps are counted from when it is told
            or knock.recording
            or started(one.process.pid) != one.process.ticks
            or (one.at is not None and (one.again or not self._dropped(one)))
            or self._written(one) > 0  # it did record, and could not write: the disk is full
        ):
            here.answer(knock)
            return
        one.silent = "is asking, but this machine is too busy to answer in time"
        now = time.time()
        again = one.at is not None
        start = self.start
        if again:
            start = now + SOON_SECONDS
        elif not start:
            common = (slowest + COMMON_LEAD_SECONDS) * self.ahead
            lead = common if len(self.asked) > 1 else LEAD_SECONDS
            start = now + max(lead, self.wanted.start_in)
        if timed and (start - now < LATE_SECONDS or (again and len(self.asked) > 1)):
            one.late, one.lost = True, f"process {knock.pid} missed the common start"
            here.answer(knock)
            return
        if here.answer(knock, configuration(self.wanted, one.there / "trace.json", None if again else start)):
            self.start, one.again, one.at = start, again, time.monotonic()
            pids = {knock.own_pid, one.process.own_pid, knock.pid}
            one.names = tuple(f"trace_{pid}.json" for pid in pids)

    def _dropped(self, one: _Asked) -> bool:
        """Whether it was idle, when it last asked, though it should record or have done so."""
        return (
            one.at is not None
            and time.monotonic() - one.at > DROPPED_SECONDS
            and one.idle > self.start
            and self._file(one, "") is None
        )

    def _look(self, impatient: bool) -> None:
        """Find out how far each process is."""
        now = time.monotonic()
        over = self.start + self.wanted.duration if self.wanted.steps is None else float("inf")
        due = over if self.wanted.steps is None else self.start
        for one in self.asked:
            if one.done is not None or one.lost:
                continue
            pid = one.process.pid
            alive = started(pid) == one.process.ticks  # before the file: it may write that and end
            if not alive:  # one whose thread calls exec is a zombie for a moment
                time.sleep(0.05)
                alive = started(pid) == one.process.ticks
            one.done = self._file(one, "")
            if one.done is not None:
                continue
            if not alive:
                one.lost = f"process {pid} ended before its recording was complete"
                if not one.hindrance and (one.written >= 0 or self._written(one) >= 0):
                    one.lost += " (PyTorch can crash a program that ends then)"
                continue
            self._find_hindrance(one, now)
            if one.at is None:
                if impatient:
                    one.lost = f"process {pid} {one.hindrance or one.silent}"
            elif not one.here.is_dir():
                one.lost = f"process {pid} wrote no trace: {plain(str(one.here), 200)} was removed"
            elif one.hindrance and now - one.since > PATIENCE_SECONDS and time.time() > due:
                one.lost = f"process {pid} {one.hindrance}"
            elif time.time() > over or one.again:
                size = self._written(one)
                if size >= 0 and self.wanted.steps is not None:
                    continue  # it waits for the next step
                if size != one.written:
                    one.written, one.news = size, now
                elif now - one.news > PATIENCE_SECONDS:
                    why = "it may be running under a profiler already"
                    if one.written >= 0:
                        why = "its file was never finished, as happens with a quota or a file size limit"
                    why = "the disk is full" if _full(one.here) else why
                    one.lost = f"process {pid} {hindrance(one.process) or f'wrote no trace: {why}'}"

    def _find_hindrance(self, one: _Asked, now: float) -> None:
        """Look, once a second, what keeps a process from recording."""
        if now >= one.next_look:
            one.next_look = now + 1.0
            why = hindrance(one.process)
            if why != one.hindrance:
                one.hindrance, one.since = why, now

    def _file(self, one: _Asked, suffix: str) -> Path | None:
        for name in one.names:
            found = one.here / f"{name}{suffix}"
            if found.is_file():
                return found
        return None

    def _written(self, one: _Asked) -> int:
        """Bytes of the unfinished file; -1 if there is none, as it may have got its name just now."""
        part = self._file(one, ".tmp")
        with contextlib.suppress(OSError):
            return part.stat().st_size if part is not None else -1
        return -1

    def _stage(self, waiting: Sequence[_Asked]) -> Stage:
        if any(one.at is None for one in waiting):
            return Stage.ASKING
        if self.wanted.steps is not None:
            return Stage.RECORDING
        ahead = self.start - time.time()
        if ahead > 0:
            return Stage.WARMING_UP
        return Stage.RECORDING if ahead + self.wanted.duration > 0 else Stage.WRITING

    def take(self, output: Path) -> list[Path]:
        """Move the traces to `output` under names of their own; none if nothing ran in any of them.
        Raises AttachError."""
        self.notes = [one.lost for one in self.asked if one.lost]
        if len(self.notes) == len(self.asked):
            raise AttachError(self.notes[0])
        done = [(one.process, one.done) for one in self.asked if one.done is not None]
        full = [(process, path) for process, path in done if not is_empty(path)]
        for process, _ in [pair for pair in done if pair not in full] if full else ():
            self.notes.append(f"nothing ran in process {process.pid}: its trace is not kept")
        for gpu in {gpu for process, _ in full for gpu in process.gpus or () if gpu.others}:
            them = ", ".join(map(str, sorted(set(gpu.others) - {process.pid for process, _ in full})[:8]))
            if them:
                self.notes.append(
                    f"GPU {gpu.index} is used by others, too (process {them}): gaps and long kernels that "
                    "nothing in the trace explains may be theirs"
                )
        stamp = time.strftime("%Y%m%d-%H%M%S")
        paths = list[Path]()
        try:
            for process, path in full:
                suffix = f"-rank{process.rank}" if process.rank is not None else f"-{process.pid}"
                paths.append(keep(path, output, f"{label(process)}-{stamp}{suffix}"))
        except OSError as error:
            self.folders.clear()  # they stay
            where = plain(str(path), 300)
            raise AttachError(
                f"cannot write to {output}: {error.strerror or error}; the recording is {where}"
            ) from error
        return paths


def _full(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < SMALL


def label(process: Process) -> str:
    """A short name for files: the script or module that runs, or the command."""
    words = [word for word in process.command[1:] if not word.startswith("-")]
    word = (
        next((word for word in words if word.endswith(".py")), None)
        or (words or list(process.command) or ["trace"])[0]
    )
    if word.startswith("from multiprocessing"):
        word = "worker"  # Python code, whichever program started it
    stem = os.path.basename(word).removesuffix(".py")
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in stem)[:40] or "trace"


def keep(path: Path, output: Path, stem: str) -> Path:
    """Move a trace to `output/STEM.json`, or STEM-2.json and so on, never over another. Raises OSError.

    The name appears when the file is whole, however large it is, on whichever disk, and if we are killed.
    """
    part = output / f".{stem}.json.part"
    try:
        shutil.move(path, part)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    return move_free(part, output, stem, ".json")


def is_empty(path: Path) -> bool:
    """Whether a trace holds no event with a duration: only a small file is read for that."""
    try:
        if path.stat().st_size > SMALL:
            return False
        events = json.loads(path.read_bytes()).get("traceEvents", [])
        return not any(e.get("ph") == "X" and e.get("cat") != "Trace" for e in events)
    except (OSError, ValueError, AttributeError):
        return False  # the reader says what is wrong with it
