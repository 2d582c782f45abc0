"""`tracetui capture` harms no program: each of `programs/` runs alone, then under a capture, in fresh copies.

    python benchmarks/capture_alone.py [NAME ...] [--no-stop] [--jobs N] [--keep DIR] [--capture COMMAND]

Needs PyTorch and Linux; takes about 15 seconds a program. Under `capture --run-to-end`, output, exit code,
files and processes left behind have to be those of the program alone, and the trace has to hold as many
steps as its .meta.json claims. Without `--run-to-end`, the program, which then wants a million steps, has to
end soon, with its cleanup done. Prints a line per program, and below it what differs; exit code 1 if
anything does. `--capture` names a command to be used in place of `tracetui capture`.

A program makes STEPS steps (a variable; 30 if there is none). It prints "trained" at its end, and lines
that begin with "cleanup" from what has to run however it ends.
"""

from __future__ import annotations

import argparse
import difflib
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).resolve().parent / "programs"
CAPTURE = [sys.executable, "-m", "tracetui", "capture"]
MARK = "CAPTURE_ALONE"
"""Variable that tells the processes of a run from all others."""
MANY = 1_000_000
SLOWEST, STOPPED, SETTLE = 20.0, 30.0, 5.0
"""Seconds that a capture may take on top of three times the program's own; that one which stops may take;
that processes have to end after the first one has."""


@dataclass(frozen=True)
class Way:
    """How a program is run, and what is expected that cannot be seen when it runs alone."""

    program: str = ""
    args: tuple[str, ...] = ()
    module: str = ""
    stdin: str = ""
    terminal: bool = False
    signal: str = ""
    """What it gets once it has printed "ready": a signal for its "group" or its "process", or a "key"."""
    options: tuple[str, ...] = ()
    steps: int = 0
    """STEPS, where it is not its default."""
    recorded: int | None = 3
    """Steps in the trace; `None`: what the .meta.json claims, if there is one; -1: no trace at all."""
    stops: bool = True
    """Whether capture stops it after its steps; otherwise it ends by itself."""
    same: bool = True
    """Whether it runs to its end as if alone: not if options change what it does."""
    own: bool = False
    """Whether it writes a trace itself, which then is the result of the capture."""
    varying: tuple[str, ...] = ()
    """Files whose contents differ from run to run."""


ANY, NOTHING = Way(recorded=None, stops=False), Way(recorded=-1, stops=False)
OWN = Way(recorded=None, stops=False, own=True, varying=("*.json",))
INPUT = "".join(f"{i}.5\n" for i in range(30))
DASHES = ("--lr", "-0.5", "--active", "7", "-m", "x", "--run-to-end", "a b", "--", "--c", "*")
COLD = ("--no-warmup", "--wait", "0", "--schedule-warmup", "0", "--active", "5")
WAYS = {
    "arguments": Way(args=DASHES),
    "bad_arguments": Way(args=("--wrong",), recorded=-1, stops=False),
    "by_hand": ANY,
    "ddp": Way(varying=("store",)),
    "emits_itt": ANY,
    "evaluation": ANY,
    "exception_while_recording": ANY,
    "execs_itself": Way(recorded=None),
    "exit_early": ANY,
    "few_steps": ANY,
    "hogwild": ANY,
    "import_error": ANY,
    "interrupted": Way(signal="group INT"),
    "interrupted_by_key": Way("interrupted", terminal=True, signal="key \x03"),
    "interrupted_unexpectedly": Way(signal="group INT"),
    "interrupted_unexpectedly_by_key": Way("interrupted_unexpectedly", terminal=True, signal="key \x03"),
    "marks_step_on": Way("marks", options=("--step-on", "iteration")),
    "module": Way(module="package.train", args=("--x",)),
    "no_torch": NOTHING,
    "no_torch_fails": NOTHING,
    "no_warmup": Way("plain", options=COLD, recorded=5),
    "own_autograd_profile": ANY,
    "own_kineto": OWN,
    "own_profile": OWN,
    "own_profile_later": OWN,
    "own_profile_ours": Way("own_profile", options=("--ours",), same=False),
    "own_profile_table": ANY,
    "package_main": Way(module="package", args=("-m", "--", "x")),
    "plain_by_time": Way("plain", options=("--duration", "200ms", "--after", "2s"), steps=30_000, recorded=0),
    "request_loop": ANY,
    "request_loop_by_time": Way(
        "request_loop", options=("--duration", "1s", "--after", "1s"), steps=3000, recorded=0
    ),
    "session_of_its_own": ANY,
    "server": ANY,
    "sigkill_while_recording": ANY,
    "spawn": ANY,
    "standard_input": Way(stdin=INPUT),
    "subprocess_trains": ANY,
    "syntax_error": NOTHING,
    "terminated": Way(signal="process TERM"),
    "terminated_by_group": Way("terminated", signal="group TERM"),
    "terminated_unexpectedly": Way(signal="process TERM"),
    "two_steps": Way(recorded=-1, stops=False),
    "terminal": Way(stdin="12\nmore\n", terminal=True),
}  # fmt: skip
"""Those that are not simply run."""


def names() -> list[str]:
    return sorted({p.stem for p in PROGRAMS.iterdir() if p.name[0] not in "_."} | set(WAYS))


@dataclass
class Run:
    """What is to be seen of a run from outside."""

    status: int | None
    """Exit code, 128+n for signal n; None if it had to be killed."""
    out: str
    err: str
    files: dict[str, str]
    left: Counter[str]
    seconds: float
    traces: list[Trace] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Broken files."""


@dataclass
class Trace:
    """A captured trace."""

    path: Path
    claimed: object
    steps: int


def processes(mark: str) -> Iterator[tuple[int, str]]:
    """Process id and command line of each process of the run in this folder."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # one that has ended, or is somebody else's
            marked = wanted in (folder / "environ").read_bytes().split(b"\0")
            if marked or Path(os.readlink(folder / "cwd")).is_relative_to(mark):
                command = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
                yield int(folder.name), command.rstrip("\0").replace("\0", " ")


Start = Callable[..., "subprocess.Popen[Any]"]


def run(
    command: list[str],
    way: Way,
    source: Path,
    folder: Path,
    steps: int,
    limit: float,
    start: Start = subprocess.Popen,
) -> Run:
    """Run the command in a fresh copy of the program at `folder`, for at most `limit` seconds."""
    shutil.rmtree(folder, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        folder.mkdir(parents=True)
        shutil.copy2(source, folder)
    env = {**os.environ, MARK: str(folder), **({"STEPS": str(steps)} if steps else {})}
    beside = folder.parent / (folder.name + ".streams")
    beside.mkdir(exist_ok=True)
    (beside / "in").write_text(way.stdin)
    began = time.monotonic()
    with open(beside / "in") as given, open(beside / "out", "wb") as out, open(beside / "err", "wb") as err:
        streams: dict[str, Any] = {"stdin": given, "stdout": out, "stderr": err}
        process = (on_terminal if way.terminal else start)(
            command, cwd=folder, env=env, start_new_session=True, **streams
        )
        try:
            if way.signal:
                send_when_ready(process, way.signal, beside / "out", began + limit)
            code = process.wait(limit)
            status = code if code >= 0 else 128 - code
        except subprocess.TimeoutExpired:
            status = None
        seconds = time.monotonic() - began
        left = end_all(str(folder))
        process.wait()
    files, wrong = files_of(folder, way)
    traces, more = traces_of(folder)
    texts = ((beside / name).read_text("utf-8", "replace").replace("\r\n", "\n") for name in ("out", "err"))
    return Run(status, *texts, files, left, seconds, traces, wrong + more)


def send_when_ready(process: subprocess.Popen[Any], what: str, out: Path, end: float) -> None:
    while process.poll() is None and time.monotonic() < end:
        if "ready" in out.read_text("utf-8", "replace"):
            time.sleep(0.5)
            to, name = what.split()
            if to == "key":
                process.press(name)  # type: ignore[attr-defined]
            else:
                (os.killpg if to == "group" else os.kill)(process.pid, signal.Signals["SIG" + name])
            return
        time.sleep(0.1)


def on_terminal(command: list[str], stdin: Any, stdout: Any, **how: Any) -> subprocess.Popen[bytes]:
    """A process with standard input and output on its own terminal, whose text is copied to the file."""
    import fcntl
    import pty
    import termios

    def make_it_ours() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, preexec_fn=make_it_ours, **how)
    os.close(theirs)

    def press(keys: str) -> None:
        os.write(ours, keys.encode())

    process.press = press  # type: ignore[attr-defined]
    press(stdin.read())
    copy = os.dup(stdout.fileno())

    def follow() -> None:
        with suppress(OSError):  # EIO: nobody has it open any more
            while data := os.read(ours, 65536):
                os.write(copy, data)
        os.close(ours)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    wait = process.wait

    def wait_for_the_text(timeout: float | None = None) -> int:
        code = wait(timeout)
        thread.join(SETTLE)
        return code

    process.wait = wait_for_the_text  # type: ignore[method-assign]
    return process


def end_all(mark: str) -> Counter[str]:
    """Wait a moment for the processes of a run to end; kill the others, and say what they were."""
    end = time.monotonic() + SETTLE
    while (left := list(processes(mark))) and time.monotonic() < end:
        time.sleep(0.1)
    found = Counter(command for _, command in left)
    while left:
        for pid, _ in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
        left = list(processes(mark))
    return found


def events(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    found = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    assert isinstance(found, list)
    return found


def steps_of(path: Path) -> list[str]:
    """The steps' annotations in a trace, in their order; on a GPU there is a second one of each."""
    marks = [e for e in events(path) if e.get("ph") == "X" and e.get("cat") == "user_annotation"]
    return [e["name"] for e in sorted(marks, key=lambda e: float(e["ts"])) if "ProfilerStep#" in e["name"]]


def files_of(folder: Path, way: Way) -> tuple[dict[str, str], list[str]]:
    """What the program wrote, by name: a digest, or for a trace its steps; and the files that are broken."""
    found, wrong = Counter[str](), []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.split("/")[0] == "traces":
            continue
        what = "a folder" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        if path.suffix == ".json" and path.is_file():
            try:
                what = " ".join(steps_of(path))
            except (ValueError, KeyError) as error:
                wrong.append(f"{name} is broken: {error}")
        elif "__pycache__" in name or any(fnmatch(path.name, pattern) for pattern in way.varying):
            what = "varies"
        found[f"{re.sub('[0-9]{3,}', 'N', name)}: {what}"] += 1
    return {name: str(count) for name, count in found.items()}, wrong


def traces_of(folder: Path) -> tuple[list[Trace], list[str]]:
    """The captures in the output folder, and what is wrong with its files."""
    traces: list[Trace] = []
    wrong: list[str] = []
    known = (".meta.json", ".json", ".json.gz", ".txt", ".averages.json")
    top = folder / "traces"
    wrong += [
        f"{path.relative_to(folder)} was left in the output folder"
        for path in sorted(top.rglob("*"))
        if path.name.startswith(".") or (path.is_file() and not path.name.endswith(known))
    ]
    if top.is_dir() and not any(path.is_file() for path in top.rglob("*")):
        wrong.append("an output folder without a file was left")
    for meta in sorted(top.rglob("*.meta.json")):
        stem = str(meta)[: -len(".meta.json")]
        try:
            claimed = json.loads(meta.read_text()).get("steps", "no")
            path = next(p for end in (".json", ".json.gz") if (p := Path(stem + end)).exists())
            traces.append(Trace(path, claimed, len(steps_of(path))))
            if not Path(stem + ".txt").read_text().strip():
                wrong.append("the table is empty")
        except (ValueError, KeyError, OSError, StopIteration) as error:
            wrong.append(f"the capture of {meta.name} is not whole: {type(error).__name__}: {error}")
    whole = {trace.path for trace in traces}
    alone = [p for p in top.rglob("*.json*") if not p.name.endswith((".meta.json", ".averages.json"))]
    return traces, wrong + [f"{path.name} has no .meta.json" for path in alone if path not in whole]


VARYING = [
    (re.compile(r"(tracetui: |^USDT:).*\n?", re.M), ""),  # ours; PyTorch 2.13 prints the other for a profiler
    (re.compile(r"^TRACETUI_CAPTURE=.*\n", re.M), ""),  # the mark that capture finds its processes by
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b[IWEF]\d{4} [\d:.]+ +\d+"), "W"),
    (re.compile(r"\b[\d-]{10}[ T]\d\d:\d\d:\d\d[.,\d]*"), "TIME"),
    (re.compile(r"(?i)\b(pid|process|tid|thread)([ =:]+)\d+"), r"\1\2N"),
]


def normalized(text: str) -> str:
    """Without what differs from run to run, nor lines of ours."""
    for pattern, instead in VARYING:
        text = pattern.sub(instead, text)
    return text


def changes(what: str, old: str, new: str) -> list[str]:
    """The first differences of two texts."""
    found = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    lines = [line for line in found if not line.startswith(("---", "+++", "@@"))]
    if not lines:
        return [f"{what}: a newline more or less at its end"]
    return [f"{what}: {line[:300]}" for line in lines[:6]] + ([f"{what}: ..."] if len(lines) > 6 else [])


def of_the_output(way: Way, alone: Run, under: Run) -> list[str]:
    """What differs in the script's output. On standard output, capture's summary comes after it."""
    old, new = normalized(alone.out), normalized(under.out)
    if not new.startswith(old):
        lines = new.splitlines()
        operation, _, _, begin, _ = difflib.SequenceMatcher(None, old.splitlines(), lines).get_opcodes()[-1]
        return changes("stdout", old, "\n".join(lines[:begin] if operation == "insert" else lines))
    rest = new[len(old) :].splitlines()
    own = {line for line in old.splitlines() if line.strip()}
    found = [f"stdout: this line of the script comes again: {line}" for line in rest if line in own]
    if rest and not under.traces and not way.own:
        found.append(f"stdout: more of it, and no trace: {rest[0]}")
    return found + [
        f"stdout: does not name {t.path.name}"
        for t in under.traces
        if not any(t.path.name in r for r in rest)
    ]


def of_the_trace(way: Way, under: Run) -> list[str]:
    """What is wrong with what was recorded."""
    found = list(under.wrong)
    for trace in under.traces:
        if trace.claimed != trace.steps:
            found.append(f"{trace.path.name}: {trace.steps} steps are in it, .meta.json says {trace.claimed}")
        if way.recorded not in (None, trace.steps):
            found.append(f"{trace.path.name}: {trace.steps} steps, and {way.recorded} were wanted")
    if way.recorded == -1 and under.traces:
        found.append("something was recorded where there is nothing")
    if way.recorded not in (None, -1) and not under.traces:
        found.append("nothing was recorded")
    return found


def expected(way: Way, alone: Run, under: Run) -> int | None:
    """The exit code of a capture that lets the program end: 1 only where that ended well, without a trace."""
    return 1 if alone.status == 0 and not under.traces and not way.own else alone.status


def of_the_end(way: Way, alone: Run, under: Run) -> list[str]:
    """What differs in exit code, files and processes."""
    found = [
        f"files: {count} x {name} {'without us' if (name, count) in alone.files.items() else 'under capture'}"
        for name, count in sorted(alone.files.items() ^ under.files.items())
    ]
    if under.status != (wanted := expected(way, alone, under)):
        found.append(f"exit code: {under.status}, and {wanted} without us")
    return found


def of_the_processes(alone: Run, under: Run) -> list[str]:
    more, fewer = under.left - alone.left, alone.left - under.left
    return [f"left behind: {n} x {c[:200]}" for c, n in more.items()] + [
        f"ended, and left alone without us: {n} x {c[:200]}" for c, n in fewer.items()
    ]


def differences(way: Way, alone: Run, under: Run) -> list[str]:
    """All that differs from the program alone where capture lets it run to its end."""
    found = of_the_output(way, alone, under) + of_the_end(way, alone, under) + of_the_processes(alone, under)
    old, new = normalized(alone.err), normalized(under.err)
    if old != new:
        found += changes("stderr", old, new)
    if under.status is None or under.seconds > SLOWEST + 3 * alone.seconds:
        found.append(f"time: {under.seconds:.1f} s, and {alone.seconds:.1f} s without us")
    return found + of_the_trace(way, under)


def stopped_badly(way: Way, alone: Run, under: Run) -> list[str]:
    """What is wrong with a capture that stops the program, or lets it end where nothing stops it."""
    found = [f"left behind: {n} x {c[:200]}" for c, n in (under.left - alone.left).items()]
    if under.status is None:
        found.append(f"does not end: {under.seconds:.0f} s")
    elif under.status != (wanted := 0 if way.stops else expected(way, alone, under)):
        found.append(f"exit code: {under.status}, not {wanted}")
    lines = under.out.splitlines()
    if way.stops and any(line.startswith("trained") for line in lines):
        found.append("ran to its end")
    missing = Counter(line for line in alone.out.splitlines() if line.startswith("cleanup")) - Counter(lines)
    found += [f"did not run: {line}" for line in missing]
    if way.stops and "Traceback" in under.err and "Traceback" not in alone.err:
        found += [f"stderr: {line[:300]}" for line in normalized(under.err).splitlines()[-4:]]
    return found + of_the_trace(way, under)


def commands(name: str, way: Way, capture: list[str]) -> tuple[Path, list[str], list[str]]:
    """The program, its command alone, and under a capture that stops it."""
    source = PROGRAMS / (way.program or name)
    if not source.is_dir():
        source = source.with_suffix(".py")
    target = ["-m", way.module] if way.module else ["main.py" if source.is_dir() else source.name]
    under = [*capture, *target, *way.options, "--no-open"]
    return source, [sys.executable, *target, *way.args], [*under, *(("--", *way.args) if way.args else ())]


def try_program(
    name: str, capture: list[str], top: Path, stop: bool = True, start: Start = subprocess.Popen
) -> tuple[list[str], str]:
    """What is wrong with captures of a program, and how long all took."""
    way = WAYS.get(name, Way())
    source, by_itself, stopping = commands(name, way, capture)
    folder, found, times = top / name, [], []

    def one(command: list[str], kind: str, steps: int, limit: Callable[[], float]) -> Run:
        done = run(command, way, source, folder, steps, limit(), start)
        for end in ("", ".streams"):
            shutil.rmtree(top / kind / (name + end), ignore_errors=True)
            shutil.move(f"{folder}{end}", top / kind / (name + end))
        steps_in = " + ".join(f"{trace.steps} steps" for trace in done.traces)
        times.append(f"{kind} {done.seconds:.1f} s{steps_in and f' ({steps_in})'}")
        return done

    for kind in ("alone", "to the end", "stopped"):
        (top / kind).mkdir(exist_ok=True)
    alone = one(by_itself, "alone", way.steps, lambda: 120.0)
    if alone.status is None:
        return ["does not end alone"], ""
    if way.same:
        end = stopping.index("--no-open")
        to_end = [*stopping[:end], "--run-to-end", *stopping[end:]]
        under = one(to_end, "to the end", way.steps, lambda: SLOWEST + 3 * alone.seconds)
        found += [f"to the end: {text}" for text in differences(way, alone, under)]
    if stop:
        under = one(
            stopping, "stopped", MANY if way.stops else way.steps, lambda: STOPPED + 2 * alone.seconds
        )
        found += [f"stopped: {text}" for text in stopped_badly(way, alone, under)]
    return found, ", ".join(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--no-stop", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR")
    parser.add_argument("--capture", metavar="COMMAND")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names()):
        parser.error(f"no program {', '.join(sorted(unknown))}: there are {', '.join(names())}")
    capture = shlex.split(given.capture) if given.capture else CAPTURE
    capture[0] = os.path.abspath(shutil.which(capture[0]) or parser.error(f"no command {capture[0]}"))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(
            number, signal.default_int_handler
        )  # programs would inherit that it is ignored, as by "&"
    wanted, good = given.names or names(), 0
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(given.jobs) as pool:
        top = Path(given.keep or temporary).resolve()
        top.mkdir(parents=True, exist_ok=True)
        for name, (found, times) in zip(
            wanted, pool.map(lambda n: try_program(n, capture, top, not given.no_stop), wanted), strict=True
        ):
            good += not found
            print(f"{'DIFFERS' if found else 'same   '} {name:28} {times}", flush=True)
            for text in found:
                print(f"        {text}", flush=True)
    print(f"{good} of {len(wanted)} as without us")
    sys.exit(good < len(wanted))


if __name__ == "__main__":
    main()
